//! Clients of nodes and of the components that act for them, each with its own identity.

use std::sync::Arc;

use kube::Client;
use windlass::{context::Context, events::EventStyle};

/// The field manager of nodes, and the reporter of their events.
const KUBELET: &str = "kubelet";
/// The field manager of control loops.
const CONTROLLER_MANAGER: &str = "kube-controller-manager";

type NodeClient = Arc<dyn Fn(&str) -> Client + Send + Sync>;

/// The clients of nodes and of the components that act for them, each with an identity of its own.
#[derive(Clone)]
pub struct NodeClients {
    node: NodeClient,
    node_controller: Client,
    volume_binder: Client,
}

impl NodeClients {
    /// Creates the clients.
    ///
    /// | client | acts as | for |
    /// |---|---|---|
    /// | `node` | `system:node:NAME` | everything about a node and its pods; called with the name |
    /// | `node_controller` | the service account `node-controller` | deleting nodes, removing taints if no loop does |
    /// | `volume_binder` | the service account `persistent-volume-binder` | provisioning volumes |
    ///
    /// `node` is called for each sync of a node or pod: a client in this process is cheap to create, but has a task and a
    /// queue of its own, which would be a waste for a thousand idle nodes.
    pub fn new(
        node: impl Fn(&str) -> Client + Send + Sync + 'static,
        node_controller: Client,
        volume_binder: Client,
    ) -> Self {
        Self { node: Arc::new(node), node_controller, volume_binder }
    }

    /// Returns the client of a node.
    pub(crate) fn node(&self, name: &str) -> Client {
        (self.node)(name)
    }

    /// Returns the client of the volume provisioner.
    pub(crate) fn volume_binder(&self) -> Client {
        self.volume_binder.clone()
    }

    /// Returns a context that shares the caches of another, and writes and reports events as a node.
    pub(crate) fn node_context(&self, ctx: &Context, name: &str) -> Context {
        let (node, writer) = (self.node.clone(), name.to_owned());
        let events = ctx.recorder().with_style(EventStyle::Counted).reporting(KUBELET).from_instance(name);
        let events = events.with_client(move || node(&writer));
        ctx.to_builder().client(self.node(name)).recorder(events).field_manager(KUBELET).build()
    }

    /// Returns a context that shares the caches of another, and writes as the node controller.
    pub(crate) fn node_controller_context(&self, ctx: &Context) -> Context {
        ctx.to_builder().client(self.node_controller.clone()).field_manager(CONTROLLER_MANAGER).build()
    }
}
