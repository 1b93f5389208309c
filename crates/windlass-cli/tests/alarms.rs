//! An API server over a real etcd that has an alarm, or rejects large requests. `cargo xtask etcd` runs this;
//! `ETCD_PROGRAM` is the path of etcd.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, TcpListener, TcpStream},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use http::{Method, Request, StatusCode};
use kube::{
    Client, Config,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};

const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// etcd's quota: a few objects of the largest size.
const QUOTA: u32 = 16 << 20;

/// A process that ends with this.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        // It has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// etcd, and an API server over it.
struct Bed {
    client: Client,
    etcd: u16,
    _server: Process,
    _etcd: Process,
    _folder: tempfile::TempDir,
}

impl Bed {
    async fn start() -> Self {
        let program = std::env::var_os("ETCD_PROGRAM").expect("run these tests with `cargo xtask etcd`");
        let folder = tempfile::tempdir().unwrap();
        let listeners = [0; 2].map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap());
        let [etcd, peer] = listeners.map(|listener| listener.local_addr().unwrap().port());
        let [client, peer] = [etcd, peer].map(|port| format!("http://127.0.0.1:{port}"));
        let mut command = Command::new(program);
        command.args(["--log-level", "error", "--listen-client-urls", &client, "--advertise-client-urls", &client]);
        command.args(["--listen-peer-urls", &peer, "--initial-advertise-peer-urls", &peer]);
        command.args(["--initial-cluster", &format!("default={peer}"), "--quota-backend-bytes", &QUOTA.to_string()]);
        command.arg("--data-dir").arg(folder.path().join("etcd"));
        let _etcd = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
        let (server, kubeconfig) = serve(folder.path(), &client).await;
        let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
        Self { client: Client::try_from(config).unwrap(), etcd, _server: server, _etcd, _folder: folder }
    }

    /// Sends a request to the API server.
    async fn ask(&self, method: Method, path: &str, body: Option<&Value>) -> (StatusCode, String) {
        let body = body.map(Value::to_string).unwrap_or_default();
        let request = Request::builder().method(method).uri(path).header("content-type", "application/json");
        let response = self.client.send(request.body(body.into_bytes().into()).unwrap()).await.unwrap();
        let status = response.status();
        let body = http_body_util::BodyExt::collect(response.into_body()).await.unwrap().to_bytes();
        (status, String::from_utf8_lossy(&body).into_owned())
    }

    async fn get(&self, path: &str) -> (StatusCode, String) {
        self.ask(Method::GET, path, None).await
    }

    /// Waits until a health endpoint contains a text.
    async fn shows(&self, path: &str, text: &str) {
        let start = Instant::now();
        loop {
            let (_, answer) = self.get(path).await;
            if answer.contains(text) {
                return;
            }
            assert!(start.elapsed() < Duration::from_secs(30), "{path} must contain {text}: {answer}");
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// Calls etcd's JSON API, as its tools do.
    fn etcd(&self, path: &str, body: &Value) -> Value {
        let body = body.to_string();
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.etcd)).unwrap();
        // A response of this version ends with the connection.
        write!(stream, "POST {path} HTTP/1.0\r\nContent-Length: {}\r\n\r\n{body}", body.len()).unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).unwrap();
        assert!(response.contains(" 200 OK\r\n"), "{path}: {response}");
        serde_json::from_str(response.split_once("\r\n\r\n").unwrap().1).unwrap()
    }

    fn alarm(&self, action: &str, alarm: &str) {
        let status = self.etcd("/v3/maintenance/status", &json!({}));
        let member = &status["header"]["member_id"];
        self.etcd("/v3/maintenance/alarm", &json!({"action": action, "memberID": member, "alarm": alarm}));
    }
}

/// Starts the API server.
async fn serve(folder: &Path, etcd: &str) -> (Process, Kubeconfig) {
    let (data, ready) = (folder.join("data"), folder.join("ready"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_windlass"));
    command.args(["up", "--port=0", "--store=etcd", "--nodes=0", "--controllers=", "--etcd-servers", etcd]);
    command.arg("--data-dir").arg(&data).arg("--ready-file").arg(&ready);
    let mut server = Process(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    while !ready.exists() {
        assert!(server.0.try_wait().unwrap().is_none(), "the API server must start");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    (server, Kubeconfig::read_from(data.join("kubeconfig")).unwrap())
}

/// Returns the message of a Status.
fn message(body: &str) -> String {
    let status: Value = serde_json::from_str(body).unwrap_or_else(|error| panic!("{error}: {body}"));
    assert_eq!(status["kind"], "Status", "{body}");
    status["message"].as_str().unwrap_or_default().to_owned()
}

fn large_map(name: &str) -> Value {
    json!({"metadata": {"name": name}, "data": {"a": "x".repeat(1_000_000)}})
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn a_full_database_and_a_corrupt_one_are_reported_until_they_are_repaired() {
    let bed = Bed::start().await;
    let mut stored = 0;
    let error = loop {
        let (status, body) = bed.ask(Method::POST, MAPS, Some(&large_map(&format!("m{stored}")))).await;
        if status != StatusCode::CREATED {
            assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR, "{body}");
            break message(&body);
        }
        stored += 1;
        assert!(stored < 50, "etcd must be full");
    };
    assert!(stored > 3, "only {stored} objects were stored");
    assert_eq!(error, "etcdserver: mvcc: database space exceeded");
    bed.shows("/readyz?verbose", "[-]etcd failed: reason withheld").await;
    bed.shows("/readyz/etcd", "etcd has the alarm NOSPACE").await;
    bed.shows("/livez", "[-]etcd failed").await;
    // Reads and deletions work, and updates do not.
    assert_eq!(bed.get(&format!("{MAPS}/m0")).await.0, StatusCode::OK);
    let (status, body) = bed.ask(Method::PUT, &format!("{MAPS}/m0"), Some(&json!({"metadata": {"name": "m0"}}))).await;
    assert_eq!((status, &*message(&body)), (StatusCode::INTERNAL_SERVER_ERROR, &*error));
    for number in 0..stored {
        let (status, body) = bed.ask(Method::DELETE, &format!("{MAPS}/m{number}"), None).await;
        assert_eq!(status, StatusCode::OK, "{body}");
    }
    // As the message says.
    let revision = bed.etcd("/v3/kv/range", &json!({"key": "AA=="}))["header"]["revision"].clone();
    bed.etcd("/v3/kv/compaction", &json!({"revision": revision, "physical": true}));
    bed.etcd("/v3/maintenance/defragment", &json!({}));
    bed.alarm("DEACTIVATE", "NOSPACE");
    bed.shows("/readyz?verbose", "[+]etcd ok").await;
    let (status, body) = bed.ask(Method::POST, MAPS, Some(&large_map("again"))).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");

    bed.alarm("ACTIVATE", "CORRUPT");
    bed.shows("/readyz/etcd", "etcd has the alarm CORRUPT").await;
    bed.shows("/readyz?verbose", "[-]etcd failed").await;
    let start = Instant::now();
    assert_eq!(bed.get(&format!("{MAPS}/again")).await.0, StatusCode::OK);
    for (method, path, body) in
        [(Method::POST, MAPS.to_owned(), Some(large_map("corrupt"))), (Method::DELETE, format!("{MAPS}/again"), None)]
    {
        let (status, body) = bed.ask(method.clone(), &path, body.as_ref()).await;
        let expected = (StatusCode::INTERNAL_SERVER_ERROR, "etcdserver: corrupt cluster");
        assert_eq!((status, &*message(&body)), expected, "{method}");
    }
    assert!(start.elapsed() < Duration::from_secs(10), "nothing is retried for long: {:?}", start.elapsed());
    bed.alarm("DEACTIVATE", "CORRUPT");
    bed.shows("/readyz?verbose", "[+]etcd ok").await;
    assert_eq!(bed.ask(Method::DELETE, &format!("{MAPS}/again"), None).await.0, StatusCode::OK);
}

#[tokio::test]
#[ignore = "needs etcd: cargo xtask etcd"]
async fn objects_up_to_etcds_limit_are_stored_and_larger_ones_are_rejected_with_its_message() {
    let bed = Bed::start().await;
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "blobs.example.com"},
        "spec": {
            "group": "example.com", "scope": "Cluster", "names": {"plural": "blobs", "kind": "Blob"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    let (status, body) = bed.ask(Method::POST, DEFINITIONS, Some(&definition)).await;
    assert_eq!(status, StatusCode::CREATED, "{body}");
    let create = async |name: &str, size: usize| {
        let blob = json!({
            "apiVersion": "example.com/v1", "kind": "Blob", "metadata": {"name": name}, "blob": "x".repeat(size),
        });
        bed.ask(Method::POST, "/apis/example.com/v1/blobs", Some(&blob)).await
    };
    // etcd's limit is 1.5 MiB for the whole transaction.
    assert_eq!(create("small", 3 << 19).await.0, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(create("small", (3 << 19) - 2048).await.0, StatusCode::CREATED);
    let (status, body) = create("large", 1_700_000).await;
    assert_eq!((status, &*message(&body)), (StatusCode::INTERNAL_SERVER_ERROR, "etcdserver: request is too large"));
    assert_eq!(bed.get("/apis/example.com/v1/blobs/large").await.0, StatusCode::NOT_FOUND);
    // None of them makes the server unhealthy.
    assert_eq!(bed.get("/readyz").await.0, StatusCode::OK);
}
