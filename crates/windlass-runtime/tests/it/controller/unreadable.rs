//! Objects that this version of an operator cannot read.

use std::collections::BTreeMap;

use k8s_openapi::api::events::v1::Event;
use kube::Api;
use serde::Deserialize;
use serde_json::json;
use windlass_runtime::{
    controller::{Action, Trigger},
    scope::Scope,
};

use super::*;
use crate::{
    cluster::TestCluster,
    faults::{Fault, Faults, Seen},
};

/// A ConfigMap as an older version of an operator knows it.
#[derive(kube::Resource, Clone, Debug, Serialize, Deserialize)]
#[resource(inherit = ConfigMap)]
struct Moded {
    metadata: ObjectMeta,
    data: Option<BTreeMap<String, Mode>>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
enum Mode {
    Fast,
}

fn moded(name: &str, mode: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "unreadable".to_owned())].into());
    config.data = Some([("mode".to_owned(), mode.to_owned())].into());
    config
}

fn scope(cluster: &TestCluster) -> Scope {
    Scope::namespace(cluster.namespace()).labels("test=unreadable")
}

fn journaling(cluster: &TestCluster, journal: &Journal<String>) -> Controller<Moded> {
    let (reconciled, gone) = (journal.clone(), journal.clone());
    Controller::<Moded>::new("modes", move |config: Arc<Moded>, _ctx| {
        reconciled.write(name_of(&*config));
        async { Ok(Action::done()) }
    })
    .on_deleted(move |key, _ctx| {
        gone.write(format!("-{}", key.name()));
        async { Ok(()) }
    })
    .scope(scope(cluster))
}

#[tokio::test]
async fn an_object_that_became_unreadable_is_not_treated_as_deleted_after_a_relist() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, moded("a", "Fast")).await;
    let faults = Faults::around(cluster.client());
    let (journal, trigger) = (Journal::new(), Trigger::new());
    let running = Running::start(faults.client(), journaling(&cluster, &journal).source(&trigger));
    journal.until("it is reconciled", |seen| seen == ["a"]).await;
    merge(&api, "a", json!({"data": {"mode": "Hyper"}})).await;
    // The revision of the watch expires.
    faults.inject(Seen::is_watch, 1, Fault::status(410));
    faults.drop_watches();
    eventually("the state is fetched again", async || {
        (faults.count(|seen| seen.is_list("configmaps")) >= 2).then_some(())
    })
    .await;
    create(&api, moded("b", "Fast")).await;
    journal.until("the watch is back", |seen| seen.contains(&"b".to_owned())).await;
    trigger.enqueue(ObjectKey::namespaced(cluster.namespace(), "a"));
    create(&api, moded("c", "Fast")).await;
    journal.until("the queue is empty", |seen| seen.contains(&"c".to_owned())).await;
    assert_eq!(journal.read(), ["a", "b", "c"], "nothing is cleaned up, and no old state is reconciled");
    // It is readable again, and then it is deleted.
    merge(&api, "a", json!({"data": {"mode": "Fast"}})).await;
    journal.until("it is reconciled again", |seen| seen.last().is_some_and(|last| last == "a")).await;
    api.delete("a", &Default::default()).await.unwrap();
    journal.until("it is deleted", |seen| seen.last().is_some_and(|last| last == "-a")).await;
    running.stop().await;
}

#[tokio::test]
async fn an_object_that_was_never_readable_is_not_treated_as_deleted() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, moded("a", "Hyper")).await;
    let (journal, trigger) = (Journal::new(), Trigger::new());
    let running = Running::start(cluster.client(), journaling(&cluster, &journal).source(&trigger));
    trigger.enqueue(ObjectKey::namespaced(cluster.namespace(), "a"));
    create(&api, moded("b", "Fast")).await;
    journal.until("the other is reconciled", |seen| seen.contains(&"b".to_owned())).await;
    let success = r#"controller_runtime_reconcile_total{controller="modes",result="success"}"#;
    eventually("both are handled", async || (running.metric(success) >= 2.0).then_some(())).await;
    assert_eq!(journal.read(), ["b"]);
    let events: Api<Event> = Api::namespaced(cluster.client(), cluster.namespace());
    let event = eventually("there is an event", async || {
        let events = events.list(&Default::default()).await.unwrap();
        events.items.into_iter().find(|event| event.reason.as_deref() == Some("Unreadable"))
    })
    .await;
    let about = event.regarding.unwrap();
    assert_eq!((about.kind.as_deref(), about.name.as_deref()), (Some("ConfigMap"), Some("a")));
    assert!(about.uid.is_some_and(|uid| !uid.is_empty()));
    let status = running.context.caches().status();
    let [unreadable] = &*status[0].unreadable else { panic!("{status:?}") };
    assert_eq!(unreadable.key, ObjectKey::namespaced(cluster.namespace(), "a"));
    assert!(unreadable.problem.starts_with("a field is missing or has another type"), "{}", unreadable.problem);
    assert_eq!(status[0].objects, 1);
    // Its deletion is one.
    api.delete("a", &Default::default()).await.unwrap();
    journal.until("it is deleted", |seen| seen.last().is_some_and(|last| last == "-a")).await;
    running.stop().await;
}
