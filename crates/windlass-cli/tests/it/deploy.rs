//! `windlass install`, `deploy`, `undeploy` and `uninstall` against their own control plane.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{
    Api, Client,
    api::{Patch, PatchParams, PostParams},
    core::{DynamicObject, GroupVersionKind},
    discovery::ApiResource,
};
use serde_json::json;

use crate::{
    golden::{Golden, program},
    process::Up,
};

fn guestbooks(client: Client) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("webapp.example.com", "v1", "Guestbook");
    Api::namespaced_with(client, "default", &ApiResource::from_gvk_with_plural(&kind, "guestbooks"))
}

async fn make_guestbook(client: Client) {
    let guestbook = json!({
        "apiVersion": "webapp.example.com/v1", "kind": "Guestbook", "metadata": {"name": "guests"},
        "spec": {"configMapName": "settings"},
    });
    let guestbook = serde_json::from_value(guestbook).unwrap();
    guestbooks(client).create(&PostParams::default(), &guestbook).await.unwrap();
}

#[tokio::test]
async fn crds_with_objects_are_only_deleted_with_force() {
    let golden = Golden::new();
    let up = Up::start(&golden.beside("plane"), &[]);
    let kubeconfig = golden.beside("plane/kubeconfig");
    let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let run = |command: &[&str]| golden.run(&[command, &cluster].concat());

    let name = "CustomResourceDefinition guestbooks.webapp.example.com";
    let said = run(&["install", "--dry-run"]);
    assert_eq!((said.code, said.out), (Some(0), format!("{name}: would be created\n")), "{}", said.err);
    let said = run(&["install"]);
    assert_eq!((said.code, said.out.as_str()), (Some(0), ""));
    assert!(said.err.starts_with(&format!("cluster {}", up.url())), "{}", said.err);
    assert!(said.err.ends_with(&format!("{name}: created\n")), "{}", said.err);
    assert!(run(&["install"]).err.ends_with(&format!("{name}: unchanged\n")));

    make_guestbook(up.admin().await).await;
    let said = run(&["uninstall"]);
    assert_eq!(said.code, Some(1));
    let lost = "aborted: 1 object of guestbooks.webapp.example.com would be deleted";
    assert!(said.err.contains(lost) && said.err.contains("hint: use --force"), "{}", said.err);
    assert!(guestbooks(up.admin().await).get_opt("guests").await.unwrap().is_some());
    let said = run(&["uninstall", "--force"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.ends_with(&format!("{name}: deleted\n")), "{}", said.err);
    assert!(run(&["uninstall"]).err.ends_with(&format!("{name}: not found\n")));
}

#[tokio::test]
async fn an_operator_is_deployed_changed_and_removed() {
    let golden = Golden::new();
    let up = Up::start(&golden.beside("plane"), &[]);
    let kubeconfig = golden.beside("plane/kubeconfig");
    let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let run = |command: &[&str]| golden.run(&[command, &cluster].concat());

    let said = run(&["deploy", "--dry-run"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.out.contains("Deployment guestbook-system/guestbook: would be created\n"), "{}", said.out);
    let said = run(&["deploy"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    let last = "Deployment guestbook-system/guestbook: 1 of 1 available\n";
    assert!(said.err.ends_with(last), "{}", said.err);
    let client = up.admin().await;
    let deployments: Api<Deployment> = Api::namespaced(client.clone(), "guestbook-system");
    assert!(deployments.get("guestbook").await.unwrap().status.unwrap().available_replicas == Some(1));

    // Only differences are reported, with their path.
    let said = run(&["deploy", "--dry-run", "--image", "guestbook:v2"]);
    let changed = r#"Deployment guestbook-system/guestbook: would be changed (spec.template.spec.containers[0].image: "guestbook:latest" -> "guestbook:v2")"#;
    assert!(said.out.contains(changed), "{}", said.out);
    assert_eq!(said.out.lines().filter(|line| !line.ends_with(": unchanged")).count(), 1, "{}", said.out);

    // Fields of other managers are only taken over with --force-conflicts.
    let theirs = json!({"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"replicas": 2}});
    let parameters = PatchParams::apply("scaler").force();
    deployments.patch("guestbook", &parameters, &Patch::Apply(&theirs)).await.unwrap();
    let said = run(&["deploy"]);
    assert_eq!(said.code, Some(1));
    assert!(
        said.err.contains("cannot apply Deployment guestbook-system/guestbook: ") && said.err.contains("scaler"),
        "{}",
        said.err
    );
    assert!(said.err.contains("hint: use --force-conflicts to take ownership of these fields"), "{}", said.err);
    assert_eq!(run(&["deploy", "--force-conflicts"]).code, Some(0));

    make_guestbook_without_webhooks(&client).await;
    assert_eq!(run(&["undeploy"]).code, Some(1));
    let said = run(&["undeploy", "--force"]);
    assert_eq!(said.code, Some(0), "{}", said.err);
    assert!(said.err.contains("Namespace guestbook-system: deleted"), "{}", said.err);
    let namespaces: Api<Namespace> = Api::all(client);
    assert!(namespaces.get_opt("guestbook-system").await.unwrap().is_none());
}

/// Deploys the operator of the golden project on a plane that runs pods as processes, in a variant of the deployment, and
/// waits until a sample is ready. The operator runs as its Deployment says: with its arguments, probes and Service, as its
/// service account with the generated roles. Its webhooks are called.
async fn a_sample_becomes_ready(golden: &Golden, overlay: &[&str], namespace: &str, replicas: i32) {
    let _alone = ONE_AT_A_TIME.lock().await;
    let images = golden.beside("images.yaml");
    let entry = json!({ "images": [{ "image": "guestbook", "command": ["sh", "-c", AS_POD, program()] }] });
    std::fs::write(&images, entry.to_string()).unwrap();
    let runtime = ["--runtime", "process", "--nodes", "1", "--images", images.to_str().unwrap()];
    let up = Up::start(&golden.beside("plane"), &runtime);
    let kubeconfig = golden.beside("plane/kubeconfig");
    let cluster = ["--kubeconfig", kubeconfig.to_str().unwrap()];
    let client = up.admin().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    if namespace != "default" {
        let object = serde_json::from_value(json!({ "metadata": { "name": namespace } })).unwrap();
        namespaces.create(&PostParams::default(), &object).await.unwrap();
    }
    let said = golden.run(&[&["deploy"][..], overlay, &cluster].concat());
    assert_eq!(said.code, Some(0), "{}", said.err);
    let available = format!("Deployment guestbook-system/guestbook: {replicas} of {replicas} available\n");
    assert!(said.err.ends_with(&available), "{}", said.err);

    let kind = GroupVersionKind::gvk("webapp.example.com", "v1", "Guestbook");
    let resource = ApiResource::from_gvk_with_plural(&kind, "guestbooks");
    let guestbooks: Api<DynamicObject> = Api::namespaced_with(client, namespace, &resource);
    let text = golden.read("deploy/samples/guestbook_v1.yaml");
    let mut sample: DynamicObject =
        serde_json::from_value(windlass_schema::yaml::to_json_value(&text).unwrap()).unwrap();
    sample.metadata.namespace = Some(namespace.to_owned());
    let name = sample.metadata.name.clone().unwrap();
    let created = guestbooks.create(&PostParams::default(), &sample).await.unwrap();
    // The defaulting webhook was called.
    assert_eq!(created.metadata.labels.unwrap()["app.kubernetes.io/managed-by"], "guestbook");
    windlass_testing::eventually("the sample is ready", async || {
        let object = guestbooks.get(&name).await.unwrap();
        let conditions = object.data.pointer("/status/conditions").cloned().unwrap_or_default();
        let is_ready = |one: &serde_json::Value| one["type"] == "Ready" && one["status"] == "True";
        conditions.as_array().into_iter().flatten().any(is_ready).then_some(())
    })
    .await;
}

/// Pods of two planes may have the same address, and these have the same ports.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

/// Runs a program as a pod.
const AS_POD: &str = include_str!("as_pod.sh");

#[tokio::test]
async fn the_default_deployment_works() {
    a_sample_becomes_ready(&Golden::new(), &[], "default", 1).await;
}

#[tokio::test]
async fn an_overlay_with_shards_that_watch_a_namespace_works() {
    let golden = Golden::new();
    golden.must(&["create", "overlay", "team", "--replicas", "2", "--shards", "--watch-namespaces", "team-a"]);
    a_sample_becomes_ready(&golden, &["--overlay", "team"], "team-a", 2).await;
}

/// The webhooks of an operator with simulated pods have no server.
async fn make_guestbook_without_webhooks(client: &Client) {
    use k8s_openapi::api::admissionregistration::v1::{MutatingWebhookConfiguration, ValidatingWebhookConfiguration};
    let mutating: Api<MutatingWebhookConfiguration> = Api::all(client.clone());
    let validating: Api<ValidatingWebhookConfiguration> = Api::all(client.clone());
    mutating.delete("guestbook", &Default::default()).await.unwrap();
    validating.delete("guestbook", &Default::default()).await.unwrap();
    make_guestbook(client.clone()).await;
}

#[test]
fn an_unreachable_cluster_is_reported_with_a_hint() {
    let golden = Golden::new();
    let said = golden.run(&["install", "--kubeconfig", "/nowhere/at/all"]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot read kubeconfig /nowhere/at/all"), "{}", said.err);
    let kubeconfig = golden.beside("kubeconfig");
    let text = "apiVersion: v1\nkind: Config\ncurrent-context: a\nclusters: [{name: a, cluster: {server: 'http://127.0.0.1:1'}}]\n\
                contexts: [{name: a, context: {cluster: a, user: a}}]\nusers: [{name: a, user: {}}]\n";
    std::fs::write(&kubeconfig, text).unwrap();
    let kubeconfig = kubeconfig.to_str().unwrap();
    let said = golden.run(&["install", "--kubeconfig", kubeconfig, "--context", "b"]);
    assert!(said.err.contains("has no context \"b\"\nhint: choose one with --context: a\n"), "{}", said.err);
    let said = golden.run(&["install", "--kubeconfig", kubeconfig]);
    assert_eq!(said.code, Some(1));
    assert!(said.err.contains("cannot connect to http://127.0.0.1:1 (context a of "), "{}", said.err);
    assert!(said.err.contains("\nhint: check that the cluster is running"), "{}", said.err);
}
