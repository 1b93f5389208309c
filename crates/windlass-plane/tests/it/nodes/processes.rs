//! Pods that run as processes.

mod surroundings;

use std::{path::Path, time::Duration};

use futures_util::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::core::v1::{ConfigMap, Event, Pod, ServiceAccount};
use kube::{
    Api, Client, Config,
    api::{AttachParams, DeleteParams, LogParams, Patch, PatchParams, PostParams},
};
use rustls::pki_types::{CertificateDer, pem::PemObject as _};
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    sync::oneshot,
    task::JoinHandle,
};
use windlass_plane::{NodeOptions, Plane, PlaneError, PlaneOptions, ProcessOptions, Processes, Runtime, Selection};
use windlass_testing::eventually;

/// A plane that runs pods as processes, served over TLS.
struct Machine {
    client: Client,
    url: String,
    /// The certificate of the authority, in PEM.
    authority: String,
    stop: Option<oneshot::Sender<()>>,
    running: JoinHandle<Result<(), PlaneError>>,
}

impl Machine {
    async fn start(folder: &Path) -> Self {
        let options = ProcessOptions {
            images: Some(folder.join("images.yaml")),
            restart_backoff: Duration::from_millis(20),
            ..ProcessOptions::new(folder.join("runtime"))
        };
        let runtime = Runtime::Processes(Processes::new(options).unwrap());
        let plane = Plane::start(PlaneOptions {
            controllers: Selection::none(),
            nodes: NodeOptions { count: 1, runtime, ..NodeOptions::default() },
            ..PlaneOptions::new(folder)
        });
        let plane = plane.await.unwrap();
        let client = crate::client(&plane).await;
        let (url, authority) = (plane.url().to_owned(), plane.pki().ca().certificate.clone());
        let (stop, stopped) = oneshot::channel::<()>();
        let running = tokio::spawn(plane.run(async {
            let _ = stopped.await;
        }));
        Self { client, url, authority, stop: Some(stop), running }
    }

    async fn stop(mut self) {
        drop(self.stop.take());
        self.running.await.unwrap().unwrap();
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    async fn create(&self, pod: Value) {
        let pod: Pod = serde_json::from_value(pod).unwrap();
        self.pods().create(&PostParams::default(), &pod).await.unwrap();
    }

    /// Waits until the status of a pod satisfies a predicate. Returns the status.
    async fn when(&self, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
        let pods = self.pods();
        eventually(&format!("pod {name} {what}"), async || {
            let pod = serde_json::to_value(pods.get_opt(name).await.unwrap()?).unwrap();
            holds(&pod["status"]).then(|| pod["status"].clone())
        })
        .await
    }

    async fn phase(&self, name: &str, phase: &str) -> Value {
        self.when(name, phase, |status| status["phase"] == phase).await
    }

    async fn log(&self, name: &str) -> String {
        self.pods().logs(name, &LogParams::default()).await.unwrap()
    }

    /// Runs a command in a pod. Returns its output and exit code.
    async fn exec(&self, name: &str, command: &[&str], input: Option<&str>) -> (String, i32) {
        let params = AttachParams::default().stdin(input.is_some()).stderr(false);
        let mut process = self.pods().exec(name, command.to_vec(), &params).await.unwrap();
        if let Some(input) = input {
            let mut stdin = process.stdin().unwrap();
            stdin.write_all(input.as_bytes()).await.unwrap();
            stdin.shutdown().await.unwrap();
        }
        let mut output = String::new();
        process.stdout().unwrap().read_to_string(&mut output).await.unwrap();
        let status = process.take_status().unwrap().await.unwrap();
        let code = status.details.iter().flat_map(|details| details.causes.iter().flatten());
        let code = code.filter_map(|cause| cause.message.as_ref()?.parse().ok()).next();
        (output, code.unwrap_or(0))
    }
}

fn shell(name: &str, script: &str) -> Value {
    pod(name, json!({"command": ["sh", "-c", script]}), json!({"restartPolicy": "Never"}))
}

/// A pod with one container.
fn pod(name: &str, container: Value, spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": name}, "spec": {"terminationGracePeriodSeconds": 5, "containers": [{
        "name": "main", "image": "busybox"}]}});
    let merge = |into: &mut Value, from: Value| {
        let from = from.as_object().unwrap().clone();
        into.as_object_mut().unwrap().extend(from);
    };
    merge(&mut pod["spec"]["containers"][0], container);
    merge(&mut pod["spec"], spec);
    pod
}

const SLEEP: &str = "trap 'exit 0' TERM; while :; do sleep 0.05; done";

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_runs_to_completion_and_has_a_log() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(shell("well", "echo one; echo two >&2; printf three; echo bye > /dev/termination-log")).await;
    machine.create(shell("ill", "echo no; exit 7")).await;
    let status = machine.phase("well", "Succeeded").await;
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(0), &json!("Completed")));
    assert_eq!(ended["message"], "bye\n");
    assert!(status["podIP"].as_str().unwrap().starts_with("127."), "{status}");
    let log = machine.log("well").await;
    // The order of the two outputs is not defined.
    assert!(["one\n", "two\n", "three"].iter().all(|said| log.contains(said)), "{log:?}");
    let status = machine.phase("ill", "Failed").await;
    let ended = &status["containerStatuses"][0]["state"]["terminated"];
    assert_eq!((&ended["exitCode"], &ended["reason"]), (&json!(7), &json!("Error")));
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failed_container_is_restarted_and_its_previous_log_is_kept() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let script = "echo run >> /count/runs; cat /count/runs; test $(wc -l < /count/runs) -ge 3 && sleep 100; exit 3";
    let container =
        json!({"command": ["sh", "-c", script], "volumeMounts": [{"name": "count", "mountPath": "/count"}]});
    machine.create(pod("again", container, json!({"volumes": [{"name": "count", "emptyDir": {}}]}))).await;
    let status = machine
        .when("again", "has restarted twice", |status| {
            let container = &status["containerStatuses"][0];
            container["restartCount"] == 2 && container["ready"] == true
        })
        .await;
    assert_eq!(status["containerStatuses"][0]["lastState"]["terminated"]["exitCode"], 3);
    eventually("the log exists", async || (machine.log("again").await.lines().count() == 3).then_some(())).await;
    let previous = LogParams { previous: true, ..LogParams::default() };
    assert_eq!(machine.pods().logs("again", &previous).await.unwrap(), "run\nrun\n");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_can_be_followed_until_the_container_ends() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(shell("talker", "echo first; while ! test -e $HOME/go; do sleep 0.02; done; echo last")).await;
    machine.phase("talker", "Running").await;
    let params = LogParams { follow: true, ..LogParams::default() };
    let mut lines = machine.pods().log_stream("talker", &params).await.unwrap().lines();
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("first"));
    // The command ends the container, which may cut off the command itself.
    machine.exec("talker", &["sh", "-c", "touch $HOME/go"], None).await;
    assert_eq!(lines.try_next().await.unwrap().as_deref(), Some("last"));
    assert_eq!(lines.try_next().await.unwrap(), None);
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_runs_next_to_a_container_with_its_environment() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let env = json!([
        {"name": "GREETING", "value": "hello $(POD_IP)"},
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "AFTER", "value": "$(POD_IP)"},
    ]);
    let container = json!({"command": ["sh", "-c", SLEEP], "env": env});
    machine.create(pod("p", container, json!({}))).await;
    let status = machine.phase("p", "Running").await;
    let ip = status["podIP"].as_str().unwrap().to_owned();
    let (output, code) = machine.exec("p", &["sh", "-c", "echo $GREETING $AFTER; exit 4"], None).await;
    assert_eq!((output.as_str(), code), (format!("hello $(POD_IP) {ip}\n").as_str(), 4));
    let (output, code) = machine.exec("p", &["cat"], Some("typed")).await;
    assert_eq!((output.as_str(), code), ("typed", 0));
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_port_of_a_pod_can_be_reached() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(shell("p", SLEEP)).await;
    let status = machine.phase("p", "Running").await;
    // A listener on the pod's address.
    let address: std::net::Ipv4Addr = status["podIP"].as_str().unwrap().parse().unwrap();
    let listener = tokio::net::TcpListener::bind((address, 0)).await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let echo = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let (mut read, mut write) = stream.split();
        tokio::io::copy(&mut read, &mut write).await.unwrap();
    });
    let mut forwarded = machine.pods().portforward("p", &[port]).await.unwrap();
    let mut stream = forwarded.take_stream(port).unwrap();
    stream.write_all(b"ping").await.unwrap();
    let mut answer = [0; 4];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"ping");
    drop(stream);
    forwarded.abort();
    echo.await.unwrap();
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_is_deleted_when_its_processes_have_ended() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let mark = folder.path().join("ended");
    let script =
        format!("trap 'echo term > {}; exit 0' TERM; echo trapped; while :; do sleep 0.02; done", mark.display());
    machine.create(shell("polite", &script)).await;
    machine.create(shell("stubborn", "trap '' TERM; echo trapped; while :; do sleep 0.02; done")).await;
    for name in ["polite", "stubborn"] {
        machine.phase(name, "Running").await;
        // Without its trap, the shell would end at the first signal.
        eventually("the trap is set", async || machine.log(name).await.contains("trapped\n").then_some(())).await;
        let params = DeleteParams { grace_period_seconds: Some(1), ..DeleteParams::default() };
        machine.pods().delete(name, &params).await.unwrap();
        let pods = machine.pods();
        eventually("the pod is deleted", async || pods.get_opt(name).await.unwrap().is_none().then_some(())).await;
    }
    assert_eq!(std::fs::read_to_string(mark).unwrap(), "term\n");
    eventually("the directories are deleted", async || {
        (std::fs::read_dir(folder.path().join("runtime/pods")).unwrap().count() == 0).then_some(())
    })
    .await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pod_with_the_longest_times_runs_and_is_deleted() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let times = json!({
        "restartPolicy": "Never", "terminationGracePeriodSeconds": i64::MAX, "activeDeadlineSeconds": i32::MAX,
    });
    for grace in [None, Some(u32::MAX)] {
        machine.create(pod("p", json!({"command": ["sh", "-c", SLEEP]}), times.clone())).await;
        machine.phase("p", "Running").await;
        let params = DeleteParams { grace_period_seconds: grace, ..DeleteParams::default() };
        machine.pods().delete("p", &params).await.unwrap();
        let pods = machine.pods();
        eventually("the pod is deleted", async || pods.get_opt("p").await.unwrap().is_none().then_some(())).await;
    }
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unknown_image_is_reported_and_starts_once_the_file_has_an_entry() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let image = json!({"image": "example.com/server:1", "args": ["served"]});
    machine.create(pod("p", image, json!({"restartPolicy": "Never"}))).await;
    let status = machine
        .when("p", "cannot be pulled", |status| {
            let reason = &status["containerStatuses"][0]["state"]["waiting"]["reason"];
            reason == "ErrImagePull" || reason == "ImagePullBackOff"
        })
        .await;
    let message = status["containerStatuses"][0]["state"]["waiting"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("images.yaml") && message.contains("example.com/server:1"), "{message}");
    let rejected = machine.pods().logs("p", &LogParams::default()).await.unwrap_err().to_string();
    assert!(rejected.contains("is waiting to start: "), "{rejected}");
    std::fs::write(folder.path().join("images.yaml"), "images:\n- image: example.com/server\n  command: [echo]\n")
        .unwrap();
    machine.phase("p", "Succeeded").await;
    assert_eq!(machine.log("p").await, "served\n");
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn init_containers_run_in_order_and_sidecars_with_the_main_one() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let mount = json!([{"name": "v", "mountPath": "/v"}]);
    let container = |name: &str, script: &str| json!({"name": name, "image": "busybox", "command": ["sh", "-c", script], "volumeMounts": mount});
    let mut sidecar = container(
        "side",
        "echo side >> /v/order; trap 'echo over >> /v/order; exit 0' TERM; while :; do sleep 0.02; done",
    );
    sidecar["restartPolicy"] = "Always".into();
    let spec = json!({
        "restartPolicy": "Never",
        "initContainers": [container("one", "echo one >> /v/order"), sidecar, container("two", "until grep -q side /v/order; do sleep 0.02; done; echo two >> /v/order")],
        "containers": [container("main", "echo main >> /v/order; cat /v/order")],
        "volumes": [{"name": "v", "emptyDir": {}}],
    });
    machine.create(json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let status = machine.phase("p", "Succeeded").await;
    let log =
        machine.pods().logs("p", &LogParams { container: Some("main".into()), ..LogParams::default() }).await.unwrap();
    assert_eq!(log, "one\nside\ntwo\nmain\n");
    assert_eq!(status["initContainerStatuses"][0]["state"]["terminated"]["exitCode"], 0);
    eventually("the sidecar has ended", async || {
        let pod = serde_json::to_value(machine.pods().get("p").await.unwrap()).unwrap();
        pod["status"]["initContainerStatuses"][1]["state"].get("terminated").map(|_| ())
    })
    .await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn files_of_a_config_map_are_mounted_and_refreshed() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let script = "trap 'exit 0' TERM; while :; do cat /etc/app/greeting; sleep 0.05; done";
    let container = json!({
        "command": ["sh", "-c", script],
        "envFrom": [{"configMapRef": {"name": "settings"}}],
        "volumeMounts": [{"name": "config", "mountPath": "/etc/app"}],
    });
    machine
        .create(pod("p", container, json!({"volumes": [{"name": "config", "configMap": {"name": "settings"}}]})))
        .await;
    let events: Api<Event> = Api::namespaced(machine.client.clone(), "default");
    eventually("the missing map is reported", async || {
        let events = events.list(&Default::default()).await.unwrap();
        events.iter().any(|event| event.reason.as_deref() == Some("FailedMount")).then_some(())
    })
    .await;
    let maps: Api<ConfigMap> = Api::namespaced(machine.client.clone(), "default");
    let map: ConfigMap =
        serde_json::from_value(json!({"metadata": {"name": "settings"}, "data": {"greeting": "hello\n"}})).unwrap();
    maps.create(&PostParams::default(), &map).await.unwrap();
    machine.phase("p", "Running").await;
    eventually("it says hello", async || machine.log("p").await.contains("hello\n").then_some(())).await;
    let patch = Patch::Merge(json!({"data": {"greeting": "goodbye\n"}}));
    maps.patch("settings", &PatchParams::default(), &patch).await.unwrap();
    eventually("it says goodbye", async || machine.log("p").await.contains("goodbye\n").then_some(())).await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_control_readiness_and_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let exec =
        |command: &str| json!({"exec": {"command": ["sh", "-c", command]}, "periodSeconds": 1, "failureThreshold": 1});
    let container = json!({
        "command": ["sh", "-c", SLEEP],
        "readinessProbe": exec("test -e $HOME/ready"),
        "livenessProbe": exec("! test -e $HOME/dead"),
    });
    machine.create(pod("p", container, json!({"terminationGracePeriodSeconds": 1}))).await;
    let is_ready = |status: &Value| status["containerStatuses"][0]["ready"] == true;
    let status = machine.phase("p", "Running").await;
    assert!(!is_ready(&status));
    machine.exec("p", &["sh", "-c", "touch $HOME/ready"], None).await;
    machine.when("p", "is ready", is_ready).await;
    machine.exec("p", &["sh", "-c", "touch $HOME/dead"], None).await;
    // It is killed again and again, because the file still exists.
    let restarts = |status: &Value| status["containerStatuses"][0]["restartCount"].as_u64().unwrap_or_default();
    machine.when("p", "has restarted", |status| restarts(status) > 0).await;
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_plane_restarts_its_pods() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(pod("p", json!({"command": ["sh", "-c", SLEEP]}), json!({}))).await;
    machine.create(shell("done", "echo done")).await;
    let first = machine.phase("p", "Running").await;
    machine.phase("done", "Succeeded").await;
    machine.stop().await;
    let machine = Machine::start(folder.path()).await;
    let second = machine
        .when("p", "runs again", |status| {
            status["containerStatuses"][0]["restartCount"] == 1 && status["containerStatuses"][0]["ready"] == true
        })
        .await;
    assert_eq!(first["podIP"], second["podIP"]);
    assert_eq!(machine.log("done").await, "done\n");
    machine.stop().await;
}

/// Sends a request with a bearer token, and returns the status code.
async fn status_with(url: &str, authority: &str, token: &str) -> http::StatusCode {
    let mut config = Config::new(url.parse().unwrap());
    config.root_cert =
        Some(CertificateDer::pem_slice_iter(authority.as_bytes()).map(|one| one.unwrap().to_vec()).collect());
    config.auth_info.token = Some(token.to_owned().into());
    let client = Client::try_from(config).unwrap();
    let request = http::Request::get("/api").body(kube::client::Body::empty()).unwrap();
    client.send(request).await.unwrap().status()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_token_of_a_pod_is_valid_as_long_as_the_pod_exists() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    let accounts: Api<ServiceAccount> = Api::namespaced(machine.client.clone(), "default");
    let account = serde_json::from_value(json!({"metadata": {"name": "bot"}})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    let token = json!({"serviceAccountToken": {"path": "token", "expirationSeconds": 3600}});
    let spec = json!({
        "serviceAccountName": "bot",
        "volumes": [{"name": "identity", "projected": {"sources": [token]}}],
    });
    let container = json!({
        "command": ["sh", "-c", SLEEP],
        "volumeMounts": [{"name": "identity", "mountPath": "/var/run/identity"}],
    });
    machine.create(pod("p", container, spec)).await;
    machine.phase("p", "Running").await;
    let (first, _) = machine.exec("p", &["cat", "/var/run/identity/token"], None).await;
    let ask = async || status_with(&machine.url, &machine.authority, &first).await;
    assert_eq!(ask().await, http::StatusCode::OK);
    machine.pods().delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    eventually("the pod is gone", async || machine.pods().get_opt("p").await.unwrap().is_none().then_some(())).await;
    assert_eq!(ask().await, http::StatusCode::UNAUTHORIZED);
    machine.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn usage_of_processes_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let machine = Machine::start(folder.path()).await;
    machine.create(shell("busy", "while :; do :; done")).await;
    machine.create(shell("lazy", "exec sleep 1000")).await;
    machine.phase("busy", "Running").await;
    machine.phase("lazy", "Running").await;
    let path = "/apis/metrics.k8s.io/v1beta1/namespaces/default/pods";
    let request = http::Request::get(path).body(Vec::new()).unwrap();
    let list: Value = serde_json::from_str(&machine.client.request_text(request).await.unwrap()).unwrap();
    let usage = |pod: &str| {
        let item = list["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == pod).unwrap();
        let usage = &item["containers"][0]["usage"];
        // Billionths of a core, unless it is a rounder number.
        let number = |resource: &str, units: &[(&str, u64)]| {
            let text = usage[resource].as_str().unwrap();
            let (digits, unit) = text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()));
            let (_, factor) = units.iter().find(|(name, _)| *name == unit).unwrap();
            digits.parse::<u64>().unwrap() * factor
        };
        let cpu = number("cpu", &[("n", 1), ("u", 1000), ("m", 1_000_000), ("", 1_000_000_000)]);
        (cpu / 1_000_000, number("memory", &[("", 1), ("Ki", 1 << 10), ("Mi", 1 << 20)]))
    };
    let ((busy, _), (lazy, resident)) = (usage("busy"), usage("lazy"));
    assert!((10..=2000).contains(&busy) && lazy < 10, "{list}");
    assert!((50_000..50_000_000).contains(&resident), "{list}");
    let request = http::Request::get("/api/v1/nodes/node-1/proxy/metrics/resource").body(Vec::new()).unwrap();
    let text = machine.client.request_text(request).await.unwrap();
    assert!(
        text.contains("container_cpu_usage_seconds_total{container=\"main\",namespace=\"default\",pod=\"busy\"} "),
        "{text}"
    );
    machine.stop().await;
}
