use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::{net::TcpListener, task::JoinSet, time::Instant};

use super::*;

/// A scripted server: overloaded for the first requests, for this many seconds each.
#[derive(Clone, Default)]
struct Script {
    busy: usize,
    sent: Arc<AtomicUsize>,
}

impl Script {
    fn sent(&self) -> usize {
        self.sent.load(Ordering::SeqCst)
    }

    /// Returns a client of it, built as in [`connect`].
    fn client(&self, rate: Option<Rate>) -> Client {
        let script = self.clone();
        let service = ServiceBuilder::new()
            .layer(RetryLayer::new(RetryOverloaded::new()))
            .layer(ObserveLayer::new(None, rate))
            .service_fn(move |_: Request<Body>| {
                let script = script.clone();
                async move {
                    let busy = script.sent.fetch_add(1, Ordering::SeqCst) < script.busy;
                    let mut answer = Response::new(Body::from(b"{}".to_vec()));
                    if busy {
                        *answer.status_mut() = http::StatusCode::SERVICE_UNAVAILABLE;
                        answer.headers_mut().insert("retry-after", HeaderValue::from_static("5"));
                    }
                    Ok::<_, BoxError>(answer)
                }
            });
        Client::new(service, "default")
    }
}

/// Returns a write, and its condition.
fn write() -> (Request<Vec<u8>>, Arc<AtomicBool>) {
    let allowed = Arc::new(AtomicBool::new(true));
    let condition = allowed.clone();
    let mut request = Request::put("/api/v1/namespaces/a/configmaps/b").body(Vec::new()).unwrap();
    request.extensions_mut().insert(SendCondition::new(move || condition.load(Ordering::SeqCst)));
    (request, allowed)
}

#[tokio::test(start_paused = true)]
async fn a_write_is_retried_only_while_it_is_allowed() {
    for (allowed_for, tries) in [(1, 1), (7, 2), (60, 3)] {
        let script = Script { busy: 2, ..Script::default() };
        let client = script.client(None);
        let (request, allowed) = write();
        let forbid = async {
            tokio::time::sleep(Duration::from_secs(allowed_for)).await;
            allowed.store(false, Ordering::SeqCst);
        };
        let (answer, ()) = tokio::join!(client.request_text(request), forbid);
        assert_eq!(script.sent(), tries, "allowed for {allowed_for} s");
        assert_eq!(answer.as_ref().err().map(SendCondition::prevented), (tries < 3).then_some(true), "{answer:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_is_not_sent_if_its_condition_became_false_while_it_waited() {
    let script = Script::default();
    let client = script.client(Some(Rate { per_second: 0.1, burst: 1 }));
    client.request_text(write().0).await.unwrap();
    let (request, allowed) = write();
    let forbid = async {
        tokio::time::sleep(Duration::from_secs(1)).await;
        allowed.store(false, Ordering::SeqCst);
    };
    let (answer, ()) = tokio::join!(client.request_text(request), forbid);
    assert!(SendCondition::prevented(&answer.unwrap_err()));
    assert_eq!(script.sent(), 1);
}

#[tokio::test(start_paused = true)]
async fn urgent_requests_wait_for_no_turn() {
    let script = Script::default();
    let client = script.client(Some(Rate { per_second: 0.1, burst: 1 }));
    let begin = Instant::now();
    let mut queue = JoinSet::new();
    for _ in 0..10 {
        let client = client.clone();
        queue.spawn(async move { client.request_text(write().0).await });
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    urgent(&client).request_text(write().0).await.unwrap();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    assert_eq!(script.sent(), 2);
}

#[tokio::test]
async fn a_peer_that_closes_every_connection_is_an_error() {
    let _ = rustls::crypto::ring::default_provider().install_default();
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut tls = rustls::ServerConfig::builder()
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)
        .unwrap();
    tls.alpn_protocols = vec![b"h2".to_vec()];
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(tls));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let mut config = Config::new(format!("https://{}", listener.local_addr().unwrap()).parse().unwrap());
    config.accept_invalid_certs = true;
    let accepted = Arc::new(AtomicUsize::new(0));
    let counted = accepted.clone();
    let mut peer = JoinSet::new();
    peer.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            counted.fetch_add(1, Ordering::SeqCst);
            drop(acceptor.accept(stream).await);
        }
    });
    let client = connect(&config, ClientOptions::new("windlass-test")).unwrap();
    let answer = tokio::time::timeout(Duration::from_secs(30), client.apiserver_version()).await;
    answer.expect("the client must give up").unwrap_err();
    assert!((1..=3).contains(&accepted.load(Ordering::SeqCst)), "{accepted:?}");
}

#[tokio::test(start_paused = true)]
async fn an_eviction_that_a_budget_rejected_is_not_retried() {
    for (path, retry_after, expected) in [
        ("/api/v1/namespaces/a/pods/b/eviction", false, 1),
        ("/api/v1/namespaces/a/pods/b/eviction", true, 2),
        ("/api/v1/pods", false, 2),
    ] {
        let sent = Arc::new(AtomicUsize::new(0));
        let counted = sent.clone();
        let mut service =
            ServiceBuilder::new().layer(RetryLayer::new(RetryOverloaded::new())).service_fn(move |_: Request<Body>| {
                let first = counted.fetch_add(1, Ordering::SeqCst) == 0;
                async move {
                    let mut answer = Response::new(Body::empty());
                    if first {
                        *answer.status_mut() = http::StatusCode::TOO_MANY_REQUESTS;
                        if retry_after {
                            answer.headers_mut().insert("retry-after", HeaderValue::from_static("1"));
                        }
                    }
                    Ok::<_, BoxError>(answer)
                }
            });
        let request = Request::post(path).body(Body::empty()).unwrap();
        tower::Service::call(&mut service, request).await.unwrap();
        assert_eq!(sent.load(Ordering::SeqCst), expected, "{path}");
    }
}
