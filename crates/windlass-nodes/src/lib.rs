//! Nodes of the embedded control plane: simulated ones, or ones that run pods as processes, and their scheduler.
//!
//! | module | contents |
//! |---|---|
//! | `clients` | the identities of nodes and of the components that run on them |
//! | `machine` | pure: the Node objects of simulated machines |
//! | `heartbeats` | registers nodes, renews their leases, reports their status |
//! | `scheduler` | assigns pods to nodes; its core is pure |
//! | `kubelet` | syncs the pods of all nodes with a [`PodRuntime`] |
//! | `stages` | pure: how the statuses of simulated pods and nodes change, declared in files |
//! | `simulated` | the [`PodRuntime`] that runs nothing and follows the stages |
//! | `processes` | the [`PodRuntime`] that runs containers as processes of this machine |
//! | `containers`, `conditions`, `addresses` | pure: the parts of a pod's status |
//! | `resize` | pure: the resources of simulated containers, and how a resize takes effect |
//! | `usage` | what nodes and pods use: measured, or simulated |
//! | `provisioner` | creates persistent volumes for claims |
//! | `default_class` | creates the storage class of claims that name none |

mod addresses;
mod clients;
mod command;
mod conditions;
mod containers;
mod default_class;
mod ending;
mod heartbeats;
mod host_ports;
mod kubelet;
mod machine;
mod processes;
mod provisioner;
mod pull;
mod resize;
mod runtime;
mod scheduler;
mod simulated;
mod stages;
mod sub_path;
mod usage;

use std::sync::Arc;

use windlass::operator::Operator;

pub use self::{
    clients::NodeClients,
    default_class::create_default_class,
    processes::{POD_PROCESS, ProcessOptions, Processes, exec_pod_process},
    stages::{StageError, Stages},
    usage::NodeUsage,
};
pub(crate) use self::{
    kubelet::Kubelet,
    runtime::{Next, PodRuntime},
};

/// Number of nodes, and how their pods run.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// Number of nodes; with 0, pods are neither scheduled nor run.
    pub count: usize,
    /// Runtime of pods.
    pub runtime: Runtime,
    /// Stages of simulated pods and nodes, in place of the [default](Stages::default) ones.
    pub stages: Option<Stages>,
}

/// Runtime of the pods of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Runtime {
    /// Simulated: nothing runs, but statuses change as if it did.
    #[default]
    Simulated,
    /// As processes of this machine.
    Processes(Processes),
}

/// Returns an operator with a scheduler and the nodes. The operator must be run with the client of
/// `system:kube-scheduler`: the scheduler and the nodes share its informers, because a watch per node would cost too
/// much. All other requests of nodes are their own, with the given clients. `lifecycle` indicates whether the node
/// lifecycle loop runs: without it, the not-ready taints of nodes are removed here. `usage` is what they use.
pub fn operator(options: &NodeOptions, clients: &NodeClients, lifecycle: bool, usage: &NodeUsage) -> Operator {
    let stages = options.stages.clone().unwrap_or_default();
    let runtime: Arc<dyn PodRuntime> = match &options.runtime {
        Runtime::Simulated => Arc::new(simulated::Simulated::new(stages.clone())),
        Runtime::Processes(processes) => Arc::new(processes.clone()),
    };
    let fleet = machine::Fleet::new(options.count);
    let meters = usage::Meters::new(usage, &options.runtime);
    let operator = heartbeats::add(Operator::new("kube-scheduler"), &fleet, clients, stages, lifecycle, meters);
    let operator = provisioner::add(scheduler::add(operator), clients);
    kubelet::add(operator, &fleet, clients, runtime)
}
