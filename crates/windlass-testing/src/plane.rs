//! A control plane for a test.

use std::{
    future::IntoFuture,
    ops::Deref,
    sync::{Arc, OnceLock},
    time::Duration,
};

use futures_util::future::LocalBoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use windlass_clock::VirtualTime;
use windlass_plane::{
    AuthenticationOptions, CertificateAndKey, LoopOptions, Loops, NodeOptions, Pki, Selection, metrics_server,
};

use crate::{
    TestCluster,
    cluster::{TIMEOUT, cluster_of_tests},
};

/// Returns the CA that all planes of a process share. Pods get it as the root CA of the server, and it signs certificate
/// signing requests.
fn authority() -> CertificateAndKey {
    static AUTHORITY: OnceLock<CertificateAndKey> = OnceLock::new();
    AUTHORITY.get_or_init(|| Pki::new_authority().expect("creating a CA must succeed")).clone()
}

/// A control plane that belongs to one test: an API server, its control loops and, on request, nodes. Dereferences to
/// [`TestCluster`].
///
/// If `WINDLASS_TEST_KUBECONFIG` names a cluster, that is used instead, with its own control loops, nodes and time, unless
/// the plane is [embedded](TestPlaneBuilder::embedded).
///
/// ```
/// use k8s_openapi::api::core::v1::ServiceAccount;
/// use windlass_testing::{TestPlane, eventually};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let plane = TestPlane::builder().nodes(1).await;
/// let accounts = plane.api::<ServiceAccount>();
/// eventually("the account exists", async || accounts.get_opt("default").await.unwrap()).await;
/// # });
/// ```
pub struct TestPlane {
    cluster: TestCluster,
    loops: Option<Loops>,
    denials_expected: bool,
    _time: Option<VirtualTime>,
}

/// Options of a [`TestPlane`]. Await it to start the plane.
pub struct TestPlaneBuilder {
    loops: LoopOptions,
    crds: Vec<CustomResourceDefinition>,
    embedded: bool,
    virtual_time: bool,
    resource_metrics: bool,
    service_accounts: bool,
    denials_expected: bool,
}

impl TestPlane {
    /// Returns a builder for a plane with all control loops and no nodes.
    pub fn builder() -> TestPlaneBuilder {
        TestPlaneBuilder::default()
    }

    /// Returns the messages of the server for requests of control loops and nodes that it denied, because they lack the
    /// permission.
    pub fn denied_requests(&self) -> Vec<String> {
        self.loops.as_ref().map(Loops::denied_requests).unwrap_or_default()
    }

    /// Waits for this time, which is instant with [virtual time](TestPlaneBuilder::virtual_time).
    ///
    /// # Panics
    ///
    /// If tests run against a cluster, which has real time, and the time is more than a minute. See
    /// [`skip_on_cluster`](crate::skip_on_cluster).
    pub async fn advance(&self, time: Duration) {
        let is_real = self.server().is_none();
        assert!(!is_real || time <= TIMEOUT, "{time:?} is too long for a cluster, which has real time");
        tokio::time::sleep(time).await;
    }
}

impl Default for TestPlaneBuilder {
    fn default() -> Self {
        let authority = authority();
        let root_ca = Some(authority.certificate.as_str().into());
        let loops = LoopOptions { root_ca, authority: Some(authority), ..LoopOptions::default() };
        Self {
            loops,
            crds: Vec::new(),
            embedded: false,
            virtual_time: false,
            resource_metrics: false,
            service_accounts: false,
            denials_expected: false,
        }
    }
}

impl TestPlaneBuilder {
    /// Runs only these control loops.
    #[must_use]
    pub fn controllers(mut self, selection: Selection) -> Self {
        self.loops.controllers = selection;
        self
    }

    /// Adds simulated nodes, on which pods are scheduled and become ready.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.loops.nodes = NodeOptions { count, ..self.loops.nodes };
        self
    }

    /// Sets all options of the nodes.
    #[must_use]
    pub fn node_options(mut self, nodes: NodeOptions) -> Self {
        self.loops.nodes = nodes;
        self
    }

    /// Serves resource metrics of the nodes (`metrics.k8s.io`), which autoscalers read, and the documents of nodes.
    #[must_use]
    pub fn resource_metrics(mut self) -> Self {
        self.resource_metrics = true;
        self
    }

    /// Admits pods as `windlass up` does: every pod runs as a service account and has a volume with its token. Requires
    /// `serviceaccount-controller` and `root-ca-certificate-publisher-controller`.
    #[must_use]
    pub fn service_accounts(mut self) -> Self {
        self.service_accounts = true;
        self
    }

    /// Installs the CRD of a custom resource from the start.
    #[must_use]
    pub fn with_crd<K: CustomResourceExt>(self) -> Self {
        self.with_crds([K::crd()])
    }

    /// Installs CRDs from the start.
    #[must_use]
    pub fn with_crds(mut self, crds: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.crds.extend(crds);
        self
    }

    /// Starts an embedded plane even if `WINDLASS_TEST_KUBECONFIG` names a cluster, for tests that need more than one.
    #[must_use]
    pub fn embedded(mut self) -> Self {
        self.embedded = true;
        self
    }

    /// Uses virtual time, which moves forward whenever every task is waiting: a day of a cron job takes milliseconds.
    /// Requires a single-threaded runtime, which is the default of `#[tokio::test]`. On a cluster, time stays real.
    #[must_use]
    pub fn virtual_time(mut self) -> Self {
        self.virtual_time = true;
        self
    }

    /// Accepts that control loops and nodes lack permissions, for tests that take these away. By default, a test fails when
    /// the server has denied a request of theirs.
    #[must_use]
    pub fn expect_denied_requests(mut self) -> Self {
        self.denials_expected = true;
        self
    }

    async fn start(self) -> TestPlane {
        let kubeconfig = if self.embedded { None } else { cluster_of_tests() };
        // Requests to a cluster take real time.
        let is_virtual = self.virtual_time && kubeconfig.is_none();
        let time = is_virtual.then(|| {
            tokio::time::pause();
            windlass_clock::virtual_time()
        });
        let usage = self.loops.usage.clone();
        // API servers behind this one read the authority of clients.
        let authentication =
            AuthenticationOptions { client_ca: Some(authority().certificate), ..AuthenticationOptions::default() };
        let cluster = TestCluster::start_with(kubeconfig, |builder| {
            let builder = builder.authentication(authentication).service_accounts(self.service_accounts);
            match self.resource_metrics {
                true => metrics_server::add(builder, &usage).node_connections(Arc::new(usage)),
                false => builder,
            }
        })
        .await;
        let loops = cluster.server().map(|server| Loops::start(server, &self.loops));
        for crd in &self.crds {
            cluster.define_as(crd).await;
        }
        TestPlane { cluster, loops, denials_expected: self.denials_expected, _time: time }
    }
}

impl IntoFuture for TestPlaneBuilder {
    type Output = TestPlane;
    type IntoFuture = LocalBoxFuture<'static, TestPlane>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl Drop for TestPlane {
    fn drop(&mut self) {
        if self.denials_expected || std::thread::panicking() {
            return;
        }
        let denied = self.denied_requests();
        assert!(denied.is_empty(), "control loops or nodes lack permissions:\n{}", denied.join("\n"));
    }
}

impl Deref for TestPlane {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}
