//! Keys from other sources: triggers, timers, streams, informers.

use std::time::Duration;

use kube::Api;
use windlass_runtime::{
    controller::{Action, Every, Source, Trigger, Watch},
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

fn journaling(cluster: &TestCluster, journal: &Journal<String>) -> Controller<ConfigMap> {
    let journal = journal.clone();
    Controller::<ConfigMap>::new("configs", move |config: Arc<ConfigMap>, _ctx| {
        journal.write(name_of(&*config));
        async { Ok(Action::done()) }
    })
    .scope(Scope::namespace(cluster.namespace()).labels("test=sources"))
}

fn labelled(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "sources".to_owned())].into());
    config
}

#[tokio::test]
async fn a_trigger_asks_for_one_object_or_for_all_of_them() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    create(&api, labelled("b")).await;
    let (journal, trigger) = (Journal::new(), Trigger::new());
    let early = ObjectKey::namespaced(cluster.namespace(), "b");
    trigger.enqueue(early.clone());
    let running = Running::start(cluster.client(), journaling(&cluster, &journal).source(&trigger));
    journal.has(2).await;
    // Requested before it ran, and at the start: it is reconciled once.
    assert_eq!(journal.read()[0], "b");
    trigger.enqueue(ObjectKey::namespaced(cluster.namespace(), "a"));
    journal.has(3).await;
    trigger.enqueue_all();
    journal.has(5).await;
    let mut seen = journal.read();
    seen[3..].sort();
    assert_eq!(seen, ["b", "a", "a", "a", "b"]);
    running.stop().await;
}

#[tokio::test]
async fn a_timer_asks_for_all_objects_or_for_some() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    create(&api, labelled("b")).await;
    let (all, some) = (Journal::new(), Journal::new());
    let every = Running::start(cluster.client(), journaling(&cluster, &all).every(Duration::from_millis(20)));
    let key = ObjectKey::namespaced(cluster.namespace(), "b");
    let timer = Every::new(Duration::from_millis(20)).keys([key]);
    let one = Running::start(cluster.client(), journaling(&cluster, &some).source(timer));
    all.until("both, repeatedly", |seen| {
        ["a", "b"].iter().all(|name| seen.iter().filter(|entry| entry == name).count() > 3)
    })
    .await;
    some.until("b, repeatedly", |seen| seen.iter().filter(|entry| *entry == "b").count() > 3).await;
    assert_eq!(some.count(|entry| entry == "a"), 1);
    every.stop().await;
    one.stop().await;
}

#[tokio::test]
async fn a_stream_and_an_informer_ask_for_objects() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let (sender, receiver) = tokio::sync::mpsc::channel(1);
    let keys = futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|key| (key, receiver))
    });
    let context = context(cluster.client()).build();
    let others = context.caches().informer::<ConfigMap>(&Scope::namespace(cluster.namespace()).labels("test=others"));
    let journal = Journal::new();
    let target = ObjectKey::namespaced(cluster.namespace(), "a");
    let mapped = target.clone();
    let controller = journaling(&cluster, &journal)
        .source(Source::stream(keys))
        .source(Watch::informer(others).map(move |_other, _ctx| vec![mapped.clone()]));
    let running = Running::with(context, controller);
    journal.has(1).await;
    sender.send(target).await.unwrap();
    journal.has(2).await;
    let mut other = config("other");
    other.metadata.labels = Some([("test".to_owned(), "others".to_owned())].into());
    create(&api, other).await;
    journal.has(3).await;
    assert_eq!(journal.read(), ["a", "a", "a"]);
    running.stop().await;
}

#[tokio::test]
async fn a_source_that_panics_ends_the_controller() {
    let cluster = TestCluster::start().await;
    let source = Source::stream(futures_util::stream::poll_fn(|_| panic!("boom")));
    let mut running = Running::start(cluster.client(), journaling(&cluster, &Journal::new()).source(source));
    let error = (&mut running.task).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "a source of controller \"configs\" panicked: boom");
}
