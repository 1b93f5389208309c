//! Operators: order of startup and shutdown, probes, metrics, failures.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
    time::Duration,
};

use http_body_util::{BodyExt as _, Empty};
use hyper::body::Bytes;
use hyper_util::{client::legacy, rt::TokioExecutor};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, ObjectReference},
};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
};
use tokio::{net::TcpListener, sync::Notify, task::JoinHandle};
use windlass_runtime::{
    context::Context,
    controller::{Action, Controller, Source},
    events::EventType,
    key::ObjectKey,
    lease::Timing,
    operator::{LeaseOptions, Listener, Operator, OperatorError, Options, Replicas},
    scope::Scope,
    shutdown::Shutdown,
};

use crate::{
    cache::dies_of_odd,
    cluster::{TestCluster, eventually},
    faults::{Fault, Faults},
};

mod install;
mod plan;
mod reconciles;
mod secure;
mod shards;
mod webhooks;

/// Events in order.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn add(&self, what: impl Into<String>) {
        self.0.lock().unwrap().push(what.into());
    }

    fn all(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }

    fn has(&self, what: &str) -> bool {
        self.all().iter().any(|one| one == what)
    }
}

/// A running operator.
struct Running {
    shutdown: Shutdown,
    probes: SocketAddr,
    metrics: SocketAddr,
    result: JoinHandle<Result<(), OperatorError>>,
}

impl Running {
    async fn start(operator: Operator, client: Client, mut options: Options) -> Self {
        let (probes, metrics) =
            (TcpListener::bind("127.0.0.1:0").await.unwrap(), TcpListener::bind("127.0.0.1:0").await.unwrap());
        let addresses = (probes.local_addr().unwrap(), metrics.local_addr().unwrap());
        (options.probes, options.metrics) = (Listener::Socket(probes), Listener::Socket(metrics));
        let shutdown = Shutdown::new();
        let result = tokio::spawn(operator.run_with(client, options, shutdown.clone()));
        Self { shutdown, probes: addresses.0, metrics: addresses.1, result }
    }

    async fn ready(&self) {
        eventually("the operator is ready", async || (get(self.probes, "/readyz").await?.0 == 200).then_some(())).await;
    }

    async fn stop(self) -> Result<(), OperatorError> {
        self.shutdown.drain();
        self.result.await.unwrap()
    }
}

/// Returns the status code and the body; `None` if nothing listens there.
async fn get(address: SocketAddr, path: &str) -> Option<(u16, String)> {
    let client: legacy::Client<_, Empty<Bytes>> = legacy::Client::builder(TokioExecutor::new()).build_http();
    let response = client.get(format!("http://{address}{path}").parse().unwrap()).await.ok()?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some((status, String::from_utf8(body.to_vec()).unwrap()))
}

fn timing() -> Timing {
    Timing {
        lease_duration: Duration::from_secs(3),
        renew_deadline: Duration::from_secs(2),
        retry_period: Duration::from_millis(200),
    }
}

fn elected(cluster: &TestCluster) -> Options {
    let lease = LeaseOptions { namespace: cluster.namespace().to_owned(), name: "leader".to_owned(), timing: timing() };
    Options { replicas: Replicas::Leader(lease), ..Options::default() }
}

async fn holder(client: &Client, namespace: &str) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), namespace);
    let lease = leases.get_opt("leader").await.unwrap()?;
    lease.spec?.holder_identity.filter(|holder| !holder.is_empty())
}

async fn create(client: &Client, namespace: &str, name: &str) {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    Api::namespaced(client.clone(), namespace).create(&PostParams::default(), &map).await.unwrap();
}

#[tokio::test]
async fn everything_starts_in_order_and_stops_in_reverse() {
    let cluster = TestCluster::start().await;
    let (log, namespace) = (Log::default(), cluster.namespace().to_owned());
    let (everywhere, leader) = (log.clone(), log.clone());
    let probes: Arc<Mutex<Option<SocketAddr>>> = Arc::default();
    let asked = probes.clone();
    let operator = Operator::new("order-operator")
        .leader_task("leader", async move |ctx, shutdown| {
            leader.add("leader started");
            assert!(ctx.leadership().check().is_ok());
            shutdown.draining().await;
            // Servers and lease outlive the workers, and probes report that.
            let address = asked.lock().unwrap().unwrap();
            let (status, text) = get(address, "/readyz").await.unwrap();
            assert_eq!(status, 500);
            assert!(text.contains("[-]shutdown failed: the process is stopping\n"), "{text}");
            assert_eq!(get(address, "/healthz").await.unwrap().0, 200);
            assert!(holder(&ctx.client(), &namespace).await.is_some());
            leader.add("leader ended");
            Ok(())
        })
        .task("everywhere", async move |_, shutdown| {
            everywhere.add("everywhere started");
            shutdown.draining().await;
            everywhere.add("everywhere ended");
            Ok(())
        });
    let running = Running::start(operator, cluster.client(), elected(&cluster)).await;
    *probes.lock().unwrap() = Some(running.probes);
    eventually("the leader leads", async || log.has("leader started").then_some(())).await;
    let address = running.probes;
    running.stop().await.unwrap();
    assert_eq!(log.all(), ["everywhere started", "leader started", "leader ended", "everywhere ended"]);
    assert_eq!(get(address, "/healthz").await, None, "the listener is closed");
    assert_eq!(holder(&cluster.client(), cluster.namespace()).await, None, "the lease is released");
}

#[tokio::test]
async fn a_standby_is_ready_and_takes_over() {
    let cluster = TestCluster::start().await;
    let log = Log::default();
    let operator = |name: &'static str| {
        let log = log.clone();
        Operator::new("pair-operator").leader_task("lead", async move |_, shutdown| {
            log.add(name);
            shutdown.draining().await;
            Ok(())
        })
    };
    let first = Running::start(operator("first"), cluster.client(), elected(&cluster)).await;
    eventually("the first leads", async || log.has("first").then_some(())).await;
    let second = Running::start(operator("second"), cluster.client(), elected(&cluster)).await;
    second.ready().await;
    assert!(!log.has("second"));
    first.stop().await.unwrap();
    eventually("the second leads", async || log.has("second").then_some(())).await;
    second.stop().await.unwrap();
}

#[tokio::test]
async fn a_lost_lease_ends_the_process_without_grace() {
    struct Dropped(Log);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.add("dropped");
        }
    }
    let cluster = TestCluster::start().await;
    let log = Log::default();
    let told = log.clone();
    let operator = Operator::new("lost-operator").leader_task("lead", async move |_, shutdown| {
        let _dropped = Dropped(told.clone());
        told.add("leads");
        shutdown.draining().await;
        told.add("drained");
        Ok(())
    });
    let running = Running::start(operator, cluster.client(), elected(&cluster)).await;
    eventually("it leads", async || log.has("leads").then_some(())).await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), cluster.namespace());
    let thief = serde_json::json!({ "spec": { "holderIdentity": "thief", "leaseDurationSeconds": 3600 } });
    leases.patch("leader", &PatchParams::default(), &Patch::Merge(thief)).await.unwrap();
    let error = running.result.await.unwrap().unwrap_err();
    assert!(matches!(error, OperatorError::LeaderElectionLost), "{error}");
    assert_eq!((error.to_string().as_str(), error.exit_code()), ("leader election lost", 4));
    eventually("the work is dropped", async || log.has("dropped").then_some(())).await;
    assert!(!log.has("drained"));
}

#[tokio::test]
async fn draining_finishes_the_reconcile_in_flight() {
    let cluster = TestCluster::start().await;
    let (log, go_on) = (Log::default(), Arc::new(Notify::new()));
    let (told, wait) = (log.clone(), go_on.clone());
    let reconcile = move |map: Arc<ConfigMap>, _ctx: Context| {
        let (told, wait) = (told.clone(), wait.clone());
        async move {
            let name = map.metadata.name.clone().unwrap_or_default();
            if name == "slow" {
                told.add("begun");
                wait.notified().await;
                told.add("finished");
            }
            Ok(Action::done())
        }
    };
    let controller = Controller::<ConfigMap>::new("drain", reconcile).scope(Scope::namespace(cluster.namespace()));
    let running =
        Running::start(Operator::new("drain-operator").controller(controller), cluster.client(), Options::default())
            .await;
    create(&cluster.client(), cluster.namespace(), "slow").await;
    eventually("the reconcile runs", async || log.has("begun").then_some(())).await;
    running.shutdown.drain();
    let (probes, result) = (running.probes, running.result);
    eventually("it is known to be stopping", async || (get(probes, "/readyz").await?.0 == 500).then_some(())).await;
    assert!(!result.is_finished());
    go_on.notify_one();
    result.await.unwrap().unwrap();
    assert_eq!(log.all(), ["begun", "finished"]);
}

#[tokio::test]
async fn a_second_signal_aborts() {
    let cluster = TestCluster::start().await;
    let operator = Operator::new("stubborn-operator").task("stubborn", async |_, _| std::future::pending().await);
    let running = Running::start(operator, cluster.client(), Options::default()).await;
    running.ready().await;
    running.shutdown.drain();
    eventually("it drains", async || (get(running.probes, "/readyz").await?.0 == 500).then_some(())).await;
    assert!(!running.result.is_finished());
    running.shutdown.abort();
    let error = running.result.await.unwrap().unwrap_err();
    assert!(matches!(error, OperatorError::Aborted), "{error}");
    assert_eq!(error.exit_code(), 5);
}

#[tokio::test]
async fn tasks_that_do_not_finish_in_time_are_named() {
    let cluster = TestCluster::start().await;
    let operator = Operator::new("late-operator").task("late", async |_, _| std::future::pending().await).task(
        "polite",
        async |_, shutdown: Shutdown| {
            shutdown.draining().await;
            Ok(())
        },
    );
    let options = Options { grace: Duration::from_millis(100), ..Options::default() };
    let running = Running::start(operator, cluster.client(), options).await;
    running.ready().await;
    let error = running.stop().await.unwrap_err();
    assert!(error.to_string().starts_with("late did not finish within 100ms"), "{error}");
    assert!(error.hint().unwrap().contains("--graceful-timeout"));
}

#[tokio::test]
async fn a_task_that_fails_or_panics_stops_the_process() {
    let cluster = TestCluster::start().await;
    let log = Log::default();
    for (panics, expected) in [(false, "the task bad failed: the volume is gone"), (true, "bad panicked: boom")] {
        let told = log.clone();
        let operator =
            Operator::new("bad-operator")
                .task("bad", async move |_, _| {
                    if panics { panic!("boom") } else { Err(windlass_runtime::Error::new("the volume is gone")) }
                })
                .task("good", async move |_, shutdown| {
                    shutdown.draining().await;
                    told.add("drained");
                    Ok(())
                });
        let running = Running::start(operator, cluster.client(), Options::default()).await;
        let error = running.result.await.unwrap().unwrap_err();
        assert_eq!(error.chain(), expected);
        assert_eq!(error.exit_code(), 1);
    }
    assert_eq!(log.all(), ["drained", "drained"]);
}

#[tokio::test]
async fn an_informer_that_panics_stops_the_process() {
    let cluster = TestCluster::start().await;
    let scope = Scope::namespace(cluster.namespace());
    let operator = Operator::new("odd-operator").task("look", async move |ctx, shutdown| {
        let informer = ctx.caches().informer::<ConfigMap>(&scope);
        dies_of_odd(&informer);
        shutdown.draining().await;
        Ok(())
    });
    let running = Running::start(operator, cluster.client(), Options::default()).await;
    running.ready().await;
    create(&cluster.client(), cluster.namespace(), "odd").await;
    let error = running.result.await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "the informer of configmaps panicked");
}

#[tokio::test]
async fn after_a_failure_an_operator_is_not_ready_while_it_stops() {
    let cluster = TestCluster::start().await;
    let (fail, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (failing, waiting) = (fail.clone(), go_on.clone());
    let operator = Operator::new("failing-operator")
        .task("bad", async move |_, _| {
            failing.notified().await;
            Err(windlass_runtime::Error::new("the volume is gone"))
        })
        .task("slow", async move |_, _| {
            waiting.notified().await;
            Ok(())
        });
    let running = Running::start(operator, cluster.client(), Options::default()).await;
    running.ready().await;
    fail.notify_one();
    eventually("it is not ready", async || (get(running.probes, "/readyz").await?.0 == 500).then_some(())).await;
    assert!(!running.result.is_finished());
    go_on.notify_one();
    assert!(matches!(running.result.await.unwrap(), Err(OperatorError::Task { .. })));
}

#[tokio::test]
async fn events_that_cannot_be_written_do_not_use_up_the_grace() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    faults.inject(|seen| seen.path.ends_with("/events"), 1000, Fault::Hang);
    let operator = Operator::new("telling-operator").task("tell", async |ctx, shutdown| {
        let about = ObjectReference {
            kind: Some("ConfigMap".to_owned()),
            name: Some("one".to_owned()),
            namespace: Some("default".to_owned()),
            ..ObjectReference::default()
        };
        ctx.recorder().record(&about, EventType::Normal, "Begun", "Begin", "it has begun");
        shutdown.draining().await;
        Ok(())
    });
    let options = Options { grace: Duration::from_secs(2), ..Options::default() };
    let running = Running::start(operator, faults.client(), options).await;
    eventually("an event is in flight", async || {
        (faults.count(|seen| seen.path.ends_with("/events")) > 0).then_some(())
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_task_may_end() {
    let cluster = TestCluster::start().await;
    let log = Log::default();
    let told = log.clone();
    let operator = Operator::new("once-operator").task("once", async move |_, _| {
        told.add("done");
        Ok(())
    });
    let running = Running::start(operator, cluster.client(), Options::default()).await;
    eventually("it is done", async || log.has("done").then_some(())).await;
    running.ready().await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_operator_is_ready_when_its_caches_are_synced() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    faults.inject(|seen| seen.path.ends_with("/configmaps"), 2, Fault::status(503));
    let controller = Controller::<ConfigMap>::new("ready", async |_: Arc<ConfigMap>, _| Ok(Action::done()))
        .scope(Scope::namespace(cluster.namespace()))
        .source(Source::stream(futures_util::stream::iter([ObjectKey::namespaced(cluster.namespace(), "none")])))
        .concurrency(3);
    let operator = Operator::new("ready-operator").controller(controller);
    let options = Options { debug_state: true, ..Options::default() };
    let running = Running::start(operator, faults.client(), options).await;
    eventually("it waits for config maps", async || {
        let (status, text) = get(running.probes, "/readyz").await?;
        (status == 500 && text.contains("[-]informer-sync failed: waiting for configmaps\n")).then_some(())
    })
    .await;
    assert_eq!(get(running.probes, "/livez").await.unwrap(), (200, "ok".to_owned()));
    running.ready().await;
    let (_, text) = get(running.probes, "/readyz?verbose").await.unwrap();
    assert_eq!(text, "[+]informer-sync ok\n[+]shutdown ok\nreadyz check passed\n");

    let (status, state) = get(running.metrics, "/debug/state").await.unwrap();
    let state: serde_json::Value = serde_json::from_str(&state).unwrap();
    assert_eq!(status, 200);
    assert_eq!(state["leadership"]["leads"], true);
    assert_eq!(state["informers"][0]["resource"], "configmaps");
    assert_eq!(state["informers"][0]["synced"], true);
    let controller = eventually("the queue is empty", async || {
        let (_, state) = get(running.metrics, "/debug/state").await?;
        let mut state: serde_json::Value = serde_json::from_str(&state).unwrap();
        let mut controller = state["controllers"][0].take();
        controller["reconciles"].take();
        (controller["queue"]["ready"] == 0 && controller["streams"]["ended"] == 1).then_some(controller)
    })
    .await;
    assert_eq!(
        controller,
        serde_json::json!({
            "name": "ready",
            "resource": "configmaps",
            "workers": 3,
            "queue": { "ready": 0, "delayed": 0, "held": 0 },
            "streams": { "running": 0, "ended": 1 },
            "reconciles": null,
        })
    );
    running.stop().await.unwrap();
}

#[tokio::test]
async fn metrics_have_the_names_that_dashboards_know() {
    let cluster = TestCluster::start().await;
    let controller = Controller::<ConfigMap>::new("metered", async |_: Arc<ConfigMap>, _| Ok(Action::done()))
        .scope(Scope::namespace(cluster.namespace()));
    create(&cluster.client(), cluster.namespace(), "one").await;
    let operator = Operator::new("metered-operator").controller(controller);
    let running = Running::start(operator, cluster.client(), elected(&cluster)).await;
    let reconciled = "controller_runtime_reconcile_total{controller=\"metered\",result=\"success\"} ";
    let text = eventually("there was a reconcile", async || {
        let (_, text) = get(running.metrics, "/metrics").await?;
        text.lines().find_map(|line| line.strip_prefix(reconciled)).filter(|count| *count != "0")?;
        Some(text)
    })
    .await;
    for name in [
        "controller_runtime_reconcile_total",
        "controller_runtime_reconcile_errors_total",
        "controller_runtime_terminal_reconcile_errors_total",
        "controller_runtime_reconcile_panics_total",
        "controller_runtime_reconcile_timeouts_total",
        "controller_runtime_reconcile_time_seconds",
        "controller_runtime_max_concurrent_reconciles",
        "controller_runtime_active_workers",
        "workqueue_depth",
        "workqueue_adds_total",
        "workqueue_queue_duration_seconds",
        "workqueue_work_duration_seconds",
        "workqueue_unfinished_work_seconds",
        "workqueue_longest_running_processor_seconds",
        "workqueue_retries_total",
        "leader_election_master_status",
        "windlass_events_written_total",
        "process_cpu_seconds_total",
        "process_resident_memory_bytes",
        "process_open_fds",
        "process_start_time_seconds",
    ] {
        assert!(text.contains(&format!("\n# TYPE {name} ")), "{name} in {text}");
    }
    assert!(text.contains("leader_election_master_status{name=\"leader\"} 1\n"), "{text}");
    assert_eq!(get(running.metrics, "/debug/state").await.unwrap().0, 404, "only on request");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn only_the_namespaces_of_the_options_are_watched() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let log = Log::default();
    let told = log.clone();
    let reconcile = move |map: Arc<ConfigMap>, _: Context| {
        told.add(map.metadata.name.clone().unwrap_or_default());
        async { Ok(Action::done()) }
    };
    create(&cluster.client(), cluster.namespace(), "mine").await;
    let operator = Operator::new("narrow-operator").controller(Controller::<ConfigMap>::new("narrow", reconcile));
    let options = Options { namespaces: vec![cluster.namespace().to_owned()], ..Options::default() };
    let running = Running::start(operator, faults.client(), options).await;
    eventually("it is reconciled", async || log.has("mine").then_some(())).await;
    assert_eq!(faults.count(|seen| seen.path == "/api/v1/configmaps"), 0);
    running.stop().await.unwrap();
}
