//! Keeps a pod on every eligible node.

mod backoff;
mod fit;
mod history;
mod plan;
mod status;

use std::{sync::Arc, time::Duration};

use futures_util::{FutureExt, future::join_all};
use k8s_openapi::{
    api::{
        apps::v1::{ControllerRevision, DaemonSet},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass::{
    Error, Result,
    context::Context,
    controller::{
        Action, Reconciler, Watch,
        filter::{Change, Filter},
    },
    key::ObjectKey,
    operator::Operator,
};
use windlass_schema::sorting;

use self::{
    backoff::Backoff,
    fit::HASH_LABEL,
    history::History,
    plan::{Plan, View, Why},
};
use crate::{
    errors::server_message,
    loops::ClusterCertificates,
    pods::{self, Children, candidates, parents},
    revisions::{self, Draft},
};

const NAME: &str = "daemonset-controller";
/// Number of sets that are reconciled at the same time.
const CONCURRENCY: usize = 2;
/// Maximum number of pods created or deleted per reconciliation.
const BURST: usize = 250;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let nodes = Watch::<Node>::new().filter(Filter::new(|change: &Change<'_, Node>| match (change.old, change.new) {
        (Some(old), Some(new)) => {
            let taints = |node: &Node| node.spec.as_ref().and_then(|spec| spec.taints.clone()).unwrap_or_default();
            old.metadata.labels != new.metadata.labels || taints(old) != taints(new)
        }
        _ => true,
    }));
    let controller = super::controller(NAME, Daemons::default())
        .watches::<Pod>(parents::<DaemonSet, Pod>)
        // Only orphaned revisions trigger a reconcile; owned ones are read when something else has changed.
        .watches::<ControllerRevision>(|revision, ctx| match is_controlled(revision) {
            true => Vec::new(),
            false => parents::<DaemonSet, ControllerRevision>(revision, ctx),
        })
        .source(nodes.map(|_, ctx| {
            let sets = ctx.list::<DaemonSet>().unwrap_or_default();
            sets.iter().map(|set| ObjectKey::of(&**set)).collect()
        }))
        .concurrency(CONCURRENCY);
    operator.controller(controller)
}

fn is_controlled(revision: &ControllerRevision) -> bool {
    revision.metadata.owner_references.iter().flatten().any(|owner| owner.controller == Some(true))
}

/// The reconciler, with the backoff of failed pods.
#[derive(Default)]
struct Daemons {
    failures: Mutex<Backoff>,
}

impl Reconciler<DaemonSet> for Daemons {
    async fn reconcile(&self, set: Arc<DaemonSet>, ctx: Context) -> Result<Action> {
        let Some(spec) = &set.spec else { return Ok(Action::done()) };
        if spec.selector == LabelSelector::default() {
            let note = "This daemon set is selecting all pods. A non-empty selector is required.";
            ctx.event(&set).warning("SelectingAll", note);
            return Ok(Action::done());
        }
        // Its revisions may be deleted already, and without them nothing can be computed.
        if set.metadata.deletion_timestamp.is_some() {
            return Ok(Action::done());
        }
        let known = Children::<ControllerRevision>::selected(&spec.selector)?;
        let known = known.claim(&ctx, &*set, candidates(&ctx, &*set)?).await?;
        let own = Children::<Pod>::selected(&spec.selector)?;
        let pods = own.claim(&ctx, &*set, candidates(&ctx, &*set)?).await?;
        let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
        let history = construct(&ctx, &set, known, &pods, &mut collisions).await?;
        let hash = history::hash(&history.current);
        let mut nodes = ctx.list::<Node>()?;
        sorting::sort_by(&mut nodes, |a, b| a.metadata.name.cmp(&b.metadata.name));
        let now = windlass_clock::now();

        let view = View { set: &set, nodes: &nodes, pods: &pods, hash, now };
        let (plan, wait) = self.next(&ctx, &view);
        let acted = act(&ctx, &set, hash, plan).await;
        // Count completed writes even if others failed.
        let there: Vec<Arc<Pod>> = ctx.owned::<Pod, _>(&set)?.into_iter().filter(|pod| own.matches(pod)).collect();
        let status = status::of(&View { pods: &there, ..view }, collisions);
        let waits_for_available = status.number_ready != status.number_available.unwrap_or(0);
        let written = if set.status.as_ref() == Some(&status) {
            Ok(())
        } else {
            let set = DaemonSet { status: Some(status), ..DaemonSet::clone(&set) };
            ctx.update_status(set).await.map(drop)
        };
        acted?;
        written?;
        for revision in history::surplus(&history.old, &there, spec.revision_history_limit) {
            ctx.delete(&revision).await?;
        }
        let min_ready = spec.min_ready_seconds.filter(|seconds| *seconds > 0 && waits_for_available);
        let available = min_ready.map(|seconds| {
            let next = pods::next_available(there.iter().map(|pod| &**pod), seconds, now);
            next.unwrap_or_else(|| Duration::from_secs(u64::try_from(seconds).unwrap_or_default()))
        });
        Ok([wait, available].into_iter().flatten().min().map_or_else(Action::done, Action::requeue_after))
    }
}

impl Daemons {
    /// Returns the next changes, and when to check again for pods in backoff.
    fn next(&self, ctx: &Context, view: &View<'_>) -> (Plan, Option<Duration>) {
        let set = view.set;
        let mut plan = view.manage();
        if plan.is_empty() {
            // A node is handled by only one of the two at a time.
            plan = view.roll();
        }
        let mut wait: Option<Duration> = None;
        plan.delete.retain(|(pod, why)| {
            let node = fit::target_node(pod).unwrap_or_default();
            let name = format!("{}/{}", pod.namespace().unwrap_or_default(), pod.name_any());
            match why {
                Why::Failed => {
                    if let Err(delay) = self.failures.lock().attempt(&key_of(set, node), Instant::now()) {
                        wait = Some(wait.map_or(delay, |wait| wait.min(delay)));
                        return false;
                    }
                    let note = format!("Found failed daemon pod {name} on node {node}, will try to kill it");
                    ctx.event(set).warning("FailedDaemonPod", &note);
                }
                Why::Succeeded => {
                    let note = format!("Found succeeded daemon pod {name} on node {node}, will try to delete it");
                    ctx.event(set).normal("SucceededDaemonPod", &note);
                }
                Why::Unwanted => {}
            }
            true
        });
        (plan, wait)
    }
}

/// Failures are counted per generation.
fn key_of(set: &DaemonSet, node: &str) -> String {
    let generation = set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or(0);
    format!("{}/{generation}/{node}", set.metadata.uid.as_deref().unwrap_or_default())
}

/// Creates and deletes pods in batches of one, two, four and so on, so that a common failure occurs only a few times.
async fn act(ctx: &Context, set: &DaemonSet, hash: &str, plan: Plan) -> Result<()> {
    let mut nodes = plan.create.into_iter().take(BURST).peekable();
    let mut size = 1;
    let mut created = Ok(());
    while created.is_ok() && nodes.peek().is_some() {
        let batch: Vec<String> = nodes.by_ref().take(size).collect();
        let all = join_all(batch.iter().map(|node| create(ctx, set, hash, node).boxed())).await;
        created = all.into_iter().collect();
        size *= 2;
    }
    let deletes = plan.delete.iter().take(BURST).map(|(pod, _)| async move {
        let answer = ctx.delete_with(pod, &DeleteParams::default()).await;
        match &answer {
            Ok(()) => ctx.event(set).normal("SuccessfulDelete", &format!("Deleted pod: {}", pod.name_any())),
            Err(error) => ctx.event(set).warning("FailedDelete", &format!("Error deleting: {}", server_message(error))),
        }
        answer
    });
    let deleted: Result<Vec<()>, _> = join_all(deletes.map(FutureExt::boxed)).await.into_iter().collect();
    created?;
    deleted?;
    Ok(())
}

async fn create(ctx: &Context, set: &DaemonSet, hash: &str, node: &str) -> Result<()> {
    match ctx.create(fit::new_pod(set, hash, node)?).await {
        Ok(pod) => {
            ctx.event(set).normal("SuccessfulCreate", &format!("Created pod: {}", pod.name_any()));
            Ok(())
        }
        Err(error) if error.is_namespace_terminating() => Ok(()),
        Err(error) => {
            ctx.event(set).warning("FailedCreate", &format!("Error creating: {}", server_message(&error)));
            Err(error.into())
        }
    }
}

/// Finds or creates the revision of the current template, and makes it the latest.
async fn construct(
    ctx: &Context,
    set: &DaemonSet,
    known: Vec<Arc<ControllerRevision>>,
    pods: &[Arc<Pod>],
    collisions: &mut i32,
) -> Result<History> {
    let template =
        set.spec.as_ref().map(|spec| &spec.template).ok_or_else(|| Error::terminal("the set has no template"))?;
    let data = revisions::data_of(template);
    let mut labelled = Vec::with_capacity(known.len());
    for revision in known {
        labelled.push(if history::hash(&revision).is_empty() { label(ctx, &revision).await? } else { revision });
    }
    let (mut current, old): (Vec<_>, Vec<_>) =
        labelled.into_iter().partition(|revision| revisions::holds(revision, &data));
    let number = old.iter().map(|revision| revision.revision).max().unwrap_or(0) + 1;
    revisions::sort(&mut current);
    let current = match current.pop() {
        Some(newest) => {
            merge(ctx, &newest, current, pods).await?;
            if newest.revision < number { revisions::renumber(ctx, &newest, number).await? } else { newest }
        }
        None => {
            let draft = Draft::of(set, template, HASH_LABEL, data, number)?;
            revisions::create(ctx, draft, collisions).await?
        }
    };
    Ok(History { current, old })
}

/// Labels a revision without a hash with its name.
async fn label(ctx: &Context, revision: &ControllerRevision) -> Result<Arc<ControllerRevision>> {
    let mut revision = revision.clone();
    let name = revision.name_any();
    revision.metadata.labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), name);
    Ok(ctx.update(revision).await?)
}

/// Merges several revisions of the same template.
async fn merge(
    ctx: &Context,
    kept: &ControllerRevision,
    duplicates: Vec<Arc<ControllerRevision>>,
    pods: &[Arc<Pod>],
) -> Result<()> {
    for pod in history::pods_of(&duplicates, pods) {
        ctx.patch(pod, &Patch::Merge(json!({ "metadata": { "labels": { HASH_LABEL: history::hash(kept) } } }))).await?;
    }
    for revision in &duplicates {
        ctx.delete(revision).await?;
    }
    Ok(())
}
