//! The client against a server over TLS, through a proxy that counts connections.

mod http1;

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::{StreamExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams, WatchEvent, WatchParams},
};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use windlass_plane::{Plane, PlaneOptions, StoreKind};
use windlass_runtime::{
    client::{self, ClientOptions, Target},
    metrics::{Metrics, TextFormat},
};

use crate::cluster::{TestCluster, eventually};

/// A server over TLS: the one in `WINDLASS_TEST_KUBECONFIG`, or an embedded one.
struct Tls {
    config: Config,
    _folder: tempfile::TempDir,
    _plane: JoinSet<()>,
}

impl Tls {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut running = JoinSet::new();
        let kubeconfig = match std::env::var_os("WINDLASS_TEST_KUBECONFIG") {
            Some(path) => path.into(),
            None => {
                let mut options = PlaneOptions::new(folder.path());
                options.store = StoreKind::Memory;
                let plane = Plane::start(options).await.unwrap();
                let path = plane.kubeconfig_path().to_owned();
                running.spawn(async move { plane.run(std::future::pending()).await.unwrap() });
                path
            }
        };
        let target = Target { kubeconfig: Some(kubeconfig), context: None };
        Self { config: client::configuration(&target).await.unwrap(), _folder: folder, _plane: running }
    }
}

/// Forwards bytes between clients and a server, and counts connections.
struct Proxy {
    address: std::net::SocketAddr,
    accepted: Arc<AtomicUsize>,
    connections: JoinSet<()>,
}

impl Proxy {
    async fn to(config: &Config) -> (Self, Config) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let host = config.cluster_url.host().unwrap().to_owned();
        let port = config.cluster_url.port_u16().unwrap_or(443);
        let accepted = Arc::new(AtomicUsize::new(0));
        let (count, target) = (accepted.clone(), host.clone());
        let mut connections = JoinSet::new();
        connections.spawn(async move {
            let mut pipes = JoinSet::new();
            while let Ok((mut near, _)) = listener.accept().await {
                count.fetch_add(1, Ordering::SeqCst);
                let mut far = TcpStream::connect((target.as_str(), port)).await.unwrap();
                pipes.spawn(async move { drop(tokio::io::copy_bidirectional(&mut near, &mut far).await) });
            }
        });
        let mut config = config.clone();
        config.cluster_url = format!("https://{address}").parse().unwrap();
        config.tls_server_name = Some(config.tls_server_name.unwrap_or(host));
        (Self { address, accepted, connections }, config)
    }

    fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }
}

async fn namespace(client: &Client) -> String {
    let mut namespace = Namespace::default();
    let name = TestCluster::unique("client");
    namespace.metadata.name = Some(name.clone());
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
    name
}

fn map(name: &str) -> ConfigMap {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    map
}

#[tokio::test]
async fn fifty_watches_and_requests_share_one_connection() {
    let tls = Tls::start().await;
    let (proxy, config) = Proxy::to(&tls.config).await;
    let metrics = Metrics::new();
    let client = client::connect(&config, ClientOptions::new("windlass-test").metrics(metrics.clone())).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace(&client).await);

    let mut watches = JoinSet::new();
    for _ in 0..50 {
        let maps = maps.clone();
        watches.spawn(async move {
            let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
            while let Some(event) = events.try_next().await.unwrap() {
                if let WatchEvent::Added(map) = event
                    && map.metadata.name.as_deref() == Some("seen-by-all")
                {
                    return;
                }
            }
            panic!("the watch has ended");
        });
    }
    let mut requests = JoinSet::new();
    for _ in 0..40 {
        let maps = maps.clone();
        requests.spawn(async move { maps.list(&ListParams::default()).await.unwrap() });
    }
    requests.join_all().await;
    maps.create(&PostParams::default(), &map("seen-by-all")).await.unwrap();
    watches.join_all().await;
    assert_eq!(proxy.accepted(), 1);

    let text = metrics.encode_as(TextFormat::Prometheus);
    let counted = |code: &str, method: &str| {
        let labels =
            format!("rest_client_requests_total{{code=\"{code}\",host=\"{}\",method=\"{method}\"}} ", proxy.address);
        let line = text.lines().find_map(|line| line.strip_prefix(&labels));
        line.unwrap_or_else(|| panic!("{labels} in {text}")).parse::<usize>().unwrap()
    };
    assert_eq!(counted("200", "GET"), 90);
    assert_eq!(counted("201", "POST"), 2);
}

#[tokio::test]
async fn a_second_connection_is_opened_when_one_is_full() {
    let tls = Tls::start().await;
    let (proxy, config) = Proxy::to(&tls.config).await;
    let client = client::connect(&config, ClientOptions::new("windlass-test")).unwrap();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace(&client).await);
    let mut watches = Vec::new();
    for _ in 0..150 {
        watches.push(maps.watch(&WatchParams::default(), "0").await.unwrap().boxed());
    }
    maps.list(&ListParams::default()).await.unwrap();
    assert_eq!(proxy.accepted(), 2);
}

#[tokio::test]
async fn a_connection_that_broke_is_replaced() {
    let tls = Tls::start().await;
    let (mut proxy, config) = Proxy::to(&tls.config).await;
    let client = client::connect(&config, ClientOptions::new("windlass-test")).unwrap();
    client.apiserver_version().await.unwrap();
    proxy.connections.shutdown().await;
    let listener = TcpListener::bind(proxy.address).await.unwrap();
    let upstream = tls.config.cluster_url.authority().unwrap().to_string();
    proxy.connections.spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(upstream).await.unwrap();
        drop(tokio::io::copy_bidirectional(&mut near, &mut far).await);
    });
    eventually("the client connects again", async || client.apiserver_version().await.ok()).await;
}

#[tokio::test]
async fn a_silent_peer_is_disconnected() {
    let tls = Tls::start().await;
    let (listener, upstream) =
        (TcpListener::bind("127.0.0.1:0").await.unwrap(), tls.config.cluster_url.authority().unwrap().to_string());
    let mut config = tls.config.clone();
    config.cluster_url = format!("https://{}", listener.local_addr().unwrap()).parse().unwrap();
    config.tls_server_name = tls.config.cluster_url.host().map(str::to_owned);
    // Forwards bytes until it must fall silent, and then keeps the connection open.
    let (silence, mut silent) = tokio::sync::watch::channel(false);
    let mut proxy = JoinSet::new();
    proxy.spawn(async move {
        let (mut near, _) = listener.accept().await.unwrap();
        let mut far = TcpStream::connect(upstream).await.unwrap();
        tokio::select! {
            _ = tokio::io::copy_bidirectional(&mut near, &mut far) => {}
            _ = silent.wait_for(|silent| *silent) => {}
        }
        std::future::pending::<()>().await;
    });
    let mut options = ClientOptions::new("windlass-test");
    (options.ping_after, options.ping_timeout) = (Duration::from_millis(100), Duration::from_secs(3));
    let client = client::connect(&config, options).unwrap();
    let maps: Api<ConfigMap> = Api::default_namespaced(client);
    let mut events = maps.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    silence.send(true).unwrap();
    let end = async { while let Some(Ok(_)) = events.next().await {} };
    tokio::time::timeout(Duration::from_secs(20), end).await.expect("the watch must end");
}

#[tokio::test]
async fn http_1_is_used_without_tls() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let answer = |request: http::Request<hyper::body::Incoming>| async move {
        assert_eq!(request.version(), http::Version::HTTP_11);
        assert_eq!(request.headers()["user-agent"], "windlass-test");
        let version = r#"{"major":"1","minor":"36","gitVersion":"v1.36.0","gitCommit":"","gitTreeState":"","buildDate":"","goVersion":"","compiler":"","platform":""}"#;
        Ok::<_, std::convert::Infallible>(http::Response::new(version.to_owned()))
    };
    let mut server = JoinSet::new();
    server.spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let stream = hyper_util::rt::TokioIo::new(stream);
            let connection =
                hyper::server::conn::http1::Builder::new().serve_connection(stream, hyper::service::service_fn(answer));
            drop(connection.await);
        }
    });
    let client = client::connect(&Config::new(url.parse().unwrap()), ClientOptions::new("windlass-test")).unwrap();
    assert_eq!(client.apiserver_version().await.unwrap().git_version, "v1.36.0");
}

#[tokio::test]
async fn the_error_for_an_unreachable_server_names_it() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let mut config = Config::new(format!("https://{address}").parse().unwrap());
    config.default_retry = false;
    let client = client::connect(&config, ClientOptions::new("windlass-test")).unwrap();
    let error = client.apiserver_version().await.unwrap_err();
    let error = windlass_runtime::Error::from(error).to_string();
    assert!(error.contains(&address.to_string()) && error.contains("refused"), "{error}");
}
