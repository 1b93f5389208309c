//! Nodes that are not there: a scheduler that gives pods to them, and a stand-in for their kubelets.
//!
//! | module | what it is for |
//! |---|---|
//! | `machine` | pure: the Node object and the addresses of a simulated machine |
//! | `keeper` | registers nodes, renews their leases, reports that they are ready |
//! | `scheduler` | gives pods to nodes; its core is pure |
//! | `stages` | pure: what becomes of simulated pods and nodes, as files declare it |
//! | `containers`, `conditions` | pure: the parts of a pod's status |
//! | `simulated` | a [`PodRuntime`] that runs nothing, by stages |
//! | `volumes` | binds claims to volumes of nothing |
//! | `kubelet` | takes the pods of nodes through their lives, by what a [`PodRuntime`] says |

mod addresses;
mod conditions;
mod containers;
mod keeper;
mod kubelet;
mod machine;
mod processes;
mod runtime;
mod scheduler;
mod simulated;
mod stages;
mod volumes;

use std::sync::Arc;

use kube::Client;
use windlass::operator::Operator;

pub(crate) use self::{
    kubelet::Kubelet,
    runtime::{Next, PodRuntime},
};
pub use self::{
    processes::{POD_PROCESS, ProcessOptions, Processes, become_pod_process},
    stages::{StageError, Stages},
};

/// What nodes there are, and what runs pods on them.
#[derive(Debug, Clone, Default)]
pub struct NodeOptions {
    /// How many; none means that nobody schedules or runs pods.
    pub count: usize,
    /// What runs the pods.
    pub runtime: Runtime,
    /// What becomes of simulated pods and nodes, in place of the [default](Stages::default).
    pub stages: Option<Stages>,
}

/// What runs the pods of nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Runtime {
    /// Nothing: their status says what it would say if something did.
    #[default]
    Simulated,
    /// Processes of this machine.
    Processes(Processes),
}

/// An operator with a scheduler and the nodes. It runs as the scheduler; what nodes write, they write with a client of
/// their own. If there is no loop that makes taints follow what nodes say (`lifecycle`), nodes do without.
pub fn operator(options: &NodeOptions, nodes: Client, lifecycle: bool) -> Operator {
    let stages = options.stages.clone().unwrap_or_default();
    let runtime: Arc<dyn PodRuntime> = match &options.runtime {
        Runtime::Simulated => Arc::new(simulated::Simulated::new(stages.clone())),
        Runtime::Processes(processes) => Arc::new(processes.clone()),
    };
    let fleet = machine::Fleet::new(options.count);
    let operator = keeper::add(Operator::new("kube-scheduler"), &fleet, nodes.clone(), stages, lifecycle);
    let operator = volumes::add(scheduler::add(operator));
    kubelet::add(operator, &fleet, nodes, runtime)
}
