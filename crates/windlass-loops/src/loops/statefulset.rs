//! Manages pods with stable names, volumes and an order.

mod claims;
mod cluster;
mod identity;
mod plan;
mod status;

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::{ControllerRevision, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod},
};
use kube::ResourceExt as _;
use windlass::{
    Error, Result,
    context::Context,
    controller::{Action, Watch, filter::Filter},
    key::ObjectKey,
    operator::Operator,
};
use windlass_schema::sorting::Gather as _;

use self::plan::{Revision, View};
use crate::{
    loops::ClusterCertificates,
    pods::{self, Children, candidates, parents},
    revisions::{self, Decision, Draft},
};

const NAME: &str = "statefulset-controller";
/// Revision label with its hash.
const HASH_LABEL: &str = "controller.kubernetes.io/hash";
/// Number of sets that are reconciled at the same time: they mostly wait for responses.
const CONCURRENCY: usize = 5;

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    // Only the deletion of a claim matters: a pod may wait for it, or have lost it.
    let claims = Watch::<PersistentVolumeClaim>::new().filter(Filter::new(|change| change.new.is_none()));
    let controller = super::controller(NAME, reconcile)
        .watches::<Pod>(parents::<StatefulSet, Pod>)
        .watches::<ControllerRevision>(parents::<StatefulSet, ControllerRevision>)
        .source(claims.map(sets_of_claim))
        .concurrency(CONCURRENCY);
    operator.controller(controller)
}

/// The sets that a claim may belong to, by its name.
fn sets_of_claim(claim: &PersistentVolumeClaim, ctx: &Context) -> Vec<ObjectKey> {
    let namespace = claim.metadata.namespace.as_deref().unwrap_or_default();
    let Some((name, _)) = claim.metadata.name.as_deref().and_then(|name| name.rsplit_once('-')) else {
        return Vec::new();
    };
    let ends = name.match_indices('-').map(|(dash, _)| ObjectKey::namespaced(namespace, &name[dash + 1..]));
    ends.filter(|key| ctx.get::<StatefulSet>(key).is_ok_and(|set| set.is_some())).collect()
}

async fn reconcile(set: Arc<StatefulSet>, ctx: Context) -> Result<Action> {
    let Some(spec) = &set.spec else { return Ok(Action::done()) };
    let known = Children::<ControllerRevision>::selected(&spec.selector)?;
    let mut known = known.claim(&ctx, &*set, candidates(&ctx, &*set)?).await?;
    let is_member = |pod: &Pod| identity::is_member(&set, pod);
    let own = Children::<Pod>::selected(&spec.selector)?.that(&is_member);
    let pods = own.claim(&ctx, &*set, candidates(&ctx, &*set)?).await?;

    revisions::sort(&mut known);
    let mut collisions = set.status.as_ref().and_then(|status| status.collision_count).unwrap_or(0);
    let update = update_revision(&ctx, &set, &known, &mut collisions).await?;
    let named = set.status.as_ref().and_then(|status| status.current_revision.clone());
    let current = known.iter().find(|revision| revision.metadata.name == named).unwrap_or(&update).clone();

    let now = windlass_clock::now();
    let acted = act(&ctx, &set, &current, &update, &pods, now).await;
    // Count completed writes even if others failed.
    let now_there: Vec<Arc<Pod>> = ctx.owned::<Pod, _>(&set)?.into_iter().filter(|pod| own.matches(pod)).collect();
    let names = status::Names { current: &current.name_any(), update: &update.name_any(), collisions };
    let status = status::of(&set, &names, &now_there, now);
    let (ready, available) = (status.ready_replicas.unwrap_or(0), status.available_replicas.unwrap_or(0));
    let written = if status::differs(&set, &status) {
        let set = StatefulSet { status: Some(status), ..StatefulSet::clone(&set) };
        ctx.update_status(set).await.map(drop)
    } else {
        Ok(())
    };
    acted?;
    written?;

    let live: BTreeSet<String> = pods
        .iter()
        .map(|pod| identity::revision(pod).to_owned())
        .chain([current.name_any(), update.name_any()])
        .gather();
    let is_live = |revision: &ControllerRevision| live.contains(&revision.name_any());
    for revision in revisions::surplus(&known, is_live, spec.revision_history_limit) {
        ctx.delete(&revision).await?;
    }
    match spec.min_ready_seconds.filter(|seconds| *seconds > 0 && ready != available) {
        Some(seconds) => {
            let next = pods::next_available(now_there.iter().map(|pod| &**pod), seconds, now);
            let at_the_latest = || Duration::from_secs(u64::try_from(seconds).unwrap_or_default());
            Ok(Action::requeue_after(next.unwrap_or_else(at_the_latest)))
        }
        None => Ok(Action::done()),
    }
}

/// Finds or creates the revision of the set's template.
async fn update_revision(
    ctx: &Context,
    set: &StatefulSet,
    known: &[Arc<ControllerRevision>],
    collisions: &mut i32,
) -> Result<Arc<ControllerRevision>> {
    let template =
        set.spec.as_ref().map(|spec| &spec.template).ok_or_else(|| Error::terminal("the set has no template"))?;
    let data = revisions::data_of(template);
    Ok(match revisions::decide(known, &data) {
        Decision::Keep(place) => known[place].clone(),
        Decision::Renumber(place, number) => revisions::renumber(ctx, &known[place], number).await?,
        Decision::Create(number) => {
            let draft = Draft::of(set, template, HASH_LABEL, data, number)?;
            revisions::create(ctx, draft, collisions).await?
        }
    })
}

/// Performs the planned changes to the pods.
async fn act(
    ctx: &Context,
    set: &StatefulSet,
    current: &ControllerRevision,
    update: &ControllerRevision,
    pods: &[Arc<Pod>],
    now: Timestamp,
) -> Result<()> {
    let template = |revision: &ControllerRevision| {
        let template = revisions::template_of(revision);
        template.ok_or_else(|| Error::terminal(format!("revision {} has no template", revision.name_any())))
    };
    let (current_template, update_template) = (template(current)?, template(update)?);
    let namespace = set.namespace().unwrap_or_default();
    let steps = {
        let claim = |name: &str| ctx.get(&ObjectKey::namespaced(&namespace, name)).ok().flatten();
        plan::plan(&View {
            set,
            current: Revision { name: &current.name_any(), template: &current_template },
            update: Revision { name: &update.name_any(), template: &update_template },
            pods,
            claim: &claim,
            now,
        })?
    };
    let is_parallel = set.spec.as_ref().is_some_and(|spec| spec.pod_management_policy.as_deref() == Some("Parallel"));
    if is_parallel { cluster::at_once(ctx, set, steps).await } else { cluster::in_order(ctx, set, steps).await }
}
