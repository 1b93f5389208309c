//! Running loops and nodes against a server.

use std::{sync::Arc, time::Duration};

use kube::Client;
use tokio::task::JoinSet;
use windlass::{
    lease::Timing,
    operator::{LeaseOptions, Operator, OperatorError, Options, Replicas},
    shutdown::Shutdown,
};
use windlass_apiserver::Server;

use windlass_loops::{CertificateAndKey, ClusterCertificates, LoopIdentity, SecretToken, Selection, TokenSigner};
use windlass_nodes::{NodeOptions, NodeUsage, create_default_class};

use crate::identities::Identities;

/// Control loops and nodes to run against a server.
#[derive(Debug, Clone)]
pub struct LoopOptions {
    /// The control loops to run.
    pub controllers: Selection,
    /// The nodes to run.
    pub nodes: NodeOptions,
    /// The certificate of the server's certificate authority, in PEM.
    pub root_ca: Option<Arc<str>>,
    /// The authority that signs certificate signing requests; without it none are signed.
    pub authority: Option<CertificateAndKey>,
    /// The handle by which others learn what the nodes use.
    pub usage: NodeUsage,
    /// Whether they run only while this process leads: other API servers over the same store have loops and nodes, too.
    pub elected: bool,
}

impl Default for LoopOptions {
    /// All loops, no nodes.
    fn default() -> Self {
        Self {
            controllers: Selection::all(),
            nodes: NodeOptions::default(),
            root_ca: None,
            authority: None,
            usage: NodeUsage::default(),
            elected: false,
        }
    }
}

/// Returns the lease of a component, which has the name that it has in a cluster.
///
/// Another API server takes over at most 15 seconds after the last renewal: the duration, and the longest pause of a
/// candidate (2.2 times the period).
fn lease(name: &str) -> LeaseOptions {
    let timing = Timing {
        lease_duration: Duration::from_secs(11),
        renew_deadline: Duration::from_secs(8),
        retry_period: Duration::from_millis(1500),
    };
    LeaseOptions { namespace: "kube-system".to_owned(), name: name.to_owned(), timing }
}

/// Running loops and nodes; they stop when this is dropped.
pub struct Loops {
    shutdown: Shutdown,
    identities: Identities,
    running: JoinSet<Result<(), OperatorError>>,
}

impl Loops {
    /// Starts the loops and nodes. Must be called within a tokio runtime.
    pub fn start(server: &Server, options: &LoopOptions) -> Self {
        let identities = Identities::new(server);
        let mut loops = Self { shutdown: Shutdown::new(), identities: identities.clone(), running: JoinSet::new() };
        let signing = server.clone();
        let certificates = ClusterCertificates {
            root_ca: options.root_ca.clone(),
            authority: options.authority.clone(),
            token_signer: Some(TokenSigner::new(move |token: &SecretToken| {
                let SecretToken { namespace, secret, account, account_uid } = token;
                signing.sign_secret_token(namespace, secret, account, account_uid)
            })),
        };
        let (selection, clients) = (options.controllers.clone(), identities.clone());
        let controllers =
            move || windlass_loops::operator(&selection, &certificates, |identity| clients.of_loop(identity));
        let lease = options.elected.then(|| lease("kube-controller-manager"));
        loops.run(identities.of_loop(LoopIdentity::ControllerManager), controllers, lease);
        if options.nodes.count > 0 {
            // This loop removes the taints of new nodes; kubelets cannot.
            let lifecycle = options.controllers.contains("node-lifecycle-controller");
            let (nodes, clients, usage) = (options.nodes.clone(), identities.nodes(), options.usage.clone());
            let nodes = move || windlass_nodes::operator(&nodes, &clients, lifecycle, &usage);
            let lease = options.elected.then(|| self::lease("kube-scheduler"));
            loops.run(identities.scheduler(), nodes, lease);
            let (administrator, shutdown) = (identities.of_loop(LoopIdentity::ApiServer), loops.shutdown.clone());
            loops.running.spawn(async move {
                create_default_class(administrator).await;
                shutdown.draining().await;
                Ok(())
            });
        }
        loops
    }

    /// Returns the messages of the server for requests of loops and nodes that it denied. With the default authorizers
    /// and roles there are none.
    pub fn denied_requests(&self) -> Vec<String> {
        self.identities.denials().messages()
    }

    /// Runs an operator; if there is a lease, only while this process holds it.
    fn run(&mut self, client: Client, operator: impl Fn() -> Operator + Send + 'static, lease: Option<LeaseOptions>) {
        let shutdown = self.shutdown.clone();
        let replicas = lease.map_or(Replicas::Single, Replicas::Leader);
        self.running.spawn(async move {
            loop {
                let options = Options { replicas: replicas.clone(), ..Options::default() };
                match operator().run_with(client.clone(), options, shutdown.clone()).await {
                    // Another API server leads, or the store did not respond in time: this one is a candidate again.
                    Err(OperatorError::LeaderElectionLost) => {
                        tracing::warn!(?replicas, "lost leadership of the control loops; becoming a candidate again");
                    }
                    outcome => return outcome,
                }
            }
        });
    }

    /// Resolves to the reason when one of them ends, which happens only if something is wrong.
    pub async fn failed(&mut self) -> String {
        match self.running.join_next().await {
            Some(Ok(Ok(()))) => "a control loop ended unexpectedly".to_owned(),
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            None => std::future::pending().await,
        }
    }

    /// Stops the loops and nodes after they have finished their current work.
    pub async fn stop(mut self) {
        self.shutdown.drain();
        while self.running.join_next().await.is_some() {}
    }
}
