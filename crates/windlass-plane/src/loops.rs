//! Running loops and nodes against a server.

use std::sync::Arc;

use tokio::task::JoinSet;
use windlass::{
    operator::{Operator, OperatorError, Options},
    shutdown::Shutdown,
};
use windlass_apiserver::{Server, user::User};

use windlass_loops::{CertificateAndKey, ClusterCertificates, SecretToken, Selection, TokenSigner};
use windlass_nodes::NodeOptions;

/// Which loops and nodes to run against a server.
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
}

impl Default for LoopOptions {
    /// All loops, no nodes.
    fn default() -> Self {
        Self { controllers: Selection::all(), nodes: NodeOptions::default(), root_ca: None, authority: None }
    }
}

/// Running loops and nodes; they stop when this is dropped.
pub struct Loops {
    shutdown: Shutdown,
    running: JoinSet<Result<(), OperatorError>>,
}

impl Loops {
    /// Starts the loops and nodes. Must be called within a tokio runtime.
    pub fn start(server: &Server, options: &LoopOptions) -> Self {
        let mut loops = Self { shutdown: Shutdown::new(), running: JoinSet::new() };
        let signing = server.clone();
        let certificates = ClusterCertificates {
            root_ca: options.root_ca.clone(),
            authority: options.authority.clone(),
            token_signer: Some(TokenSigner::new(move |token: &SecretToken| {
                let SecretToken { namespace, secret, account, account_uid } = token;
                signing.sign_secret_token(namespace, secret, account, account_uid)
            })),
        };
        loops.run(
            server,
            "system:kube-controller-manager",
            windlass_loops::operator(&options.controllers, &certificates),
        );
        if options.nodes.count > 0 {
            // Not a member of system:nodes: one client acts for all nodes.
            let kubelets = server.client_as(user("system:node:windlass", &[]));
            // This loop removes the taints of new nodes; kubelets cannot.
            let lifecycle = options.controllers.contains("node-lifecycle-controller");
            loops.run(server, "system:kube-scheduler", windlass_nodes::operator(&options.nodes, kubelets, lifecycle));
        }
        loops
    }

    fn run(&mut self, server: &Server, name: &str, operator: Operator) {
        let client = server.client_as(user(name, &[]));
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

/// A component of the control plane, which is allowed everything.
fn user(name: &str, groups: &[&str]) -> User {
    let everywhere = ["system:masters", "system:authenticated"];
    let groups = groups.iter().chain(&everywhere).map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}
