//! The loop in paused time, with a server whose failures the test controls.

use std::sync::{
    Arc,
    atomic::{AtomicU8, Ordering},
};

use http::{Method, Request, Response, StatusCode};
use http_body_util::BodyExt;
use kube::client::Body;
use parking_lot::Mutex;
use tokio::{task::JoinHandle, time::Instant};
use tokio_util::sync::CancellationToken;

use super::*;

const FINE: u8 = 0;
const FAILS: u8 = 1;
const HANGS: u8 = 2;

/// One Lease, and its state.
#[derive(Clone, Default)]
struct Server {
    lease: Arc<Mutex<Option<Lease>>>,
    trouble: Arc<AtomicU8>,
}

impl Server {
    fn client(&self) -> Client {
        let server = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let server = server.clone();
            async move { Ok::<_, tower::BoxError>(server.handle(request).await) }
        });
        Client::new(service, "default")
    }

    fn trouble(&self, trouble: u8) {
        self.trouble.store(trouble, Ordering::SeqCst);
    }

    async fn handle(&self, request: Request<Body>) -> Response<Body> {
        let method = request.method().clone();
        let body = request.into_body().collect().await.unwrap().to_bytes();
        match self.trouble.load(Ordering::SeqCst) {
            FAILS => return Response::builder().status(StatusCode::SERVICE_UNAVAILABLE).body(Body::empty()).unwrap(),
            HANGS => return std::future::pending().await,
            _ => {}
        }
        let mut stored = self.lease.lock();
        let version = |lease: &Lease| lease.metadata.resource_version.clone();
        let code = match (method, &*stored) {
            (Method::GET, Some(_)) => StatusCode::OK,
            (Method::POST, None) => self.store(&mut stored, &body),
            (Method::PUT, Some(lease)) if version(lease) == version(&serde_json::from_slice(&body).unwrap()) => {
                self.store(&mut stored, &body)
            }
            (Method::GET | Method::PUT, None) => StatusCode::NOT_FOUND,
            _ => StatusCode::CONFLICT,
        };
        let body = match code.is_success() {
            true => serde_json::to_vec(&*stored).unwrap(),
            false => serde_json::to_vec(&serde_json::json!({ "status": "Failure", "code": code.as_u16() })).unwrap(),
        };
        Response::builder().status(code).body(Body::from(body)).unwrap()
    }

    fn store(&self, stored: &mut Option<Lease>, body: &[u8]) -> StatusCode {
        let last = stored.as_ref().and_then(|lease| lease.metadata.resource_version.clone()).unwrap_or_default();
        let mut lease: Lease = serde_json::from_slice(body).unwrap();
        lease.metadata.resource_version = Some((last.parse::<u64>().unwrap_or_default() + 1).to_string());
        *stored = Some(lease);
        StatusCode::OK
    }

    fn record(&self) -> LeaseRecord {
        LeaseRecord::of(self.lease.lock().as_ref().unwrap())
    }
}

struct Candidate {
    leadership: Leadership,
    stop: CancellationToken,
    running: JoinHandle<ElectionOutcome>,
}

fn candidate(server: &Server, identity: &str, metrics: &ElectionMetrics) -> Candidate {
    let election = LeaderElection::new(server.client(), "default", "operator").identity(identity);
    let election = election.metrics(metrics.clone());
    let leadership = election.leadership();
    let stop = CancellationToken::new();
    let stopped = stop.clone();
    let running = tokio::spawn(async move { election.run(stopped.cancelled()).await });
    Candidate { leadership, stop, running }
}

async fn seconds(seconds: u64) {
    tokio::time::sleep(Duration::from_secs(seconds)).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_survives_short_failures_and_counts_them() {
    let server = Server::default();
    let metrics = ElectionMetrics::default();
    let leader = candidate(&server, "one", &metrics);
    leader.leadership.acquired().await;
    for trouble in [FAILS, HANGS] {
        seconds(30).await;
        server.trouble(trouble);
        seconds(5).await;
        server.trouble(FINE);
    }
    seconds(30).await;
    assert!(leader.leadership.leads());
    let name = LeaseName { name: "operator".to_owned() };
    assert!(metrics.slow.get_or_create(&name).get() >= 2);
    assert_eq!(metrics.master.get_or_create(&name).get(), 1);
    assert_eq!(server.record().transitions, 0);
}

#[tokio::test(start_paused = true)]
async fn a_leader_without_a_server_ends_at_its_deadline_and_not_later() {
    for trouble in [FAILS, HANGS] {
        let server = Server::default();
        let leader = candidate(&server, "one", &ElectionMetrics::default());
        leader.leadership.acquired().await;
        seconds(60).await;
        server.trouble(trouble);
        let start = Instant::now();
        leader.leadership.lost().await;
        let lasted = start.elapsed();
        assert!(lasted <= Duration::from_secs(10) && lasted >= Duration::from_secs(7), "{lasted:?}");
        assert_eq!(leader.running.await.unwrap(), ElectionOutcome::Lost);
        assert_eq!(server.record().holder, "one", "it is left to expire");
    }
}

#[tokio::test(start_paused = true)]
async fn a_candidate_takes_over_after_the_full_lease_and_a_released_one_soon() {
    let server = Server::default();
    let metrics = ElectionMetrics::default();
    let first = candidate(&server, "one", &metrics);
    first.leadership.acquired().await;
    let second = candidate(&server, "two", &metrics);
    seconds(60).await;
    assert!(!second.leadership.leads());
    first.running.abort();
    let start = Instant::now();
    second.leadership.acquired().await;
    assert!(start.elapsed() >= Duration::from_secs(13), "{:?}", start.elapsed());
    assert!(start.elapsed() <= Duration::from_secs(25), "{:?}", start.elapsed());

    let third = candidate(&server, "three", &metrics);
    seconds(20).await;
    second.stop.cancel();
    let start = Instant::now();
    third.leadership.acquired().await;
    assert!(start.elapsed() <= Duration::from_secs(5), "{:?}", start.elapsed());
    assert_eq!(second.running.await.unwrap(), ElectionOutcome::Stopped);
    assert_eq!((server.record().holder.as_str(), server.record().transitions), ("three", 2));
}

#[tokio::test(start_paused = true)]
async fn stopping_without_a_server_ends_in_bounded_time() {
    let server = Server::default();
    let leader = candidate(&server, "one", &ElectionMetrics::default());
    leader.leadership.acquired().await;
    server.trouble(HANGS);
    leader.stop.cancel();
    let start = Instant::now();
    assert_eq!(leader.running.await.unwrap(), ElectionOutcome::Stopped);
    assert!(start.elapsed() <= Duration::from_secs(11), "{:?}", start.elapsed());
    assert!(!leader.leadership.leads());
}
