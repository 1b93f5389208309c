//! Keys, certificates and the mode of the data directory.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, sync::Arc, time::Duration};

use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenReview},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, UnixTime, pem::PemObject as _},
    time_provider::TimeProvider,
};
use serde_json::json;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_plane::{NodeOptions, Plane, PlaneOptions, Selection};

/// Far longer than a check takes.
const TIMEOUT: Duration = Duration::from_secs(60);

/// A plane without loops and nodes.
fn options(folder: &Path) -> PlaneOptions {
    PlaneOptions {
        controllers: Selection::none(),
        nodes: NodeOptions { count: 0, ..NodeOptions::default() },
        ..PlaneOptions::new(folder)
    }
}

/// Issues a token for a service account.
async fn token(plane: &Plane) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(plane.server().client(), "default");
    if accounts.get_opt("bot").await.unwrap().is_none() {
        let account = serde_json::from_value(json!({"metadata": {"name": "bot"}})).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
    }
    let request = TokenRequest::default();
    let answer = accounts.create_token_request("bot", &PostParams::default(), &request).await.unwrap();
    answer.status.unwrap().token.unwrap()
}

async fn is_valid(plane: &Plane, token: &str) -> bool {
    let reviews: Api<TokenReview> = Api::all(plane.server().client());
    let review = serde_json::from_value(json!({"metadata": {}, "spec": {"token": token}})).unwrap();
    let review = reviews.create(&PostParams::default(), &review).await.unwrap();
    review.status.unwrap().authenticated.unwrap_or_default()
}

#[tokio::test]
async fn keys_of_kube_apiserver_sign_tokens_that_survive_a_restart() {
    for (name, algorithm) in [("RSA in PKCS #1", "RS256"), ("RSA in PKCS #8", "RS256"), ("P-384 in SEC 1", "ES384")] {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("pki/sa.key");
        let all = include_str!("../data/keys.txt");
        let text = all.split("# ").find_map(|section| section.strip_prefix(name)).unwrap().trim_start();
        fs::create_dir(folder.path().join("pki")).unwrap();
        fs::write(&path, text).unwrap();
        let plane = Plane::start(options(folder.path())).await.unwrap();
        let first = token(&plane).await;
        assert!(is_valid(&plane, &first).await, "{name}");
        drop(plane);
        let plane = Plane::start(options(folder.path())).await.unwrap();
        assert!(is_valid(&plane, &first).await, "{name}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text, "{name}");
        let header = base64::Engine::decode(&base64::prelude::BASE64_URL_SAFE_NO_PAD, first.split('.').next().unwrap());
        let header: serde_json::Value = serde_json::from_slice(&header.unwrap()).unwrap();
        assert_eq!(header["alg"], algorithm, "{name}");
    }
}

#[tokio::test]
async fn an_empty_token_key_stops_the_start_unless_the_store_is_new() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("pki/sa.key");
    fs::create_dir(folder.path().join("pki")).unwrap();
    fs::write(&path, "").unwrap();
    drop(Plane::start(options(folder.path())).await.unwrap());
    assert!(fs::metadata(&path).unwrap().len() > 0);
    fs::write(&path, "").unwrap();
    let error = Plane::start(options(folder.path())).await.err().unwrap();
    assert_eq!(error.to_string(), format!("{} is empty", path.display()));
    assert!(error.hint().is_some_and(|hint| hint.contains("tokens issued before become invalid")), "{error}");
    assert_eq!(fs::metadata(&path).unwrap().len(), 0, "the file must not be touched");
}

#[tokio::test]
async fn the_mode_of_the_data_directory_is_repaired() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    fs::set_permissions(&data, fs::Permissions::from_mode(0o755)).unwrap();
    drop(Plane::start(options(&data)).await.unwrap());
    assert_eq!(fs::metadata(&data).unwrap().permissions().mode() & 0o7777, 0o700);
}

/// The clock of the plane, for a client.
#[derive(Debug)]
struct VirtualClock;

impl TimeProvider for VirtualClock {
    fn current_time(&self) -> Option<UnixTime> {
        let now = Duration::try_from(windlass_clock::now().as_duration()).unwrap();
        Some(UnixTime::since_unix_epoch(now))
    }
}

/// Connects without a client certificate. Returns the connection and the certificate of the server.
async fn connect(url: &str, authority: &str) -> (TlsStream<TcpStream>, Vec<u8>) {
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(CertificateDer::pem_slice_iter(authority.as_bytes()).map(Result::unwrap));
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_details(provider, Arc::new(VirtualClock))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let stream = TcpStream::connect(url.trim_start_matches("https://")).await.unwrap();
    let stream = TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await.unwrap();
    let presented = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    (stream, presented)
}

/// Sends a request on an open connection, which must get a response.
async fn ask(connection: &mut TlsStream<TcpStream>) {
    connection.write_all(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await.unwrap();
    let mut answer = Vec::new();
    while !answer.ends_with(b"\r\n\r\nok") {
        let byte = connection.read_u8().await.expect("the connection must stay open");
        answer.push(byte);
    }
    assert!(answer.starts_with(b"HTTP/1.1 200 OK"));
}

/// Lets time pass at once.
async fn advance(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

#[tokio::test]
async fn certificates_are_renewed_while_the_plane_runs() {
    let _time = windlass_clock::virtual_time();
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(options(folder.path())).await.unwrap();
    let (url, authority) = (plane.url().to_owned(), plane.pki().ca().certificate.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(plane.run(async {
        let _ = stopped.await;
    }));
    let path = folder.path().join("kubeconfig");
    let read = |name: &str| fs::read_to_string(folder.path().join(name)).unwrap();
    let (mut open, first) = connect(&url, &authority).await;
    ask(&mut open).await;

    // Removed files are reissued within a minute, and connections from before continue.
    let kubeconfig = read("kubeconfig");
    for name in ["pki/server.crt", "pki/admin.key"] {
        fs::remove_file(folder.path().join(name)).unwrap();
    }
    let started = std::time::Instant::now();
    while read("kubeconfig") == kubeconfig {
        assert!(started.elapsed() < TIMEOUT, "the kubeconfig is still the same");
        // The server closes HTTP/1.1 connections that are idle for half a minute.
        advance(Duration::from_secs(16)).await;
        ask(&mut open).await;
    }
    let (_, second) = connect(&url, &authority).await;
    assert_ne!(first, second);
    ask(&mut open).await;

    // Certificates that are about to expire are reissued too.
    let kubeconfig = read("kubeconfig");
    advance(Duration::from_hours(336 * 24)).await;
    let started = std::time::Instant::now();
    while read("kubeconfig") == kubeconfig {
        assert!(started.elapsed() < TIMEOUT, "the kubeconfig is still the same");
        // The previous check may not have ended before.
        advance(Duration::from_secs(16)).await;
        connect(&url, &authority).await;
    }
    let (mut open, third) = connect(&url, &authority).await;
    assert_ne!(second, third);
    ask(&mut open).await;
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    drop(stop);
    running.await.unwrap().unwrap();
}
