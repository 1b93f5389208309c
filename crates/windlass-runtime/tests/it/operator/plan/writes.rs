//! Writes of a plan, beside those of others.

use std::sync::atomic::{AtomicBool, Ordering};

use http::{Method, Request};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::ServiceAccount};
use kube::{Client, client::Body};
use windlass_runtime::operator::PlannedChange;

use super::*;

/// Plans a controller of the ConfigMaps of the test.
async fn plan_of<F, R>(cluster: &TestCluster, client: Client, reconcile: F) -> Plan
where
    F: Fn(Arc<ConfigMap>, Context) -> R + Send + Sync + 'static,
    R: Future<Output = Result<Action>> + Send + 'static,
{
    let scope = Scope::namespace(cluster.namespace()).labels("test=plan");
    let controller = Controller::<ConfigMap>::new("test", reconcile).scope(scope);
    Operator::new("test-operator").controller(controller).plan(client, options(cluster)).await.unwrap()
}

/// Returns the changed fields of an object.
fn fields(change: &PlannedChange) -> Vec<String> {
    change.fields.iter().map(ToString::to_string).collect()
}

async fn meddle(api: &Api<ConfigMap>, key: &str) {
    let patch = Patch::Merge(json!({"data": {key: "theirs"}}));
    api.patch("a", &PatchParams::default(), &patch).await.unwrap();
}

fn ours(key: &str) -> Patch<serde_json::Value> {
    Patch::Merge(json!({"data": {key: "ours"}}))
}

#[tokio::test]
async fn changes_of_others_between_planned_writes_are_no_part_of_the_plan() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let others: Api<ConfigMap> = cluster.api();
    let plan = plan_of(&cluster, cluster.client(), move |config, ctx| {
        let others = others.clone();
        async move {
            ctx.patch(&config, &ours("first")).await?;
            meddle(&others, "x").await;
            ctx.patch(&config, &ours("second")).await?;
            meddle(&others, "y").await;
            // With the planned resource version.
            let mut known = ConfigMap::clone(&*ctx.get::<ConfigMap>(&ObjectKey::of(&*config))?.expect("it is planned"));
            known.data.get_or_insert_default().insert("third".to_owned(), "ours".to_owned());
            let updated = ctx.update(known).await?;
            let keys: Vec<_> = updated.data.iter().flatten().map(|(key, _)| key.as_str()).collect();
            assert_eq!(keys, ["first", "second", "third", "x", "y"]);
            let outdated = ctx.update(ConfigMap::clone(&config)).await.unwrap_err();
            assert!(outdated.is_conflict(), "{outdated}");
            Ok(Action::done())
        }
    })
    .await;
    let text = plan.to_text();
    assert!(plan.problems.is_empty(), "{text}");
    let [change] = &*plan.changes else { panic!("{text}") };
    assert_eq!(fields(change), [r#"+ data.first: "ours""#, r#"+ data.second: "ours""#, r#"+ data.third: "ours""#]);
}

#[tokio::test]
async fn a_change_by_others_before_the_dry_run_is_no_part_of_the_plan() {
    for method in [Method::PATCH, Method::PUT] {
        let cluster = TestCluster::start().await;
        cluster.create(config("a", json!({"color": "red"}))).await;
        let (inner, others) = (cluster.client(), cluster.api::<ConfigMap>());
        let (changed, expected) = (Arc::new(AtomicBool::new(false)), method.clone());
        let seen = changed.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let (inner, others) = (inner.clone(), others.clone());
            let is_first = request.method() == expected && !seen.swap(true, Ordering::SeqCst);
            async move {
                if is_first {
                    meddle(&others, "x").await;
                }
                inner.send(request).await
            }
        });
        let client = Client::new(service, cluster.namespace());
        let put = method == Method::PUT;
        let plan = plan_of(&cluster, client, move |config, ctx| async move {
            let written = match put {
                true => {
                    let mut config = ConfigMap::clone(&config);
                    config.data.get_or_insert_default().insert("first".to_owned(), "ours".to_owned());
                    ctx.update(config).await?
                }
                false => ctx.patch(&config, &ours("first")).await?,
            };
            assert_eq!(written.data.as_ref().unwrap()["x"], "theirs");
            Ok(Action::done())
        })
        .await;
        let text = plan.to_text();
        assert!(plan.problems.is_empty() && changed.load(Ordering::SeqCst), "{text}");
        assert_eq!(fields(&plan.changes[0]), [r#"+ data.first: "ours""#], "{method}: {text}");
    }
}

#[tokio::test]
async fn objects_that_may_be_written_but_not_read_are_planned() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let account = |name: &str, labels: serde_json::Value| {
        let meta = json!({"name": name, "namespace": cluster.namespace(), "labels": labels});
        serde_json::from_value::<ServiceAccount>(json!({ "metadata": meta })).unwrap()
    };
    let api: Api<ServiceAccount> = cluster.api();
    for name in ["applied", "updated", "deleted"] {
        cluster.create(account(name, json!({"theirs": "1"}))).await;
    }
    let faults = Faults::around(cluster.client());
    faults.inject(|seen| !seen.is_write() && seen.path.contains("/serviceaccounts"), usize::MAX, Fault::status(403));
    let [new, created, applied] = ["new", "created", "applied"].map(|name| account(name, json!({"ours": "1"})));
    let (mut updated, deleted) = (api.get("updated").await.unwrap(), api.get("deleted").await.unwrap());
    updated.metadata.labels.get_or_insert_default().insert("ours".to_owned(), "1".to_owned());
    let plan = plan_of(&cluster, faults.client(), move |_, ctx| {
        let [new, created, applied, updated] = [&new, &created, &applied, &updated].map(ServiceAccount::clone);
        let deleted = deleted.clone();
        async move {
            ctx.apply(new).await?;
            ctx.create(created).await?;
            ctx.apply(applied).await?;
            ctx.update(updated).await?;
            ctx.delete(&deleted).await?;
            Ok(Action::done())
        }
    })
    .await;
    let text = plan.to_text();
    assert!(plan.problems.is_empty(), "{text}");
    let changes: Vec<_> = plan.changes.iter().map(|one| (one.action.name(), &*one.kind, &*one.name)).collect();
    let expected =
        [("create", "new"), ("create", "created"), ("update", "applied"), ("update", "updated"), ("delete", "deleted")];
    assert_eq!(changes, expected.map(|(action, name)| (action, "ServiceAccount", name)), "{text}");
    assert_eq!(fields(&plan.changes[2]), [r#"+ metadata.labels.ours: "1""#], "{text}");
    let all = [r#"+ metadata.labels.ours: "1""#, r#"+ metadata.labels.theirs: "1""#];
    assert_eq!(fields(&plan.changes[3]), all, "{text}");
    let note = format!("note: ServiceAccount {}/updated: its stored state may not be read", cluster.namespace());
    assert!(text.contains(&note) && text.matches("may not be read").count() == 1, "{text}");
}

#[tokio::test]
async fn an_apply_replaces_what_its_manager_has_planned_before() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({"theirs": "1"}))).await;
    let plan = plan_of(&cluster, cluster.client(), |config, ctx| async move {
        let map = |name: &str, data: serde_json::Value| {
            let meta = json!({"name": name, "namespace": config.metadata.namespace});
            serde_json::from_value::<ConfigMap>(json!({ "metadata": meta, "data": data }))
        };
        for name in ["a", "new"] {
            let applied = ctx.apply(map(name, json!({"x": "1", "y": "1"}))?).await?;
            ctx.patch(&applied, &ours("z")).await?;
            ctx.apply(map(name, json!({"x": "2", "w": "1"}))?).await?;
        }
        Ok(Action::done())
    })
    .await;
    let text = plan.to_text();
    assert!(plan.problems.is_empty(), "{text}");
    let expected = [r#"+ data.w: "1""#, r#"+ data.x: "2""#, r#"+ data.z: "ours""#];
    for (change, name) in plan.changes.iter().zip(["a", "new"]) {
        assert_eq!((&*change.name, fields(change)), (name, expected.map(str::to_owned).to_vec()), "{text}");
    }
    assert_eq!(plan.changes.len(), 2, "{text}");
}

#[tokio::test]
async fn an_update_replaces_an_object_that_exists_only_in_the_plan() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let plan = plan_of(&cluster, cluster.client(), |config, ctx| async move {
        let containers = json!([{"name": "main", "image": "a"}]);
        let template = json!({"metadata": {"labels": {"app": "web"}}, "spec": {"containers": containers}});
        let spec = json!({"selector": {"matchLabels": {"app": "web"}}, "template": template, "paused": true});
        let meta = json!({"name": "web", "namespace": config.metadata.namespace});
        let web = ctx.apply(serde_json::from_value::<Deployment>(json!({ "metadata": meta, "spec": spec }))?).await?;
        let status = Patch::Merge(json!({"status": {"replicas": 1, "readyReplicas": 1}}));
        let web = ctx.kind::<Deployment>().patch_status(&ObjectKey::of(&*web), &status).await?;
        let mut web = Deployment::clone(&web);
        web.status = serde_json::from_value(json!({"replicas": 2}))?;
        let mut web = Deployment::clone(&*ctx.kind::<Deployment>().update_status(web).await?);
        assert_eq!(web.status.as_ref().unwrap().ready_replicas, None);
        web.spec.as_mut().unwrap().paused = None;
        let web = ctx.update(web).await?;
        assert_eq!((web.spec.as_ref().unwrap().paused, web.status.as_ref().unwrap().replicas), (None, Some(2)));
        Ok(Action::done())
    })
    .await;
    let text = plan.to_text();
    assert!(plan.problems.is_empty(), "{text}");
    assert!(!text.contains("paused") && text.contains("+ status.replicas: 2"), "{text}");
}
