//! Objects that are being deleted.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use windlass_runtime::{
    context::Context,
    controller::{Action, Trigger, Watch},
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

/// Keeps an object in the state that foreground deletion puts it into, for as long as the test wants.
const THEIRS: &str = "other.windlass.dev/guard";

fn guarded(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "terminating".to_owned())].into());
    config.metadata.finalizers = Some(vec![THEIRS.to_owned()]);
    config
}

/// Applies a Secret with the name of its ConfigMap.
fn parents(cluster: &TestCluster, journal: &Journal<(String, bool)>) -> Controller<ConfigMap> {
    let written = journal.clone();
    Controller::<ConfigMap>::new("parents", move |config: Arc<ConfigMap>, ctx: Context| {
        let written = written.clone();
        async move {
            let mut child = Secret::default();
            child.metadata.name = config.metadata.name.clone();
            ctx.apply_owned(&config, child).await?;
            written.write((name_of(&*config), config.metadata.deletion_timestamp.is_some()));
            Ok(Action::done())
        }
    })
    .scope(Scope::namespace(cluster.namespace()).labels("test=terminating"))
    .source(Watch::<Secret>::new().scope(Scope::namespace(cluster.namespace())).owned())
}

#[tokio::test]
async fn a_child_that_is_deleted_before_its_parent_is_not_recreated() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let children: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, guarded("a")).await;
    let (journal, trigger) = (Journal::new(), Trigger::new());
    let running = Running::start(cluster.client(), parents(&cluster, &journal).source(&trigger));
    eventually("the child exists", async || children.get_opt("a").await.unwrap()).await;
    api.delete("a", &Default::default()).await.unwrap();
    let configs = running
        .context
        .caches()
        .existing::<ConfigMap>(&(), &Scope::namespace(cluster.namespace()).labels("test=terminating"));
    let key = ObjectKey::namespaced(cluster.namespace(), "a");
    eventually("the deletion is cached", async || {
        let cached = configs.as_ref()?.get(&key)?;
        cached.metadata.deletion_timestamp.is_some().then_some(())
    })
    .await;
    // As the garbage collector does.
    children.delete("a", &Default::default()).await.unwrap();
    // Everything that is queued before it has been handled when this one is.
    create(&api, guarded("b")).await;
    trigger.enqueue(key);
    eventually("the other child exists", async || children.get_opt("b").await.unwrap()).await;
    let success = r#"controller_runtime_reconcile_total{controller="parents",result="success"}"#;
    eventually("all events are handled", async || (running.metric(success) >= 4.0).then_some(())).await;
    assert_eq!(journal.count(|(_, terminating)| *terminating), 0, "{:?}", journal.read());
    assert!(children.get_opt("a").await.unwrap().is_none(), "it was recreated");
    for name in ["a", "b"] {
        merge(&api, name, json!({"metadata": {"finalizers": null}})).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn a_controller_can_ask_for_objects_that_are_being_deleted() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, guarded("a")).await;
    let journal = Journal::new();
    let running = Running::start(cluster.client(), parents(&cluster, &journal).reconcile_terminating());
    journal.has(1).await;
    api.delete("a", &Default::default()).await.unwrap();
    journal.until("it is reconciled", |seen| seen.contains(&("a".to_owned(), true))).await;
    merge(&api, "a", json!({"metadata": {"finalizers": null}})).await;
    running.stop().await;
}
