//! An API server for a test.

use std::{
    any::TypeId,
    io::Write as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
    time::Duration,
};

use k8s_openapi::{
    ClusterResourceScope, NamespaceResourceScope,
    api::{
        core::v1::Namespace,
        rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding},
    },
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, Config, CustomResourceExt, Resource,
    api::{DeleteParams, ListParams, PostParams},
    config::{KubeConfigOptions, Kubeconfig},
    core::Request,
};
use serde::{Serialize, de::DeserializeOwned};
use tokio::sync::watch;
use windlass_apiserver::{Server, ServerBuilder};
use windlass_runtime::client::{self, ClientOptions};
use windlass_store::MemoryStore;

use crate::{
    account,
    denials::DenialCheck,
    history::{self, Change, ObjectHistory},
};

/// Time for which a test waits for anything before it fails.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(60);
/// Time to wait at the end of a test for a response to a cleanup request.
const CLEANUP_TIMEOUT: Duration = Duration::from_secs(5);
/// Label of cluster-scoped objects that are created for a test on a cluster, with its namespace.
pub(crate) const TEST_LABEL: &str = "windlass.dev/test";
/// First word of a line about a test that does not run on a cluster. `cargo xtask e2e` counts these lines.
const SKIPPED: &str = "SKIPPED";
/// Interval at which expectations are checked.
pub(crate) const POLL_INTERVAL: Duration = Duration::from_millis(5);

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
    pub(crate) kubeconfig: Option<PathBuf>,
    /// Whether the webhooks of each started operator are served.
    pub(crate) webhooks: Mutex<Vec<watch::Receiver<bool>>>,
    /// Denied requests of each started operator.
    pub(crate) denials: Mutex<Vec<DenialCheck>>,
}

impl TestCluster {
    /// Starts a server with an empty namespace.
    ///
    /// # Panics
    ///
    /// If the server cannot be started or reached.
    pub async fn start() -> Self {
        Self::start_with(cluster_of_tests(), |builder| builder).await
    }

    /// Starts a server with other options, or uses the cluster of a kubeconfig, with an empty namespace.
    pub(crate) async fn start_with(
        kubeconfig: Option<PathBuf>,
        configure: impl FnOnce(ServerBuilder) -> ServerBuilder,
    ) -> Self {
        let (client, server) = match &kubeconfig {
            Some(path) => (connect(path).await, None),
            None => {
                let store = Arc::new(MemoryStore::default());
                let server = configure(Server::builder(store)).build().await.expect("the embedded server must start");
                (server.client(), Some(server))
            }
        };
        let before = Api::<Namespace>::all(client.clone()).list_metadata(&ListParams::default().limit(1)).await;
        let began = before.expect("listing namespaces must succeed").metadata.resource_version.unwrap_or_default();
        let cluster = Self {
            client,
            namespace: Self::unique("test"),
            server,
            began,
            kubeconfig,
            webhooks: Mutex::default(),
            denials: Mutex::default(),
        };
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

    /// Fails the test if a request of an operator was denied.
    pub(crate) fn check_denials(&self) {
        // Not while the lock is held, because this may panic.
        let denials = self.denials.lock().expect("no holder of the lock panics").clone();
        denials.iter().for_each(DenialCheck::check);
    }

    /// Returns an API for a kind in the test's namespace.
    pub fn api<K>(&self) -> Api<K>
    where
        K: Resource<Scope = NamespaceResourceScope, DynamicType: Default>,
    {
        Api::namespaced(self.client(), &self.namespace)
    }

    /// Creates an object, in the test's namespace unless it names another or is cluster-scoped. Waits until the
    /// webhooks of operators that were started before are served.
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

    /// Installs a CRD that only this test uses, for example because its [group is unique](Self::unique), and waits until
    /// it is established. On a cluster, it is deleted after the test.
    pub async fn define_own(&self, definition: &CustomResourceDefinition) {
        let mut definition = definition.clone();
        definition.metadata.labels.get_or_insert_default().insert(TEST_LABEL.to_owned(), self.namespace.clone());
        self.define_as(&definition).await;
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
        // Being established is a condition of the object, which the part of the API server that serves it reads.
        let served = definition.spec.versions.iter().find(|version| version.served);
        let Some(version) = served.map(|version| version.name.as_str()) else { return };
        let path = format!("/apis/{}/{version}/{}", definition.spec.group, definition.spec.names.plural);
        eventually("the kind is served", async || {
            let list = Request::new(&path).list(&ListParams::default().limit(1)).expect("the request must be valid");
            match self.client.request_text(list).await {
                Err(kube::Error::Api(status)) if status.code == 404 => None,
                _ => Some(()),
            }
        })
        .await;
    }
}

/// Prints the history of all objects if the test fails, and deletes what the test has created if the server is a
/// cluster. Waits only for the response. Fails only if an operator lacks permissions.
impl Drop for TestCluster {
    fn drop(&mut self) {
        let denials = std::mem::take(&mut *self.denials.lock().expect("no holder of the lock panics"));
        if std::thread::panicking() || denials.iter().any(DenialCheck::is_pending) {
            self.print_history();
        }
        self.clean_up();
        denials.iter().for_each(DenialCheck::check);
    }
}

impl TestCluster {
    /// Deletes what the test has created, if the server is a cluster.
    fn clean_up(&mut self) {
        let Some(kubeconfig) = self.kubeconfig.take() else { return };
        let namespace = std::mem::take(&mut self.namespace);
        // On a separate thread with its own client: the test's runtime may be about to end, and this must not wait for
        // it.
        let deletion = std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime must start").block_on(async {
                let client = connect(&kubeconfig).await;
                let params = DeleteParams::background();
                let deletions = async {
                    let _ = Api::<Namespace>::all(client.clone()).delete(&namespace, &params).await;
                    let ours = ListParams::default().labels(&format!("{TEST_LABEL}={namespace}"));
                    let _ = Api::<ClusterRoleBinding>::all(client.clone()).delete_collection(&params, &ours).await;
                    let _ = Api::<ClusterRole>::all(client.clone()).delete_collection(&params, &ours).await;
                    let definitions = Api::<CustomResourceDefinition>::all(client.clone());
                    let _ = definitions.delete_collection(&params, &ours).await;
                    delete_elsewhere::<RoleBinding>(&client, &ours).await;
                    delete_elsewhere::<Role>(&client, &ours).await;
                };
                let _ = tokio::time::timeout(CLEANUP_TIMEOUT, deletions).await;
            });
        });
        let _ = deletion.join();
    }

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
        histories.retain(|history| match history.changes.first() {
            Some((_, Change::State(state))) => !account::is_access(&history.kind, state),
            _ => true,
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

/// Deletes objects with a label in all namespaces; those of the test's own may be gone already.
async fn delete_elsewhere<K>(client: &Client, ours: &ListParams)
where
    K: Resource<Scope = NamespaceResourceScope, DynamicType = ()> + Clone + std::fmt::Debug + DeserializeOwned,
{
    let Ok(found) = Api::<K>::all(client.clone()).list(ours).await else { return };
    for object in found {
        if let (Some(namespace), Some(name)) = (&object.meta().namespace, &object.meta().name) {
            let _ = Api::<K>::namespaced(client.clone(), namespace).delete(name, &DeleteParams::background()).await;
        }
    }
}

async fn connect(kubeconfig: &Path) -> Client {
    connect_as(Kubeconfig::read_from(kubeconfig).expect("the kubeconfig must be readable")).await
}

/// Returns a client for a kubeconfig: the same as that of an operator, so that tests see what it does.
pub(crate) async fn connect_as(kubeconfig: Kubeconfig) -> Client {
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
    let options = ClientOptions::new("windlass-testing");
    client::connect(&config.expect("the kubeconfig must be valid"), options).expect("creating a client must succeed")
}

/// Returns the kubeconfig of the cluster that tests use instead of embedded servers.
pub(crate) fn cluster_of_tests() -> Option<PathBuf> {
    std::env::var_os("WINDLASS_TEST_KUBECONFIG").map(PathBuf::from)
}

/// Returns whether tests run against a cluster, where this test should return at once, because of `reason`. If so, this is
/// reported on standard error, which `cargo test` shows for passed tests too.
///
/// ```
/// # tokio::runtime::Runtime::new().unwrap().block_on(async {
/// use windlass_testing::{TestPlane, skip_on_cluster};
///
/// if skip_on_cluster("it waits for days of virtual time") {
///     return;
/// }
/// let plane = TestPlane::builder().await;
/// assert!(plane.server().is_some());
/// # });
/// ```
pub fn skip_on_cluster(reason: &str) -> bool {
    let on_cluster = cluster_of_tests().is_some();
    if on_cluster {
        let thread = std::thread::current();
        let line = format!("{SKIPPED} {}: {reason}\n", thread.name().unwrap_or("a test"));
        // Not `eprint!`, whose output is captured. In a single write, because other tests write at the same time.
        let _ = std::io::stderr().write_all(line.as_bytes());
    }
    on_cluster
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
