//! Three API servers over a real etcd, as processes. `cargo xtask etcd` starts the etcd and runs this.

#![allow(clippy::unwrap_used, clippy::print_stdout, reason = "a test may fail, and shows how long failover takes")]

use std::{
    collections::BTreeSet,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use http::Request;
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

/// As written in the book.
const BOUND: Duration = Duration::from_secs(10);
const SERVICES: &str = "/api/v1/namespaces/default/services";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// An API server, which is killed at the end.
struct Replica {
    process: Child,
    data_dir: PathBuf,
    client: Client,
    address: String,
}

impl Drop for Replica {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Replica {
    fn command(folder: &Path, prefix: &str, number: u8) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
        command.args(["up", "--port=0", "--store=etcd", "--nodes=1", "--service-cluster-ip-range=10.8.0.0/22"]);
        command.args(["--advertise-address", &format!("10.99.0.{number}"), "--etcd-prefix", prefix]);
        command.args(["--etcd-servers", &std::env::var("ETCD_SERVERS").expect("cargo xtask etcd sets ETCD_SERVERS")]);
        command.arg("--data-dir").arg(folder.join(number.to_string()));
        command
    }

    async fn start(folder: &Path, prefix: &str, number: u8, join: Option<&Path>) -> Self {
        let data_dir = folder.join(number.to_string());
        let ready = folder.join(format!("{number}.ready"));
        let address = format!("10.99.0.{number}");
        let mut command = Self::command(folder, prefix, number);
        command.arg("--ready-file").arg(&ready);
        if let Some(join) = join {
            command.arg("--join").arg(join);
        }
        let log = std::fs::File::create(folder.join(format!("{number}.log"))).unwrap();
        let process = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let started = Instant::now();
        while !ready.exists() {
            let log = || std::fs::read_to_string(folder.join(format!("{number}.log"))).unwrap_or_default();
            assert!(started.elapsed() < Duration::from_secs(60), "server {number} does not start: {}", log());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let kubeconfig = Kubeconfig::read_from(data_dir.join("kubeconfig")).unwrap();
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self { process, data_dir, client: Client::try_from(config).unwrap(), address }
    }

    async fn try_get(&self, path: &str) -> Result<Value, kube::Error> {
        self.client.request(Request::get(path).body(Vec::new()).unwrap()).await
    }

    async fn get(&self, path: &str) -> Value {
        self.try_get(path).await.unwrap()
    }

    async fn post(&self, path: &str, object: &Value) -> Result<Value, kube::Error> {
        let request = Request::post(path).header("content-type", "application/json");
        self.client.request(request.body(object.to_string().into_bytes()).unwrap()).await
    }

    async fn endpoints(&self) -> BTreeSet<String> {
        let endpoints = self.get("/api/v1/namespaces/default/endpoints/kubernetes").await;
        let subsets = endpoints["subsets"].as_array().cloned().unwrap_or_default();
        let addresses = subsets.iter().flat_map(|subset| subset["addresses"].as_array().cloned().unwrap_or_default());
        addresses.filter_map(|address| Some(address["ip"].as_str()?.to_owned())).collect()
    }

    async fn leader(&self, name: &str) -> String {
        let lease = self.get(&format!("/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/{name}")).await;
        lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
    }
}

/// Waits until a condition holds; returns how long it took.
async fn eventually(what: &str, within: Duration, mut check: impl AsyncFnMut() -> bool) -> Duration {
    let start = Instant::now();
    while !check().await {
        assert!(start.elapsed() < within, "{what} within {within:?}");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    start.elapsed()
}

fn definition(plural: &str) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": "Namespaced",
            "names": {"plural": plural, "singular": format!("{plural}x"), "kind": plural.to_uppercase()},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    })
}

fn deployment(replicas: u32) -> Value {
    json!({
        "metadata": {"name": format!("web{replicas}")},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn three_servers_act_as_one() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("/replicas-{}", std::process::id());
    let first = Replica::start(folder.path(), &prefix, 1, None).await;
    let join = folder.path().join("join");
    let mut export = Command::new(env!("CARGO_BIN_EXE_windlass"));
    export.arg("join-file").arg(&join).arg("--data-dir").arg(&first.data_dir).stderr(Stdio::null());
    assert!(export.status().unwrap().success());
    let second = Replica::start(folder.path(), &prefix, 2, Some(&join));
    let third = Replica::start(folder.path(), &prefix, 3, Some(&join));
    let (second, third) = tokio::join!(second, third);
    let all = [&first, &second, &third];

    let everyone = BTreeSet::from(all.map(|replica| replica.address.clone()));
    for replica in all {
        eventually("all endpoints", BOUND, async || replica.endpoints().await == everyone).await;
    }
    // A credential from one is valid for all.
    let account = "/api/v1/namespaces/default/serviceaccounts/default";
    eventually("the service account", BOUND, async || first.try_get(account).await.is_ok()).await;
    let request = json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}});
    let token = first.post(&format!("{account}/token"), &request).await.unwrap();
    let review = json!({
        "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "spec": {"token": token["status"]["token"]},
    });
    for replica in all {
        let review = replica.post("/apis/authentication.k8s.io/v1/tokenreviews", &review).await.unwrap();
        assert_eq!(review["status"]["authenticated"], true, "{review}");
    }

    let create = |number: usize| {
        let service = json!({
            "metadata": {"name": format!("s{number}")}, "spec": {"type": "NodePort", "ports": [{"port": 80}]},
        });
        let replica = all[number % 3];
        async move {
            let spec = replica.post(SERVICES, &service).await.unwrap()["spec"].clone();
            (spec["clusterIP"].as_str().unwrap().to_owned(), spec["ports"][0]["nodePort"].as_u64().unwrap())
        }
    };
    let start = Instant::now();
    let values = join_all((0..300).map(create)).await;
    println!("300 services through three servers in {:?}", start.elapsed());
    let addresses: BTreeSet<_> = values.iter().map(|(address, _)| address).collect();
    let ports: BTreeSet<_> = values.iter().map(|(_, port)| port).collect();
    assert_eq!((addresses.len(), ports.len()), (300, 300), "each has its own address and port");

    let mut longest = Duration::ZERO;
    for (number, replica) in all.into_iter().enumerate() {
        let plural = format!("kind{number}");
        replica.post(DEFINITIONS, &definition(&plural)).await.unwrap();
        for other in all {
            let path = format!("/apis/example.com/v1/{plural}");
            let took = eventually("the definition is served", BOUND, async || other.try_get(&path).await.is_ok()).await;
            longest = longest.max(took);
        }
    }
    println!("definitions in effect on all servers after {longest:?}");

    // The first one leads, because it was alone. It is killed.
    let leaders = ["kube-controller-manager", "kube-scheduler"];
    let mut before = Vec::new();
    for name in leaders {
        before.push(second.leader(name).await);
    }
    let mut first = first;
    first.process.kill().unwrap();
    first.process.wait().unwrap();
    let rest = BTreeSet::from([second.address.clone(), third.address.clone()]);
    let killed = Instant::now();
    let shrunk = async {
        for replica in [&second, &third] {
            eventually("the endpoints shrink", Duration::from_secs(20), async || replica.endpoints().await == rest)
                .await;
        }
        killed.elapsed()
    };
    let moved = async {
        for (name, before) in leaders.iter().zip(&before) {
            let moved = async || {
                let now = third.leader(name).await;
                now != *before && !now.is_empty()
            };
            eventually("another server leads", Duration::from_secs(20), moved).await;
        }
        killed.elapsed()
    };
    let (shrunk, moved) = tokio::join!(shrunk, moved);
    println!("after a kill: endpoints without the server after {shrunk:?}, leases moved after {moved:?}");
    second.post("/apis/apps/v1/namespaces/default/deployments", &deployment(3)).await.unwrap();
    let path = "/apis/apps/v1/namespaces/default/deployments/web3";
    eventually("loops and nodes continue", Duration::from_secs(30), async || {
        third.get(path).await["status"]["readyReplicas"] == 3
    })
    .await;
    let claims = second.get("/apis/networking.k8s.io/v1/ipaddresses").await;
    assert_eq!(claims["items"].as_array().unwrap().len(), 301, "one per service, and the servers' own");
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn a_server_with_keys_of_its_own_does_not_start_beside_another_one() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = format!("/other-keys-{}", std::process::id());
    let first = Replica::start(folder.path(), &prefix, 1, None).await;
    let mut second = Replica::command(folder.path(), &prefix, 2);
    let output = tokio::task::spawn_blocking(move || second.output().unwrap()).await.unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("the API server at 10.99.0.1:"), "{error}");
    for part in
        ["the key of service account tokens is ", "the certificate authority of clients is sha256:", "--join FILE"]
    {
        assert!(error.contains(part), "{part}: {error}");
    }
    let endpoints = first.endpoints().await;
    assert_eq!(endpoints, BTreeSet::from([first.address.clone()]));
}
