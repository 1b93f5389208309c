//! `windlass rbac learn`, recording an operator.

use std::{
    env, fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use guestbook_operator::{api::guestbook::Guestbook, operator::operator};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, Client, Config, CustomResourceExt as _,
    api::{ListParams, PostParams},
};
use serde_json::json;
use windlass::{
    client::{ClientOptions, connect},
    manifests::{Part, to_yaml},
    operator::Options,
    shutdown::Shutdown,
};

use crate::process::{Up, output, windlass};

/// Far more than a recording takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Selects what the recorded program does.
const PROGRAM: &str = "WINDLASS_TEST_PROGRAM";

/// A file that counts the runs of a program that is not the same every time.
const COUNT: &str = "WINDLASS_TEST_COUNT";

/// The program that the tests record: the operator until its guestbook is ready, or a few requests.
#[tokio::test]
#[ignore = "run as a child process of `windlass rbac learn` by the tests below"]
async fn recorded_program() {
    let program = env::var(PROGRAM).unwrap();
    let config = Config::infer().await.unwrap();
    if program == "look" {
        let client = Client::try_from(config).unwrap();
        Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.unwrap();
        let secrets: Api<Secret> = Api::namespaced(client, "kube-system");
        assert!(secrets.get_opt("nothing").await.unwrap().is_none());
        secrets.create(&PostParams::default(), &Secret::default()).await.unwrap_err();
        return;
    }
    if program == "own" {
        let secrets: Api<Secret> =
            Api::namespaced(Client::try_from(config).unwrap(), &env::var("POD_NAMESPACE").unwrap());
        let mut secret = Secret::default();
        secret.metadata.name = Some("certificates".to_owned());
        secrets.create(&PostParams::default(), &secret).await.unwrap();
        secrets.get("certificates").await.unwrap();
        return;
    }
    if let Some(count) = env::var_os(COUNT) {
        return repeated_program(&program, Path::new(&count), Client::try_from(config).unwrap()).await;
    }
    let shutdown = Shutdown::new();
    let client = connect(&config, ClientOptions::new("guestbook-operator/1")).unwrap();
    let running = tokio::spawn(operator().run_with(client, Options::default(), shutdown.clone()));
    let guestbooks: Api<Guestbook> = Api::default_namespaced(Client::try_from(config).unwrap());
    windlass_testing::eventually("the guestbook is ready", async || {
        let guestbook = guestbooks.get("example").await.unwrap();
        (guestbook.status?.ready_replicas == 1).then_some(())
    })
    .await;
    shutdown.drain();
    running.await.unwrap().unwrap();
}

/// Programs that do something else every time they run.
async fn repeated_program(program: &str, count: &Path, client: Client) {
    let runs = fs::read_to_string(count).unwrap_or_default().len();
    fs::write(count, "x".repeat(runs + 1)).unwrap();
    Api::<ConfigMap>::all(client.clone()).list(&ListParams::default()).await.unwrap();
    let list = async |plural: &str| {
        let uri = format!("/api/v1/{plural}");
        let request = http::Request::get(uri).body(Vec::new()).unwrap();
        // It may be forbidden.
        let _ = client.request_text(request).await;
    };
    match program {
        "more" if runs > 0 => list("secrets").await,
        "other" => list(["pods", "services", "endpoints", "secrets", "nodes"][runs]).await,
        "once" => assert_eq!(runs, 0, "it runs only once"),
        "hang" if runs > 0 => {
            fs::write(count.with_extension("pid"), format!("{}\n", std::process::id())).unwrap();
            std::future::pending().await
        }
        _ => {}
    }
}

/// Records a program that does something else every time.
fn learn_repeated(folder: &Path, program: &str, arguments: &[&str]) -> Command {
    let mut command = windlass();
    command.args(["rbac", "learn", "--name", "it", "-o", "table"]).args(arguments).arg("--");
    command.arg(env::current_exe().unwrap()).args(["--exact", "learn::recorded_program", "--ignored"]);
    command.env(PROGRAM, program).env(COUNT, folder.join(program)).current_dir(folder);
    command
}

/// Records the operator, with a CRD and a guestbook applied before.
fn learn(folder: &Path, arguments: &[&str]) -> (Option<i32>, String, String) {
    let objects = json!({"apiVersion": "v1", "kind": "List", "items": [
        Guestbook::crd(),
        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings", "namespace": "default"}},
        {
            "apiVersion": "webapp.tutorial.kubebuilder.io/v1",
            "kind": "Guestbook",
            "metadata": {"name": "example", "namespace": "default"},
            "spec": {"size": 1, "configMapName": "settings"},
        },
    ]});
    let file = folder.join("objects.json");
    fs::write(&file, objects.to_string()).unwrap();
    let mut command: Command = windlass();
    command.args(["rbac", "learn", "--user-agent", "guestbook-operator/", "--apply"]);
    command.arg(&file).args(arguments).arg("--");
    command.arg(env::current_exe().unwrap()).args(["--exact", "learn::recorded_program", "--ignored", "--nocapture"]);
    let output = output(command.env(PROGRAM, "operate").env_remove("WINDLASS_TEST_KUBECONFIG"));
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[test]
fn the_roles_of_an_operator_match_its_requests() {
    let folder = tempfile::tempdir().unwrap();
    let manifests = operator().manifests("guestbook-system", "guestbook:latest").build().unwrap();
    let granted = folder.path().join("rbac.yaml");
    fs::write(&granted, to_yaml(manifests.iter().filter(|manifest| manifest.part == Part::Rbac))).unwrap();
    let (code, out, err) = learn(folder.path(), &["-o", "table", "--compare", granted.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{err}\n{out}");
    assert!(err.contains("all used permissions are granted"), "{err}");
    assert!(err.contains("again, as service account it-"), "{err}");
    assert!(err.contains("verified: the command succeeds with these roles"), "{err}");
    // Whether it reads before it applies depends on the state of its caches.
    let out = out.replace("get,list", "list");
    let rules: Vec<String> =
        out.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(
        rules,
        [
            "* core configmaps - list,watch",
            "* core services - list,watch,create,patch",
            "* apps deployments - list,watch,create,patch",
            "* webapp.tutorial.kubebuilder.io guestbooks - list,watch",
            "* webapp.tutorial.kubebuilder.io guestbooks/status - patch",
        ]
    );
}

#[test]
fn a_program_has_its_own_namespace() {
    let folder = tempfile::tempdir().unwrap();
    // With any name of the namespace it is deployed to.
    let granted = json!({"apiVersion": "v1", "kind": "List", "items": [
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
            "metadata": {"name": "a", "namespace": "deployed"},
            "rules": [{"apiGroups": [""], "resources": ["secrets"], "verbs": ["create", "get"]}],
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "RoleBinding",
            "metadata": {"name": "a", "namespace": "deployed"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "a"},
            "subjects": [{"kind": "ServiceAccount", "name": "a", "namespace": "deployed"}],
        },
    ]});
    let file = folder.path().join("rbac.json");
    fs::write(&file, granted.to_string()).unwrap();
    let mut command = windlass();
    command.args(["rbac", "learn", "--name", "keeper", "-o", "table", "--compare"]).arg(&file).arg("--");
    command.arg(env::current_exe().unwrap()).args(["--exact", "learn::recorded_program", "--ignored", "--nocapture"]);
    let said = output(command.env(PROGRAM, "own").env_remove("POD_NAMESPACE").current_dir(folder.path()));
    let (out, err) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8_lossy(&said.stderr).into_owned());
    assert_eq!(said.status.code(), Some(0), "{err}\n{out}");
    let rules: Vec<String> =
        out.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    assert_eq!(rules, ["keeper-system core secrets - create", "keeper-system core secrets certificates get"]);
}

#[test]
fn requests_to_a_cluster_are_recorded() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let up = Up::start(&data, &["--store", "memory", "--controllers", "", "--nodes", "0"]);
    let mut command = windlass();
    command.args(["rbac", "learn", "--name", "looker", "--kubeconfig"]).arg(data.join("kubeconfig")).arg("--");
    command.arg(env::current_exe().unwrap()).args(["--exact", "learn::recorded_program", "--ignored"]);
    let said = output(command.env(PROGRAM, "look"));
    up.stop("TERM");
    let (out, err) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8_lossy(&said.stderr).into_owned());
    assert!(said.status.success(), "{err}");
    // Nothing is written to the cluster.
    assert!(err.contains("verified: a server with these roles allows all recorded requests"), "{err}");
    let expected = "\
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: looker
rules:
- apiGroups:
  - \"\"
  resources:
  - configmaps
  verbs:
  - list
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata:
  name: looker
roleRef:
  apiGroup: rbac.authorization.k8s.io
  kind: ClusterRole
  name: looker
subjects:
- kind: ServiceAccount
  name: looker
  namespace: looker-system
---
apiVersion: rbac.authorization.k8s.io/v1
kind: Role
metadata:
  name: looker
  namespace: kube-system
rules:
- apiGroups:
  - \"\"
  resources:
  - secrets
  verbs:
  - create
- apiGroups:
  - \"\"
  resourceNames:
  - nothing
  resources:
  - secrets
  verbs:
  - get
---
";
    assert!(out.starts_with(expected), "{out}");
}

#[test]
fn a_failed_command_is_reported() {
    let failed = output(windlass().args(["rbac", "learn", "--", "false"]));
    let err = String::from_utf8(failed.stderr).unwrap();
    assert_eq!(failed.status.code(), Some(1));
    assert!(failed.stdout.is_empty() && err.contains("no permissions are needed"), "{err}");
    assert!(err.contains("error: false exited with exit status: 1\nhint: "), "{err}");
    let nothing = output(windlass().args(["rbac", "learn", "--", "/nothing/there"]));
    assert!(String::from_utf8_lossy(&nothing.stderr).contains("error: cannot run /nothing/there"));
}

#[test]
fn requests_that_only_a_later_run_sends_are_learned_until_it_passes() {
    let folder = tempfile::tempdir().unwrap();
    let said = output(&mut learn_repeated(folder.path(), "more", &[]));
    let (out, err) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
    assert_eq!(said.status.code(), Some(0), "{err}");
    assert!(err.contains("forbidden by these roles, and now added (run 1 of 3):\n  GET /api/v1/secrets\n"), "{err}");
    assert!(err.contains("verified: the command succeeds with these roles"), "{err}");
    assert!(out.contains("configmaps,secrets") && out.lines().count() == 2, "{out}");

    let folder = tempfile::tempdir().unwrap();
    let said = output(&mut learn_repeated(folder.path(), "more", &["--no-verify"]));
    assert_eq!(said.status.code(), Some(0));
    assert!(!String::from_utf8(said.stdout).unwrap().contains("secrets"));
    assert!(!String::from_utf8(said.stderr).unwrap().contains("verified"));
}

#[test]
fn rules_of_the_project_that_were_never_used_are_listed() {
    let folder = tempfile::tempdir().unwrap();
    let made = output(windlass().args(["init", "shop", "--domain", "example.com"]).current_dir(folder.path()));
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let root = folder.path().join("shop");
    let role = json!({
        "apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "shop"},
        "rules": [{"apiGroups": [""], "resources": ["configmaps", "secrets"], "verbs": ["list"]}],
    });
    fs::create_dir_all(root.join("deploy/rbac")).unwrap();
    fs::write(root.join("deploy/rbac/granted.json"), role.to_string()).unwrap();
    let said = output(&mut learn_repeated(&root, "same", &["--no-verify"]));
    let err = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(0), "{err}");
    assert!(err.contains("granted, but never used:\n  ClusterRole shop: secrets: list\n"), "{err}");
    assert!(err.contains("all used permissions are granted"), "{err}");
}

#[test]
fn a_failed_proof_is_reported_after_the_roles() {
    for (program, message, hint) in [
        ("other", "error: the command fails with the learned roles: after 3 runs, ", "--no-verify"),
        (
            "once",
            " under the learned roles, but no request was forbidden\n",
            "hint: it must be possible to run the command twice",
        ),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let said = output(&mut learn_repeated(folder.path(), program, &[]));
        let (out, err) = (String::from_utf8(said.stdout).unwrap(), String::from_utf8(said.stderr).unwrap());
        assert_eq!(said.status.code(), Some(1), "{err}");
        assert!(err.contains(message) && err.contains(hint), "{err}");
        assert!(out.contains("configmaps"), "{out}");
    }
}

#[test]
fn an_interrupted_proof_leaves_no_process_and_no_files() {
    let folder = tempfile::tempdir().unwrap();
    let temporary = tempfile::tempdir().unwrap();
    let mut command = learn_repeated(folder.path(), "hang", &[]);
    command.env("TMPDIR", temporary.path()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    let pid = folder.path().join("hang.pid");
    let start = Instant::now();
    let process = loop {
        match fs::read_to_string(&pid) {
            Ok(text) if text.ends_with('\n') => break text.trim().to_owned(),
            _ => assert!(start.elapsed() < TIMEOUT && child.try_wait().unwrap().is_none()),
        }
        std::thread::sleep(Duration::from_millis(10));
    };
    assert!(Command::new("kill").args(["-s", "INT", &child.id().to_string()]).status().unwrap().success());
    let said = child.wait_with_output().unwrap();
    let err = String::from_utf8(said.stderr).unwrap();
    assert_eq!(said.status.code(), Some(130), "{err}");
    assert!(err.contains("interrupted: the roles are not verified"), "{err}");
    assert!(String::from_utf8(said.stdout).unwrap().contains("configmaps"), "the recording is not lost");
    let alive = Command::new("kill").args(["-0", &process]).stderr(Stdio::null()).status().unwrap();
    assert!(!alive.success());
    assert_eq!(fs::read_dir(temporary.path()).unwrap().count(), 0);
}
