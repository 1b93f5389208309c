//! Races with deletion: objects are deleted while the control loops and nodes work on them. That is ordinary, so nothing is
//! logged as a problem.

use std::{
    fmt::{Debug, Write as _},
    sync::Arc,
    time::Duration,
};

use k8s_openapi::api::core::v1::Namespace;
use kube::{
    Api, Client,
    api::{ApiResource, DeleteParams, DynamicObject, GroupVersionKind, ListParams, PostParams, PropagationPolicy},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tracing::{
    Event, Level, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};
use windlass_testing::{TestPlane, eventually};

/// Collects the warnings and errors of this thread.
#[derive(Clone, Default)]
struct Problems(Arc<Mutex<Vec<String>>>);

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Problems {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        *metadata.level() <= Level::WARN
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut line = event.metadata().target().to_owned();
        event.record(&mut Line(&mut line));
        self.0.lock().push(line);
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

/// Objects that loops work on, of all kinds that have dependents.
fn objects() -> Vec<Value> {
    let object = |api_version: &str, kind: &str, spec: Value| json!({"apiVersion": api_version, "kind": kind, "metadata": {"name": "web"}, "spec": spec});
    let selector = |app: &str| json!({"matchLabels": {"app": app}});
    let template = |app: &str, restart: &str| {
        json!({
            "metadata": {"labels": {"app": app}},
            "spec": {"restartPolicy": restart, "containers": [{"name": "c", "image": "i"}]},
        })
    };
    let replicated = |app: &str| json!({"replicas": 3, "selector": selector(app), "template": template(app, "Always")});
    let job = |app: &str| json!({"template": template(app, "Never"), "completions": 3, "parallelism": 2});
    let claim = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Mi"}}});
    let mut stateful = replicated("stateful");
    stateful["serviceName"] = "web".into();
    stateful["volumeClaimTemplates"] = json!([{"metadata": {"name": "data"}, "spec": claim}]);
    let daemons = json!({"selector": selector("daemon"), "template": template("daemon", "Always")});
    let scaled = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    vec![
        object("apps/v1", "Deployment", replicated("deployed")),
        object("apps/v1", "ReplicaSet", replicated("replicated")),
        object("apps/v1", "StatefulSet", stateful),
        object("apps/v1", "DaemonSet", daemons),
        object("batch/v1", "Job", job("job")),
        object("batch/v1", "CronJob", json!({"schedule": "* * * * *", "jobTemplate": {"spec": job("cron")}})),
        object("v1", "Service", json!({"selector": {"app": "deployed"}, "ports": [{"port": 80}]})),
        object("v1", "ResourceQuota", json!({"hard": {"pods": "50", "requests.storage": "1Gi"}})),
        object("v1", "PersistentVolumeClaim", claim),
        object("policy/v1", "PodDisruptionBudget", json!({"minAvailable": 1, "selector": selector("deployed")})),
        object("autoscaling/v2", "HorizontalPodAutoscaler", json!({"scaleTargetRef": scaled, "maxReplicas": 4})),
    ]
}

fn api(client: &Client, namespace: &str, object: &Value) -> Api<DynamicObject> {
    let text = |field: &str| object[field].as_str().unwrap();
    let (group, version) = text("apiVersion").split_once('/').unwrap_or(("", text("apiVersion")));
    let resource = ApiResource::from_gvk(&GroupVersionKind::gvk(group, version, text("kind")));
    Api::namespaced_with(client.clone(), namespace, &resource)
}

/// What is deleted.
#[derive(Debug, Clone)]
enum Deleted {
    Namespace,
    Owners(PropagationPolicy),
    Pods,
}

/// Lets the loops take some steps.
async fn steps(count: u32) {
    for _ in 0..count {
        tokio::task::yield_now().await;
    }
}

async fn round(plane: &TestPlane, namespace: &str, deleted: &Deleted, after: u32) {
    let client = plane.client();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let body = serde_json::from_value(json!({"metadata": {"name": namespace}})).unwrap();
    namespaces.create(&PostParams::default(), &body).await.unwrap();
    let objects = objects();
    for object in &objects {
        let body = serde_json::from_value(object.clone()).unwrap();
        api(&client, namespace, object).create(&PostParams::default(), &body).await.unwrap();
    }
    steps(after).await;
    match deleted {
        Deleted::Namespace => {}
        Deleted::Owners(policy) => {
            for object in &objects {
                let options = DeleteParams { propagation_policy: Some(policy.clone()), ..DeleteParams::default() };
                api(&client, namespace, object).delete("web", &options).await.unwrap();
            }
        }
        Deleted::Pods => {
            let pods = api(&client, namespace, &json!({"apiVersion": "v1", "kind": "Pod"}));
            let options = DeleteParams::default().grace_period(0);
            pods.delete_collection(&options, &ListParams::default()).await.unwrap();
        }
    }
    steps(after).await;
    namespaces.delete(namespace, &DeleteParams::default()).await.unwrap();
    let what = format!("the namespace is gone ({deleted:?} after {after} steps)");
    eventually(&what, async || namespaces.get_opt(namespace).await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn deletions_at_any_time_are_no_problems_for_the_loops() {
    let problems = Problems::default();
    let _default = tracing::subscriber::set_default(problems.clone());
    let plane = TestPlane::builder().embedded().virtual_time().nodes(2).await;
    plane.advance(Duration::from_secs(5)).await;
    let kinds = [
        Deleted::Namespace,
        Deleted::Owners(PropagationPolicy::Background),
        Deleted::Owners(PropagationPolicy::Foreground),
        Deleted::Owners(PropagationPolicy::Orphan),
        Deleted::Pods,
    ];
    for (number, deleted) in kinds.into_iter().enumerate() {
        for after in [0, 5, 60, 600] {
            round(&plane, &format!("race-{number}-{after}"), &deleted, after).await;
        }
    }
    plane.advance(Duration::from_secs(60)).await;
    let problems = problems.0.lock();
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}
