//! Horizontal pod autoscalers, with metrics that the test serves as custom resources.

use std::time::Duration;

use k8s_openapi::{
    api::{
        apps::v1::ReplicaSet,
        autoscaling::v2::HorizontalPodAutoscaler,
        core::v1::{Event, Pod},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DynamicObject, ListParams, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

/// Only this loop runs; the test creates the pods itself.
const LOOP: &str = "horizontal-pod-autoscaler-controller";

fn definition(group: &str, version: &str, plural: &str, kind: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.{group}"),
            "annotations": {"api-approved.kubernetes.io": "unapproved, for tests"}},
        "spec": {"group": group, "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [{"name": version, "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    }))
    .unwrap()
}

struct Bench {
    plane: TestPlane,
    autoscalers: Api<HorizontalPodAutoscaler>,
    sets: Api<ReplicaSet>,
}

impl Bench {
    /// Creates a replica set and this many running pods of it.
    async fn with(plane: TestPlane, replicas: i32) -> Self {
        let bench = Self { autoscalers: plane.api(), sets: plane.api(), plane };
        let template =
            json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
        let set = json!({"metadata": {"name": "web"}, "spec": {"replicas": replicas,
            "selector": {"matchLabels": {"app": "web"}}, "template": template}});
        bench.sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
        let status = Patch::Merge(json!({"status": {"replicas": replicas}}));
        bench.sets.patch_status("web", &PatchParams::default(), &status).await.unwrap();
        let pods: Api<Pod> = bench.plane.api();
        for number in 0..replicas {
            let name = format!("web-{number}");
            let pod = json!({"metadata": {"name": name, "labels": {"app": "web"}}, "spec": {"containers": [
                {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}});
            pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
            let status = json!({"status": {"phase": "Running", "startTime": "2020-01-01T00:00:00Z", "conditions": [
                {"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:01:00Z"}]}});
            pods.patch_status(&name, &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
        }
        bench
    }

    async fn create(&self, name: &str, spec: Value) {
        let mut full = json!({"maxReplicas": 10, "scaleTargetRef":
            {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web"}});
        full.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
        let object = json!({"metadata": {"name": name}, "spec": full});
        let object = serde_json::from_value(object).unwrap();
        self.autoscalers.create(&PostParams::default(), &object).await.unwrap();
    }

    /// Waits until a condition has a reason. Returns the condition.
    async fn condition(&self, name: &str, type_: &str, reason: &str) -> (String, String) {
        eventually(&format!("{type_} is {reason}"), async || {
            let conditions = self.autoscalers.get(name).await.unwrap().status?.conditions?;
            let condition = conditions.into_iter().find(|condition| condition.type_ == type_)?;
            (condition.reason.as_deref() == Some(reason)).then(|| (condition.status, condition.message.unwrap()))
        })
        .await
    }

    async fn replicas(&self) -> i32 {
        self.sets.get("web").await.unwrap().spec.unwrap().replicas.unwrap()
    }

    async fn scaled(&self, replicas: i32) {
        let what = format!("expected {replicas} replicas");
        eventually(&what, async || (self.replicas().await == replicas).then_some(())).await;
    }

    fn api(&self, group: &str, kind: &str, plural: &str) -> Api<DynamicObject> {
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, "v1beta1", kind), plural);
        Api::namespaced_with(self.plane.client(), self.plane.namespace(), &resource)
    }

    async fn serve(&self, group: &str, kind: &str, plural: &str, object: Value) {
        let name = object["metadata"]["name"].as_str().unwrap().to_owned();
        let mut object = object;
        object["apiVersion"] = format!("{group}/v1beta1").into();
        object["kind"] = kind.into();
        let params = PatchParams::apply("test").force();
        self.api(group, kind, plural).patch(&name, &params, &Patch::Apply(object)).await.unwrap();
    }

    /// Sets the CPU usage of all pods.
    async fn use_cpu(&self, pods: i32, cpu: &str) {
        let now = windlass_clock::now().to_string();
        for number in 0..pods {
            let object = json!({"metadata": {"name": format!("web-{number}"), "labels": {"app": "web"}},
                "timestamp": now, "window": "30s", "containers": [{"name": "c", "usage": {"cpu": cpu}}]});
            self.serve("metrics.k8s.io", "PodMetrics", "pods", object).await;
        }
    }
}

fn cpu(percent: i32) -> Value {
    json!([{"type": "Resource", "resource": {"name": "cpu",
        "target": {"type": "Utilization", "averageUtilization": percent}}}])
}

async fn plane() -> TestPlane {
    TestPlane::builder()
        .controllers(LOOP.parse().unwrap())
        .with_crds([
            definition("metrics.k8s.io", "v1beta1", "pods", "PodMetrics"),
            definition("external.metrics.k8s.io", "v1beta1", "queue-length", "QueueLength"),
        ])
        .virtual_time()
        .await
}

#[tokio::test]
async fn without_a_metrics_api_the_conditions_say_so() {
    let plane = TestPlane::builder().controllers(LOOP.parse().unwrap()).virtual_time().await;
    let bench = Bench::with(plane, 2).await;
    bench.create("web", json!({"metrics": cpu(50)})).await;
    let (status, message) = bench.condition("web", "ScalingActive", "FailedGetResourceMetric").await;
    assert_eq!(status, "False");
    let expected = "the HPA was unable to compute the replica count: failed to get cpu utilization: unable to get metrics for resource cpu: unable to fetch metrics from resource metrics API: the server could not find the requested resource (get pods.metrics.k8s.io)";
    assert_eq!(message, expected);
    let (status, message) = bench.condition("web", "AbleToScale", "SucceededGetScale").await;
    let expected = "the HPA controller was able to get the target's current scale";
    assert_eq!((status.as_str(), message.as_str()), ("True", expected));
    let status = bench.autoscalers.get("web").await.unwrap().status.unwrap();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(2), 0));
    let events: Api<Event> = bench.plane.api();
    eventually("there is an event", async || {
        let events = events.list(&ListParams::default()).await.unwrap();
        events.iter().any(|event| event.reason.as_deref() == Some("FailedGetResourceMetric")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_new_autoscaler_is_evaluated_after_fifteen_seconds() {
    let plane = TestPlane::builder().controllers(LOOP.parse().unwrap()).virtual_time().await;
    let bench = Bench::with(plane, 12).await;
    bench.create("web", json!({"metrics": cpu(50)})).await;
    let start = windlass_clock::now();
    tokio::time::sleep(Duration::from_secs(10)).await;
    // A change does not make it earlier.
    let change = Patch::Merge(json!({"spec": {"maxReplicas": 9}}));
    bench.autoscalers.patch("web", &PatchParams::default(), &change).await.unwrap();
    tokio::time::sleep(Duration::from_secs(4)).await;
    let status = bench.autoscalers.get("web").await.unwrap().status.unwrap_or_default();
    assert_eq!((status.conditions, bench.replicas().await), (None, 12));
    bench.scaled(9).await;
    let passed = windlass_clock::now().duration_since(start).as_secs();
    assert!((15..20).contains(&passed), "{passed}");
}

#[tokio::test]
async fn a_missing_target_cannot_be_scaled() {
    let plane = TestPlane::builder().controllers(LOOP.parse().unwrap()).virtual_time().await;
    let bench = Bench::with(plane, 1).await;
    let target = |kind: &str| json!({"scaleTargetRef": {"apiVersion": "apps/v1", "kind": kind, "name": "gone"}});
    bench.create("gone", target("Deployment")).await;
    let (status, message) = bench.condition("gone", "AbleToScale", "FailedGetScale").await;
    let unable = "the HPA controller was unable to get the target's current scale";
    assert_eq!((status.as_str(), message), ("False", format!("{unable}: deployments.apps \"gone\" not found")));
    bench.create("unknown", target("Nothing")).await;
    let (_, message) = bench.condition("unknown", "AbleToScale", "FailedGetScale").await;
    assert_eq!(message, format!("{unable}: no matches for kind \"Nothing\" in group \"apps\""));
}

#[tokio::test]
async fn replicas_are_kept_within_their_limits() {
    let plane = TestPlane::builder().controllers(LOOP.parse().unwrap()).virtual_time().await;
    let bench = Bench::with(plane, 12).await;
    bench.create("web", json!({"metrics": cpu(50)})).await;
    bench.scaled(10).await;
    let (_, message) = bench.condition("web", "AbleToScale", "SucceededRescale").await;
    assert_eq!(message, "the HPA controller was able to update the target scale to 10");
    let status = bench.autoscalers.get("web").await.unwrap().status.unwrap();
    assert_eq!((status.current_replicas, status.desired_replicas), (Some(12), 10));
    assert!(status.last_scale_time.is_some());
}

#[tokio::test]
async fn scaling_up_is_immediate_and_scaling_down_waits() {
    let bench = Bench::with(plane().await, 2).await;
    bench.use_cpu(2, "900m").await;
    bench.create("web", json!({"metrics": cpu(50)})).await;
    bench.scaled(4).await;
    let (_, message) = bench.condition("web", "ScalingActive", "ValidMetricFound").await;
    let expected = "the HPA was able to successfully calculate a replica count from cpu resource utilization (percentage of request)";
    assert_eq!(message, expected);
    let status = bench.autoscalers.get("web").await.unwrap().status.unwrap();
    let metric = serde_json::to_value(&status.current_metrics.unwrap()[0]).unwrap();
    let current = json!({"averageUtilization": 90, "averageValue": "900m"});
    assert_eq!(metric, json!({"type": "Resource", "resource": {"name": "cpu", "current": current}}));
    bench.use_cpu(2, "100m").await;
    tokio::time::sleep(Duration::from_secs(240)).await;
    assert_eq!(bench.replicas().await, 4);
    bench.condition("web", "AbleToScale", "ScaleDownStabilized").await;
    tokio::time::sleep(Duration::from_secs(120)).await;
    assert_eq!(bench.replicas().await, 1);
}

#[tokio::test]
async fn an_external_metric_scales_within_the_rate_limits() {
    let bench = Bench::with(plane().await, 2).await;
    let value = |value: &str| json!({"metadata": {"name": "q", "labels": {"queue": "a"}}, "value": value, "metricName": "queue-length"});
    bench.serve("external.metrics.k8s.io", "QueueLength", "queue-length", value("80")).await;
    bench
        .create(
            "web",
            json!({
                "metrics": [{"type": "External", "external": {"target": {"type": "AverageValue", "averageValue": "10"},
                    "metric": {"name": "queue-length", "selector": {"matchLabels": {"queue": "a"}}}}}],
                "behavior": {"scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max",
                    "policies": [{"type": "Pods", "value": 2, "periodSeconds": 60}]}},
            }),
        )
        .await;
    bench.scaled(4).await;
    let (status, _) = bench.condition("web", "ScalingLimited", "ScaleUpLimit").await;
    assert_eq!(status, "True");
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(bench.replicas().await, 4);
    tokio::time::sleep(Duration::from_secs(40)).await;
    assert_eq!(bench.replicas().await, 6);
    tokio::time::sleep(Duration::from_secs(150)).await;
    assert_eq!(bench.replicas().await, 8);
    let status = bench.autoscalers.get("web").await.unwrap().status.unwrap();
    assert_eq!(status.conditions.unwrap().last().unwrap().reason.as_deref(), Some("DesiredWithinRange"));
}

#[tokio::test]
async fn pods_selected_by_two_autoscalers_are_not_scaled() {
    let bench = Bench::with(plane().await, 2).await;
    bench.use_cpu(2, "500m").await;
    bench.create("web", json!({"metrics": cpu(50)})).await;
    bench.condition("web", "ScalingActive", "ValidMetricFound").await;
    bench.create("other", json!({"metrics": cpu(10)})).await;
    let (status, message) = bench.condition("other", "ScalingActive", "AmbiguousSelector").await;
    assert_eq!(status, "False");
    assert!(message.starts_with("pods by selector app=web are controlled by multiple HPAs: ["), "{message}");
    assert_eq!(bench.replicas().await, 2);
}
