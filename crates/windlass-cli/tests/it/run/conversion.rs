//! Versions converted by this machine during a run. The tests respond in place of the operator.

use std::{
    net::Ipv4Addr,
    sync::atomic::{AtomicBool, Ordering},
};

use k8s_openapi::{
    api::admissionregistration::v1::ValidatingWebhookConfiguration,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{Patch, PatchParams, PostParams},
    core::crd::merge_crds,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::task::JoinSet;
use windlass::{
    metrics::Metrics,
    shutdown::Shutdown,
    webhook::{CertificateFiles, Certificates, Conversion, WebhookOptions, Webhooks},
};

use super::{Project, Run, Start, answer_probe};
use crate::process::{Up, output};

const DEFINITION: &str = "books.store.example.com";
/// How books are converted, which a test may change.
static SHOUTS: AtomicBool = AtomicBool::new(false);

#[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[kube(group = "store.example.com", version = "v2", kind = "Book", namespaced)]
struct BookSpec {
    name: String,
}

mod old {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "store.example.com", version = "v1", kind = "Book", namespaced)]
    pub(super) struct BookSpec {
        pub(super) title: String,
    }
}

impl From<old::Book> for Book {
    fn from(book: old::Book) -> Self {
        Self { metadata: book.metadata, spec: BookSpec { name: book.spec.title } }
    }
}

impl From<Book> for old::Book {
    fn from(book: Book) -> Self {
        let title = if SHOUTS.load(Ordering::Relaxed) { book.spec.name.to_uppercase() } else { book.spec.name };
        Self { metadata: book.metadata, spec: old::BookSpec { title } }
    }
}

/// The CRD of an operator in a namespace.
fn definition(namespace: &str) -> Value {
    let mut definition = json!(merge_crds(vec![Book::crd(), old::Book::crd()], "v2").unwrap());
    let service = json!({ "name": "shop-webhook", "namespace": namespace, "path": "/convert", "port": 443 });
    definition["spec"]["conversion"] = json!({
        "strategy": "Webhook",
        "webhook": { "clientConfig": { "service": service }, "conversionReviewVersions": ["v1"] },
    });
    definition
}

fn project() -> Project {
    let mut manifests: Value = serde_json::from_str(super::MANIFESTS).unwrap();
    manifests["items"][0] = definition("shop-system");
    let project = Project::with(&manifests.to_string());
    manifests["items"].as_array_mut().unwrap().truncate(1);
    std::fs::write(project.root().join("crds.json"), manifests.to_string()).unwrap();
    project
}

/// A cluster for a project, with the arguments that a run needs to use it.
struct Cluster {
    _up: Up,
    client: Client,
    definitions: Api<CustomResourceDefinition>,
    kubeconfig: String,
}

impl Cluster {
    async fn beside(project: &Project) -> Self {
        let folder = project.folder.path().join("plane");
        let up = Up::start(&folder, &["--controllers", "", "--nodes", "0", "--store", "memory"]);
        let client = up.admin().await;
        let kubeconfig = folder.join("kubeconfig").to_str().unwrap().to_owned();
        Self { _up: up, definitions: Api::all(client.clone()), client, kubeconfig }
    }

    fn run(&self, project: &Project) -> Run {
        project.run(&["--kubeconfig", &self.kubeconfig])
    }

    async fn conversion(&self) -> Value {
        json!(self.definitions.get(DEFINITION).await.unwrap().spec.conversion)
    }

    /// Asserts that a run has left nothing behind that would conflict with the next apply.
    async fn assert_no_trace(&self) {
        let definition = self.definitions.get(DEFINITION).await.unwrap();
        let metadata = json!({ "labels": definition.labels(), "annotations": definition.annotations() });
        assert!(!metadata.to_string().contains("run"), "{metadata}");
        let managers = definition.managed_fields().iter().filter_map(|owner| owner.manager.as_deref());
        assert_eq!(managers.filter(|manager| manager.contains("run")).count(), 0);
        let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(self.client.clone());
        assert!(webhooks.get_opt("shop-run").await.unwrap().is_none());
        let apply = PatchParams::apply("windlass");
        let moved = super::conversion::definition("elsewhere");
        let moved = self.definitions.patch(DEFINITION, &apply, &Patch::Apply(moved)).await.unwrap();
        let moved = json!(moved.spec.conversion);
        assert_eq!(moved.pointer("/webhook/clientConfig/service/namespace"), Some(&json!("elsewhere")), "{moved}");
    }
}

/// Serves conversions in place of the operator until dropped.
async fn convert(project: &Project, start: &Start) -> JoinSet<()> {
    let certificates = CertificateFiles::in_directory(project.root().join("target/windlass/webhook"));
    let mut options = WebhookOptions::new(Certificates::Files(certificates));
    options.address = (Ipv4Addr::LOCALHOST, start.webhook_port.parse().unwrap()).into();
    let webhooks = Webhooks::new().conversion(Conversion::<Book>::new().spoke::<old::Book>());
    let server = webhooks.bind(options, &Metrics::new()).await.unwrap();
    let mut serving = JoinSet::new();
    serving.spawn(server.run(Shutdown::new()));
    serving
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn conversion_is_redirected_during_a_run_and_restored_after_it() {
    let project = project();
    let cluster = Cluster::beside(&project).await;
    // Another manager has created it: an apply that only adds the URL of this machine would be rejected.
    let theirs = serde_json::from_value(definition("shop-system")).unwrap();
    cluster.definitions.create(&PostParams::default(), &theirs).await.unwrap();
    let before = cluster.conversion().await;

    let mut run = cluster.run(&project);
    let first = run.until("the first start", || project.start(1));
    let converter = convert(&project, &first).await;
    let new: Api<Book> = Api::namespaced(cluster.client.clone(), "default");
    let old: Api<old::Book> = Api::namespaced(cluster.client.clone(), "default");
    let emma = old::Book::new("emma", old::BookSpec { title: "Emma".to_owned() });
    old.create(&PostParams::default(), &emma).await.unwrap();
    assert_eq!(new.get("emma").await.unwrap().spec.name, "Emma");
    let url = json!(format!("https://127.0.0.1:{}/convert", first.webhook_port));
    assert_eq!(cluster.conversion().await["webhook"]["clientConfig"]["url"], url);

    // After a change the operator is another process, which is reached in the same way and may convert differently. The
    // server's cache is invalidated.
    tokio::task::block_in_place(|| answer_probe(&first.probes));
    run.until_said("windlass | the operator is ready");
    assert_eq!(old.get("emma").await.unwrap().spec.title, "Emma");
    drop(converter);
    SHOUTS.store(true, Ordering::Relaxed);
    project.append("src/lib.rs", "// changed\n");
    let second = run.until("the second start", || project.start(2));
    let converter = convert(&project, &second).await;
    tokio::task::block_in_place(|| answer_probe(&second.probes));
    let log = run.log.clone();
    let ready = |log: &str| log.matches("windlass | the operator is ready").count() == 2;
    run.until("ready again", || ready(&std::fs::read_to_string(&log).unwrap()).then_some(()));
    assert_eq!(old.get("emma").await.unwrap().spec.title, "EMMA");

    let said = run.interrupt();
    drop(converter);
    assert!(
        said.contains(&format!("CustomResourceDefinition {DEFINITION}: restored the conversion before the run")),
        "{said}"
    );
    assert_eq!(cluster.conversion().await, before, "{said}");
    cluster.assert_no_trace().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_of_a_killed_run_are_removed_by_the_next_even_if_its_build_fails() {
    let project = project();
    let cluster = Cluster::beside(&project).await;
    for before in [json!({ "strategy": "None" }), definition("elsewhere")["spec"]["conversion"].clone()] {
        let killed = kill_one(&project, &cluster).await;
        assert_eq!(cluster.conversion().await["webhook"]["clientConfig"]["url"], killed);
        let lib = project.root().join("src/lib.rs");
        let text = std::fs::read_to_string(&lib).unwrap();
        project.append("src/lib.rs", "// BROKEN\n");
        let arguments = ["run", "--plain", "--no-watch", "--kubeconfig", &cluster.kubeconfig];
        let said = output(&mut project.command(&arguments));
        std::fs::write(lib, text).unwrap();
        let err = String::from_utf8(said.stderr).unwrap();
        assert_eq!(said.status.code(), Some(1), "{err}");
        assert!(err.contains("ValidatingWebhookConfiguration shop-run: deleted"), "{err}");
        assert_eq!(cluster.conversion().await, before, "{err}");
        // This also changes the conversion before the second round.
        cluster.assert_no_trace().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn leftovers_of_a_killed_run_are_removed_with_the_crds() {
    let project = project();
    let cluster = Cluster::beside(&project).await;
    kill_one(&project, &cluster).await;
    for (flags, says) in [(&["--dry-run"][..], "would be deleted"), (&[], "deleted")] {
        let arguments = [&["uninstall", "--kubeconfig", &cluster.kubeconfig], flags].concat();
        let said = output(&mut project.command(&arguments));
        let all = String::from_utf8([said.stdout, said.stderr].concat()).unwrap();
        assert_eq!(said.status.code(), Some(0), "{all}");
        assert!(all.contains(&format!("ValidatingWebhookConfiguration shop-run: {says}\n")), "{all}");
        assert!(all.contains(&format!("CustomResourceDefinition {DEFINITION}: {says}\n")), "{all}");
    }
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    assert!(webhooks.get_opt("shop-run").await.unwrap().is_none());
    assert!(cluster.definitions.get_opt(DEFINITION).await.unwrap().is_none());
}

/// Kills a run whose operator was ready, and returns where the cluster still looks for it.
async fn kill_one(project: &Project, cluster: &Cluster) -> Value {
    let _ = std::fs::remove_file(project.root().join("starts"));
    let mut run = cluster.run(project);
    let start = run.until("the start", || project.start(1));
    tokio::task::block_in_place(|| answer_probe(&start.probes));
    run.until_said("windlass | the operator is ready");
    drop(run);
    let webhooks: Api<ValidatingWebhookConfiguration> = Api::all(cluster.client.clone());
    assert!(webhooks.get_opt("shop-run").await.unwrap().is_some());
    json!(format!("https://127.0.0.1:{}/convert", start.webhook_port))
}
