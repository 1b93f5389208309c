//! Planes in the test process, and their loops and nodes.

#![allow(clippy::unwrap_used, reason = "tests may panic")]

mod identities;
mod keys;
mod loops;
mod migration;
mod nodes;
mod replicas;
mod resource_metrics;
mod storage_class;

use std::{sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{
    Api, Client, Config,
    api::PostParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _},
};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    sync::oneshot,
    task::JoinHandle,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use windlass_plane::{LockError, Plane, PlaneError, PlaneOptions};

async fn client(plane: &Plane) -> Client {
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig_path()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

/// Connects as the administrator over HTTP/1.1, as soon as the plane runs.
fn connect(plane: &Plane) -> JoinHandle<TlsStream<TcpStream>> {
    let certificates =
        |pem: &str| CertificateDer::pem_slice_iter(pem.as_bytes()).map(Result::unwrap).collect::<Vec<_>>();
    let mut roots = RootCertStore::empty();
    roots.add_parsable_certificates(certificates(&plane.pki().ca().certificate));
    let admin = plane.pki().admin();
    let key = PrivateKeyDer::from_pem_slice(admin.key.as_bytes()).unwrap();
    let config = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_client_auth_cert(certificates(&admin.certificate), key)
        .unwrap();
    let address = plane.url().trim_start_matches("https://").to_owned();
    tokio::spawn(async move {
        let stream = TcpStream::connect(address).await.unwrap();
        TlsConnector::from(Arc::new(config)).connect("localhost".try_into().unwrap(), stream).await.unwrap()
    })
}

fn config_map(name: &str) -> ConfigMap {
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}})).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stopped_plane_has_unlocked_its_data_directory_despite_open_connections() {
    let folder = tempfile::tempdir().unwrap();
    let mut watches = Vec::new();
    for round in 0..3 {
        let plane = Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
        let client = client(&plane).await;
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(plane.run(async { stopped.await.unwrap() }));
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
        maps.create(&PostParams::default(), &config_map(&format!("round-{round}"))).await.unwrap();
        let names = maps.list(&Default::default()).await.unwrap().items.into_iter().filter_map(|map| map.metadata.name);
        assert_eq!(names.filter(|name| name.starts_with("round-")).count(), round + 1);
        let request = http::Request::get("/api/v1/configmaps?watch=true").body(kube::client::Body::empty()).unwrap();
        watches.push((client.send(request).await.unwrap(), client));
        stop.send(()).unwrap();
        running.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn in_process_requests_need_no_socket_and_no_run() {
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.server().client(), "default");
    maps.create(&PostParams::default(), &config_map("a")).await.unwrap();
    assert_eq!(maps.get("a").await.unwrap().metadata.name.as_deref(), Some("a"));
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut_off_at_the_deadline() {
    let folder = tempfile::tempdir().unwrap();
    let drain = Duration::from_millis(50);
    let plane = Plane::start(PlaneOptions { drain, ..PlaneOptions::new(folder.path()) }).await.unwrap();
    let connection = connect(&plane);
    let (stop, stopped) = oneshot::channel::<()>();
    let running = tokio::spawn(plane.run(async { stopped.await.unwrap() }));
    let mut connection = connection.await.unwrap();
    connection
        .write_all(
            b"POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n\
            Content-Type: application/json\r\nContent-Length: 10\r\nExpect: 100-continue\r\n\r\n",
        )
        .await
        .unwrap();
    // The server asks for the body once it has received the request. The body never comes.
    let mut line = [0; 21];
    connection.read_exact(&mut line).await.unwrap();
    assert_eq!(line, *b"HTTP/1.1 100 Continue");
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(5), running).await.unwrap().unwrap().unwrap();
    // The data directory is unlocked, and the connection is closed.
    Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
    let _ = tokio::time::timeout(Duration::from_secs(5), connection.read_to_end(&mut Vec::new())).await.unwrap();
}

#[tokio::test]
async fn a_data_directory_belongs_to_one_plane() {
    let folder = tempfile::tempdir().unwrap();
    let first = Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
    let second = Plane::start(PlaneOptions::new(folder.path())).await;
    assert!(matches!(second, Err(PlaneError::Lock(LockError::Held { .. }))));
    drop(first);
    Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
}

#[tokio::test]
async fn other_api_servers_learn_how_clients_are_authenticated() {
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(plane.server().client(), "kube-system");
    let name = "extension-apiserver-authentication";
    let data = maps.get(name).await.unwrap().data.unwrap();
    let same = |a: &str, b: &str| a.replace('\r', "").trim() == b.replace('\r', "").trim();
    assert!(same(&data["client-ca-file"], &plane.pki().ca().certificate));
    assert!(same(&data["requestheader-client-ca-file"], &plane.pki().front_proxy().ca.certificate));
    assert_eq!(data["requestheader-allowed-names"], "[\"front-proxy-client\"]");
    maps.delete(name, &Default::default()).await.unwrap();
    windlass_testing::eventually("it is back", async || maps.get_opt(name).await.unwrap()).await;
}

#[tokio::test]
async fn simulated_pods_run_as_service_accounts() {
    let folder = tempfile::tempdir().unwrap();
    let plane = Plane::start(PlaneOptions::new(folder.path())).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.server().client(), "default");
    let pod = serde_json::json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod.clone()).unwrap()).await.unwrap();
    let spec = made.spec.unwrap();
    assert_eq!(spec.service_account_name.as_deref(), Some("default"));
    let volume = &spec.volumes.unwrap()[0];
    assert!(volume.name.starts_with("kube-api-access-") && volume.projected.is_some());
    drop(plane);
    // Without the loop that creates accounts, no pod could be created if it needed one.
    let folder = tempfile::tempdir().unwrap();
    let controllers = "*,-serviceaccount-controller".parse().unwrap();
    let plane = Plane::start(PlaneOptions { controllers, ..PlaneOptions::new(folder.path()) }).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(plane.server().client(), "default");
    let made = pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    assert_eq!(made.spec.unwrap().volumes, None);
}
