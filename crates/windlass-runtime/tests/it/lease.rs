//! Leases shared by several processes, here several loops.

mod sharding;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::coordination::v1::Lease;
use kube::Api;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use windlass_runtime::{
    lease::{ElectionMetrics, ElectionOutcome, LeaderElection, Leadership, Timing},
    metrics::Metrics,
};

use crate::cluster::{TestCluster, eventually};

const LEASE: &str = "operator";

/// Takeovers within seconds; deadlines that a busy machine meets.
const QUICK: Timing = Timing {
    lease_duration: Duration::from_secs(3),
    renew_deadline: Duration::from_secs(2),
    retry_period: Duration::from_millis(100),
};

/// Retries as quickly, with a lease that a slow machine never loses.
const LONG: Timing =
    Timing { lease_duration: Duration::from_secs(60), renew_deadline: Duration::from_secs(40), ..QUICK };

struct Candidate {
    leadership: Leadership,
    stop: CancellationToken,
    running: JoinHandle<ElectionOutcome>,
}

fn candidate(cluster: &TestCluster, identity: &str, timing: Timing) -> Candidate {
    let election = LeaderElection::new(cluster.client(), cluster.namespace(), LEASE).identity(identity);
    start(election.timing(timing).unwrap())
}

fn start(election: LeaderElection) -> Candidate {
    let leadership = election.leadership();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { election.run(stopped.cancelled()).await });
    Candidate { leadership, stop, running }
}

async fn lease(cluster: &TestCluster) -> Lease {
    let leases: Api<Lease> = Api::namespaced(cluster.client(), cluster.namespace());
    leases.get(LEASE).await.unwrap()
}

async fn holder(cluster: &TestCluster) -> String {
    lease(cluster).await.spec.and_then(|spec| spec.holder_identity).unwrap_or_default()
}

#[tokio::test]
async fn a_lease_is_written_as_client_go_writes_it() {
    let cluster = TestCluster::start().await;
    let first = candidate(&cluster, "one", LONG);
    first.leadership.acquired().await;
    assert!(first.leadership.leads());
    let spec = lease(&cluster).await.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some("one"));
    assert_eq!((spec.lease_duration_seconds, spec.lease_transitions), (Some(60), Some(0)));
    let acquired = spec.acquire_time.unwrap();
    let renewed = eventually("it is renewed", async || {
        let spec = lease(&cluster).await.spec.unwrap();
        (spec.renew_time != spec.acquire_time).then_some(spec)
    })
    .await;
    assert_eq!(renewed.acquire_time, Some(acquired));

    first.stop.cancel();
    assert_eq!(first.running.await.unwrap(), ElectionOutcome::Stopped);
    assert!(!first.leadership.leads());
    first.leadership.lost().await;
    let spec = lease(&cluster).await.spec.unwrap();
    assert_eq!((spec.holder_identity.as_deref(), spec.lease_duration_seconds), (Some(""), Some(1)));
}

#[tokio::test]
async fn a_renewed_lease_is_kept_and_a_released_one_is_acquired_soon() {
    let cluster = TestCluster::start().await;
    let first = candidate(&cluster, "one", LONG);
    first.leadership.acquired().await;
    let second = candidate(&cluster, "two", LONG);
    // Long enough for the second to try many times.
    let mut renewals = std::collections::BTreeSet::new();
    eventually("it is renewed ten times", async || {
        assert!(!second.leadership.leads());
        let renewed = lease(&cluster).await.spec.unwrap().renew_time.map(|time| time.0);
        renewals.insert(renewed);
        (renewals.len() > 10).then_some(())
    })
    .await;
    assert!(first.leadership.leads());

    first.stop.cancel();
    // Sooner than the sixty seconds of the lease, or the test times out.
    tokio::time::timeout(Duration::from_secs(30), second.leadership.acquired()).await.unwrap();
    assert!(!first.leadership.leads());
    assert_eq!(holder(&cluster).await, "two");
    assert_eq!(lease(&cluster).await.spec.unwrap().lease_transitions, Some(1));
    second.stop.cancel();
    assert_eq!(second.running.await.unwrap(), ElectionOutcome::Stopped);
}

#[tokio::test]
async fn the_lease_of_a_holder_that_vanished_is_taken_after_its_time() {
    let cluster = TestCluster::start().await;
    let first = candidate(&cluster, "one", QUICK);
    first.leadership.acquired().await;
    let second = candidate(&cluster, "two", QUICK);
    first.running.abort();
    eventually("the second leads", async || {
        // Both are checked at one time, in this order: the first may end in between, but not begin.
        assert!(!(second.leadership.leads() && first.leadership.leads()));
        second.leadership.leads().then_some(())
    })
    .await;
    first.leadership.lost().await;
    assert_eq!(holder(&cluster).await, "two");
    second.stop.cancel();
    second.running.await.unwrap();
}

#[tokio::test]
async fn a_paused_holder_rejects_writes_before_another_leads() {
    let cluster = TestCluster::start().await;
    let election =
        LeaderElection::new(cluster.client(), cluster.namespace(), LEASE).identity("one").timing(QUICK).unwrap();
    let leadership = election.leadership();
    // Polled until it leads, and then never again: equivalent to a stopped process.
    let mut paused = Box::pin(election.run(std::future::pending()));
    tokio::select! {
        _ = &mut paused => panic!("it ended"),
        () = leadership.acquired() => {}
    }
    assert!(leadership.leads());
    let second = candidate(&cluster, "two", QUICK);
    second.leadership.acquired().await;
    assert!(leadership.check().is_err());
    // When it continues, it finds out.
    assert_eq!(paused.await, ElectionOutcome::Lost);
    leadership.lost().await;
    second.stop.cancel();
    second.running.await.unwrap();
}

#[tokio::test]
async fn a_lease_acquired_by_another_process_is_lost_at_once() {
    let cluster = TestCluster::start().await;
    let first = candidate(&cluster, "one", LONG);
    first.leadership.acquired().await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), cluster.namespace());
    eventually("it is acquired by force", async || {
        let mut lease = lease(&cluster).await;
        lease.spec.as_mut().unwrap().holder_identity = Some("usurper".to_owned());
        leases.replace(LEASE, &Default::default(), &lease).await.ok()
    })
    .await;
    assert_eq!(first.running.await.unwrap(), ElectionOutcome::Lost);
    assert!(!first.leadership.leads());
    assert_eq!(holder(&cluster).await, "usurper");
}

#[tokio::test]
async fn at_most_one_replica_leads_while_leaders_start_and_stop() {
    let cluster = TestCluster::start().await;
    let metrics = Metrics::new();
    let counts = ElectionMetrics::register(&metrics);
    let started: Arc<Vec<_>> = Arc::new(
        (0..4)
            .map(|number| {
                let election = LeaderElection::new(cluster.client(), cluster.namespace(), LEASE);
                start(election.identity(&format!("candidate-{number}")).timing(QUICK).unwrap().metrics(counts.clone()))
            })
            .collect(),
    );
    let leading = |candidates: &[Candidate]| -> Option<usize> {
        let leaders: Vec<_> = (0..candidates.len()).filter(|one| candidates[*one].leadership.leads()).collect();
        assert!(leaders.len() < 2, "{leaders:?}");
        leaders.first().copied()
    };
    let mut led = Vec::new();
    while led.len() < started.len() {
        let leader =
            eventually("a new leader is elected", async || leading(&started).filter(|leader| !led.contains(leader)))
                .await;
        assert!(metrics.encode().contains("leader_election_master_status{name=\"operator\"} "));
        led.push(leader);
        started[leader].stop.cancel();
    }
}
