//! Results of a reconcile: success, failure, panic, timeout; reading its own writes.

use std::time::Duration;

use kube::Api;
use serde_json::json;
use windlass_runtime::{
    Error,
    context::Context,
    controller::{Action, Trigger},
    object::revision_of,
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

const OURS: &str = "test=attempts";

fn labelled(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "attempts".to_owned())].into());
    config
}

#[tokio::test]
async fn failures_panics_and_timeouts_are_retried_and_terminal_errors_are_not() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    for name in ["fails", "hangs", "hopeless", "panics", "works"] {
        create(&api, labelled(name)).await;
    }
    let journal = Journal::new();
    let written = journal.clone();
    let controller = Controller::<ConfigMap>::new("attempts", move |config: Arc<ConfigMap>, _ctx| {
        let name = name_of(&*config);
        let first = written.count(|seen| *seen == name) == 0;
        written.write(name.clone());
        async move {
            match (name.as_str(), first) {
                ("fails", true) => Err(Error::new("not today")),
                ("hopeless", _) => Err(Error::terminal("bad name")),
                ("panics", true) => panic!("as the test wants"),
                ("hangs", true) => std::future::pending().await,
                _ => Ok(Action::done()),
            }
        }
    })
    .scope(Scope::namespace(cluster.namespace()).labels(OURS))
    .timeout(Duration::from_millis(50));
    let running = Running::start(cluster.client(), controller);
    journal.has(8).await;
    for (name, calls) in [("fails", 2), ("hangs", 2), ("hopeless", 1), ("panics", 2), ("works", 1)] {
        journal.until(name, |seen| seen.iter().filter(|entry| *entry == name).count() == calls).await;
    }
    let counted = |name: &str| running.metric(&format!("controller_runtime_{name}_total{{controller=\"attempts\"}}"));
    eventually("all are counted", async || {
        let result = r#"controller_runtime_reconcile_total{controller="attempts",result="success"}"#;
        (running.metric(result) == 4.0).then_some(())
    })
    .await;
    assert_eq!(counted("reconcile_errors"), 4.0);
    assert_eq!(counted("terminal_reconcile_errors"), 1.0);
    assert_eq!(counted("reconcile_panics"), 1.0);
    assert_eq!(counted("reconcile_timeouts"), 1.0);
    assert_eq!(running.metric(r#"controller_runtime_reconcile_time_seconds_count{controller="attempts"}"#), 8.0);
    assert_eq!(running.metric(r#"controller_runtime_active_workers{controller="attempts"}"#), 0.0);
    // A terminal error is retried when something changes.
    merge(&api, "hopeless", json!({"data": {"x": "1"}})).await;
    journal.until("hopeless again", |seen| seen.iter().filter(|entry| *entry == "hopeless").count() == 2).await;
    running.stop().await;
}

#[tokio::test]
async fn a_requeue_runs_after_its_delay() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let written = journal.clone();
    let controller = Controller::<ConfigMap>::new("requeues", move |_config: Arc<ConfigMap>, _ctx| {
        written.write(tokio::time::Instant::now());
        async { Ok(Action::requeue_after(Duration::from_millis(30))) }
    })
    .scope(Scope::namespace(cluster.namespace()).labels(OURS));
    let running = Running::start(cluster.client(), controller);
    journal.has(4).await;
    for pair in journal.read().windows(2) {
        assert!(pair[1] - pair[0] >= Duration::from_millis(30));
    }
    running.stop().await;
}

#[tokio::test]
async fn a_reconcile_never_starts_with_less_than_its_last_write() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("counter")).await;
    let (journal, trigger) = (Journal::new(), Trigger::new());
    let (written, again) = (journal.clone(), trigger.clone());
    let controller = Controller::<ConfigMap>::new("counter", move |config: Arc<ConfigMap>, ctx: Context| {
        let (written, again) = (written.clone(), again.clone());
        async move {
            let count = config.data.iter().flatten().next().map_or(0, |(_, count)| count.parse::<u32>().unwrap());
            written.write((count, revision_of(&*config)));
            if count < 50 {
                let mut next = ConfigMap::clone(&config);
                next.data = Some([("count".to_owned(), (count + 1).to_string())].into());
                ctx.update(next).await?;
                // At once, before the watch can have delivered the write.
                again.enqueue(ObjectKey::of(&*config));
            }
            Ok(Action::done())
        }
    })
    .scope(Scope::namespace(cluster.namespace()).labels(OURS))
    .source(&trigger);
    let running = Running::start(cluster.client(), controller);
    journal.until("the last count", |seen| seen.last().is_some_and(|(count, _)| *count == 50)).await;
    for pair in journal.read().windows(2) {
        assert!(pair[0] <= pair[1], "{pair:?}");
        assert!(pair[0].0 == 50 || pair[0].0 + 1 == pair[1].0, "no count is worked on twice: {pair:?}");
    }
    assert_eq!(running.metric(r#"controller_runtime_reconcile_errors_total{controller="counter"}"#), 0.0);
    running.stop().await;
}

#[tokio::test]
async fn objects_are_reconciled_at_the_same_time_but_never_one_of_them_twice() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    for name in ["a", "b", "c", "d"] {
        create(&api, labelled(name)).await;
    }
    let busy = Arc::new(Mutex::new(Vec::new()));
    let together = tokio::sync::watch::Sender::new(0);
    let done = Journal::new();
    let (working, most, journal) = (busy.clone(), together.clone(), done.clone());
    let controller = Controller::<ConfigMap>::new("busy", move |config: Arc<ConfigMap>, _ctx| {
        let (working, most, journal) = (working.clone(), most.clone(), journal.clone());
        async move {
            let name = name_of(&*config);
            {
                let mut working = working.lock().unwrap();
                assert!(!working.contains(&name), "{name} is worked on already");
                working.push(name.clone());
                most.send_modify(|most| *most = working.len().max(*most));
            }
            // The first reconciles wait for each other; all of them leave time for one too many to begin.
            most.subscribe().wait_for(|most| *most >= 3).await.unwrap();
            for _ in 0..100 {
                tokio::task::yield_now().await;
            }
            working.lock().unwrap().retain(|other| *other != name);
            journal.write(name);
            Ok(Action::requeue_after(Duration::from_millis(1)))
        }
    })
    .scope(Scope::namespace(cluster.namespace()).labels(OURS))
    .concurrency(3);
    let running = Running::start(cluster.client(), controller);
    done.has(20).await;
    assert_eq!(*together.borrow(), 3);
    assert_eq!(running.metric(r#"controller_runtime_max_concurrent_reconciles{controller="busy"}"#), 3.0);
    assert_eq!(running.metric(r#"controller_runtime_reconcile_panics_total{controller="busy"}"#), 0.0);
    running.stop().await;
}

#[tokio::test]
async fn the_deletion_of_an_object_is_handled_once() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, labelled("a")).await;
    let (seen, gone) = (Journal::new(), Journal::new());
    let (written, told) = (seen.clone(), gone.clone());
    let controller = Controller::<ConfigMap>::new("gone", move |config: Arc<ConfigMap>, _ctx| {
        written.write(name_of(&*config));
        async { Ok(Action::done()) }
    })
    .on_deleted(move |key, _ctx| {
        let first = told.read().is_empty();
        told.write(key.name().to_owned());
        async move { if first { Err(Error::new("once more")) } else { Ok(()) } }
    })
    .scope(Scope::namespace(cluster.namespace()).labels(OURS));
    let running = Running::start(cluster.client(), controller);
    seen.has(1).await;
    api.delete("a", &Default::default()).await.unwrap();
    gone.has(2).await;
    assert_eq!((seen.read(), gone.read()), (vec!["a".to_owned()], vec!["a".to_owned(); 2]));
    running.stop().await;
}
