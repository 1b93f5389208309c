//! `windlass user add`, against a running plane.

use std::{
    fs,
    os::unix::fs::PermissionsExt as _,
    path::Path,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};

use k8s_openapi::api::{
    authentication::v1::{SelfSubjectReview, UserInfo},
    certificates::v1::CertificateSigningRequest,
    core::v1::{ConfigMap, Namespace, Secret, ServiceAccount},
    rbac::v1::{ClusterRoleBinding, RoleBinding},
};
use kube::{
    Api, Client, Config,
    api::{ListParams, ObjectMeta, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
};

use crate::process::{Up, output, windlass};

/// Far more than anything here takes on any machine.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Adds a user of the plane in a directory.
fn add(data: &Path, arguments: &[&str]) -> Output {
    output(&mut command(data, arguments))
}

fn command(data: &Path, arguments: &[&str]) -> Command {
    let mut command = windlass();
    command.args(["user", "add"]).args(arguments).env("WINDLASS_DATA_DIR", data);
    command
}

fn text(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap()
}

async fn client(kubeconfig: &str) -> Client {
    let kubeconfig = Kubeconfig::from_yaml(kubeconfig).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    Client::try_from(config).unwrap()
}

async fn whoami(client: &Client) -> UserInfo {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await.unwrap();
    review.status.unwrap().user_info.unwrap()
}

fn named(name: &str) -> ObjectMeta {
    ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() }
}

async fn create_namespace(client: &Client, name: &str) {
    let namespace = Namespace { metadata: named(name), ..Namespace::default() };
    Api::all(client.clone()).create(&PostParams::default(), &namespace).await.unwrap();
}

fn code(error: &kube::Error) -> u16 {
    let kube::Error::Api(status) = error else { panic!("{error}") };
    status.code
}

#[tokio::test]
async fn a_user_is_in_its_groups_and_may_do_what_its_role_allows_in_the_namespace() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let up = Up::start(&data, &["--store", "memory", "--nodes", "0"]);
    let admin = up.admin().await;
    create_namespace(&admin, "dev").await;
    let arguments = ["alice@example.com", "--group", "dev", "--group", "ops", "--group", "on-call", "--expires", "1h"];
    let said = add(&data, &[&arguments[..], &["--cluster-role", "edit", "--namespace", "dev"]].concat());
    let (kubeconfig, err) = (text(said.stdout), text(said.stderr));
    assert_eq!(said.status.code(), Some(0), "{err}");
    assert!(err.contains("RoleBinding dev/alice@example.com-edit: created"), "{err}");
    assert!(err.contains("cannot be revoked"), "{err}");

    let alice = client(&kubeconfig).await;
    let user = whoami(&alice).await;
    assert_eq!(user.username.as_deref(), Some("alice@example.com"));
    assert_eq!(user.groups.unwrap(), ["dev", "ops", "on-call", "system:authenticated"]);
    assert_eq!(alice.default_namespace(), "dev");
    let map = ConfigMap { metadata: named("a"), ..ConfigMap::default() };
    Api::default_namespaced(alice.clone()).create(&PostParams::default(), &map).await.unwrap();
    let elsewhere: Api<Secret> = Api::namespaced(alice, "default");
    assert_eq!(code(&elsewhere.list(&ListParams::default()).await.unwrap_err()), 403);
    let requests: Api<CertificateSigningRequest> = Api::all(admin);
    assert!(requests.list(&ListParams::default()).await.unwrap().items.is_empty(), "the request is deleted");
}

#[tokio::test]
async fn a_token_is_that_of_a_service_account() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let up = Up::start(&data, &["--store", "memory", "--nodes", "0"]);
    // Also through a kubeconfig, with no plane in the data directory.
    let kubeconfig = data.join("kubeconfig");
    let arguments = ["robot", "--token", "--cluster-role", "view", "--kubeconfig", kubeconfig.to_str().unwrap()];
    let said = add(&folder.path().join("empty"), &arguments);
    let (kubeconfig, err) = (text(said.stdout), text(said.stderr));
    assert_eq!(said.status.code(), Some(0), "{err}");
    assert!(err.contains("ClusterRoleBinding default-robot-view: created"), "{err}");
    let robot = client(&kubeconfig).await;
    assert_eq!(whoami(&robot).await.username.as_deref(), Some("system:serviceaccount:default:robot"));
    Api::<ConfigMap>::all(robot.clone()).list(&ListParams::default()).await.unwrap();
    assert_eq!(code(&Api::<Secret>::all(robot).list(&ListParams::default()).await.unwrap_err()), 403);
    drop(up);
}

#[tokio::test]
async fn a_kubeconfig_file_is_private_and_never_overwritten_silently() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let up = Up::start(&data, &["--store", "memory", "--nodes", "0"]);
    let file = folder.path().join("alice.kubeconfig");
    let to_file = ["alice", "--cluster-role", "view", "--output", file.to_str().unwrap()];

    let tried = add(&data, &[&to_file[..], &["--dry-run"]].concat());
    let (out, err) = (text(tried.stdout), text(tried.stderr));
    assert_eq!(tried.status.code(), Some(0), "{err}");
    let expected = "certificate of user alice: would be issued\nClusterRoleBinding alice-view: would be created\n";
    assert_eq!(out, expected, "{err}");
    let tried = add(&data, &["ci", "--service-account", "--dry-run"]);
    assert_eq!(tried.status.code(), Some(0), "{}", text(tried.stderr));
    assert!(!file.exists());
    let admin = up.admin().await;
    assert!(Api::<ClusterRoleBinding>::all(admin.clone()).get_opt("alice-view").await.unwrap().is_none());
    assert!(Api::<ServiceAccount>::namespaced(admin.clone(), "default").get_opt("ci").await.unwrap().is_none());

    let said = add(&data, &to_file);
    assert_eq!(said.status.code(), Some(0), "{}", text(said.stderr));
    assert!(said.stdout.is_empty());
    assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    let first = fs::read_to_string(&file).unwrap();
    assert_eq!(whoami(&client(&first).await).await.username.as_deref(), Some("alice"));

    let rejected = add(&data, &to_file);
    let err = text(rejected.stderr);
    assert_eq!(rejected.status.code(), Some(1));
    assert!(err.contains("already exists\nhint: choose another file, or overwrite it with --force\n"), "{err}");
    assert_eq!(fs::read_to_string(&file).unwrap(), first);
    assert_eq!(add(&data, &[&to_file[..], &["--force"]].concat()).status.code(), Some(0));
    assert_ne!(fs::read_to_string(&file).unwrap(), first);
}

#[tokio::test]
async fn users_that_cannot_be_created_are_rejected_with_a_hint() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let up = Up::start(&data, &["--store", "memory", "--nodes", "0"]);
    for (arguments, exit, message, hint) in [
        (&["system:admin"][..], 1, "user name \"system:admin\" is reserved", "choose a name without this prefix"),
        (&["eve", "--group", "system:masters"], 1, "group system:masters is rejected", "--cluster-role cluster-admin"),
        (&["eve", "--cluster-role", "edti"], 1, "ClusterRole edti does not exist", "kubectl get clusterroles"),
        (&["eve", "--role", "a", "-n", "dev"], 1, "namespace dev does not exist", "kubectl create namespace dev"),
        (&["ci/robot", "--token"], 1, "namespace ci does not exist", "kubectl create namespace ci"),
        (&["a_b", "--token"], 1, "\"a_b\" is not the name of a service account", "NAMESPACE/NAME"),
        (&["eve", "--expires", "9m"], 2, "the shortest validity is 10m", ""),
        (&["eve", "--token", "--group", "dev"], 2, "cannot be used with", ""),
    ] {
        let said = add(&data, arguments);
        let err = text(said.stderr);
        assert_eq!(said.status.code(), Some(exit), "{arguments:?}: {err}");
        assert!(said.stdout.is_empty() && err.contains(message) && err.contains(hint), "{arguments:?}: {err}");
    }
    let bindings: Api<RoleBinding> = Api::namespaced(up.admin().await, "default");
    assert!(bindings.list(&ListParams::default()).await.unwrap().items.is_empty());
    let nowhere = add(&folder.path().join("empty"), &["alice"]);
    let err = text(nowhere.stderr);
    assert!(err.starts_with("error: no control plane is running in ") && err.contains("hint: start it with"), "{err}");
}

#[tokio::test]
async fn an_interrupted_command_leaves_neither_a_file_nor_a_request() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    // Nobody signs the certificate.
    let up = Up::start(&data, &["--store", "memory", "--nodes", "0", "--controllers", ""]);
    let file = folder.path().join("alice.kubeconfig");
    let mut waiting = command(&data, &["alice", "--output", file.to_str().unwrap()]);
    let mut waiting: Child = waiting.stderr(Stdio::null()).spawn().unwrap();
    let requests: Api<CertificateSigningRequest> = Api::all(up.admin().await);
    let start = Instant::now();
    let is_approved = |request: CertificateSigningRequest| {
        request.status.and_then(|status| status.conditions).is_some_and(|conditions| !conditions.is_empty())
    };
    while !requests.list(&ListParams::default()).await.unwrap().items.into_iter().any(is_approved) {
        assert!(start.elapsed() < TIMEOUT && waiting.try_wait().unwrap().is_none());
    }
    assert!(Command::new("kill").args(["-s", "INT", &waiting.id().to_string()]).status().unwrap().success());
    assert_eq!(waiting.wait().unwrap().code(), Some(130));
    assert!(requests.list(&ListParams::default()).await.unwrap().items.is_empty());
    let left: Vec<_> = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.iter().all(|name| name.to_string_lossy().starts_with("data")), "{left:?}");
}
