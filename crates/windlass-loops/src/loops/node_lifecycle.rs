//! Detects nodes that stop reporting: marks them as unknown and their pods as not ready, and taints them so that pods
//! are evicted.
//!
//! | module | contents |
//! |---|---|
//! | `health` | pure: whether a node reports |
//! | `zones` | pure: the rate of tainting unready nodes |
//! | `taints` | pure: taints and labels that follow from the conditions of a node |
//!
//! The `NoSchedule` taints follow a node's conditions immediately. Heartbeats are checked periodically. This loop only
//! sets the `NoExecute` taint; the loop `taint-eviction-controller` deletes the pods.

mod health;
mod taints;
mod zones;

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _, stream};
use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{Node, ObjectReference, Pod, Taint},
};
use kube::{ResourceExt as _, api::Patch};
use serde_json::json;
use tokio::time::{Instant, MissedTickBehavior, interval};
use windlass::{
    Error, Result, cache::Informer, context::Context, controller::Action, events::EventType, key::ObjectKey,
    operator::Operator, scope::Scope, shutdown::Shutdown,
};
use windlass_clock::now_in_seconds;

use self::{
    health::{Finding, Health, Now, examine, ready_of},
    taints::{NOT_READY, UNREACHABLE},
    zones::{Turn, Zones, zone_of},
};
use crate::{
    loops::{ClusterCertificates, controller},
    pods::by_node,
};

const NAME: &str = "node-lifecycle-controller";
/// The reporter of events.
const REPORTER: &str = "node-controller";
/// Interval at which nodes are checked.
const PERIOD: Duration = Duration::from_secs(5);
/// Number of nodes that are checked at the same time.
const CONCURRENCY: usize = 8;
/// Number of attempts if other clients write at the same time.
const TRIES: usize = 5;
/// Nodes with this label do not count for the state of their zone.
const EXCLUDED: &str = "node.kubernetes.io/exclude-disruption";
/// The namespace of node leases.
const LEASES: &str = "kube-node-lease";

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let nodes = controller::<Node>(NAME, reconcile).concurrency(CONCURRENCY);
    operator.controller(nodes).leader_task(NAME, run)
}

/// Updates the `NoSchedule` taints and the deprecated labels of a node from its conditions.
async fn reconcile(node: Arc<Node>, ctx: Context) -> Result<Action> {
    let node = change_taints(&ctx, node, |node| taints::with_no_schedule(node, now_in_seconds())).await?;
    let labels = taints::labels(&node);
    if !labels.is_empty() {
        ctx.patch(&node, &Patch::Merge(json!({"metadata": {"labels": labels}}))).await?;
    }
    Ok(Action::done())
}

/// Writes the taints that `change` returns for a node, if any.
async fn change_taints(
    ctx: &Context,
    mut node: Arc<Node>,
    change: impl Fn(&Node) -> Option<Vec<Taint>>,
) -> Result<Arc<Node>> {
    for _ in 0..TRIES {
        let Some(taints) = change(&node) else { return Ok(node) };
        let taints = (!taints.is_empty()).then_some(taints);
        let metadata = json!({"resourceVersion": node.metadata.resource_version, "uid": node.metadata.uid});
        let patch = json!({"metadata": metadata, "spec": {"taints": taints}});
        match ctx.patch(&node, &Patch::Merge(patch)).await {
            Ok(written) => return Ok(written),
            Err(error) if error.is_not_found() => return Ok(node),
            Err(error) if error.is_conflict() => match ctx.live().get::<Node>(&ObjectKey::of(node.as_ref())).await? {
                Some(fresh) if fresh.metadata.uid == node.metadata.uid => node = Arc::new(fresh),
                _ => return Ok(node),
            },
            Err(error) => return Err(error.into()),
        }
    }
    Err(Error::new(format!("failed to update the taints of node {}: too many conflicts", node.name_any())))
}

/// Checks all nodes periodically.
async fn run(ctx: Context, shutdown: Shutdown) -> Result<()> {
    let mut monitor = NodeMonitor::new(&ctx);
    let passes = async {
        monitor.nodes.synced().await;
        monitor.leases.synced().await;
        monitor.pods.synced().await;
        let mut timer = interval(PERIOD);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            timer.tick().await;
            monitor.check_all().await;
        }
    };
    tokio::select! {
        () = passes => {}
        () = shutdown.draining() => {}
    }
    Ok(())
}

struct NodeMonitor {
    ctx: Context,
    nodes: Informer<Node>,
    leases: Informer<Lease>,
    pods: Informer<Pod>,
    /// UIDs and zones of nodes, by name.
    known: HashMap<String, (Option<String>, String)>,
    health: HashMap<String, Health>,
    zones: Zones,
    /// Nodes whose pods could not be marked as not ready.
    unmarked: HashSet<String>,
}

impl NodeMonitor {
    fn new(ctx: &Context) -> Self {
        let recorder = ctx.recorder().reporting(REPORTER);
        Self {
            nodes: ctx.caches().informer(&Scope::all()),
            leases: ctx.caches().informer(&Scope::namespace(LEASES)),
            pods: ctx.caches().informer(&Scope::all()),
            ctx: ctx.to_builder().recorder(recorder).build(),
            known: HashMap::new(),
            health: HashMap::new(),
            zones: Zones::default(),
            unmarked: HashSet::new(),
        }
    }

    async fn check_all(&mut self) {
        let nodes = self.nodes.list();
        if nodes.is_empty() && self.known.is_empty() {
            return;
        }
        self.update_known(&nodes).await;
        let looks: Vec<_> = nodes.iter().cloned().map(|node| self.check(node).boxed()).collect();
        let looked: Vec<Option<_>> = stream::iter(looks).buffer_unordered(CONCURRENCY).collect().await;
        let mut ready: BTreeMap<String, Vec<bool>> = BTreeMap::new();
        for (node, finding) in looked.into_iter().flatten() {
            let name = node.name_any();
            if !node.labels().contains_key(EXCLUDED) {
                ready.entry(zone_of(&node)).or_default().push(finding.ready.as_deref() == Some("True"));
            }
            if let Some(status) = &finding.ready {
                self.update_no_execute_taint(&node, status).await;
                let fell = finding.was_ready && status != "True";
                if fell {
                    let note = format!("Node {name} status is now: NodeNotReady");
                    self.record(&node, EventType::Normal, "NodeNotReady", &note);
                }
                if fell || self.unmarked.contains(&name) && !finding.was_ready {
                    match self.mark_pods_not_ready(&name).await {
                        Ok(()) => self.unmarked.remove(&name),
                        Err(error) => {
                            tracing::warn!(node = name, %error, "failed to mark the pods of a node as not ready");
                            self.unmarked.insert(name.clone())
                        }
                    };
                } else {
                    self.unmarked.remove(&name);
                }
            }
            self.health.insert(name, finding.health);
        }
        match self.zones.look(&ready) {
            Turn::None => {}
            Turn::AllLost => {
                for node in &nodes {
                    self.set_no_execute_taint(node.clone(), None).await;
                }
            }
            Turn::SomeBack => {
                let now = Instant::now();
                self.health.values_mut().for_each(|health| health.heard = now);
            }
        }
        self.taint_due_nodes().await;
    }

    /// Records new and deleted nodes.
    async fn update_known(&mut self, nodes: &[Arc<Node>]) {
        let present: HashSet<&str> = nodes.iter().filter_map(|node| node.metadata.name.as_deref()).collect();
        let gone: Vec<_> = self.known.extract_if(|name, _| !present.contains(name.as_str())).collect();
        for (name, (uid, zone)) in gone {
            let note = format!("Node {name} event: Removing Node {name} from Controller");
            self.record_about(&name, uid, EventType::Normal, "RemovingNode", &note);
            self.health.remove(&name);
            self.unmarked.remove(&name);
            self.zones.remove(&zone, &name);
        }
        for node in nodes {
            let name = node.name_any();
            let about = (node.metadata.uid.clone(), zone_of(node));
            if self.known.insert(name.clone(), about).is_none() {
                let note = format!("Node {name} event: Registered Node {name} in Controller");
                self.record(node, EventType::Normal, "RegisteredNode", &note);
                self.set_no_execute_taint(node.clone(), None).await;
            }
        }
    }

    /// Checks a node, and updates the conditions of one that stopped reporting. Returns `None` if the write failed.
    async fn check(&self, mut node: Arc<Node>) -> Option<(Arc<Node>, Finding)> {
        let name = node.name_any();
        for _ in 0..TRIES {
            let now = Now { instant: Instant::now(), time: now_in_seconds() };
            let lease = self.leases.get(&ObjectKey::namespaced(LEASES, &name));
            let mut finding = examine(self.health.get(&name), &node, lease.as_deref(), now);
            let Some(conditions) = finding.conditions.take() else { return Some((node, finding)) };
            let mut told = Node::clone(&node);
            told.status.get_or_insert_default().conditions = Some(conditions);
            match self.ctx.update_status(told).await {
                Ok(told) => return Some((told, finding)),
                Err(error) => tracing::debug!(node = name, %error, "failed to update the status of a node"),
            }
            node = Arc::new(self.ctx.live().get::<Node>(&ObjectKey::of(node.as_ref())).await.ok().flatten()?);
        }
        None
    }

    /// Updates the `NoExecute` taint of a node from its readiness: immediately if it only changes, otherwise when it is
    /// the node's turn.
    async fn update_no_execute_taint(&mut self, node: &Arc<Node>, ready: &str) {
        let (name, zone) = (node.name_any(), zone_of(node));
        let present = taints::of(node);
        let (key, opposite) = match ready {
            "False" => (NOT_READY, UNREACHABLE),
            "Unknown" => (UNREACHABLE, NOT_READY),
            _ => {
                self.set_no_execute_taint(node.clone(), None).await;
                self.zones.remove(&zone, &name);
                return;
            }
        };
        if taints::has(present, opposite, "NoExecute") {
            self.set_no_execute_taint(node.clone(), Some(key)).await;
        } else {
            self.zones.mark(&zone, &name, taints::has(present, key, "NoExecute"));
        }
    }

    /// Sets the `NoExecute` taint of the nodes whose turn it is.
    async fn taint_due_nodes(&mut self) {
        for name in self.zones.due(Instant::now()) {
            let Some(node) = self.nodes.get(&ObjectKey::cluster(&name)) else { continue };
            let key = match ready_of(&node).map(|ready| ready.status.as_str()) {
                Some("False") => NOT_READY,
                Some("Unknown") => UNREACHABLE,
                _ => continue,
            };
            let zone = zone_of(&node);
            if !self.set_no_execute_taint(node, Some(key)).await {
                self.zones.remove(&zone, &name);
            }
        }
    }

    /// Sets one of the `NoExecute` taints of a node, or removes them. Returns whether it succeeded.
    async fn set_no_execute_taint(&self, node: Arc<Node>, key: Option<&str>) -> bool {
        let name = node.name_any();
        let changed =
            change_taints(&self.ctx, node, |node| taints::with_no_execute(taints::of(node), key, now_in_seconds()))
                .await;
        changed
            .inspect_err(|error| tracing::warn!(node = name, %error, "failed to update the taints of a node"))
            .is_ok()
    }

    /// Marks the pods of a node as not ready, because their kubelet does not.
    async fn mark_pods_not_ready(&self, node: &str) -> Result<()> {
        let mut failed = Ok(());
        for pod in by_node(&self.pods).get(node) {
            let Some(unready) = unready(&pod) else { continue };
            match self.ctx.update_status(unready).await {
                Err(error) if error.is_not_found() => continue,
                Err(error) => failed = Err(error.into()),
                Ok(_) => {}
            }
            self.ctx.event(&pod).warning("NodeNotReady", "Node is not ready");
        }
        failed
    }

    fn record(&self, node: &Node, kind: EventType, reason: &str, note: &str) {
        self.record_about(&node.name_any(), node.metadata.uid.clone(), kind, reason, note);
    }

    fn record_about(&self, name: &str, uid: Option<String>, kind: EventType, reason: &str, note: &str) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("Node".to_owned()),
            name: Some(name.to_owned()),
            uid,
            ..ObjectReference::default()
        };
        self.ctx.recorder().record(&about, kind, reason, "", note);
    }
}

/// A copy of a pod that is not ready. Returns `None` if it already is not, or has no such condition.
fn unready(pod: &Pod) -> Option<Pod> {
    let mut pod = pod.clone();
    let conditions = pod.status.as_mut()?.conditions.as_mut()?;
    let ready = conditions.iter_mut().find(|condition| condition.type_ == "Ready" && condition.status != "False")?;
    ready.status = "False".to_owned();
    ready.last_transition_time = Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now_in_seconds()));
    Some(pod)
}
