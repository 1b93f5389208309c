//! Finalizers.

use std::time::Duration;

use kube::Api;
use serde_json::json;
use windlass_runtime::{Error, controller::Action, scope::Scope};

use super::*;
use crate::cluster::TestCluster;

const OURS: &str = "test.windlass.dev/cleanup";
const THEIRS: &str = "other.windlass.dev/guard";

fn labelled(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "finalizers".to_owned())].into());
    config
}

/// Records its calls; cleanups follow the test's script.
fn controller(
    cluster: &TestCluster,
    journal: &Journal<&'static str>,
    cleanups: Vec<fn() -> windlass_runtime::Result<Action>>,
) -> Controller<ConfigMap> {
    let (reconciled, cleaned) = (journal.clone(), journal.clone());
    Controller::<ConfigMap>::new("finalized", move |config: Arc<ConfigMap>, _ctx| {
        assert!(config.metadata.finalizers.iter().flatten().any(|name| name == OURS), "not before it has a finalizer");
        reconciled.write("reconcile");
        async { Ok(Action::done()) }
    })
    .finalizer(OURS, move |config: Arc<ConfigMap>, _ctx| {
        assert!(config.metadata.deletion_timestamp.is_some());
        let turn = cleaned.count(|entry| *entry == "cleanup");
        cleaned.write("cleanup");
        let answer = cleanups.get(turn).map_or(Ok(Action::done()), |cleanup| cleanup());
        async { answer }
    })
    .scope(Scope::namespace(cluster.namespace()).labels("test=finalizers"))
}

#[tokio::test]
async fn an_object_stays_until_its_cleanup_is_done() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let running = Running::start(
        cluster.client(),
        controller(
            &cluster,
            &journal,
            vec![
                || Err(Error::new("the volume is in use")),
                || Ok(Action::requeue_after(Duration::from_millis(5))),
                || Ok(Action::requeue_after(Duration::from_millis(5))),
                || Ok(Action::done()),
            ],
        ),
    );
    journal.has(1).await;
    let found = api.get("a").await.unwrap();
    assert_eq!(found.metadata.finalizers, Some(vec![OURS.to_owned()]));
    api.delete("a", &Default::default()).await.unwrap();
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    let seen = journal.read();
    let first = seen.iter().position(|entry| *entry == "cleanup").unwrap();
    assert_eq!(seen[first..], ["cleanup"; 4], "no reconcile after deletion, and no cleanup after the last");
    running.stop().await;
}

#[tokio::test]
async fn finalizers_of_others_are_left_alone() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut guarded = labelled("a");
    guarded.metadata.finalizers = Some(vec![THEIRS.to_owned()]);
    create(&api, guarded).await;
    let journal = Journal::new();
    let running = Running::start(cluster.client(), controller(&cluster, &journal, vec![]));
    journal.has(1).await;
    let found = api.get("a").await.unwrap();
    assert_eq!(found.metadata.finalizers, Some(vec![THEIRS.to_owned(), OURS.to_owned()]));
    api.delete("a", &Default::default()).await.unwrap();
    let left = eventually("ours is removed", async || {
        let finalizers = api.get("a").await.unwrap().metadata.finalizers.unwrap();
        (!finalizers.iter().any(|name| name == OURS)).then_some(finalizers)
    })
    .await;
    assert_eq!(left, [THEIRS]);
    // An event of an object that this controller is done with.
    let calls = journal.read().len();
    merge(&api, "a", json!({"data": {"x": "1"}})).await;
    create(&api, labelled("b")).await;
    journal.has(calls + 1).await;
    assert_eq!(journal.count(|entry| *entry == "cleanup"), 1);
    merge(&api, "a", json!({"metadata": {"finalizers": null}})).await;
    running.stop().await;
}

#[tokio::test]
async fn an_object_that_is_being_deleted_at_first_sight_gets_no_finalizer() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut guarded = labelled("a");
    guarded.metadata.finalizers = Some(vec![THEIRS.to_owned()]);
    create(&api, guarded).await;
    api.delete("a", &Default::default()).await.unwrap();
    let journal = Journal::new();
    let running = Running::start(cluster.client(), controller(&cluster, &journal, vec![]));
    create(&api, labelled("b")).await;
    journal.until("b is reconciled", |seen| seen.contains(&"reconcile")).await;
    let success = r#"controller_runtime_reconcile_total{controller="finalized",result="success"}"#;
    eventually("a has been reconciled", async || (running.metric(success) >= 2.0).then_some(())).await;
    assert_eq!(api.get("a").await.unwrap().metadata.finalizers, Some(vec![THEIRS.to_owned()]));
    assert_eq!(journal.count(|entry| *entry == "cleanup"), 0);
    merge(&api, "a", json!({"metadata": {"finalizers": null}})).await;
    running.stop().await;
}

#[tokio::test]
async fn a_cleanup_may_put_its_object_out_of_scope() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let controller = controller(&cluster, &journal, Vec::new()).finalizer(
        OURS,
        async |config: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| {
            ctx.patch(&config, &Patch::Merge(json!({"metadata": {"labels": {"test": "over"}}}))).await?;
            Ok(Action::done())
        },
    );
    let running = Running::start(cluster.client(), controller);
    journal.has(1).await;
    api.delete("a", &Default::default()).await.unwrap();
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    running.stop().await;
}

/// A reconciler that shares something with its cleanup.
struct Volumes {
    journal: Journal<&'static str>,
}

impl windlass_runtime::controller::Reconciler<ConfigMap> for Volumes {
    async fn reconcile(
        &self,
        _: Arc<ConfigMap>,
        _: windlass_runtime::context::Context,
    ) -> windlass_runtime::Result<Action> {
        self.journal.write("reconcile");
        Ok(Action::done())
    }

    async fn cleanup(
        &self,
        _: Arc<ConfigMap>,
        _: windlass_runtime::context::Context,
    ) -> windlass_runtime::Result<Action> {
        self.journal.write("cleanup");
        match self.journal.count(|entry| *entry == "cleanup") {
            1 => Ok(Action::requeue_after(Duration::from_millis(1))),
            _ => Ok(Action::done()),
        }
    }
}

#[tokio::test]
async fn a_cleanup_can_be_a_method_of_the_reconciler() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let controller = Controller::new("volumes", Volumes { journal: journal.clone() })
        .cleans_up(OURS)
        .scope(Scope::namespace(cluster.namespace()).labels("test=finalizers"));
    let running = Running::start(cluster.client(), controller);
    journal.has(1).await;
    assert_eq!(api.get("a").await.unwrap().metadata.finalizers, Some(vec![OURS.to_owned()]));
    api.delete("a", &Default::default()).await.unwrap();
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    assert_eq!(journal.count(|entry| *entry == "cleanup"), 2, "not before it is done");
    running.stop().await;
}

#[tokio::test]
async fn a_reconciler_without_a_cleanup_releases_its_objects() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let controller = Controller::<ConfigMap>::new("none", async |_: Arc<ConfigMap>, _| Ok(Action::done()))
        .cleans_up(OURS)
        .scope(Scope::namespace(cluster.namespace()).labels("test=finalizers"));
    let running = Running::start(cluster.client(), controller);
    eventually("it has the finalizer", async || api.get("a").await.unwrap().metadata.finalizers).await;
    api.delete("a", &Default::default()).await.unwrap();
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    running.stop().await;
}
