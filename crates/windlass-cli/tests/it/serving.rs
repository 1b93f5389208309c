//! Behaviour of a running server, and how it stops.

use std::{os::unix::fs::PermissionsExt as _, time::Duration};

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod, Service, ServiceAccount};
use kube::{
    Api, Client,
    api::{ListParams, PostParams},
};
use rustls::pki_types::pem::PemObject as _;
use serde_json::json;
use tokio::net::TcpStream;

use crate::process::{Up, output, windlass};

/// Far more than a connection or a response takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(20);
/// "At once" if nothing is in flight; other tests share the cores.
const MAX_IDLE_SHUTDOWN: Duration = Duration::from_secs(1);

async fn get(client: &Client, path: &str) -> Result<String, u16> {
    match client.request_text(Request::get(path).body(Vec::new()).unwrap()).await {
        Ok(text) => Ok(text),
        Err(kube::Error::Api(status)) => Err(status.code),
        Err(error) => panic!("{path}: {error}"),
    }
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "data": {"key": "value"}})).unwrap()
}

#[tokio::test]
async fn health_checks_are_public_and_the_api_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start(&folder.path().join("data"), &["--store", "memory"]);
    let anonymous = up.anonymous().await;
    assert_eq!(get(&anonymous, "/readyz").await, Ok("ok".into()));
    assert_eq!(get(&anonymous, "/api").await, Err(403));
    let admin = up.admin().await;
    assert_eq!(get(&admin, "/readyz").await, Ok("ok".into()));
    assert!(get(&admin, "/api").await.unwrap().contains("APIVersions"));
}

/// Opens a TLS connection without credentials and sends nothing.
async fn idle_connection(up: &Up, tls: &tokio_rustls::TlsConnector) -> tokio_rustls::client::TlsStream<TcpStream> {
    let address: std::net::SocketAddr = up.url().strip_prefix("https://").unwrap().parse().unwrap();
    let stream = TcpStream::connect(address).await.unwrap();
    tls.connect(address.ip().into(), stream).await.unwrap()
}

#[tokio::test]
async fn a_thousand_idle_connections_do_not_lock_the_administrator_out() {
    // The connections are open files of this process too.
    let files = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    let raised = rustix::process::Rlimit { current: files.maximum, ..files };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, raised).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let up = Up::start_with_open_files(512, &folder.path().join("data"), &["--store", "memory", "--nodes", "0"]);
    let authority = up.kubeconfig().clusters[0].cluster.as_ref().unwrap().certificate_authority_data.clone().unwrap();
    let authority = base64::Engine::decode(&base64::engine::general_purpose::STANDARD, authority).unwrap();
    let mut roots = rustls::RootCertStore::empty();
    for certificate in rustls::pki_types::CertificateDer::pem_slice_iter(&authority) {
        roots.add(certificate.unwrap()).unwrap();
    }
    let provider = rustls::crypto::ring::default_provider();
    let tls = rustls::ClientConfig::builder_with_provider(provider.into())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let tls = tokio_rustls::TlsConnector::from(std::sync::Arc::new(tls));
    let mut idle = Vec::new();
    for _ in 0..1010 {
        let connected = tokio::time::timeout(TIMEOUT, idle_connection(&up, &tls)).await;
        idle.push(connected.expect("the server accepts connections"));
    }
    let admin = up.admin().await;
    let answer = tokio::time::timeout(TIMEOUT, get(&admin, "/readyz")).await;
    assert_eq!(answer.expect("an answer in time"), Ok("ok".into()));
}

#[tokio::test]
async fn the_printed_kubeconfig_is_private_and_names_the_port_that_was_picked() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data dir");
    let up = Up::start(&data_dir, &["--store", "memory"]);
    let kubeconfig = up.kubeconfig();
    assert_eq!(kubeconfig.current_context.as_deref(), Some("windlass"));
    assert_eq!(kubeconfig.clusters[0].cluster.as_ref().unwrap().server.as_deref(), Some(up.url()));
    assert!(up.url().starts_with("https://127.0.0.1:") && !up.url().ends_with(":0"), "{}", up.url());
    let path = data_dir.join("kubeconfig");
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let (exit, _, printed) = up.stop("INT");
    assert_eq!(exit.code(), Some(0));
    assert_eq!(printed, format!("export KUBECONFIG='{}'\n", path.display()));
}

#[tokio::test]
async fn a_signal_stops_the_server_despite_open_watches() {
    let folder = tempfile::tempdir().unwrap();
    for signal in ["TERM", "INT"] {
        let up = Up::start(&folder.path().join("data"), &[]);
        let admin = up.admin().await;
        let request = Request::get("/api/v1/configmaps?watch=true").body(kube::client::Body::empty()).unwrap();
        let watch = admin.send(request).await.unwrap();
        assert_eq!(watch.status(), 200);
        let (exit, took, _) = up.stop(signal);
        assert_eq!(exit.code(), Some(0), "{signal}");
        assert!(took < MAX_IDLE_SHUTDOWN, "{signal}: {took:?}");
        drop(watch);
    }
}

#[tokio::test]
async fn a_second_start_resumes_with_the_data_and_the_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &[]);
    let first = up.admin_certificate();
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    let created = maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    up.stop("TERM");

    let up = Up::start(&data_dir, &[]);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    assert_eq!(maps.get("kept").await.unwrap(), created);
    assert_eq!(up.admin_certificate(), first);
    let later = maps.create(&PostParams::default(), &config_map("later")).await.unwrap();
    let revision = |map: &ConfigMap| map.metadata.resource_version.as_ref().unwrap().parse::<u64>().unwrap();
    assert!(revision(&later) > revision(&created));
}

#[tokio::test]
async fn an_acknowledged_write_survives_a_kill() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &[]);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    let created = maps.create(&PostParams::default(), &config_map("kept")).await.unwrap();
    up.stop("KILL");
    let up = Up::start(&data_dir, &[]);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    assert_eq!(maps.get("kept").await.unwrap(), created);
}

#[tokio::test]
async fn the_memory_store_loses_objects_but_keeps_certificates() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &["--store", "memory"]);
    let first = up.admin_certificate();
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    maps.create(&PostParams::default(), &config_map("lost")).await.unwrap();
    up.stop("TERM");
    assert!(!data_dir.join("store.redb").exists());

    let up = Up::start(&data_dir, &["--store", "memory"]);
    let maps: Api<ConfigMap> = Api::namespaced(up.admin().await, "default");
    assert!(maps.get_opt("lost").await.unwrap().is_none());
    assert_eq!(up.admin_certificate(), first);
}

#[tokio::test]
async fn pods_run_on_the_only_node() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &["--store", "memory"]);
    let pods: Api<Pod> = Api::default_namespaced(up.admin().await);
    let pod = json!({"metadata": {"name": "web"}, "spec": {"containers": [{"name": "web", "image": "nginx"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let running = async {
        while pods.get("web").await.unwrap().status.unwrap().phase.unwrap() != "Running" {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), running).await.expect("the pod must run");
}

#[tokio::test]
async fn without_nodes_and_controllers_objects_do_not_change() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let up = Up::start(&data_dir, &["--store", "memory", "--nodes", "0", "--controllers", ""]);
    let nodes: Api<Node> = Api::all(up.admin().await);
    assert!(nodes.list(&ListParams::default()).await.unwrap().items.is_empty());
    let accounts: Api<ServiceAccount> = Api::default_namespaced(up.admin().await);
    assert!(accounts.list(&ListParams::default()).await.unwrap().items.is_empty());
}

#[tokio::test]
async fn cluster_ips_are_from_the_network_of_the_flag() {
    let folder = tempfile::tempdir().unwrap();
    let data_dir = folder.path().join("data");
    let flag = "--service-cluster-ip-range=172.31.7.0/24,fd00::/112";
    let up = Up::start(&data_dir, &["--store", "memory", "--nodes", "0", flag]);
    let services: Api<Service> = Api::default_namespaced(up.admin().await);
    assert_eq!(services.get("kubernetes").await.unwrap().spec.unwrap().cluster_ip.as_deref(), Some("172.31.7.1"));
    let log = std::fs::read_to_string(data_dir.with_extension("log")).unwrap();
    assert!(log.contains("warning: fd00::/112 of --service-cluster-ip-range has no effect"), "{log}");
}

#[test]
fn help_and_log_say_that_pods_as_processes_are_not_isolated() {
    let help = output(windlass().args(["up", "--help"]));
    let help = String::from_utf8(help.stdout).unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(help.contains("Not isolated: pods can read and change all files of your user"), "{help}");
    let folder = tempfile::tempdir().unwrap();
    for (runtime, warns) in [("process", true), ("simulated", false)] {
        let data_dir = folder.path().join(runtime);
        let up = Up::start(&data_dir, &["--store", "memory", "--runtime", runtime]);
        up.stop("TERM");
        let log = std::fs::read_to_string(data_dir.with_extension("log")).unwrap();
        assert_eq!(log.contains("are not isolated"), warns, "{log}");
    }
}
