//! Resource usage of nodes and their pods, for the resource metrics API and for the kubelets' `/metrics/resource`.
//!
//! Containers that run as processes use what their processes use. Simulated ones use half of their requests, unless
//! annotations of the pod say otherwise ([`simulated`]). A node uses what its pods use.

mod meter;
mod simulated;

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock, Weak},
};

use async_trait::async_trait;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::ResourceExt as _;
use parking_lot::Mutex;
use windlass::context::Context;
use windlass_apiserver::{
    node_connections::{NodeConnections, NodeDocument},
    status::Result,
};
use windlass_resource_metrics::{MeasuredObject, MetricsSource, NodeSample, PodSample, exposition};
use windlass_schema::sorting::Gather as _;

use self::meter::{ContainerReading, NodeMeter, Reading};
use crate::{Runtime, machine::runs, processes::AllProcesses};

/// The usage of all nodes. A cheap handle that does not keep the nodes running: without them, nothing is used.
#[derive(Clone, Default)]
pub struct NodeUsage(Arc<OnceLock<Weak<Measuring>>>);

/// The state of measuring, which exists while the nodes run.
struct Measuring {
    runtime: Runtime,
    /// With the caches that all nodes share.
    ctx: Context,
    meters: Mutex<HashMap<String, NodeMeter>>,
}

/// Keeps the state of measuring while the nodes run.
pub(crate) struct Meters {
    usage: NodeUsage,
    runtime: Runtime,
    measuring: OnceLock<Arc<Measuring>>,
}

impl Meters {
    pub(crate) fn new(usage: &NodeUsage, runtime: &Runtime) -> Self {
        Self { usage: usage.clone(), runtime: runtime.clone(), measuring: OnceLock::new() }
    }

    /// Begins to measure with the first context, which must have the caches of nodes and pods.
    pub(crate) fn begin(&self, ctx: &Context) {
        let measuring = self.measuring.get_or_init(|| {
            Arc::new(Measuring { runtime: self.runtime.clone(), ctx: ctx.clone(), meters: Mutex::default() })
        });
        self.usage.0.get_or_init(|| Arc::downgrade(measuring));
    }
}

impl std::fmt::Debug for NodeUsage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NodeUsage").finish_non_exhaustive()
    }
}

impl NodeUsage {
    fn measuring(&self) -> Option<Arc<Measuring>> {
        self.0.get()?.upgrade()
    }
}

impl Measuring {
    /// Returns the pods of each node that is simulated here.
    fn pods_by_node(&self) -> HashMap<String, (Arc<Node>, Vec<Arc<Pod>>)> {
        let nodes = self.ctx.list::<Node>().unwrap_or_default();
        let nodes = nodes.into_iter().filter(|node| runs(node));
        let mut all: HashMap<_, _> = nodes.map(|node| (node.name_any(), (node, Vec::new()))).gather();
        for pod in self.ctx.list::<Pod>().unwrap_or_default() {
            let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default();
            if let Some((_, pods)) = all.get_mut(node) {
                pods.push(pod);
            }
        }
        all
    }

    /// Measures a node, or all of them.
    async fn measure(&self, only: Option<&str>) -> Vec<NodeSample> {
        // Reads a few hundred small files.
        let processes = match &self.runtime {
            Runtime::Simulated => None,
            Runtime::Processes(_) => tokio::task::spawn_blocking(AllProcesses::read).await.ok(),
        };
        let now = windlass_clock::now();
        let nodes = self.pods_by_node();
        let mut meters = self.meters.lock();
        meters.retain(|name, _| nodes.contains_key(name));
        let wanted = nodes.into_iter().filter(|(name, _)| only.is_none_or(|only| only == name));
        wanted
            .map(|(name, (node, pods))| {
                let started = node.metadata.creation_timestamp.as_ref().map_or(now, |time| time.0);
                let readings = pods.iter().map(|pod| (&**pod, self.readings(pod, processes.as_ref()))).collect();
                sample(meters.entry(name.clone()).or_default(), name, started, readings, now)
            })
            .collect()
    }

    /// Returns what the running containers of a pod use.
    fn readings(&self, pod: &Pod, processes: Option<&AllProcesses>) -> Vec<ContainerReading> {
        let running = running(pod);
        let (Runtime::Processes(runtime), Some(all)) = (&self.runtime, processes) else {
            let reading = |(name, started): (String, Timestamp)| {
                let (cpu, memory) = simulated::usage(pod, &name);
                ContainerReading { name, started, reading: Reading::Rate { cpu, memory } }
            };
            return running.into_iter().map(reading).collect();
        };
        let mut totals: HashMap<_, _> = runtime.usage_of(&pod.uid().unwrap_or_default(), all).into_iter().gather();
        let reading = |(name, started): (String, Timestamp)| {
            let total = totals.remove(&name)?;
            Some(ContainerReading { name, started, reading: Reading::Total { cpu: total.cpu, memory: total.memory } })
        };
        running.into_iter().filter_map(reading).collect()
    }
}

/// Returns the running containers of a pod, and when they started.
fn running(pod: &Pod) -> Vec<(String, Timestamp)> {
    let Some(status) = &pod.status else { return Vec::new() };
    let statuses = status.init_container_statuses.iter().chain(&status.container_statuses).flatten();
    let running = statuses.filter_map(|status| {
        let running = status.state.as_ref()?.running.as_ref()?;
        Some((status.name.clone(), running.started_at.as_ref()?.0))
    });
    running.collect()
}

/// Returns the sample of a node.
fn sample(
    meter: &mut NodeMeter,
    name: String,
    started: Timestamp,
    readings: Vec<(&Pod, Vec<ContainerReading>)>,
    now: Timestamp,
) -> NodeSample {
    let mut round = meter.begin();
    let pods = readings.into_iter().map(|(pod, readings)| {
        let uid = pod.uid().unwrap_or_default();
        let points = readings.into_iter().map(|one| (one.name.clone(), round.read(&uid, &one, now)));
        let containers = points.gather();
        PodSample { namespace: pod.namespace().unwrap_or_default(), name: pod.name_any(), containers }
    });
    let pods = pods.filter(|pod| !pod.containers.is_empty()).collect();
    NodeSample { name, node: Some(round.end(started, now)), pods }
}

#[async_trait]
impl MetricsSource for NodeUsage {
    async fn measure(&self) -> std::result::Result<Vec<NodeSample>, String> {
        match self.measuring() {
            Some(measuring) => Ok(measuring.measure(None).await),
            None => Ok(Vec::new()),
        }
    }

    async fn nodes(&self) -> std::result::Result<Vec<MeasuredObject>, String> {
        let nodes = self.measuring().and_then(|measuring| measuring.ctx.list::<Node>().ok()).unwrap_or_default();
        Ok(nodes.iter().map(|node| measured(node.name_any(), String::new(), node.labels())).collect())
    }

    async fn pods(&self, namespace: &str) -> std::result::Result<Vec<MeasuredObject>, String> {
        let pods = self.measuring().and_then(|measuring| measuring.ctx.list::<Pod>().ok()).unwrap_or_default();
        let pods =
            pods.iter().filter(|pod| namespace.is_empty() || pod.metadata.namespace.as_deref() == Some(namespace));
        Ok(pods.map(|pod| measured(pod.name_any(), pod.namespace().unwrap_or_default(), pod.labels())).collect())
    }
}

fn measured(name: String, namespace: String, labels: &std::collections::BTreeMap<String, String>) -> MeasuredObject {
    MeasuredObject { namespace, name, labels: labels.clone() }
}

#[async_trait]
impl NodeConnections for NodeUsage {
    async fn get(&self, node: &str, path: &str) -> Result<Option<NodeDocument>> {
        let document = |text: String| Some(NodeDocument { content_type: "text/plain; charset=utf-8", text });
        Ok(match (path, self.measuring()) {
            ("healthz", Some(_)) => document("ok".to_owned()),
            ("metrics/resource", Some(measuring)) => {
                let sample = measuring.measure(Some(node)).await.pop();
                let text = sample.map(|sample| exposition::format(&sample));
                text.map(|text| NodeDocument { content_type: exposition::CONTENT_TYPE, text })
            }
            _ => None,
        })
    }
}
