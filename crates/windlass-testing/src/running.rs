//! Operators that run in a test.

use futures_util::future::Either;
use kube::Client;
use tokio::{sync::watch, task::JoinHandle};
use windlass_runtime::{
    access::Denials,
    manifests::OperatorManifests,
    operator::{Operator, OperatorError, Options},
    shutdown::Shutdown,
};

use crate::{
    Denial, TestCluster,
    account::{self, AccountServer},
    cluster::{TEST_LABEL, TIMEOUT},
    denials::DenialCheck,
    recording::{is_recording, recorded},
    webhooks,
};

impl TestCluster {
    /// Runs an operator against the server until it is stopped or dropped. Watches of all namespaces are restricted to
    /// the test's namespace, because operators of other tests may run on the same cluster.
    ///
    /// The operator runs as its service account, with exactly the roles of its manifests. A request that they do not
    /// allow fails the test: at the next [expectation](Self::expect), or when the operator is stopped or dropped. The
    /// message has the missing rule and the line that adds it. See [`run_as_admin`](Self::run_as_admin) and
    /// [`RunningOperator::allow_denials`] for tests of something else.
    ///
    /// The embedded server calls the operator's webhooks as soon as [`RunningOperator::webhooks_served`] returns: the
    /// webhook configurations, the Service and CRDs with their conversion are created from the operator's manifests, in
    /// the namespace `<operator>-system`. On a cluster they are not, because it could not reach the test.
    pub fn run(&self, operator: Operator) -> RunningOperator {
        self.run_as(operator, !is_recording(), WatchedNamespaces::Own)
    }

    /// Like [`run`](Self::run), but watches of all namespaces are not restricted, as in a deployed operator: for
    /// operators whose objects in one namespace affect others. On a cluster, the operator also gets the objects of
    /// other tests.
    pub fn run_in_all_namespaces(&self, operator: Operator) -> RunningOperator {
        self.run_as(operator, !is_recording(), WatchedNamespaces::All)
    }

    /// Like [`run`](Self::run), but with the permissions of an administrator instead of the operator's own.
    pub fn run_as_admin(&self, operator: Operator) -> RunningOperator {
        self.run_as(operator, false, WatchedNamespaces::Own)
    }

    fn run_as(&self, operator: Operator, as_account: bool, watched: WatchedNamespaces) -> RunningOperator {
        let shutdown = Shutdown::new();
        let mut options = Options::default();
        if watched == WatchedNamespaces::Own {
            options.namespaces.push(self.namespace().to_owned());
        }
        // Other tests serve webhooks at the same time.
        options.webhooks.port = 0;
        let account = Account::new(self, &operator);
        let (operator, own) = match self.server() {
            Some(_) => (operator, format!("{}-system", account.operator)),
            None if watched == WatchedNamespaces::All => (operator, self.namespace().to_owned()),
            // Roles of the test's namespace are deleted with it.
            None => (operator.namespaces([self.namespace()]), self.namespace().to_owned()),
        };
        // In its own namespace, like a deployed operator.
        options.webhooks.namespace.clone_from(&own);
        let manifests = operator.manifests(&own, "");
        let recorded_as = format!("{}-system", manifests.name);
        let denials = Denials::new(manifests.all_permissions());
        let check = DenialCheck::new(&manifests.name, denials.clone());
        self.denials.lock().expect("no holder of the lock panics").push(check.clone());
        let serves_webhooks = self.server().is_some() && !manifests.webhooks.is_empty();
        let (serving, served) = watch::channel(false);
        if serves_webhooks {
            self.webhooks.lock().expect("no holder of the lock panics").push(served.clone());
        }
        let (administrator, test, end) = (self.client(), self.namespace().to_owned(), shutdown.clone());
        let running = tokio::spawn(async move {
            let client = match as_account {
                true => account.client(&administrator, &manifests).await,
                false => administrator.clone(),
            };
            let client = denials.observe(recorded(client, &test, &recorded_as));
            if !serves_webhooks {
                return operator.run_with(client, options, end).await;
            }
            webhooks::configure(administrator.clone(), manifests.clone()).await;
            let connecting = webhooks::connect(administrator, manifests, operator.state().clone(), serving);
            let running = operator.run_with(client, options, end);
            let (running, connecting) = (std::pin::pin!(running), std::pin::pin!(connecting));
            match futures_util::future::select(running, connecting).await {
                Either::Left((outcome, _)) => outcome,
                Either::Right(((), running)) => running.await,
            }
        });
        let served = serves_webhooks.then_some(served);
        RunningOperator { shutdown, running: Some(running), served, denials: check }
    }
}

/// The namespaces that an operator watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum WatchedNamespaces {
    /// The namespace of the test.
    Own,
    All,
}

/// The account of an operator: on a cluster, which has other tests, one with a name of its own.
struct Account {
    server: AccountServer,
    operator: String,
    name: String,
    /// Label of its objects, with its value.
    label: Option<(String, String)>,
}

impl Account {
    fn new(cluster: &TestCluster, operator: &Operator) -> Self {
        let operator = operator.name().to_owned();
        match (cluster.server(), &cluster.kubeconfig) {
            (Some(server), _) => {
                Self { server: AccountServer::Embedded(server.clone()), name: operator.clone(), operator, label: None }
            }
            (None, kubeconfig) => Self {
                server: AccountServer::Cluster(kubeconfig.clone().unwrap_or_default().into()),
                name: TestCluster::unique(&operator),
                operator,
                label: Some((TEST_LABEL.to_owned(), cluster.namespace().to_owned())),
            },
        }
    }

    async fn client(&self, administrator: &Client, manifests: &OperatorManifests) -> Client {
        let mut objects = manifests.rbac(&self.name);
        for object in &mut objects {
            object.object.metadata.labels.get_or_insert_default().extend(self.label.clone());
        }
        account::client(&self.server, administrator, &manifests.namespace, &self.name, &objects).await
    }
}

/// A running operator. Aborted when dropped, which fails the test if the operator lacks permissions.
pub struct RunningOperator {
    shutdown: Shutdown,
    running: Option<JoinHandle<Result<(), OperatorError>>>,
    /// Whether the webhooks are served; `None` if the operator has none.
    served: Option<watch::Receiver<bool>>,
    denials: DenialCheck,
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

    /// Returns the requests that the operator's roles did not allow, one per missing rule.
    pub fn denials(&self) -> Vec<Denial> {
        self.denials.all()
    }

    /// Lets the test pass although requests are denied, because it tests what the operator does then.
    #[must_use]
    pub fn allow_denials(self) -> Self {
        self.denials.ignore();
        self
    }

    /// Shuts the operator down gracefully, and returns its result.
    ///
    /// # Panics
    ///
    /// If the operator panics, or lacks permissions.
    pub async fn stop(mut self) -> Result<(), OperatorError> {
        self.shutdown.drain();
        let running = self.running.take().expect("an operator must be stopped once");
        let result = running.await.expect("an operator must not panic");
        self.denials.check();
        result
    }
}

impl Drop for RunningOperator {
    fn drop(&mut self) {
        self.shutdown.abort();
        if let Some(running) = &self.running {
            running.abort();
        }
        self.denials.check();
    }
}
