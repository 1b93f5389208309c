//! Registers the nodes of the fleet, renews their leases, and reports their status.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
    time::Duration,
};

use k8s_openapi::{
    api::{coordination::v1::Lease, core::v1::Node},
    apimachinery::pkg::apis::meta::v1::MicroTime,
};
use kube::{
    Api, Client, ResourceExt as _,
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
};
use windlass_clock::{now, now_in_seconds};
use windlass_loops::json_text;

use super::{
    machine::{self, Fleet},
    simulated::{Simulation, StageStep},
    stages::{Environment, Stages, Subject, Transition, transition},
};

/// The field manager of writes.
const FIELD_MANAGER: &str = "kubelet";
/// How often leases are renewed, and how long each is valid: the kubelet's defaults.
const RENEWAL: Duration = Duration::from_secs(10);
const LEASE_SECONDS: i32 = 40;
/// How often unchanged node conditions get a heartbeat.
const HEARTBEAT: Duration = Duration::from_secs(300);

/// Taints of unhealthy nodes, which simulated nodes never are.
const AILMENTS: [&str; 2] = ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"];

/// Adds the node controller, and the task that registers the fleet.
pub(super) fn add(operator: Operator, fleet: &Fleet, client: Client, stages: Stages, lifecycle: bool) -> Operator {
    let registered = fleet.clone();
    let registrar = client.clone();
    let simulation = Arc::new(Simulation::new(stages, Subject::Node));
    let leases = Arc::<Mutex<HashMap<String, Renewed>>>::default();
    let (removed, expired) = (simulation.clone(), leases.clone());
    let heartbeats =
        Heartbeats { client, fleet: fleet.clone(), simulation, lifecycle, context: OnceLock::new(), leases };
    let controller = Controller::new("node", heartbeats).field_manager(FIELD_MANAGER).concurrency(8);
    let controller = controller.on_deleted(move |key, _ctx| {
        removed.remove(&key);
        expired.lock().remove(key.name());
        async { Ok(()) }
    });
    operator.task("nodes", async move |_ctx, _shutdown| register(&registrar, &registered).await).controller(controller)
}

/// Creates the missing nodes of the fleet.
async fn register(client: &Client, fleet: &Fleet) -> Result<()> {
    let nodes: Api<DynamicObject> = Api::all_with(client.clone(), &ApiResource::erase::<Node>(&()));
    let params = PostParams { field_manager: Some(FIELD_MANAGER.to_owned()), ..PostParams::default() };
    let created = (0..fleet.names().len()).map(async |index| {
        let node = serde_json::from_value(fleet.node(index, now_in_seconds()))?;
        match nodes.create(&params, &node).await {
            Err(kube::Error::Api(status)) if status.is_already_exists() => Ok(()),
            created => created.map(|_| ()).map_err(windlass::Error::from),
        }
    });
    futures_util::future::try_join_all(created).await?;
    Ok(())
}

struct Heartbeats {
    client: Client,
    fleet: Fleet,
    simulation: Arc<Simulation>,
    /// Whether a loop updates taints from node conditions.
    lifecycle: bool,
    /// The controller's context, with the nodes' client.
    context: OnceLock<Context>,
    leases: Arc<Mutex<HashMap<String, Renewed>>>,
}

/// When a node was last written, by the monotonic clock.
#[derive(Clone, Copy)]
struct Renewed {
    lease: Option<Instant>,
    heartbeat: Instant,
}

impl Reconciler<Node> for Heartbeats {
    async fn reconcile(&self, node: Arc<Node>, ctx: Context) -> Result<Action> {
        if !machine::runs(&node) || node.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let ctx = self.context.get_or_init(|| as_nodes(&ctx, &self.client));
        let name = node.name_any();
        let known = self.leases.lock().get(&name).copied();
        let heartbeat = self.report(&node, ctx, known.map(|known| known.heartbeat)).await?;
        let mut renewed = known.and_then(|known| known.lease);
        if renewed.is_none_or(|renewed| renewed.elapsed() >= RENEWAL) {
            self.renew(&node, &name).await?;
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
            ctx.patch(node, &Patch::Merge(patch)).await?;
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
            ctx.delete(node).await?;
        }
        if !changed {
            self.simulation.exhausted(&key, stage);
        }
        Ok(Some(Duration::ZERO))
    }

    async fn renew(&self, node: &Node, name: &str) -> Result<()> {
        let leases: Api<Lease> = Api::namespaced(self.client.clone(), "kube-node-lease");
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

/// A context that shares the caches of another, and writes as the nodes.
pub(super) fn as_nodes(ctx: &Context, client: &Client) -> Context {
    ctx.to_builder().client(client.clone()).field_manager(FIELD_MANAGER).build()
}
