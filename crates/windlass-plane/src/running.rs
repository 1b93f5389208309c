//! Loops and nodes at work over a server.

use std::sync::Arc;

use tokio::task::JoinSet;
use windlass::{
    operator::{Operator, OperatorError, Options},
    shutdown::Shutdown,
};
use windlass_apiserver::{Server, user::User};

use windlass_loops::{CertificateAndKey, ClusterCertificates, Selection};
use windlass_nodes::NodeOptions;

/// What works over a server.
#[derive(Debug, Clone)]
pub struct LoopOptions {
    /// Which control loops.
    pub controllers: Selection,
    /// What nodes.
    pub nodes: NodeOptions,
    /// The certificate of the authority behind the server, in PEM.
    pub root_ca: Option<Arc<str>>,
    /// The authority that signs certificates that are asked for; without one nobody does.
    pub authority: Option<CertificateAndKey>,
}

impl Default for LoopOptions {
    /// All loops, no nodes.
    fn default() -> Self {
        Self { controllers: Selection::all(), nodes: NodeOptions::default(), root_ca: None, authority: None }
    }
}

/// Loops and nodes at work; they end when this is dropped.
pub struct Loops {
    shutdown: Shutdown,
    running: JoinSet<Result<(), OperatorError>>,
}

impl Loops {
    /// Starts them. Must be called within a tokio runtime.
    pub fn start(server: &Server, options: &LoopOptions) -> Self {
        let mut loops = Self { shutdown: Shutdown::new(), running: JoinSet::new() };
        let certificates =
            ClusterCertificates { root_ca: options.root_ca.clone(), authority: options.authority.clone() };
        loops.run(
            server,
            "system:kube-controller-manager",
            windlass_loops::operator(&options.controllers, &certificates),
        );
        if options.nodes.count > 0 {
            let kubelets = server.client_as(user("system:node:windlass", &["system:nodes"]));
            // Who takes the taints of new nodes away, as kubelets cannot.
            let lifecycle = options.controllers.contains("node-lifecycle-controller");
            loops.run(server, "system:kube-scheduler", windlass_nodes::operator(&options.nodes, kubelets, lifecycle));
        }
        loops
    }

    fn run(&mut self, server: &Server, name: &str, operator: Operator) {
        let client = server.client_as(user(name, &[]));
        self.running.spawn(operator.run_with(client, Options::default(), self.shutdown.clone()));
    }

    /// Resolves if one of them ends, which none does unless something is wrong; and says why.
    pub async fn failed(&mut self) -> String {
        match self.running.join_next().await {
            Some(Ok(Ok(()))) => "a control loop has ended".to_owned(),
            Some(Ok(Err(error))) => error.to_string(),
            Some(Err(error)) => error.to_string(),
            None => std::future::pending().await,
        }
    }

    /// Lets them finish what they do.
    pub async fn stop(mut self) {
        self.shutdown.drain();
        while self.running.join_next().await.is_some() {}
    }
}

/// A part of the control plane, who may do everything.
fn user(name: &str, groups: &[&str]) -> User {
    let everywhere = ["system:masters", "system:authenticated"];
    let groups = groups.iter().chain(&everywhere).map(|group| (*group).to_owned()).collect();
    User { name: name.to_owned(), groups, ..User::default() }
}
