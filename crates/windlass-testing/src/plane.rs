//! A whole control plane for a test.

use std::{future::IntoFuture, ops::Deref, sync::OnceLock, time::Duration};

use futures_util::future::LocalBoxFuture;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt;
use windlass_clock::VirtualTime;
use windlass_plane::{CertificateAndKey, LoopOptions, Loops, NodeOptions, Selection};

use crate::TestCluster;

/// The authority of all planes of a process: pods of a test would verify the server with it, if it were not in the
/// process, and it signs the certificates that are asked for.
fn authority() -> CertificateAndKey {
    static AUTHORITY: OnceLock<CertificateAndKey> = OnceLock::new();
    AUTHORITY.get_or_init(|| CertificateAndKey::authority().expect("an authority can always be made")).clone()
}

/// A control plane of a test's own: an API server, its control loops and, if asked for, nodes. It is also a [`TestCluster`].
///
/// ```
/// use k8s_openapi::api::core::v1::ServiceAccount;
/// use windlass_testing::{TestPlane, eventually};
///
/// # tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
/// let plane = TestPlane::builder().nodes(1).await;
/// let accounts = plane.api::<ServiceAccount>();
/// eventually("there is an account", async || accounts.get_opt("default").await.unwrap()).await;
/// # });
/// ```
pub struct TestPlane {
    cluster: TestCluster,
    _loops: Option<Loops>,
    _time: Option<VirtualTime>,
}

/// What a [`TestPlane`] is to have. Await it.
pub struct TestPlaneBuilder {
    loops: LoopOptions,
    definitions: Vec<CustomResourceDefinition>,
    virtual_time: bool,
}

impl TestPlane {
    /// A plane with all control loops and no nodes.
    pub fn builder() -> TestPlaneBuilder {
        TestPlaneBuilder::default()
    }

    /// Lets time pass: at once, if it is [virtual](TestPlaneBuilder::virtual_time).
    pub async fn advance(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }
}

impl Default for TestPlaneBuilder {
    fn default() -> Self {
        let authority = authority();
        let root_ca = Some(authority.certificate.as_str().into());
        let loops = LoopOptions { root_ca, authority: Some(authority), ..LoopOptions::default() };
        Self { loops, definitions: Vec::new(), virtual_time: false }
    }
}

impl TestPlaneBuilder {
    /// Only these control loops.
    #[must_use]
    pub fn controllers(mut self, selection: Selection) -> Self {
        self.loops.controllers = selection;
        self
    }

    /// Simulated nodes, which pods are scheduled to and become ready on.
    #[must_use]
    pub fn nodes(mut self, count: usize) -> Self {
        self.loops.nodes = NodeOptions { count, ..self.loops.nodes };
        self
    }

    /// Nodes of a special sort.
    #[must_use]
    pub fn node_options(mut self, nodes: NodeOptions) -> Self {
        self.loops.nodes = nodes;
        self
    }

    /// A custom resource that is defined from the start.
    #[must_use]
    pub fn with_crd<K: CustomResourceExt>(self) -> Self {
        self.with_crds([K::crd()])
    }

    /// Definitions that are there from the start.
    #[must_use]
    pub fn with_crds(mut self, definitions: impl IntoIterator<Item = CustomResourceDefinition>) -> Self {
        self.definitions.extend(definitions);
        self
    }

    /// Time that runs ahead whenever everybody waits: a day of a cron job takes milliseconds. Needs a runtime of one
    /// thread, as `#[tokio::test]` has.
    #[must_use]
    pub fn virtual_time(mut self) -> Self {
        self.virtual_time = true;
        self
    }

    async fn start(self) -> TestPlane {
        let time = self.virtual_time.then(|| {
            tokio::time::pause();
            windlass_clock::virtual_time()
        });
        let cluster = TestCluster::start().await;
        let loops = cluster.server().map(|server| Loops::start(server, &self.loops));
        for definition in &self.definitions {
            cluster.define_as(definition).await;
        }
        TestPlane { cluster, _loops: loops, _time: time }
    }
}

impl IntoFuture for TestPlaneBuilder {
    type Output = TestPlane;
    type IntoFuture = LocalBoxFuture<'static, TestPlane>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.start())
    }
}

impl Deref for TestPlane {
    type Target = TestCluster;

    fn deref(&self) -> &TestCluster {
        &self.cluster
    }
}
