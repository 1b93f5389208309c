//! The program as users run it: flags, signals, several replicas, traces.

use std::{
    collections::{BTreeMap, BTreeSet},
    convert::Infallible,
    fs::File,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex},
};

use foo_operator::api::foo::Foo;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, events::v1::Event};
use kube::{
    Api, Client, Config,
    api::{ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::json;
use tokio::{net::TcpListener, task::JoinSet};
use windlass_plane::{Plane, PlaneOptions, Selection, StoreKind};
use windlass_testing::eventually;

use crate::foo::{foo, merge, replicas};

/// Enough that every replica has some of them.
const COUNT: usize = 20;

/// An API server that other processes can reach.
struct Server {
    client: Client,
    kubeconfig: PathBuf,
    folder: tempfile::TempDir,
    _running: JoinSet<()>,
}

impl Server {
    async fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut options = PlaneOptions::new(folder.path());
        (options.store, options.controllers, options.nodes.count) = (StoreKind::Memory, Selection::none(), 0);
        let plane = Plane::start(options).await.unwrap();
        let kubeconfig = plane.kubeconfig_path().to_owned();
        let mut running = JoinSet::new();
        running.spawn(async move { plane.run(std::future::pending()).await.unwrap() });
        let config = Kubeconfig::read_from(&kubeconfig).unwrap();
        let config = Config::from_custom_kubeconfig(config, &KubeConfigOptions::default()).await.unwrap();
        Self { client: Client::try_from(config).unwrap(), kubeconfig, folder, _running: running }
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<Scope = k8s_openapi::NamespaceResourceScope, DynamicType = ()>,
    {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Creates Foos as soon as they are served.
    async fn create(&self, foos: impl IntoIterator<Item = String>) {
        for name in foos {
            eventually("it is created", async || {
                self.api().create(&PostParams::default(), &foo(&name, &name, 1)).await.ok()
            })
            .await;
        }
    }

    /// Starts the program.
    fn program(&self, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Program {
        Program::start(&self.kubeconfig, &self.folder.path().join(format!("{name}.log")), name, arguments, environment)
    }
}

/// A running program. Killed when dropped.
struct Program {
    child: Child,
    log: PathBuf,
}

impl Program {
    fn start(kubeconfig: &Path, log: &Path, name: &str, arguments: &[&str], environment: &[(&str, &str)]) -> Self {
        let output = File::create(log).unwrap();
        let child = Command::new(env!("CARGO_BIN_EXE_foo-operator"))
            .arg("--kubeconfig")
            .arg(kubeconfig)
            .args([&format!("--pod-name={name}"), "--pod-namespace=default", "--install-crds"])
            .args(["--metrics-bind-address=0", "--health-probe-bind-address=0"])
            .args(arguments)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .stdout(output.try_clone().unwrap())
            .stderr(output)
            .spawn()
            .unwrap();
        Self { child, log: log.to_owned() }
    }

    /// Sends SIGTERM, as a kubelet does, and waits for the exit.
    async fn terminate(mut self) -> ExitStatus {
        let asked = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        assert!(asked.success());
        eventually("it has ended", async || self.child.try_wait().unwrap()).await
    }

    /// Kills it, like a machine that fails.
    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Both fail only if it has exited already.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if std::thread::panicking() {
            #[allow(clippy::print_stderr, reason = "test output goes to stderr")]
            {
                eprintln!("{}:\n{}", self.log.display(), std::fs::read_to_string(&self.log).unwrap_or_default());
            }
        }
    }
}

/// Returns which replica reported events about which Foo, of those with this name prefix.
async fn reporters(server: &Server, prefix: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut reporters: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for event in server.api::<Event>().list(&ListParams::default()).await.unwrap() {
        let name = event.regarding.and_then(|about| about.name).filter(|name| name.starts_with(prefix));
        if let (Some(name), Some(instance)) = (name, event.reporting_instance) {
            reporters.entry(name).or_default().insert(instance);
        }
    }
    reporters
}

fn names(prefix: &str) -> impl Iterator<Item = String> {
    (0..COUNT).map(move |number| format!("{prefix}-{number}"))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replicas_share_the_foos_and_take_over_from_one_that_is_killed() {
    const SHARING: [&str; 4] = [
        "--shards",
        "--leader-election-lease-duration=4s",
        "--leader-election-renew-deadline=3s",
        "--leader-election-retry-period=100ms",
    ];
    let server = Server::start().await;
    let one = server.program("one", &SHARING, &[]);
    let two = server.program("two", &SHARING, &[]);
    let leases: Api<Lease> = server.api();
    eventually("both replicas know each other", async || {
        let leases = leases.list(&ListParams::default()).await.unwrap().items;
        let rings: BTreeSet<_> =
            leases.iter().map(|lease| lease.metadata.annotations.as_ref()?.get("sharding.windlass.dev/ring")).collect();
        (leases.len() == 2 && rings.len() == 1).then_some(())
    })
    .await;
    server.create(names("first")).await;
    let told = eventually("each Foo has been reconciled", async || {
        let told = reporters(&server, "first").await;
        (told.len() == COUNT).then_some(told)
    })
    .await;
    assert!(told.values().all(|by| by.len() == 1), "{told:?}");
    assert_eq!(told.values().flatten().collect::<BTreeSet<_>>(), [&"one".to_owned(), &"two".to_owned()].into());

    one.kill();
    server.create(names("second")).await;
    for name in names("first") {
        merge(&server.api::<Foo>(), &name, json!({"spec": {"replicas": 2}})).await;
    }
    let deployments: Api<Deployment> = server.api();
    eventually("every Deployment is correct", async || {
        let found = deployments.list(&ListParams::default()).await.unwrap().items;
        let right = |deployment: &Deployment| {
            let first = deployment.metadata.name.as_deref().is_some_and(|name| name.starts_with("first"));
            replicas(deployment) == Some(if first { 2 } else { 1 })
        };
        (found.len() == 2 * COUNT && found.iter().all(right)).then_some(())
    })
    .await;
    assert!(two.terminate().await.success());
    let told = reporters(&server, "second").await;
    assert!(told.len() == COUNT && told.values().all(|by| by.iter().eq(["two"])), "{told:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn json_log_lines_name_the_reconciled_object() {
    let server = Server::start().await;
    let program = server.program("json", &["--log-format=json", "--log-level=debug"], &[]);
    server.create(["logged".to_owned()]).await;
    let deployments: Api<Deployment> = server.api();
    eventually("it is reconciled", async || deployments.get_opt("logged").await.unwrap()).await;
    let log = program.log.clone();
    assert!(program.terminate().await.success());
    let text = std::fs::read_to_string(log).unwrap();
    let lines: Vec<serde_json::Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(lines.iter().all(|line| ["timestamp", "level", "message"].iter().all(|field| line[field].is_string())));
    let reconcile = lines.iter().find(|line| line["span"]["object"] == "logged").unwrap_or_else(|| panic!("{text}"));
    let span = &reconcile["span"];
    assert_eq!((&span["controller"], &span["namespace"]), (&json!("foo"), &json!("default")));
    assert!(span["reconcile_id"].is_string(), "{span}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn spans_of_reconciles_are_sent_to_the_collector_of_the_environment() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let received: Arc<Mutex<Vec<(String, String)>>> = Arc::default();
    let seen = received.clone();
    let mut collector = JoinSet::new();
    collector.spawn(async move {
        let mut connections = JoinSet::new();
        while let Ok((stream, _)) = listener.accept().await {
            let seen = seen.clone();
            let answer = service_fn(move |request: Request<Incoming>| {
                let seen = seen.clone();
                async move {
                    let path = request.uri().path().to_owned();
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    seen.lock().unwrap().push((path, String::from_utf8_lossy(&body).into_owned()));
                    Ok::<_, Infallible>(Response::new(Full::new(Bytes::new())))
                }
            });
            connections
                .spawn(async move { http1::Builder::new().serve_connection(TokioIo::new(stream), answer).await });
        }
    });

    let server = Server::start().await;
    let program = server.program("traced", &[], &[("OTEL_EXPORTER_OTLP_ENDPOINT", &endpoint)]);
    server.create(["web".to_owned()]).await;
    let foos: Api<Foo> = server.api();
    eventually("it is reconciled", async || foos.get("web").await.unwrap().status).await;
    // Pending spans are sent before it exits.
    assert!(program.terminate().await.success());

    let received = received.lock().unwrap();
    assert!(received.iter().all(|(path, _)| path == "/v1/traces"), "{received:?}");
    let text: String = received.iter().map(|(_, body)| body.as_str()).collect();
    for expected in ["service.name", "foo-operator", "reconcile", "reconcile_id", "web"] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
}
