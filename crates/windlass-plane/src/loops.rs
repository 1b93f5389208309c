//! Running loops and nodes against a server.

use std::sync::Arc;

use kube::Client;
use tokio::task::JoinSet;
use windlass::{
    operator::{Operator, OperatorError, Options},
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
        }
    }
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
        let controllers =
            windlass_loops::operator(&options.controllers, &certificates, |identity| identities.of_loop(identity));
        loops.run(identities.of_loop(LoopIdentity::ControllerManager), controllers);
        if options.nodes.count > 0 {
            // This loop removes the taints of new nodes; kubelets cannot.
            let lifecycle = options.controllers.contains("node-lifecycle-controller");
            let nodes = windlass_nodes::operator(&options.nodes, &identities.nodes(), lifecycle, &options.usage);
            loops.run(identities.scheduler(), nodes);
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

    fn run(&mut self, client: Client, operator: Operator) {
        self.running.spawn(operator.run_with(client, Options::default(), self.shutdown.clone()));
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
