//! The kubelets of all nodes: one pod controller, and the writes that a [`PodRuntime`] requests.

use std::{
    sync::{Arc, Once},
    time::Duration,
};

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod};
use kube::{
    Resource as _,
    api::{DeleteParams, Patch},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use windlass::{
    Result,
    cache::Index,
    context::Context,
    controller::{
        Action, Controller, Reconciler, Trigger, Watch,
        filter::{Change, Filter},
    },
    events::EventType,
    key::ObjectKey,
    operator::Operator,
};

use super::{
    addresses::Addresses,
    clients::NodeClients,
    host_ports,
    machine::{Fleet, runs},
    runtime::{Next, PodRuntime},
    scheduler::{self, Shortage},
};

/// Age at which a pod is rejected.
const REJECTED_AFTER: Duration = Duration::from_secs(1);
/// Number of pods that are synced at the same time.
const CONCURRENCY: usize = 32;

/// Adds the kubelets.
pub(super) fn add(operator: Operator, fleet: &Fleet, clients: &NodeClients, runtime: Arc<dyn PodRuntime>) -> Operator {
    let wake = Trigger::new();
    runtime.attach(wake.clone());
    let shared = Arc::new(Shared { fleet: fleet.clone(), addresses: Mutex::default() });
    let (shared_state, pod_runtime) = (shared.clone(), runtime.clone());
    let kubelets = Kubelets { clients: clients.clone(), shared, runtime, began: Once::new() };
    // Kubelets end the containers of pods that are being deleted.
    let controller = Controller::new("kubelet", kubelets)
        .reconcile_terminating()
        .field_manager("kubelet")
        .concurrency(CONCURRENCY)
        .source(wake)
        .source(Watch::<Node>::new().filter(Filter::new(begins)).map(pods_of_node))
        .on_deleted(move |key, _ctx| {
            shared_state.addresses.lock().release(&key);
            pod_runtime.deleted(&key);
            async { Ok(()) }
        });
    operator.controller(controller)
}

/// Returns whether a node starts to be managed here. Heartbeats do not affect its pods.
fn begins(change: &Change<'_, Node>) -> bool {
    !change.old.is_some_and(runs) && change.new.is_some_and(runs)
}

/// The pods of a node, which may have waited for it.
fn pods_of_node(node: &Node, ctx: &Context) -> Vec<ObjectKey> {
    let Ok(index) = by_node(ctx) else { return Vec::new() };
    let name = node.metadata.name.as_deref().unwrap_or_default();
    index.get(name).iter().map(|pod| ObjectKey::of(pod.as_ref())).collect()
}

/// Index of pods by node.
fn by_node(ctx: &Context) -> Result<Index<Pod, String>> {
    let values = |pod: &Pod| pod.spec.iter().filter_map(|spec| spec.node_name.clone()).collect();
    Ok(ctx.index("node", values)?)
}

struct Shared {
    fleet: Fleet,
    addresses: Mutex<Addresses>,
}

struct Kubelets {
    clients: NodeClients,
    shared: Arc<Shared>,
    runtime: Arc<dyn PodRuntime>,
    began: Once,
}

impl Reconciler<Pod> for Kubelets {
    async fn reconcile(&self, pod: Arc<Pod>, ctx: Context) -> Result<Action> {
        let name = node_name(&pod);
        if name.is_empty() || !ctx.get::<Node>(&ObjectKey::cluster(name))?.is_some_and(|node| runs(&node)) {
            return Ok(Action::done());
        }
        self.began.call_once(|| self.shared.learn_addresses(&ctx));
        let kubelet = Kubelet { ctx: self.clients.node_context(&ctx, name), shared: self.shared.clone() };
        if host_ports::are_wanted(&pod)
            && host_ports::are_taken(&pod, by_node(&ctx)?.get(name).iter().map(AsRef::as_ref))
        {
            return kubelet.reject(&pod).await;
        }
        match self.runtime.sync(pod, &kubelet).await? {
            Next::Wait => Ok(Action::done()),
            Next::After(delay) => Ok(Action::requeue_after(delay)),
        }
    }
}

impl Shared {
    /// Learns the addresses that were assigned before a restart.
    fn learn_addresses(&self, ctx: &Context) {
        let pods = ctx.list::<Pod>().unwrap_or_default();
        let mut addresses = self.addresses.lock();
        for pod in pods.iter().filter(|pod| !is_on_host(pod)) {
            if let Some(address) = pod.status.as_ref().and_then(|status| status.pod_ip.as_deref()) {
                addresses.record(&ObjectKey::of(pod.as_ref()), address);
            }
        }
    }
}

/// The reporting interface for runtimes, on behalf of the kubelet of one node.
pub(crate) struct Kubelet {
    ctx: Context,
    shared: Arc<Shared>,
}

impl Kubelet {
    /// The context of the node: with the caches that all nodes share, and the node's own client.
    pub(crate) fn context(&self) -> &Context {
        &self.ctx
    }

    /// The address of a pod's node.
    pub(crate) fn host_address(&self, pod: &Pod) -> String {
        let node = self.node(pod);
        let addresses = node.as_ref().and_then(|node| node.status.as_ref()?.addresses.as_deref());
        let internal = addresses.into_iter().flatten().find(|address| address.type_ == "InternalIP");
        internal.map_or_else(|| self.shared.fleet.address(node_name(pod)).to_string(), |own| own.address.clone())
    }

    /// The address of a pod, assigned on the first call: from its node's network, or the node's own.
    pub(crate) fn pod_address(&self, pod: &Pod) -> String {
        if is_on_host(pod) {
            return self.host_address(pod);
        }
        let node = self.node(pod);
        let network = node.as_ref().and_then(|node| node.spec.as_ref()?.pod_cidr.as_deref());
        self.shared.addresses.lock().of(&ObjectKey::of(pod), network).to_string()
    }

    /// Returns the node of a pod.
    pub(crate) fn node(&self, pod: &Pod) -> Option<Arc<Node>> {
        self.ctx.get::<Node>(&ObjectKey::cluster(node_name(pod))).ok().flatten()
    }

    /// Returns what the node of a pod lacks for its requests.
    pub(crate) fn shortage(&self, pod: &Pod) -> Option<Shortage> {
        let others = by_node(&self.ctx).ok()?.get(node_name(pod));
        scheduler::shortage(pod, self.node(pod)?.as_ref(), others.iter().map(AsRef::as_ref))
    }

    /// Writes the changed fields of a pod's status. Conditions of other writers are kept, even if they changed in the
    /// meantime. Returns whether anything was written.
    pub(crate) async fn write_status(&self, pod: &Pod, before: &Value, after: &Value) -> Result<bool> {
        let Some(changes) = difference(before, after) else { return Ok(false) };
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": changes});
        let key = ObjectKey::of(pod);
        self.ctx.kind::<Pod>().patch_status(&key, &Patch::Strategic(patch)).await?;
        Ok(true)
    }

    /// Replaces the finalizers of a pod. Nodes may change only the status of pods, with which the server accepts most
    /// changes of the metadata.
    pub(crate) async fn write_finalizers(&self, pod: &Pod, finalizers: &[String]) -> Result<()> {
        let patch = json!({"metadata": {"uid": pod.metadata.uid, "finalizers": finalizers}});
        self.ctx.kind::<Pod>().patch_status(&ObjectKey::of(pod), &Patch::Merge(patch)).await?;
        Ok(())
    }

    /// Fails a pod that needs a port that another pod uses. This takes a moment, because its owner recreates it
    /// immediately.
    async fn reject(&self, pod: &Pod) -> Result<Action> {
        let created = pod.metadata.creation_timestamp.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
        let age = Duration::try_from(windlass_clock::now().duration_since(created)).unwrap_or_default();
        if let Some(early) = REJECTED_AFTER.checked_sub(age).filter(|early| !early.is_zero()) {
            return Ok(Action::requeue_after(early));
        }
        let reason = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports";
        self.event(pod, EventType::Warning, "NodePorts", reason);
        let status = json!({
            "phase": "Failed", "reason": "NodePorts", "message": format!("Pod was rejected: {reason}"),
            "startTime": windlass_clock::now_in_seconds().to_string(),
        });
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": status});
        self.ctx.kind::<Pod>().patch_status(&ObjectKey::of(pod), &Patch::Strategic(patch)).await?;
        Ok(Action::done())
    }

    /// Removes a terminating pod whose containers have ended.
    pub(crate) async fn remove(&self, pod: &Pod) -> Result<()> {
        let params = DeleteParams { grace_period_seconds: Some(0), ..DeleteParams::default() };
        self.ctx.delete_with(pod, &params).await?;
        Ok(())
    }

    /// Records an event about a pod, reported by its node.
    pub(crate) fn event(&self, pod: &Pod, kind: EventType, reason: &str, note: &str) {
        let about = ObjectReference { resource_version: pod.metadata.resource_version.clone(), ..pod.object_ref(&()) };
        self.ctx.recorder().record(&about, kind, reason, "", note);
    }
}

fn node_name(pod: &Pod) -> &str {
    pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).unwrap_or_default()
}

fn is_on_host(pod: &Pod) -> bool {
    pod.spec.as_ref().and_then(|spec| spec.host_network).unwrap_or_default()
}

/// The strategic merge patch that turns one status into the other.
fn difference(before: &Value, after: &Value) -> Option<Value> {
    let empty = serde_json::Map::new();
    let (before, after) = (before.as_object().unwrap_or(&empty), after.as_object().unwrap_or(&empty));
    let mut changes = serde_json::Map::new();
    for (field, value) in after {
        let old = before.get(field).unwrap_or(&Value::Null);
        if old == value {
            continue;
        }
        let old = old.as_array().map_or(&[][..], Vec::as_slice);
        let change = match (field.as_str(), value) {
            // Merged by type: only changed and removed conditions are sent.
            ("conditions", Value::Array(items)) => {
                let is_there = |item: &&Value| items.iter().any(|present| present["type"] == item["type"]);
                let removed = old.iter().filter(|item| !is_there(item));
                let removed = removed.map(|item| json!({"$patch": "delete", "type": item["type"]}));
                items.iter().filter(|item| !old.contains(item)).cloned().chain(removed).collect::<Vec<_>>().into()
            }
            _ => value.clone(),
        };
        changes.insert(field.clone(), change);
    }
    for field in before.keys().filter(|field| !after.contains_key(*field)) {
        changes.insert(field.clone(), Value::Null);
    }
    (!changes.is_empty()).then(|| changes.into())
}
