//! Registers the nodes of the fleet, renews their leases, and reports their status.

use std::{collections::HashMap, sync::Arc, time::Duration};

use futures_util::{StreamExt as _, stream};
use k8s_openapi::{
    api::{
        coordination::v1::Lease,
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, ResourceExt as _,
    api::{ApiResource, DynamicObject, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::{
    Result,
    context::Context,
    controller::{Action, Controller, Reconciler},
    key::ObjectKey,
    operator::Operator,
    shutdown::Shutdown,
};
use windlass_clock::{now, now_in_seconds};
use windlass_loops::json_text;

use super::{
    clients::NodeClients,
    machine::{self, Fleet},
    simulated::{Simulation, StageStep},
    stages::{Environment, Stages, Subject, Transition, transition},
    usage::Meters,
};

/// The field manager of writes.
const FIELD_MANAGER: &str = "kubelet";
/// Interval at which leases are renewed, and how long each is valid: the kubelet's defaults.
const RENEWAL: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
/// Interval at which unchanged node conditions get a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Number of nodes that are registered at the same time.
const CONCURRENCY: usize = 64;
/// Delays before a failed registration is retried: the kubelet's.
const FIRST_RETRY: Duration = Duration::from_millis(100);
const LONGEST_RETRY: Duration = Duration::from_secs(7);

/// Taints of unhealthy nodes, which simulated nodes never are.
const AILMENTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the node controller, and the task that registers the fleet.
pub(super) fn add(
    operator: Operator,
    fleet: &Fleet,
    clients: &NodeClients,
    stages: Stages,
    lifecycle: bool,
    meters: Meters,
) -> Operator {
    let (registered, registrars) = (fleet.clone(), clients.clone());
    let simulation = Arc::new(Simulation::new(stages, Subject::Node));
    let leases = Arc::<Mutex<HashMap<String, Renewed>>>::default();
    let (removed, expired) = (simulation.clone(), leases.clone());
    let heartbeats =
        Heartbeats { clients: clients.clone(), fleet: fleet.clone(), simulation, lifecycle, leases, meters };
    let controller =
        Controller::new("node", heartbeats).field_manager(FIELD_MANAGER).reconcile_terminating().concurrency(8);
    // Pods are measured with their nodes.
    let controller = controller.watches::<Pod>(|_, _| Vec::new());
    let controller = controller.on_deleted(move |key, _ctx| {
        removed.remove(&key);
        expired.lock().remove(key.name());
        async { Ok(()) }
    });
    let registration = async move |_ctx: Context, shutdown: Shutdown| {
        let registering = stream::iter(0..registered.names().len())
            .for_each_concurrent(CONCURRENCY, |index| register(&registrars, &registered, index));
        tokio::select! {
            () = registering => {}
            () = shutdown.draining() => {}
        }
        Ok(())
    };
    operator.leader_task("nodes", registration).controller(controller)
}

/// Creates a node of the fleet, unless it exists. Retries until it succeeds, as kubelets do.
async fn register(clients: &NodeClients, fleet: &Fleet, index: usize) {
    let name = &fleet.names()[index];
    let mut delay = FIRST_RETRY;
    loop {
        match create(clients, fleet, index).await {
            Ok(()) => return,
            Err(error) => tracing::warn!(node = name, %error, "failed to register a node; retrying"),
        }
        tokio::time::sleep(delay).await;
        delay = (delay * 2).min(LONGEST_RETRY);
    }
}

async fn create(clients: &NodeClients, fleet: &Fleet, index: usize) -> Result<()> {
    let client = clients.node(&fleet.names()[index]);
    let nodes: Api<DynamicObject> = Api::all_with(client, &ApiResource::erase::<Node>(&()));
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let node = serde_json::from_value(fleet.node(index, now_in_seconds()))?;
    match nodes.create(&params, &node).await {
        Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
        created => created.map(|_| ()).map_err(windlass::Error::from),
    }
}

struct Heartbeats {
    clients: NodeClients,
    fleet: Fleet,
    simulation: Arc<Simulation>,
    /// Whether a loop updates taints from node conditions.
    lifecycle: bool,
    leases: Arc<Mutex<HashMap<String, Renewed>>>,
    meters: Meters,
}

/// Time of the last write of a node, by the monotonic clock.
#[derive(Clone, Copy)]
struct Renewed {
    lease: Option<Instant>,
    heartbeat: Instant,
}

impl Reconciler<Node> for Heartbeats {
    async fn reconcile(&self, node: Arc<Node>, ctx: Context) -> Result<Action> {
        self.meters.begin(&ctx);
        if !machine::runs(&node) || node.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let name = node.name_any();
        let ctx = &self.clients.node_context(&ctx, &name);
        let known = self.leases.lock().get(&name).copied();
        let heartbeat = self.report(&node, ctx, known.map(|known| known.heartbeat)).await?;
        let mut renewed = known.and_then(|known| known.lease);
        if renewed.is_none_or(|renewed| renewed.elapsed() >= RENEWAL) {
            self.renew(&node, &name, ctx).await?;
            renewed = Some(Instant::now());
        }
        self.leases.lock().insert(name, Renewed { lease: renewed, heartbeat });
        let passed = renewed.map_or(RENEWAL, |renewed| renewed.elapsed());
        let again = RENEWAL.saturating_sub(passed);
        let again = self.advance(&node, ctx).await?.map_or(again, |stage| stage.min(again));
        Ok(Action::requeue_after(again))
    }
}

impl Heartbeats {
    /// Reports that a node is ready, if it does not say so yet or the last heartbeat is too old. Returns the time of
    /// the last report.
    async fn report(&self, node: &Node, ctx: &Context, last: Option<Instant>) -> Result<Instant> {
        let present = json_text::to_value(node)?;
        let taints: Vec<Value> = present["spec"]["taints"].as_array().cloned().unwrap_or_default();
        let healthy = |taint: &&Value| !AILMENTS.iter().any(|ailment| taint["key"] == *ailment);
        let kept: Vec<&Value> = taints.iter().filter(healthy).collect();
        if kept.len() < taints.len() && !self.lifecycle {
            let patch =
                json!({"metadata": {"resourceVersion": node.metadata.resource_version}, "spec": {"taints": kept}});
            // Kubelets may not change taints.
            self.clients.node_controller_context(ctx).patch(node, &Patch::Merge(patch)).await?;
        }
        let status = present.get("status").filter(|status| !status.is_null());
        if let Some(last) = last.filter(|last| is_well(status) && last.elapsed() < HEARTBEAT) {
            return Ok(last);
        }
        if last.is_some() || !is_well(status) {
            let name = node.name_any();
            let address = self.fleet.address(&name);
            let status = machine::status(&name, &address.to_string(), status, now_in_seconds());
            let key = ObjectKey::of(node);
            ctx.kind::<Node>().patch_status(&key, &Patch::Merge(json!({"status": status}))).await?;
        }
        Ok(Instant::now())
    }

    /// Ends the stage that a node is in, if it is due. Returns when to check again, if another stage is pending.
    async fn advance(&self, node: &Node, ctx: &Context) -> Result<Option<Duration>> {
        let key = ObjectKey::of(node);
        let object = json_text::to_value(node)?;
        let stage = match self.simulation.next_step(&key, &object, now()) {
            StageStep::Wait => return Ok(None),
            StageStep::After(delay) => return Ok(Some(delay)),
            StageStep::End(stage) => stage,
        };
        let address = || self.fleet.address(key.name()).to_string();
        let environment = Environment { now: now_in_seconds(), pod_address: &address, host_address: &address };
        let Transition { status, finalizers, delete, event } =
            transition(&self.simulation.stages, stage, &object, &environment);
        if let Some(event) = event {
            let about = ctx.event(node);
            if event.warning {
                about.warning(&event.reason, &event.message);
            } else {
                about.normal(&event.reason, &event.message);
            }
        }
        let mut changed = delete;
        if let Some(status) = status.filter(|status| *status != object["status"]) {
            ctx.kind::<Node>().patch_status(&key, &Patch::Merge(json!({"status": status}))).await?;
            changed = true;
        }
        if let Some(finalizers) = finalizers
            && node.metadata.finalizers.as_deref().unwrap_or_default() != finalizers
        {
            ctx.patch(node, &Patch::Merge(json!({"metadata": {"finalizers": finalizers}}))).await?;
            changed = true;
        }
        if delete {
            // Kubelets may not delete nodes.
            self.clients.node_controller_context(ctx).delete(node).await?;
        }
        if !changed {
            self.simulation.exhausted(&key, stage);
        }
        Ok(Some(Duration::ZERO))
    }

    async fn renew(&self, node: &Node, name: &str, ctx: &Context) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(ctx.client(), "kube-node-lease");
        let renewal = MicroTime(now());
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewal});
        let params = PatchParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PatchParams::default() };
        let missing = match leases.patch(name, &params, &Patch::Merge(json!({"spec": spec}))).await {
            Ok(_) => return Ok(()),
            Err(kube::Error::Api(status)) if status.is_not_found() => json!({
                "metadata": {"name": name, "namespace": "kube-node-lease", "ownerReferences": [{
                    "apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid,
                }]},
                "spec": spec,
            }),
            Err(error) => return Err(error.into()),
        };
        let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
        leases.create(&params, &json_text::from_value(&missing)?).await?;
        Ok(())
    }
}

/// Returns whether a node's status is complete and says that it is ready.
fn is_well(status: Option<&Value>) -> bool {
    let Some(status) = status else { return false };
    let ready = status["conditions"].as_array().into_iter().flatten().find(|condition| condition["type"] == "Ready");
    ready.is_some_and(|ready| ready["status"] == "True") && status["allocatable"].is_object()
}
