//! From events of the controller's own kind, of owned and of watched objects, to reconciles.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Namespace, Secret},
};
use kube::Api;
use serde_json::json;
use windlass_runtime::{
    controller::{Action, Controller, Watch, filter},
    key::ObjectKey,
    scope::Scope,
};

use super::*;
use crate::{
    cluster::TestCluster,
    faults::{Fault, Faults, Seen},
};

/// A controller of the test's ConfigMaps that records their names.
fn journaling(cluster: &TestCluster, journal: &Journal<String>) -> Controller<ConfigMap> {
    let journal = journal.clone();
    Controller::<ConfigMap>::new("configs", move |config: Arc<ConfigMap>, _ctx| {
        journal.write(name_of(&*config));
        async { Ok(Action::done()) }
    })
    .scope(Scope::namespace(cluster.namespace()).fields("metadata.name!=kube-root-ca.crt"))
}

fn secrets(cluster: &TestCluster) -> Watch<Secret> {
    Watch::new().scope(Scope::namespace(cluster.namespace()))
}

fn secret(name: &str) -> Secret {
    Secret { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Secret::default() }
}

#[tokio::test]
async fn every_object_is_reconciled_at_the_start_and_after_each_change() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, config("a")).await;
    create(&api, config("b")).await;
    let journal = Journal::new();
    let running = Running::start(cluster.client(), journaling(&cluster, &journal));
    journal.has(2).await;
    merge(&api, "b", json!({"data": {"x": "1"}})).await;
    journal.has(3).await;
    create(&api, config("c")).await;
    journal.has(4).await;
    let mut seen = journal.read();
    seen[..2].sort();
    assert_eq!(seen, ["a", "b", "b", "c"]);
    assert_eq!(running.metric(r#"controller_runtime_reconcile_total{controller="configs",result="success"}"#), 4.0);
    running.stop().await;
}

#[tokio::test]
async fn an_owned_object_triggers_its_owner_regardless_of_the_version() {
    let cluster = TestCluster::start().await;
    let owners: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let owned: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    let (a, b) = (create(&owners, config("a")).await, create(&owners, config("b")).await);
    let journal = Journal::new();
    let running = Running::start(cluster.client(), journaling(&cluster, &journal).source(secrets(&cluster).owned()));
    journal.has(2).await;

    let mut reference = controlled_by(&a);
    reference.api_version = "v7beta3".into();
    let mut child = secret("child");
    child.metadata.owner_references = Some(vec![reference]);
    create(&owned, child).await;
    journal.has(3).await;
    // From one owner to another: both are affected.
    merge(&owned, "child", json!({"metadata": {"ownerReferences": [controlled_by(&b)]}})).await;
    journal.has(5).await;
    owned.delete("child", &Default::default()).await.unwrap();
    journal.has(6).await;
    let mut seen = journal.read()[2..].to_vec();
    seen[1..3].sort();
    assert_eq!(seen, ["a", "a", "b", "b"]);
    running.stop().await;
}

#[tokio::test]
async fn owners_that_do_not_control_count_only_when_asked_for() {
    let cluster = TestCluster::start().await;
    let owners: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let owned: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    let (a, b) = (create(&owners, config("a")).await, create(&owners, config("b")).await);
    let (controllers, every) = (Journal::new(), Journal::new());
    let one = Running::start(cluster.client(), journaling(&cluster, &controllers).source(secrets(&cluster).owned()));
    let all = Running::start(cluster.client(), journaling(&cluster, &every).source(secrets(&cluster).owned_by_any()));
    controllers.has(2).await;
    every.has(2).await;
    let mut child = secret("child");
    let mut other = controlled_by(&b);
    other.controller = None;
    child.metadata.owner_references = Some(vec![other, controlled_by(&a)]);
    create(&owned, child).await;
    every.has(4).await;
    controllers.has(3).await;
    // Earlier events have been handled when a later one has.
    merge(&owners, "b", json!({"data": {"x": "1"}})).await;
    controllers.has(4).await;
    assert_eq!(controllers.read()[2..], ["a", "b"]);
    one.stop().await;
    all.stop().await;
}

#[tokio::test]
async fn an_owner_of_the_cluster_is_called_for_objects_in_namespaces() {
    let cluster = TestCluster::start().await;
    let journal = Journal::new();
    let written = journal.clone();
    let controller = Controller::<Namespace>::new("namespaces", move |namespace: Arc<Namespace>, _ctx| {
        written.write(name_of(&*namespace));
        async { Ok(Action::done()) }
    })
    .scope(Scope::all().fields(format!("metadata.name={}", cluster.namespace())))
    .source(secrets(&cluster).owned());
    let running = Running::start(cluster.client(), controller);
    let namespace = Api::<Namespace>::all(cluster.client()).get(cluster.namespace()).await.unwrap();
    journal.until("the first reconcile", |seen| !seen.is_empty()).await;
    let before = journal.read().len();
    let mut child = secret("child");
    child.metadata.owner_references = Some(vec![controlled_by(&namespace)]);
    create(&Api::namespaced(cluster.client(), cluster.namespace()), child).await;
    journal.has(before + 1).await;
    running.stop().await;
}

#[tokio::test]
async fn a_map_sees_the_state_before_and_after_a_change() {
    let cluster = TestCluster::start().await;
    let configs: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let watched: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&configs, config("a")).await;
    create(&configs, config("b")).await;
    let journal = Journal::new();
    let controller = journaling(&cluster, &journal).source(secrets(&cluster).map(|secret, ctx| {
        let namespace = secret.metadata.namespace.as_deref().unwrap_or_default();
        let target = secret.metadata.labels.iter().flatten().find(|(name, _)| *name == "for");
        let key = target.map(|(_, config)| ObjectKey::namespaced(namespace, config));
        // The controller's caches can be read.
        key.into_iter().filter(|key| ctx.get::<ConfigMap>(key).is_ok_and(|config| config.is_some())).collect()
    }));
    let running = Running::start(cluster.client(), controller);
    journal.has(2).await;
    let mut labelled = secret("s");
    labelled.metadata.labels = Some([("for".to_owned(), "a".to_owned())].into());
    create(&watched, labelled).await;
    journal.has(3).await;
    merge(&watched, "s", json!({"metadata": {"labels": {"for": "b"}}})).await;
    journal.has(5).await;
    let mut seen = journal.read()[2..].to_vec();
    seen[1..].sort();
    assert_eq!(seen, ["a", "a", "b"]);
    running.stop().await;
}

#[tokio::test]
async fn a_delete_that_was_missed_while_disconnected_calls_the_owner() {
    let cluster = TestCluster::start().await;
    let owners: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let owned: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    let owner = create(&owners, config("owner")).await;
    let mut child = secret("child");
    child.metadata.owner_references = Some(vec![controlled_by(&owner)]);
    create(&owned, child).await;
    let faults = Faults::around(cluster.client());
    let journal = Journal::new();
    let running = Running::start(faults.client(), journaling(&cluster, &journal).source(secrets(&cluster).owned()));
    journal.has(1).await;
    let calls = journal.read().len();
    // The watch breaks, and the server no longer has its revision.
    let path_of_secrets = |seen: &Seen| seen.path.ends_with("/secrets");
    faults.inject(path_of_secrets, 2, Fault::status(410));
    faults.drop_watches();
    owned.delete("child", &Default::default()).await.unwrap();
    journal.has(calls + 1).await;
    running.stop().await;
}

#[tokio::test]
async fn a_filter_excludes_events() {
    let cluster = TestCluster::start().await;
    let api: Api<Deployment> = Api::namespaced(cluster.client(), cluster.namespace());
    let deployment: Deployment = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 0,
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "web", "image": "web"}]},
            },
        },
    }))
    .unwrap();
    create(&api, deployment).await;
    let (all, generations) = (Journal::new(), Journal::new());
    let controller = |journal: &Journal<i64>| {
        let journal = journal.clone();
        Controller::<Deployment>::new("deployments", move |deployment: Arc<Deployment>, _ctx| {
            journal.write(deployment.metadata.generation.unwrap());
            async { Ok(Action::done()) }
        })
        .scope(Scope::namespace(cluster.namespace()))
    };
    let everything = Running::start(cluster.client(), controller(&all));
    let filtered = Running::start(cluster.client(), controller(&generations).filter(filter::ignoring_status()));
    all.has(1).await;
    generations.has(1).await;
    let status = json!({"status": {"conditions": [{"type": "Tested", "status": "True"}]}});
    api.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    all.has(2).await;
    merge(&api, "web", json!({"spec": {"minReadySeconds": 1}})).await;
    generations.has(2).await;
    merge(&api, "web", json!({"metadata": {"labels": {"x": "y"}}})).await;
    generations.has(3).await;
    assert_eq!(generations.read(), [1, 2, 2]);
    everything.stop().await;
    filtered.stop().await;
}
