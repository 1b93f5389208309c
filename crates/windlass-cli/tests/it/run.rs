//! `windlass run`, with scripts instead of cargo and the operator.

mod conversion;
mod roles;

use std::{
    fs,
    io::{Read as _, Write as _},
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use k8s_openapi::api::admissionregistration::v1::ValidatingWebhookConfiguration;
use kube::{
    Api, Client, Config,
    api::ListParams,
    config::{KubeConfigOptions, Kubeconfig},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};

use crate::process::{output, windlass};

/// Far more than anything here takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Builds the existing program, unless it is broken.
const CARGO: &str = r#"#!/bin/sh
echo "   Compiling shop" >&2
grep -q BROKEN src/lib.rs && { echo "error: it is broken" >&2; exit 101; }
echo '{"reason":"compiler-artifact","target":{"name":"shop"},"executable":"'"$OPERATOR"'","fresh":false}'
"#;

/// Prints its manifests and how it was started, and runs until it is stopped.
const OPERATOR: &str = r#"#!/bin/sh
here=$(dirname "$0")
case "$*" in
manifests*) [ -e "$here/slow" ] && { echo "$$" > "$here/slow"; exec sleep 600; } ;;
esac
case "$*" in
manifests*crds,webhooks*) cat "$here/manifests.json"; exit ;;
manifests*crds*) cat "$here/crds.json"; exit ;;
esac
trap 'echo bye; exit 0' TERM
echo "started with $*"
echo "in namespace ${POD_NAMESPACE:-none}"
echo "$$ $WINDLASS_HEALTH_PROBE_BIND_ADDRESS $WINDLASS_WEBHOOK_PORT $WINDLASS_LEADER_ELECT $KUBECONFIG" >> "$here/starts"
while :; do sleep 1 & wait $!; done
"#;

/// Manifests of the operator. Its webhook has no server, so it applies to a resource that is never written.
const MANIFESTS: &str = r#"{"kind":"List","items":[
{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"books.store.example.com"},
 "spec":{"group":"store.example.com","scope":"Namespaced","names":{"kind":"Book","plural":"books"},"versions":[
  {"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object",
   "x-kubernetes-preserve-unknown-fields":true}}}]}},
{"apiVersion":"admissionregistration.k8s.io/v1","kind":"ValidatingWebhookConfiguration","metadata":{"name":"shop"},
 "webhooks":[{"name":"pens.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
  "clientConfig":{"service":{"name":"shop-webhook","namespace":"shop-system","path":"/validate","port":443}},
  "rules":[{"apiGroups":["nowhere.example.com"],"apiVersions":["v1"],"operations":["CREATE"],"resources":["pens"]}]}]}
]}"#;

/// A project whose operator is a script.
struct Project {
    folder: tempfile::TempDir,
}

/// Start of the operator.
struct Start {
    process: String,
    probes: String,
    webhook_port: String,
    leader_elect: String,
    kubeconfig: PathBuf,
}

/// A run; killed when dropped.
struct Run {
    child: Child,
    log: PathBuf,
}

impl Project {
    fn new() -> Self {
        Self::with(MANIFESTS)
    }

    /// A project whose operator has these manifests.
    fn with(manifests: &str) -> Self {
        let project = Self { folder: tempfile::tempdir().unwrap() };
        let make = |folder: &Path, arguments: &[&str]| {
            let made = output(windlass().args(arguments).current_dir(folder));
            assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        };
        make(project.folder.path(), &["init", "shop", "--domain", "example.com"]);
        make(&project.root(), &["create", "api", "--group", "store", "--version", "v1", "--kind", "Book"]);
        fs::write(project.root().join("manifests.json"), manifests).unwrap();
        for (name, script) in [("cargo", CARGO), ("operator", OPERATOR)] {
            // Not written by this process: another thread may fork in the meantime, and a file that is open for writing
            // cannot be executed.
            let made = Command::new("sh")
                .args(["-c", "printf %s \"$SCRIPT\" > \"$0\" && chmod +x \"$0\""])
                .arg(project.root().join(name))
                .env("SCRIPT", script)
                .status();
            assert!(made.unwrap().success());
        }
        project
    }

    fn root(&self) -> PathBuf {
        self.folder.path().join("shop")
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = windlass();
        command.args(arguments).current_dir(self.root().join("src"));
        command.env("CARGO", self.root().join("cargo")).env("OPERATOR", self.root().join("operator"));
        command
    }

    fn run(&self, arguments: &[&str]) -> Run {
        let log = self.folder.path().join("log");
        let file = fs::File::create(&log).unwrap();
        let mut command = self.command(&[&["run", "--plain"], arguments].concat());
        command.stdout(file.try_clone().unwrap()).stderr(file);
        Run { child: command.spawn().unwrap(), log }
    }

    fn append(&self, path: &str, text: &str) {
        let path = self.root().join(path);
        fs::write(&path, fs::read_to_string(&path).unwrap() + text).unwrap();
    }

    /// How the operator was last started, if it was started this many times.
    fn start(&self, number: usize) -> Option<Start> {
        let starts = fs::read_to_string(self.root().join("starts")).ok()?;
        let lines: Vec<&str> = starts.lines().filter(|line| line.ends_with("kubeconfig")).collect();
        assert!(lines.len() <= number, "{starts}");
        let mut words = lines.get(number - 1)?.split(' ').map(str::to_owned);
        Some(Start {
            process: words.next()?,
            probes: words.next()?,
            webhook_port: words.next()?,
            leader_elect: words.next()?,
            kubeconfig: words.next()?.into(),
        })
    }
}

impl Run {
    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap()
    }

    /// Waits for a condition.
    fn until<T>(&mut self, what: &str, mut look: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = look() {
                return found;
            }
            assert!(start.elapsed() < TIMEOUT, "{what}: {}", self.said());
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "{what}: ended with {ended:?}: {}", self.said());
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn until_said(&mut self, text: &str) {
        let log = self.log.clone();
        self.until(text, || fs::read_to_string(&log).unwrap().contains(text).then_some(()));
    }

    /// Sends Ctrl-C, and returns the output until the exit.
    fn interrupt(mut self) -> String {
        let sent = Command::new("kill").args(["-s", "INT", &self.child.id().to_string()]).status().unwrap();
        assert!(sent.success());
        let start = Instant::now();
        let exit = loop {
            if let Some(exit) = self.child.try_wait().unwrap() {
                break exit;
            }
            assert!(start.elapsed() < TIMEOUT, "still running: {}", self.said());
            std::thread::sleep(Duration::from_millis(5));
        };
        assert!(exit.success(), "{exit}: {}", self.said());
        self.said()
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        // Both fail if it has already exited.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Answers one readiness probe.
fn answer_probe(address: &str) {
    let listener = TcpListener::bind(address).unwrap();
    let (mut stream, _) = listener.accept().unwrap();
    let read = stream.read(&mut [0; 1024]).unwrap();
    assert!(read > 0);
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok").unwrap();
}

async fn client(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

fn is_alive(process: &str) -> bool {
    Command::new("kill").args(["-0", process]).stderr(Stdio::null()).status().unwrap().success()
}

#[tokio::test]
async fn the_operator_is_restarted_after_each_successful_build() {
    let project = Project::new();
    let mut run = project.run(&["--samples", "--", "--moon=up"]);
    let first = run.until("the first start", || project.start(1));
    assert_eq!(first.leader_elect, "false");
    assert_eq!(first.kubeconfig, project.root().join("target/windlass/kubeconfig"));
    run.until_said("operator | started with --moon=up");

    // CRDs exist before the operator starts; the rest is installed when it is ready.
    let client = client(&first.kubeconfig).await;
    let books = ApiResource::from_gvk(&GroupVersionKind::gvk("store.example.com", "v1", "Book"));
    let books: Api<DynamicObject> = Api::namespaced_with(client.clone(), "default", &books);
    assert_eq!(books.list(&ListParams::default()).await.unwrap().items.len(), 0);
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(client);
    assert!(webhooks.get_opt("shop-run").await.unwrap().is_none());
    answer_probe(&first.probes);
    run.until_said("windlass | Book default/book-example: created");
    run.until_said("windlass | samples applied");
    let webhook = webhooks.get("shop-run").await.unwrap().webhooks.unwrap().remove(0);
    let url = format!("https://127.0.0.1:{}/validate", first.webhook_port);
    assert_eq!(webhook.client_config.url, Some(url));
    assert!(webhook.client_config.ca_bundle.is_some() && webhook.client_config.service.is_none());

    // A failed build leaves it alone.
    project.append("src/lib.rs", "// BROKEN\n");
    run.until_said("cargo | error: it is broken");
    run.until_said("windlass | the build exited with code 101");
    assert!(is_alive(&first.process));
    let lib = fs::read_to_string(project.root().join("src/lib.rs")).unwrap();
    fs::write(project.root().join("src/lib.rs"), lib.replace("// BROKEN\n", "")).unwrap();
    let second = run.until("the second start", || project.start(2));
    assert_ne!(first.process, second.process);
    assert_eq!(first.webhook_port, second.webhook_port);
    assert!(!is_alive(&first.process));

    // An operator that stops by itself is restarted.
    assert!(Command::new("kill").args(["-s", "KILL", &second.process]).status().unwrap().success());
    run.until_said("windlass | the operator was killed by signal 9; restarting in 1 s");
    let third = run.until("the third start", || project.start(3));
    let said = run.interrupt();
    assert!(said.contains("ValidatingWebhookConfiguration shop-run: deleted"), "{said}");
    assert_eq!(said.matches("operator | bye").count(), 2, "{said}");
    assert!(!is_alive(&third.process));
}

#[test]
fn a_failed_first_build_without_watching_ends_the_run() {
    let project = Project::new();
    project.append("src/lib.rs", "// BROKEN\n");
    let said = output(&mut project.command(&["run", "--plain", "--no-watch"]));
    let err = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(1), "{err}");
    assert!(err.contains("   cargo | error: it is broken\n"), "{err}");
    assert!(err.ends_with("error: the build exited with code 101\nhint: fix the compiler errors and run it again\n"));
}

#[test]
fn a_program_that_cannot_be_run_is_reported() {
    let project = Project::new();
    for (arguments, code, expected) in [
        (&["run", "--kubeconfig", "/nowhere"][..], 1, "/nowhere"),
        (&["run", "--kubeconfig", "/nowhere", "--port", "1"], 2, "cannot be used with"),
    ] {
        let said = output(&mut project.command(arguments));
        let err = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(code), "{err}");
        assert!(err.contains(expected), "{err}");
    }
    fs::remove_dir_all(project.root().join("deploy/samples")).unwrap();
    let said = output(&mut project.command(&["run", "--samples"]));
    assert!(String::from_utf8(said.stderr).unwrap().contains("there are no samples: "));
    let outside = output(windlass().arg("run").current_dir(project.folder.path()));
    assert!(String::from_utf8(outside.stderr).unwrap().contains("is not in a project"));
}
