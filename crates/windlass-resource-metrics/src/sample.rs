//! Measurements of nodes and containers.

use std::collections::BTreeMap;

use jiff::Timestamp;

/// A measurement of a node or a container.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Time at which the node or container started; the used CPU time was zero then.
    pub started: Option<Timestamp>,
    /// Time at which it was measured.
    pub time: Timestamp,
    /// CPU time used since the start, in nanoseconds of one core.
    pub cpu: u64,
    /// The working set, in bytes.
    pub memory: u64,
}

/// The measurements of a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PodSample {
    /// The namespace.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The running containers.
    pub containers: BTreeMap<String, Point>,
}

/// The measurements of a node and its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NodeSample {
    /// The name.
    pub name: String,
    /// The node as a whole.
    pub node: Option<Point>,
    /// Its pods.
    pub pods: Vec<PodSample>,
}

/// A node or pod that is measured.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct MeasuredObject {
    /// The namespace; empty for nodes.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The labels, which its metrics have as well.
    pub labels: BTreeMap<String, String>,
}
