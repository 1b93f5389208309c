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
    history::{self, ObjectHistory},
    recording::recorded,
    webhooks,
};

/// How long a test waits for anything before it fails.
const TIMEOUT: Duration = Duration::from_secs(60);
/// How long to wait at the end of a test for a response to a cleanup request.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Interval at which expectations are checked.
const POLL_INTERVAL: Duration = Duration::from_millis(5);

/// An API server, with a namespace for one test.
///
/// The embedded server belongs to the test. A cluster named by `WINDLASS_TEST_KUBECONFIG` is shared with other tests:
/// cluster-scoped objects must have [unique](TestCluster::unique) names, or be the same for all tests.
pub struct TestCluster {
    client: Client,
    namespace: String,
    /// `None` if the server is a cluster.
    server: Option<Server>,
    /// Resource version at the start of the test.
    began: String,
    /// Kubeconfig of the cluster, if the server is one.
    kubeconfig: Option<PathBuf>,
    /// Whether the webhooks of each started operator are served.
    webhooks: Mutex<Vec<watch::Receiver<bool>>>,
}

impl TestCluster {
    /// Starts a server with an empty namespace.
    ///
    /// # Panics
    ///
    /// If the server cannot be started or reached.
    pub async fn start() -> Self {
        let kubeconfig = std::env::var_os("WINDLASS_TEST_KUBECONFIG").map(PathBuf::from);
        let (client, server) = match &kubeconfig {
            Some(path) => (connect(path).await, None),
            None => {
                let store = Arc::new(MemoryStore::default());
                let server = Server::builder(store).build().await.expect("the embedded server must start");
                (server.client(), Some(server))
            }
        };
        let before = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default().limit(1)).await;
        let began = before.expect("listing namespaces must succeed").metadata.resource_version.unwrap_or_default();
        let cluster =
            Self { client, namespace: Self::unique("test"), server, began, kubeconfig, webhooks: Mutex::default() };
        let mut namespace = Namespace::default();
        namespace.metadata.name = Some(cluster.namespace.clone());
        let created = Api::all(cluster.client()).create(&PostParams::default(), &namespace).await;
        created.expect("creating the test namespace must succeed");
        cluster
    }

    /// Returns a client with administrator permissions.
    pub fn client(&self) -> Client {
        self.client.clone()
    }

    /// Returns the embedded server, or `None` if the tests run against a cluster.
    pub fn server(&self) -> Option<&Server> {
        self.server.as_ref()
    }

    /// Returns the namespace of the test.
    pub fn namespace(&self) -> &str {
        &self.namespace
    }

    /// Returns an API for a kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Creates an object, in the test's namespace unless it names another or is cluster-scoped. Waits until the webhooks
    /// of operators that were started before are served.
    ///
    /// # Panics
    ///
    /// If the server rejects the object.
    pub async fn create<K>(&self, object: K) -> K
    where
        K: Resource<DynamicType = (), Scope: 'static> + DeserializeOwned + Serialize,
    {
        let webhooks = self.webhooks.lock().expect("no holder of the lock panics").clone();
        for mut served in webhooks {
            // Fails only if the operator has ended.
            let _ = tokio::time::timeout(TIMEOUT, served.wait_for(|served| *served)).await;
        }
        let cluster_scoped = TypeId::of::<K::Scope>() == TypeId::of::<ClusterResourceScope>();
        let namespace = object.meta().namespace.as_deref().unwrap_or(&self.namespace);
        let request = Request::new(K::url_path(&(), (!cluster_scoped).then_some(namespace)));
        let body = serde_json::to_vec(&object).expect("an object must serialize");
        let request = request.create(&PostParams::default(), body).expect("the request must be valid");
        match self.client.request(request).await {
            Ok(created) => created,
            Err(error) => {
                let name = object.meta().name.as_deref().unwrap_or_default();
                panic!("failed to create {} {name}: {error}", K::kind(&()))
            }
        }
    }

    /// Returns a name with this prefix that no other test uses.
    pub fn unique(prefix: &str) -> String {
        let id = uuid::Uuid::new_v4().simple().to_string();
        format!("{prefix}-{}", &id[..12])
    }

    /// Installs the CRD of a custom resource, unless it exists, and waits until it is established.
    pub async fn define<K: CustomResourceExt>(&self) {
        self.define_as(&K::crd()).await;
    }

    /// Installs a CRD, unless it exists, and waits until it is established.
    pub async fn define_as(&self, definition: &CustomResourceDefinition) {
        let name = definition.metadata.name.clone().unwrap_or_default();
        let definitions: Api<CustomResourceDefinition> = Api::all(self.client());
        match definitions.create(&PostParams::default(), definition).await {
            Ok(_) => {}
            Err(kube::Error::Api(status)) if status.is_already_exists() => {}
            Err(error) => panic!("failed to create CRD {name}: {error}"),
        }
        eventually("the CRD is established", async || {
            let definition = definitions.get(&name).await.ok()?;
            let conditions = definition.status?.conditions?;
            conditions
                .iter()
                .find(|condition| condition.type_ == "Established" && condition.status == "True")
                .map(|_| ())
        })
        .await;
    }

    /// Runs an operator against the server until it is stopped or dropped. Watches of all namespaces are restricted to the
    /// test's namespace, because operators of other tests may run on the same cluster.
    ///
    /// The embedded server calls the operator's webhooks as soon as [`RunningOperator::webhooks_served`] returns: the
    /// webhook configurations, the Service and CRDs with their conversion are created from the operator's manifests, in
    /// the namespace `<operator>-system`. On a cluster they are not, because it could not reach the test.
    pub fn run(&self, operator: Operator) -> RunningOperator {
        let shutdown = Shutdown::new();
        let mut options = Options { namespaces: vec![self.namespace.clone()], ..Options::default() };
        // Other tests serve webhooks at the same time.
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
        // In its own namespace, like a deployed operator.
        options.webhooks.namespace.clone_from(&own);
        manifests.namespace = own;
        self.webhooks.lock().expect("no holder of the lock panics").push(served.clone());
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

/// Prints the history of all objects if the test fails, and deletes the namespace if the server is a cluster. Waits only
/// for the response, and never fails.
impl Drop for TestCluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.print_history();
        }
        let Some(kubeconfig) = self.kubeconfig.take() else { return };
        let namespace = std::mem::take(&mut self.namespace);
        // On a separate thread with its own client: the test's runtime may be about to end, and this must not wait for it.
        let deletion = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime must start").block_on(async {
                let namespaces: Api<Namespace> = Api::all(connect(&kubeconfig).await);
                let params = DeleteParams::background();
                let _ = tokio::time::timeout(CLEANUP_TIMEOUT, namespaces.delete(&namespace, &params)).await;
            });
        });
        let _ = deletion.join();
    }
}

impl TestCluster {
    /// Returns the history of all objects since the test began, as text: how each was created, and every change to it.
    /// A failing test prints it.
    pub async fn history(&self) -> String {
        history::render(&self.relevant(history::histories(&self.client, &self.began).await))
    }

    fn relevant(&self, mut histories: Vec<ObjectHistory>) -> Vec<ObjectHistory> {
        histories.retain(|history| match &history.namespace {
            // A cluster is shared with other tests.
            _ if self.server.is_none() => history.namespace.as_ref() == Some(&self.namespace),
            Some(namespace) => !namespace.starts_with("kube-"),
            None => true,
        });
        histories
    }

    fn print_history(&self) {
        // Only for the embedded server, which belongs to the test.
        let Some(server) = self.server.clone() else { return };
        let began = self.began.clone();
        // On a separate thread with its own runtime, because the test's runtime is blocked while it unwinds.
        let history = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().ok()?;
            runtime.block_on(async {
                let client = server.client();
                tokio::time::timeout(CLEANUP_TIMEOUT, history::histories(&client, &began)).await.ok()
            })
        });
        if let Ok(Some(histories)) = history.join() {
            let text = history::render(&self.relevant(histories));
            #[allow(clippy::print_stderr, reason = "test output goes to stderr")]
            {
                eprintln!("--- history of the objects of this test ---\n{text}---");
            }
        }
    }
}

async fn connect(kubeconfig: &Path) -> Client {
    let kubeconfig = Kubeconfig::read_from(kubeconfig).expect("the kubeconfig must be readable");
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    Client::try_from(config.expect("the kubeconfig must be valid")).expect("creating a client must succeed")
}

/// A running operator. Aborted when dropped.
pub struct RunningOperator {
    shutdown: Shutdown,
    running: Option<JoinHandle<Result<(), OperatorError>>>,
    /// Whether the webhooks are served; `None` if the operator has none.
    served: Option<watch::Receiver<bool>>,
}

impl RunningOperator {
    /// Waits until the API server can call the operator's webhooks. Until then, writes that they match are rejected.
    ///
    /// # Panics
    ///
    /// If the operator ends before that.
    pub async fn webhooks_served(&self) {
        if let Some(served) = &self.served {
            let mut served = served.clone();
            let served = tokio::time::timeout(TIMEOUT, served.wait_for(|served| *served)).await;
            served.expect("webhooks must be served in time").expect("the operator must run");
        }
    }

    /// Shuts the operator down gracefully, and returns its result.
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

/// Waits until `holds` returns a value, and returns it.
///
/// # Panics
///
/// With `what` in the message, if it does not within a minute.
pub async fn eventually<T>(what: &str, mut holds: impl AsyncFnMut() -> Option<T>) -> T {
    let waiting = async {
        loop {
            if let Some(value) = holds().await {
                return value;
            }
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    tokio::time::timeout(TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("timed out waiting: {what}"))
}
