//! Clients that reset their connections or streams over TLS, while their writes are in the store's queue.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use http::Request;
use http_body_util::Full;
use hyper_util::rt::{TokioExecutor, TokioIo};
use rcgen::{BasicConstraints, CertificateParams, DistinguishedName, DnType, IsCa, Issuer, KeyPair};
use rustls::{
    RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName},
};
use serde_json::{Value, json};
use tokio::{
    io::AsyncWriteExt as _,
    net::{TcpListener, TcpStream},
    sync::oneshot,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_apiserver::{Server, authentication::AuthenticationOptions};

use crate::{
    client::{CONFIG_MAPS, Client, labelled},
    dropped::invariants,
    test_store::TestStore,
};

const SERVICES: &str = "/api/v1/namespaces/default/services";
const HOOKS: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// The authentication and TLS configuration of a server, and the TLS configuration of its administrator.
fn tls() -> (AuthenticationOptions, Arc<rustls::ServerConfig>, rustls::ClientConfig) {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let root = authority.self_signed(&key).unwrap();
    let options = AuthenticationOptions { client_ca: Some(root.pem()), ..AuthenticationOptions::default() };
    let issuer = Issuer::new(authority, key);
    let mut roots = RootCertStore::empty();
    roots.add(root.der().clone()).unwrap();
    let roots = Arc::new(roots);
    let issue = |name: &str, group: &str| -> (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>) {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        params.distinguished_name = DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, name);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let certificate = params.signed_by(&key, &issuer).unwrap();
        (vec![certificate.der().clone()], PrivateKeyDer::try_from(key.serialize_der()).unwrap())
    };
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let (chain, key) = issue("server", "servers");
    let mut server = rustls::ServerConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(options.certificate_verifier().unwrap())
        .with_single_cert(chain, key)
        .unwrap();
    server.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let (chain, key) = issue("admin", "system:masters");
    let client = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(chain, key)
        .unwrap();
    (options, Arc::new(server), client)
}

async fn connect(address: SocketAddr, tls: &rustls::ClientConfig, protocol: &[u8]) -> TlsStream<TcpStream> {
    let mut tls = tls.clone();
    tls.alpn_protocols = vec![protocol.to_vec()];
    let stream = TcpStream::connect(address).await.unwrap();
    let name = ServerName::try_from("127.0.0.1").unwrap();
    TlsConnector::from(Arc::new(tls)).connect(name, stream).await.unwrap()
}

/// Ways in which a client abandons its request.
#[derive(Debug, Clone, Copy)]
enum Reset {
    /// It resets the connection.
    Connection,
    /// It resets the stream; the connection stays.
    Stream,
}

/// A server over TLS.
struct Served {
    client: Client,
    store: Arc<TestStore>,
    address: SocketAddr,
    tls: rustls::ClientConfig,
}

impl Served {
    /// Sends a POST, resets when it is in the store's queue, and releases it when the server has noticed.
    async fn post_and_reset(&self, path: &str, body: &Value, reset: Reset) {
        self.store.hold_creates();
        let body = body.to_string();
        match reset {
            Reset::Connection => {
                let mut stream = connect(self.address, &self.tls, b"http/1.1").await;
                let head = format!(
                    "POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
                    body.len()
                );
                stream.write_all((head + &body).as_bytes()).await.unwrap();
                stream.flush().await.unwrap();
                self.store.create_arrived().await;
                stream.get_ref().0.set_zero_linger().unwrap();
            }
            Reset::Stream => {
                let stream = TokioIo::new(connect(self.address, &self.tls, b"h2").await);
                let (mut sender, connection) =
                    hyper::client::conn::http2::handshake(TokioExecutor::new(), stream).await.unwrap();
                let connection = tokio::spawn(connection);
                let request = Request::post(format!("https://a{path}")).header("content-type", "application/json");
                let request = request.body(Full::new(Bytes::from(body))).unwrap();
                tokio::select! {
                    answer = sender.send_request(request) => panic!("answered while it was held: {answer:?}"),
                    () = self.store.create_arrived() => {}
                }
                self.idle().await;
                assert!(!connection.is_finished());
            }
        }
        self.idle().await;
        self.store.release_create();
    }

    /// Waits until the server handles no request but ours.
    async fn idle(&self) {
        until("no request is handled", async || {
            let metrics = self.client.get("/metrics").await;
            let metrics = String::from_utf8(metrics.raw.to_vec()).unwrap();
            metrics.lines().any(|line| line == "apiserver_current_inflight_requests 1")
        })
        .await;
    }
}

/// Waits until something is true. Fails the test if it never is.
async fn until(what: &str, mut holds: impl AsyncFnMut() -> bool) {
    for _ in 0..4000 {
        if holds().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("timed out: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reset_while_a_write_is_queued_leaves_a_consistent_state() {
    let store = Arc::new(TestStore::default());
    let (options, server_tls, tls) = tls();
    let client = Client::of(Server::builder(store.clone()).authentication(options).build().await.unwrap());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let server = client.server.clone();
    let serving = tokio::spawn(async move { server.serve(listener, server_tls, async { drop(stopped.await) }).await });
    let served = Served { client, store, address, tls };
    let client = &served.client;
    for (n, reset) in [Reset::Connection, Reset::Stream].into_iter().enumerate() {
        let service =
            json!({"metadata": {"name": format!("s{n}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
        served.post_and_reset(SERVICES, &service, reset).await;
        let path = format!("{SERVICES}/s{n}");
        until("the service is stored", async || client.get(&path).await.code == 200).await;
        // Its address and port belong to it.
        let spec = client.get(&path).await.expect(200)["spec"].clone();
        let same_address = json!({"metadata": {"name": "thief"}, "spec": {"clusterIP": spec["clusterIP"],
            "ports": [{"port": 80}]}});
        let same_port = json!({"metadata": {"name": "thief"}, "spec": {"type": "NodePort",
            "ports": [{"port": 80, "nodePort": spec["ports"][0]["nodePort"]}]}});
        for thief in [same_address, same_port] {
            let answer = client.post(SERVICES, &thief).await;
            assert!(answer.message().contains("already allocated"), "{reset:?}: {} {}", answer.code, answer.message());
        }
        invariants::allocations_match_services(client).await;

        let hook = json!({"metadata": {"name": format!("h{n}")}, "webhooks": [{
            "name": "a.example.com", "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": "https://127.0.0.1:1/never-called"},
            "objectSelector": {"matchLabels": {"hook": format!("h{n}")}},
            "rules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}],
            "matchConditions": [{"name": "fails", "expression": "object.metadata.annotations['none'] == 'x'"}],
        }]});
        served.post_and_reset(HOOKS, &hook, reset).await;
        until("the configuration is stored", async || client.get(&format!("{HOOKS}/h{n}")).await.code == 200).await;
        let rejected = client.post(CONFIG_MAPS, &labelled("probe", "hook", &format!("h{n}"))).await;
        assert_ne!(rejected.code, 201, "{reset:?}: a stored webhook is not called");
    }
    drop(stop);
    serving.await.unwrap().unwrap();
}
