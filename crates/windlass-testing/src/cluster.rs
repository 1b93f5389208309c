//! An API server for a test.

use std::{
    any::TypeId,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use futures_util::future::Either;
use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope, api::core::v1::Namespace,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, CustomResourceExt, Resource,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::Request,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::{sync::watch, task::JoinHandle};
use windlass_apiserver::Server;
use windlass_runtime::{
    operator::{Operator, OperatorError, Options},
    shutdown::Shutdown,
};
use windlass_store::MemoryStore;

use crate::{
    history::{self, Story},
    recording::recorded,
    webhooks,
};

/// How long anything may take before a test fails.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long a cluster may take to say that it will delete a namespace.
const GOODBYE: Duration = Duration::from_secs(5);
/// How often a condition is looked at.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// An API server with a namespace for a test.
///
/// The embedded server is the test's own. A cluster, named by `WINDLASS_TEST_KUBECONFIG`, is shared with other tests:
/// what is not in the namespace is named with [`TestCluster::unique`], or is the same for all of them.
pub struct TestCluster {
    client: Client,
    namespace: String,
    /// None when the server is a cluster.
    server: Option<Server>,
    /// The revision at which the test began.
    began: String,
    /// How to get there again, when it is a cluster.
    kubeconfig: Option<PathBuf>,
    /// Whether the webhooks of the operators that were run are served.
    webhooks: Mutex<Vec<watch::Receiver<bool>>>,
}

impl TestCluster {
    /// A server with an empty namespace. Panics if there is none to be had: a test cannot go on.
    pub async fn start() -> Self {
        let kubeconfig = std::env::var_os("WINDLASS_TEST_KUBECONFIG").map(PathBuf::from);
        let (client, server) = match &kubeconfig {
            Some(path) => (connect(path).await, None),
            None => {
                let store = Arc::new(MemoryStore::default());
                let server = Server::builder(store).build().await.expect("an empty server must start");
                (server.client(), Some(server))
            }
        };
        let before = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default().limit(1)).await;
        let began = before.expect("namespaces must be listed").metadata.resource_version.unwrap_or_default();
        let cluster =
            Self { client, namespace: Self::unique("test"), server, began, kubeconfig, webhooks: Mutex::default() };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(cluster.namespace.clone());
        let created = Api::all(cluster.client()).create(&PostParams::default(), &namespace).await;
        created.expect("a namespace must be created");
        cluster
    }

    /// A client of the administrator.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// The server, unless it is a cluster.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// The test's own namespace.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// The objects of a kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Creates an object: in the test's namespace, unless it names another or its kind has none. Operators that were run
    /// before get the time to serve their webhooks.
    ///
    /// # Panics
    ///
    /// If the server refuses it.
    pub async fn create<K>(&self, object: K) -> K
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Serialize,
    {
        let webhooks = self.webhooks.lock().expect("nobody panics with it").clone();
        for mut served in webhooks {
            // An operator that has ended has nothing to wait for.
            let _ = tokio::time::timeout(PATIENCE, served.wait_for(|served| *served)).await;
        }
        let of_cluster = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        let namespace = object.meta().namespace.as_deref().unwrap_or(&self.namespace);
        let request = Request::new(K::url_path(&(), (!of_cluster).then_some(namespace)));
        let body = serde_json::to_vec(&object).expect("an object must be JSON");
        let request = request.create(&PostParams::default(), body).expect("a creation must be a request");
        match self.client.request(request).await {
            Ok(created) => created,
            Err(error) => {
                let name = object.meta().name.as_deref().unwrap_or_default();
                panic!("cannot create {} {name}: {error}", K::kind(&()))
            }
        }
    }

    /// A name that no other test has.
    pub fn unique(prefix: &str) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        format!("{prefix}-{}", &id[..12])
    }

    /// Defines a custom resource, unless that has been done, and waits until it is served.
    pub async fn define<K: CustomResourceExt>(&self) {
        self.define_as(&K::crd()).await;
    }

    /// The same by a definition.
    pub async fn define_as(&self, definition: &CustomResourceDefinition) {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client());
        match definitions.create(&PostParams::default(), definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => panic!("cannot define {name}: {error}"),
        }
        eventually("the definition is established", async || {
            let definition = definitions.get(&name).await.ok()?;
            let conditions = definition.status?.conditions?;
            conditions
                .iter()
                .find(|condition| condition.type_ == "Established" && condition.status == "True")
                .map(|_| ())
        })
        .await;
    }

    /// Runs an operator against the server, until it is stopped or dropped. What it watches in all namespaces, it
    /// watches in the test's own: on a cluster, operators of other tests run at the same time.
    ///
    /// The embedded server asks its webhooks, from when [`RunningOperator::webhooks_served`] says so: configurations, the
    /// Service and definitions with their conversion are made as its manifests have them, in the namespace
    /// `<operator>-system`. A cluster cannot reach a test.
    pub fn run(&self, operator: Operator) -> RunningOperator {
        let shutdown = Shutdown::new();
        let mut options = Options { namespaces: vec![self.namespace.clone()], ..Options::default() };
        // Other tests serve theirs at the same time.
        options.webhooks.port = 0;
        options.webhooks.namespace = self.namespace.clone();
        let mut manifests = operator.manifests(&self.namespace, "");
        let own = format!("{}-system", manifests.name);
        let recorded = recorded(self.client(), &self.namespace, &own);
        if self.server.is_none() || manifests.webhooks.is_empty() {
            let running = tokio::spawn(operator.run_with(recorded, options, shutdown.clone()));
            return RunningOperator { shutdown, running: Some(running), served: None };
        }
        let (serving, served) = watch::channel(false);
        let state = operator.state().clone();
        // Where an operator that is deployed is, too: apart from what it works on.
        options.webhooks.namespace.clone_from(&own);
        manifests.namespace = own;
        self.webhooks.lock().expect("nobody panics with it").push(served.clone());
        let (client, end) = (self.client(), shutdown.clone());
        let running = tokio::spawn(async move {
            webhooks::configure(client.clone(), manifests.clone()).await;
            let connecting = webhooks::connect(client, manifests, state, serving);
            let running = operator.run_with(recorded, options, end);
            let (running, connecting) = (std::pin::pin!(running), std::pin::pin!(connecting));
            match futures_util::future::select(running, connecting).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), running)) => running.await,
            }
        });
        RunningOperator { shutdown, running: Some(running), served: Some(served) }
    }
}

/// When a test fails, the history of its objects is told. The namespace goes, if the server stays. Nothing is waited for
/// but the answer, and nothing fails.
impl Drop for TestCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.tell_history();
        }
        let Some(kubeconfig) = self.kubeconfig.take() else { return };
        let namespace = std::mem::take(&mut self.namespace);
        // On a thread with a client of its own: the test's runtime may be about to end, and this must not wait for it.
        let deletion = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime must start").block_on(async {
                let namespaces: Api<Namespace> = Api::all(connect(&kubeconfig).await);
                let params = DeleteParams::background();
                let _ = tokio::time::timeout(GOODBYE, namespaces.delete(&namespace, &params)).await;
            });
        });
        let _ = deletion.join();
    }
}

impl TestCluster {
    /// What has happened to the objects of the test since it began, as text: how each was made, and what changed in it.
    /// A test that fails tells it by itself; it is here for those that want to know.
    pub async fn history(&self) -> String {
        history::render(&self.of_test(history::stories(&self.client, &self.began).await))
    }

    fn of_test(&self, mut stories: Vec<Story>) -> Vec<Story> {
        stories.retain(|story| match &story.namespace {
            // A cluster is shared.
            _ if self.server.is_none() => story.namespace.as_ref() == Some(&self.namespace),
            Some(namespace) => !namespace.starts_with("kube-"),
            None => true,
        });
        stories
    }

    fn tell_history(&self) {
        // The embedded server is the test's own; of a cluster, only what is in the namespace is.
        let Some(server) = self.server.clone() else { return };
        let began = self.began.clone();
        // On a thread with a runtime of its own, as the test's is not free while it unwinds.
        let history = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let client = server.client();
                tokio::time::timeout(GOODBYE, history::stories(&client, &began)).await.ok()
            })
        });
        if let Ok(Some(stories)) = history.join() {
            let text = history::render(&self.of_test(stories));
            #[allow(clippy::print_stderr, reason = "this is where a test's words go")]
            {
                eprintln!("--- what happened to the objects of this test ---\n{text}---");
            }
        }
    }
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig must be readable");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("the kubeconfig must name a cluster")).expect("the cluster must be usable")
}

/// An operator at work; aborted when dropped.
pub struct RunningOperator {
    shutdown: Shutdown,
    running: Option<JoinHandle<Result<(), OperatorError>>>,
    /// Whether its webhooks are served, if it has any.
    served: Option<watch::Receiver<bool>>,
}

impl RunningOperator {
    /// Waits until the API server can ask the operator's webhooks: before, writes of what they are about are refused.
    ///
    /// # Panics
    ///
    /// If the operator ends before.
    pub async fn webhooks_served(&self) {
        if let Some(served) = &self.served {
            let mut served = served.clone();
            let served = tokio::time::timeout(PATIENCE, served.wait_for(|served| *served)).await;
            served.expect("webhooks must be served in time").expect("the operator must run");
        }
    }

    /// Lets it finish what it does, and answers how it ended.
    pub async fn stop(mut self) -> Result<(), OperatorError> {
        self.shutdown.drain();
        let running = self.running.take().expect("an operator must be stopped once");
        running.await.expect("an operator must not panic")
    }
}

impl Drop for RunningOperator {
    fn drop(&mut self) {
        self.shutdown.abort();
        if let Some(running) = &self.running {
            running.abort();
        }
    }
}

/// Waits until something holds, and answers with what was found. Panics with `what` if it never does.
pub async fn eventually<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = holds().await {
                return value;
            }
            tokio::time::sleep(LOOK_AGAIN).await;
        }
    };
    tokio::time::timeout(PATIENCE, waiting).await.unwrap_or_else(|_| panic!("never came true: {what}"))
}
