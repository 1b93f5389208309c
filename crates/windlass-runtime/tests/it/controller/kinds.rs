//! Controllers of metadata, of several namespaces, of structs; and their permissions.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::{Api, core::PartialObjectMeta};
use windlass_runtime::{
    Result,
    context::Context,
    controller::{Action, Reconciler, Watch},
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

#[tokio::test]
async fn a_controller_of_metadata_sees_only_metadata() {
    let cluster = TestCluster::start().await;
    let api: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut secret = Secret::default();
    secret.metadata.name = Some("a".into());
    secret.string_data = Some([("password".to_owned(), "hunter2".to_owned())].into());
    create(&api, secret).await;
    let journal = Journal::new();
    let written = journal.clone();
    let watch = Watch::metadata_of::<Secret>().scope(Scope::namespace(cluster.namespace()));
    let controller = Controller::of("metadata", watch, move |secret: Arc<PartialObjectMeta<Secret>>, _ctx| {
        written.write(serde_json::to_string(&*secret).unwrap());
        async { Ok(Action::done()) }
    });
    let running = Running::start(cluster.client(), controller);
    journal.has(1).await;
    assert!(!journal.read()[0].contains("password"));
    running.stop().await;
}

struct Greeter {
    greeting: String,
    journal: Journal<String>,
}

impl Reconciler<ConfigMap> for Greeter {
    async fn reconcile(&self, config: Arc<ConfigMap>, _ctx: Context) -> Result<Action> {
        tokio::task::yield_now().await;
        self.journal.write(format!("{} {}", self.greeting, name_of(&*config)));
        Ok(Action::done())
    }
}

#[tokio::test]
async fn a_struct_that_reconciles_two_namespaces() {
    let (here, there, elsewhere) =
        (TestCluster::start().await, TestCluster::unique("there"), TestCluster::unique("elsewhere"));
    let namespaces = Api::all(here.client());
    for name in [&there, &elsewhere] {
        let mut namespace = k8s_openapi::api::core::v1::Namespace::default();
        namespace.metadata.name = Some(name.clone());
        create(&namespaces, namespace).await;
    }
    for (namespace, name) in [(here.namespace(), "a"), (&there, "b"), (&elsewhere, "c")] {
        create(&Api::namespaced(here.client(), namespace), config(name)).await;
    }
    let journal = Journal::new();
    let greeter = Greeter { greeting: "hello".into(), journal: journal.clone() };
    let watch = Watch::new().scope(Scope::all().fields("metadata.name!=kube-root-ca.crt"));
    let watch = watch.namespaces([here.namespace(), there.as_str()]);
    let running = Running::start(here.client(), Controller::of("greeter", watch, greeter));
    journal.has(2).await;
    create(&Api::namespaced(here.client(), &elsewhere), config("d")).await;
    create(&Api::namespaced(here.client(), &there), config("e")).await;
    journal.has(3).await;
    let mut seen = journal.read();
    seen.sort();
    assert_eq!(seen, ["hello a", "hello b", "hello e"]);
    running.stop().await;
}

#[test]
fn a_controller_lists_the_permissions_it_needs() {
    let controller = Controller::<Deployment>::new("web", async |_deployment, _ctx| Ok(Action::done()))
        .scope(Scope::namespace("shop"))
        .owns::<ConfigMap>()
        .watches::<Secret>(|_secret, _ctx| Vec::new());
    let permissions = controller.permissions();
    let find = |group: &str, resource: &str| {
        let found = permissions.iter().find(|it| it.group == group && it.resource == resource);
        found.map(|it| (it.verbs.iter().copied().collect::<Vec<_>>().join(" "), it.namespace.as_deref()))
    };
    assert_eq!(find("apps", "deployments"), Some(("get list patch update watch".into(), Some("shop"))));
    assert_eq!(find("apps", "deployments/status"), Some(("get patch update".into(), Some("shop"))));
    assert_eq!(find("apps", "deployments/finalizers"), Some(("update".into(), Some("shop"))));
    assert_eq!(find("", "configmaps"), Some(("create delete get list patch update watch".into(), None)));
    assert_eq!(find("", "secrets"), Some(("get list watch".into(), None)));
}
