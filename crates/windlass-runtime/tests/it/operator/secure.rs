//! Metrics over HTTPS, for users who are authorized by the API server.

use http::{Method, Request, Response, header};
use k8s_openapi::api::{authentication::v1::TokenRequest, core::v1::ServiceAccount, rbac::v1};
use kube::{Config, client::Body};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::json;
use tempfile::TempDir;
use windlass_runtime::{
    operator::{LogFormat, start_logs},
    webhook::CertificateFiles,
};

use super::*;
use crate::webhook::Authority;

/// Creates a service account, and returns a token of it.
async fn token(cluster: &TestCluster, name: &str) -> String {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut account = ServiceAccount::default();
    account.metadata.name = Some(name.to_owned());
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let request = json!({ "spec": { "audiences": [] } });
    let issued: TokenRequest =
        accounts.create_subresource("token", name, &PostParams::default(), &request).await.unwrap();
    issued.status.unwrap().token.unwrap()
}

/// Lets a service account get these paths.
async fn permit(cluster: &TestCluster, account: &str, paths: &[&str], verbs: &[&str]) {
    let name = format!("{}-{account}", cluster.namespace());
    let role: v1::ClusterRole = serde_json::from_value(json!({
        "metadata": { "name": name },
        "rules": [{ "nonResourceURLs": paths, "verbs": verbs }],
    }))
    .unwrap();
    let binding: v1::ClusterRoleBinding = serde_json::from_value(json!({
        "metadata": { "name": name },
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name },
        "subjects": [{ "kind": "ServiceAccount", "name": account, "namespace": cluster.namespace() }],
    }))
    .unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &role).await.unwrap();
    Api::all(cluster.client()).create(&PostParams::default(), &binding).await.unwrap();
}

/// Returns a client that trusts a CA in PEM, or any certificate.
fn https(address: SocketAddr, authority: Option<&str>) -> Client {
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.accept_invalid_certs = authority.is_none();
    config.root_cert =
        authority.map(|pem| vec![CertificateDer::from_pem_slice(pem.as_bytes()).unwrap().as_ref().to_vec()]);
    Client::try_from(config).unwrap()
}

async fn send(client: &Client, path: &str, token: Option<&str>) -> Option<(u16, String)> {
    send_with(client, Method::GET, path, token, "").await
}

async fn send_with(
    client: &Client,
    method: Method,
    path: &str,
    token: Option<&str>,
    body: &str,
) -> Option<(u16, String)> {
    let mut request = Request::builder().method(method).uri(path);
    if let Some(token) = token {
        request = request.header(header::AUTHORIZATION, format!("Bearer {token}"));
    }
    let body = Body::from(body.as_bytes().to_vec());
    let response: Response<Body> = client.send(request.body(body).unwrap()).await.ok()?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.ok()?.to_bytes();
    Some((status, String::from_utf8(body.to_vec()).unwrap()))
}

#[tokio::test]
async fn only_users_whom_roles_permit_get_secure_metrics() {
    let cluster = TestCluster::start().await;
    let (reader, guest) = (token(&cluster, "reader").await, token(&cluster, "guest").await);
    permit(&cluster, "reader", &["/metrics"], &["get"]).await;
    let faults = Faults::around(cluster.client());
    let reviews = || faults.count(|seen| seen.path.ends_with("reviews"));
    let options = Options { metrics_secure: true, debug_state: true, ..Options::default() };
    let running = Running::start(Operator::new("secure-operator"), faults.client(), options).await;
    running.ready().await;

    let client = https(running.metrics, None);
    assert_eq!(send(&client, "/metrics", None).await.unwrap().0, 401);
    assert_eq!(send(&client, "/metrics", Some("nonsense")).await.unwrap().0, 401);
    let (status, text) = send(&client, "/metrics", Some(&guest)).await.unwrap();
    let user = format!("system:serviceaccount:{}:guest", cluster.namespace());
    assert_eq!((status, text), (403, format!("Forbidden: User {user:?} cannot get path \"/metrics\"\n")));
    let (status, text) = send(&client, "/metrics", Some(&reader)).await.unwrap();
    assert_eq!(status, 200);
    assert!(text.contains("process_start_time_seconds"), "{text}");
    let before = reviews();
    assert_eq!(send(&client, "/metrics", Some(&reader)).await.unwrap().0, 200);
    assert_eq!(reviews(), before, "the verdict is remembered");
    assert_eq!(send(&client, "/debug/state", Some(&reader)).await.unwrap().0, 403);

    let debugger = token(&cluster, "debugger").await;
    permit(&cluster, "debugger", &["/debug/*"], &["get"]).await;
    let (status, state) = send(&client, "/debug/state", Some(&debugger)).await.unwrap();
    assert_eq!(status, 200);
    assert!(state.contains("\"leadership\""), "{state}");

    assert_eq!(get(running.metrics, "/metrics").await, None, "there is no plain HTTP");
    assert_eq!(get(running.probes, "/healthz").await.unwrap().0, 200, "probes stay plain");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_guard_decides_who_changes_the_log_level_and_records_profiles() {
    // Of the whole process, so no other test may start the logs.
    start_logs("off", LogFormat::Text).unwrap();
    let cluster = TestCluster::start().await;
    let (reader, debugger) = (token(&cluster, "reader").await, token(&cluster, "debugger").await);
    permit(&cluster, "reader", &["/debug/log-level", "/metrics"], &["get"]).await;
    permit(&cluster, "debugger", &["/debug/*"], &["get", "put"]).await;
    let options = Options { metrics_secure: true, profiling: true, ..Options::default() };
    let running = Running::start(Operator::new("secure-operator"), cluster.client(), options).await;
    running.ready().await;
    let client = https(running.metrics, None);
    let level = async |method, token, body| send_with(&client, method, "/debug/log-level", token, body).await.unwrap();
    assert_eq!(level(Method::PUT, None, "error").await.0, 401);
    let (status, text) = level(Method::PUT, Some(&*reader), "error").await;
    assert!(status == 403 && text.ends_with("cannot put path \"/debug/log-level\"\n"), "{status} {text}");
    assert_eq!(level(Method::GET, Some(&*reader), "").await, (200, "off\n".to_owned()));
    assert_eq!(level(Method::PUT, Some(&*debugger), "off,none=error").await.0, 200);
    assert!(level(Method::GET, Some(&*reader), "").await.1.contains("none=error"));
    assert_eq!(level(Method::PUT, Some(&*debugger), "none=loud").await.0, 400);
    assert_eq!(level(Method::PUT, Some(&*debugger), "off").await, (200, "off\n".to_owned()));

    let path = "/debug/pprof/profile?seconds=0";
    assert_eq!(send(&client, path, None).await.unwrap().0, 401);
    assert_eq!(send(&client, path, Some(&reader)).await.unwrap().0, 403);
    let (status, text) = send(&client, path, Some(&debugger)).await.unwrap();
    assert!(status == 400 && text.contains("expected 1 to 60"), "{status} {text}");
    running.stop().await.unwrap();
    let options = Options { metrics_secure: true, ..Options::default() };
    let running = Running::start(Operator::new("secure-operator"), cluster.client(), options).await;
    running.ready().await;
    let answer = send(&https(running.metrics, None), path, Some(&debugger)).await.unwrap();
    assert_eq!(answer.0, 404, "not without --profiling");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_failing_api_server_permits_nobody() {
    let cluster = TestCluster::start().await;
    let reader = token(&cluster, "reader").await;
    permit(&cluster, "reader", &["/metrics"], &["get"]).await;
    let faults = Faults::around(cluster.client());
    faults.inject(|seen| seen.path.ends_with("/subjectaccessreviews"), 1, Fault::status(403));
    let options = Options { metrics_secure: true, ..Options::default() };
    let running = Running::start(Operator::new("secure-operator"), faults.client(), options).await;
    let client = https(running.metrics, None);
    let (status, _) = eventually("it is served", async || send(&client, "/metrics", Some(&reader)).await).await;
    assert_eq!(status, 500);
    assert_eq!(send(&client, "/metrics", Some(&reader)).await.unwrap().0, 200, "failures are not remembered");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_certificate_in_files_is_reloaded() {
    let cluster = TestCluster::start().await;
    let (folder, authorities) = (TempDir::new().unwrap(), [Authority::new(), Authority::new()]);
    let write = |authority: &Authority| {
        let (certificate, key) = authority.issue("127.0.0.1");
        std::fs::write(folder.path().join("tls.crt"), certificate).unwrap();
        std::fs::write(folder.path().join("tls.key"), key).unwrap();
    };
    write(&authorities[0]);
    let mut files = CertificateFiles::in_directory(folder.path());
    files.every = Duration::from_millis(5);
    let options = Options { metrics_secure: true, metrics_certificate: Some(files), ..Options::default() };
    let running = Running::start(Operator::new("secure-operator"), cluster.client(), options).await;
    running.ready().await;
    // Each request has a connection of its own.
    let status = async |authority: &Authority| {
        let answer = send(&https(running.metrics, Some(&authority.pem())), "/metrics", None).await;
        answer.map(|(status, _)| status)
    };
    assert_eq!(status(&authorities[0]).await, Some(401));
    assert_eq!(status(&authorities[1]).await, None, "another CA");
    write(&authorities[1]);
    eventually("the new certificate is used", async || status(&authorities[1]).await).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn missing_certificate_files_are_reported() {
    let cluster = TestCluster::start().await;
    let folder = TempDir::new().unwrap();
    let files = CertificateFiles::in_directory(folder.path());
    let options = Options { metrics_secure: true, metrics_certificate: Some(files), ..Options::default() };
    let running = Running::start(Operator::new("secure-operator"), cluster.client(), options).await;
    let error = running.result.await.unwrap().unwrap_err();
    assert!(matches!(error, OperatorError::Https(_)), "{error}");
    assert!(error.hint().unwrap().contains("--metrics-cert-dir"));
    assert_eq!(error.exit_code(), 3);
}
