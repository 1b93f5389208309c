//! Keys from other sources: triggers, timers, streams, informers.

use std::time::Duration;

use kube::Api;
use windlass_runtime::{
    controller::{Action, Cause, Every, Source, Trigger, Watch},
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
    let key = |name| ObjectKey::namespaced(cluster.namespace(), name);
    trigger.enqueue(key("b"));
    let written = journal.clone();
    let controller = Controller::<ConfigMap>::new("configs", move |config: Arc<ConfigMap>, ctx: Context| {
        for cause in ctx.causes() {
            written.write((name_of(&*config), cause));
        }
        async { Ok(Action::done()) }
    });
    let scope = Scope::namespace(cluster.namespace()).labels("test=sources");
    let running = Running::start(cluster.client(), controller.scope(scope).source(&trigger));
    let caused = async |name: &str, cause: Cause| {
        journal.until(&format!("{name}: {cause}"), |seen| seen.contains(&(name.to_owned(), cause.clone()))).await;
    };
    // Requested before the controller ran. The initial list may have come meanwhile, or come later.
    caused("b", Cause::Source).await;
    assert_eq!(journal.read()[0].0, "b", "requests come before the initial list");
    caused("a", Cause::Initial).await;
    trigger.enqueue(key("a"));
    caused("a", Cause::Source).await;
    trigger.enqueue_all();
    caused("a", Cause::Resync).await;
    caused("b", Cause::Resync).await;
    assert_eq!(journal.count(|(_, cause)| *cause == Cause::Source), 2);
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
