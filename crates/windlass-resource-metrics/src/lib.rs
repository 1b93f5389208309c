//! The resource metrics API, `metrics.k8s.io/v1beta1`: what nodes and pods use, as `kubectl top` and horizontal pod
//! autoscalers read it.
//!
//! | module | contents |
//! |---|---|
//! | `sample` | measurements of nodes and containers |
//! | `exposition` | pure: measurements in the text format of a kubelet's `/metrics/resource` |
//! | `windows` | pure: usage, from the last two measurements |
//! | `objects` | pure: NodeMetrics and PodMetrics, and their tables |
//! | `metrics` | measures on demand, and serves the objects |
//! | `manifests` | pure: the roles of a metrics server |
//!
//! [`ResourceMetrics`] serves the API for any [`MetricsSource`].

pub mod exposition;
pub mod manifests;
mod metrics;
mod objects;
mod sample;
mod windows;

pub use self::{
    metrics::{MetricsSource, RESOLUTION, ResourceMetrics},
    objects::{GROUP, VERSION},
    sample::{MeasuredObject, NodeSample, PodSample, Point},
};
