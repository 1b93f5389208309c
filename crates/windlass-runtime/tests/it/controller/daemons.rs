//! Daemons.

use std::time::Duration;

use kube::{Api, api::DeleteParams};
use serde_json::json;
use tokio::time::Instant;
use windlass_runtime::{
    Error, Result,
    controller::{Action, Daemon, DaemonContext},
    scope::Scope,
};
use windlass_testing::TestPlane;

use super::*;
use crate::{
    cluster::TestCluster,
    faults::{Fault, Faults},
};

const OURS: &str = "test.windlass.dev/daemon";

fn labelled(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "daemons".to_owned())].into());
    config
}

/// A controller that only has a daemon.
fn with_daemon(cluster: &TestCluster, daemon: Daemon<ConfigMap>) -> Controller<ConfigMap> {
    Controller::<ConfigMap>::new("daemons", async |_: Arc<ConfigMap>, _| Ok(Action::done()))
        .daemon(daemon)
        .scope(Scope::namespace(cluster.namespace()).labels("test=daemons"))
}

/// Records its drop.
struct Dropped(Journal<String>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.write("dropped".to_owned());
    }
}

/// A daemon that records its start and its stop.
fn recording(journal: &Journal<String>) -> Daemon<ConfigMap> {
    let journal = journal.clone();
    Daemon::new(move |_, daemon: DaemonContext<ConfigMap>| {
        let journal = journal.clone();
        async move {
            journal.write("started".to_owned());
            daemon.stopping().await;
            journal.write("stopped".to_owned());
            Ok(())
        }
    })
}

/// A daemon that never ends by itself.
fn endless(journal: &Journal<String>) -> Daemon<ConfigMap> {
    let journal = journal.clone();
    Daemon::new(move |_, _| {
        let journal = journal.clone();
        async move {
            journal.write("started".to_owned());
            let _dropped = Dropped(journal);
            std::future::pending().await
        }
    })
}

const RUNNING: &str = r#"windlass_daemons_running{controller="daemons"}"#;

#[tokio::test]
async fn a_daemon_stops_before_the_cleanup_and_the_end_of_its_object() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = cluster.api();
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let (started, stopped) = (journal.clone(), journal.clone());
    let (live, cleaned) = (api.clone(), journal.clone());
    let daemon = Daemon::new(move |config: Arc<ConfigMap>, daemon: DaemonContext<ConfigMap>| {
        let (started, stopped, live) = (started.clone(), stopped.clone(), live.clone());
        async move {
            started.write(format!("started {}", name_of(&*config)));
            daemon.stopping().await;
            let found = live.get("a").await?;
            stopped.write(format!("stopped, {:?}", found.metadata.finalizers.unwrap_or_default()));
            Ok(())
        }
    });
    let controller = with_daemon(&cluster, daemon).finalizer(OURS, move |_: Arc<ConfigMap>, _| {
        cleaned.write("cleaned".to_owned());
        async { Ok(Action::done()) }
    });
    let running = Running::start(cluster.client(), controller);
    journal.has(1).await;
    assert_eq!(running.metric(RUNNING), 1.0);
    api.delete("a", &DeleteParams::default()).await.unwrap();
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    assert_eq!(journal.read(), ["started a", &*format!("stopped, [{OURS:?}]"), "cleaned"]);
    assert_eq!(running.metric(RUNNING), 0.0);
    running.stop().await;
}

#[tokio::test]
async fn failures_and_panics_are_restarted_with_backoff() {
    let plane = TestPlane::builder().virtual_time().await;
    create(&plane.api::<ConfigMap>(), labelled("a")).await;
    let journal = Journal::new();
    let runs = journal.clone();
    let daemon = Daemon::new(move |_, daemon: DaemonContext<ConfigMap>| {
        let runs = runs.clone();
        async move {
            runs.write((daemon.failures(), Instant::now()));
            match runs.read().len() {
                1 => Err(Error::new("the connection is lost")),
                2 => panic!("on purpose"),
                3 => Err(Error::new("too many requests").retry_after(Duration::from_secs(15))),
                // Long enough to be healthy.
                4 => {
                    tokio::time::sleep(Duration::from_secs(10)).await;
                    Err(Error::new("after a while"))
                }
                _ => Err(Error::terminal("never again")),
            }
        }
    });
    let daemon = daemon.backoff(Duration::from_secs(1), Duration::from_secs(5));
    let running = Running::start(plane.client(), with_daemon(&plane, daemon));
    journal.has(5).await;
    let (failures, times): (Vec<_>, Vec<_>) = journal.read().into_iter().unzip();
    let gaps: Vec<u64> = times.windows(2).map(|pair| (pair[1] - pair[0]).as_secs()).collect();
    assert_eq!(gaps, [1, 2, 15, 11], "the backoff starts again after a long run");
    assert_eq!(failures, [0, 1, 2, 3, 1]);
    eventually("the fifth run failed", async || (running.metric(FAILURES) == 5.0).then_some(())).await;
    running.stop().await;
}

#[tokio::test]
async fn a_restarted_daemon_is_not_told_of_changes_that_it_starts_with() {
    let plane = TestPlane::builder().virtual_time().await;
    let api: Api<ConfigMap> = plane.api();
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let runs = journal.clone();
    let daemon = Daemon::new(move |config: Arc<ConfigMap>, daemon: DaemonContext<ConfigMap>| {
        let runs = runs.clone();
        async move {
            let size = |config: &ConfigMap| config.data.as_ref().map_or(0, |data| data.len());
            runs.write(format!("run {} with {}", daemon.failures(), size(&config)));
            let changed = daemon.changed().await;
            runs.write(format!("changed to {}", size(&changed)));
            Err(Error::new("the connection is lost"))
        }
    });
    let running = Running::start(plane.client(), with_daemon(&plane, daemon));
    journal.has(1).await;
    merge(&api, "a", json!({"data": {"x": "1"}})).await;
    journal.has(3).await;
    plane.advance(Duration::from_secs(2)).await;
    assert_eq!(journal.read(), ["run 0 with 0", "changed to 1", "run 1 with 1"]);
    merge(&api, "a", json!({"data": {"y": "1"}})).await;
    journal.has(4).await;
    assert_eq!(journal.read()[3], "changed to 2");
    running.stop().await;
}

const FAILURES: &str = r#"windlass_daemon_failures_total{controller="daemons"}"#;

#[tokio::test]
async fn a_daemon_that_is_done_or_failed_for_good_is_not_restarted() {
    let plane = TestPlane::builder().virtual_time().await;
    let api: Api<ConfigMap> = plane.api();
    create(&api, labelled("done")).await;
    create(&api, labelled("failed")).await;
    let (journal, reconciles) = (Journal::new(), Journal::new());
    let runs = journal.clone();
    let daemon = Daemon::new(move |config: Arc<ConfigMap>, _| {
        runs.write(name_of(&*config));
        async move { if name_of(&*config) == "done" { Ok(()) } else { Err(Error::terminal("no such host")) } }
    });
    let daemon = daemon.backoff(Duration::from_secs(1), Duration::from_secs(2));
    let seen = reconciles.clone();
    let controller = Controller::<ConfigMap>::new("daemons", move |config: Arc<ConfigMap>, _| {
        seen.write(config.data.is_some());
        async { Ok(Action::done()) }
    })
    .daemon(daemon)
    .scope(Scope::namespace(plane.namespace()).labels("test=daemons"));
    let running = Running::start(plane.client(), controller);
    journal.has(2).await;
    plane.advance(Duration::from_secs(5)).await;
    for name in ["done", "failed"] {
        merge(&api, name, json!({"data": {"x": "1"}})).await;
    }
    reconciles.until("both changes are reconciled", |seen| seen.iter().filter(|data| **data).count() >= 2).await;
    plane.advance(Duration::from_secs(5)).await;
    assert_eq!(journal.read().len(), 2);
    assert_eq!(running.metric(RUNNING), 0.0);
    // The next process starts them again.
    running.stop().await;
}

#[tokio::test]
async fn a_daemon_that_does_not_stop_is_dropped_after_its_grace_period() {
    let plane = TestPlane::builder().virtual_time().await;
    let api: Api<ConfigMap> = plane.api();
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let daemon = endless(&journal).grace(Duration::from_secs(5));
    let running = Running::start(plane.client(), with_daemon(&plane, daemon).cleans_up(OURS));
    journal.has(1).await;
    let began = Instant::now();
    api.delete("a", &DeleteParams::default()).await.unwrap();
    plane.advance(Duration::from_secs(4)).await;
    assert_eq!(journal.read(), ["started"]);
    assert!(api.get_opt("a").await.unwrap().is_some(), "not before its daemon has ended");
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    assert_eq!(journal.read(), ["started", "dropped"]);
    assert!((5..7).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    running.stop().await;
}

#[tokio::test]
async fn an_object_that_is_created_again_gets_a_daemon_when_the_old_one_has_ended() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = cluster.api();
    create(&api, labelled("a")).await;
    let journal = Journal::new();
    let running = Running::start(cluster.client(), with_daemon(&cluster, recording(&journal)));
    for round in 1..4 {
        journal.has(2 * round - 1).await;
        api.delete("a", &DeleteParams::default()).await.unwrap();
        create(&api, labelled("a")).await;
    }
    journal.has(7).await;
    let expected: Vec<_> = ["started", "stopped"].into_iter().cycle().take(7).collect();
    assert_eq!(journal.read(), expected, "one at a time");
    running.stop().await;
    assert_eq!(journal.read().len(), 8);
}

#[tokio::test]
async fn a_daemon_follows_its_object_and_reports_to_reconciles() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = cluster.api();
    create(&api, labelled("a")).await;
    let value = |config: &ConfigMap| config.data.as_ref().and_then(|data| data.get("x").cloned()).unwrap_or_default();
    struct Seen(String);
    let daemon = Daemon::new(move |config: Arc<ConfigMap>, daemon: DaemonContext<ConfigMap>| async move {
        let mut newest = config;
        loop {
            daemon.report(Seen(value(&newest)));
            tokio::select! {
                changed = daemon.changed() => newest = changed,
                () = daemon.stopping() => return Ok(()),
            }
        }
    });
    let journal = Journal::new();
    let reported = journal.clone();
    let controller = Controller::<ConfigMap>::new("daemons", move |_: Arc<ConfigMap>, ctx: Context| {
        if let Some(seen) = ctx.reported::<Seen>() {
            reported.write(seen.0.clone());
        }
        assert!(ctx.reported::<u32>().is_none(), "another type");
        async { Ok(Action::done()) }
    });
    let controller = controller.daemon(daemon).scope(Scope::namespace(cluster.namespace()).labels("test=daemons"));
    let running = Running::start(cluster.client(), controller);
    journal.until("the first state is reported", |seen| seen.contains(&String::new())).await;
    merge(&api, "a", json!({"data": {"x": "1"}})).await;
    journal.until("the change is reported", |seen| seen.last().is_some_and(|last| last == "1")).await;
    running.stop().await;
}

#[tokio::test]
async fn daemons_end_with_the_controller() -> Result<()> {
    let cluster = TestCluster::start().await;
    create(&cluster.api::<ConfigMap>(), labelled("a")).await;
    let journal = Journal::new();
    let running = Running::start(cluster.client(), with_daemon(&cluster, recording(&journal)));
    journal.has(1).await;
    running.stop().await;
    assert_eq!(journal.read(), ["started", "stopped"], "before the controller has ended");

    // A daemon that does not stop is dropped when the process aborts.
    let journal = Journal::new();
    let running = Running::start(cluster.client(), with_daemon(&cluster, endless(&journal)));
    journal.has(1).await;
    running.shutdown.abort();
    running.stop().await;
    assert_eq!(journal.read(), ["started", "dropped"]);
    Ok(())
}

/// Writes the same again and again, and reads what it has written.
async fn write_on(
    daemon: &DaemonContext<ConfigMap>,
    key: &ObjectKey,
    delay: Duration,
    written: &Journal<String>,
) -> Result<()> {
    tokio::time::sleep(delay).await;
    loop {
        let patch = Patch::Merge(json!({"data": {"x": "1"}}));
        let answer = daemon.kind::<ConfigMap>().patch(key, &patch).await?;
        assert!(answer.data.is_some());
        written.write("written".to_owned());
    }
}

#[tokio::test]
async fn a_daemon_that_always_writes_does_not_hold_up_the_cleanup() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = cluster.api();
    create(&api, labelled("a")).await;
    let faults = Faults::around(cluster.client());
    for name in ["x", "y"] {
        create(&api, config(name)).await;
        let path = format!("/configmaps/{name}");
        let slow = Fault::Delay(Duration::from_millis(300));
        faults.inject(move |seen| seen.is_write() && seen.path.ends_with(&path), usize::MAX, slow);
    }
    let keys = ["x", "y"].map(|name| ObjectKey::namespaced(cluster.namespace(), name));
    let journal = Journal::new();
    let (written, cleaned) = (journal.clone(), journal.clone());
    // One of its two writes is always in flight.
    let daemon = Daemon::new(move |_, daemon: DaemonContext<ConfigMap>| {
        let (written, [x, y]) = (written.clone(), keys.clone());
        async move {
            let x = write_on(&daemon, &x, Duration::ZERO, &written);
            let y = write_on(&daemon, &y, Duration::from_millis(150), &written);
            tokio::select! {
                ended = x => ended,
                ended = y => ended,
                () = daemon.stopping() => Ok(()),
            }
        }
    });
    let controller = with_daemon(&cluster, daemon).finalizer(OURS, move |_: Arc<ConfigMap>, _| {
        cleaned.write("cleaned".to_owned());
        async { Ok(Action::done()) }
    });
    let running = Running::start(faults.client(), controller);
    journal.has(2).await;
    api.delete("a", &DeleteParams::default()).await.unwrap();
    eventually("the object is deleted", async || api.get_opt("a").await.unwrap().is_none().then_some(())).await;
    assert_eq!(journal.count(|entry| entry == "cleaned"), 1);
    running.stop().await;
}
