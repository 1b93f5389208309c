//! Maintains the status of pod disruption budgets.
//!
//! The status of a budget counts the pods it selects, the healthy ones and the number that must be healthy. Evictions
//! use up the allowed disruptions, and record pods in the budget until this loop has observed their deletion.

mod budget;
mod expected;

use std::{collections::HashMap, sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::{Pod, PodCondition, ReplicationController},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, OwnerReference, Time},
};
use serde_json::Value;
use windlass::{
    Result,
    context::Context,
    controller::{
        Action, Watch,
        filter::{self, Change, Filter},
    },
    key::ObjectKey,
    object::Object,
    objects::owner::controller_of,
    operator::Operator,
};

use self::{
    budget::Counts,
    expected::{Bound, Controllers},
};
use crate::{loops::ClusterCertificates, pods};

const NAME: &str = "disruption-controller";
/// The reporter of events.
const REPORTER: &str = "controllermanager";
/// Number of budgets that are reconciled at the same time.
const CONCURRENCY: usize = 4;
/// Delay before retrying a budget whose pods have controllers that cannot be found.
const AFTER_A_FAILURE: Duration = Duration::from_secs(30);
/// After this time, a pod that was to be disrupted is assumed to stay.
const STALE: SignedDuration = SignedDuration::from_mins(2);

/// The UID of a controller, and its scale.
type Scale = (String, i32);

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let moved = Watch::<Pod>::new().filter(Filter::new(|change: &Change<'_, Pod>| match (change.old, change.new) {
        (Some(old), Some(new)) => change.resync || facts(old) != facts(new),
        _ => true,
    }));
    let budgets = super::controller::<PodDisruptionBudget>(NAME, reconcile)
        .reporter(REPORTER)
        .source(moved.map(pods::selecting::<PodDisruptionBudget, Pod>))
        .watches::<ReplicaSet>(|_, _| Vec::new())
        .watches::<Deployment>(|_, _| Vec::new())
        .watches::<StatefulSet>(|_, _| Vec::new())
        .watches::<ReplicationController>(|_, _| Vec::new())
        .concurrency(CONCURRENCY);
    let stale = super::controller::<Pod>("disruption-controller-stale-pods", reset_stale)
        .reporter(REPORTER)
        .filter(filter::object(|pod: &Pod| target(pod).is_some()));
    operator.controller(budgets).controller(stale)
}

/// The properties of a pod that budgets depend on.
fn facts(pod: &Pod) -> impl PartialEq + '_ {
    let metadata = &pod.metadata;
    (&metadata.labels, &metadata.owner_references, pods::is_terminating(pod), pods::is_ready(pod))
}

async fn reconcile(budget: Arc<PodDisruptionBudget>, ctx: Context) -> Result<Action> {
    let now = windlass_clock::now_in_seconds();
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    let selector = budget.spec.as_ref().and_then(|spec| spec.selector.as_ref());
    let pods = match selector {
        Some(selector) => pods::selected::<Pod>(&ctx, namespace, selector)?,
        None => Vec::new(),
    };
    let (counts, unmanaged) = match expected(&ctx, &budget, &pods).await {
        Ok(expected) => expected,
        Err(why) => {
            let note = format!("Failed to calculate the number of expected pods: {why}");
            if let Some(status) = budget::failed(&budget, &why, now) {
                ctx.event(&budget).warning("CalculateExpectedPodCountFailed", &note);
                write(&ctx, &budget, status).await?;
            }
            return Ok(Action::requeue_after(AFTER_A_FAILURE));
        }
    };
    let disrupted = budget::disrupted(&budget, &pods, now);
    for pod in &disrupted.overdue {
        let note = format!("Pod was expected by PDB {namespace}/{namespace} to be deleted but it wasn't");
        ctx.event(pod).warning("NotDeleted", &note);
    }
    let counts = Counts { healthy: budget::healthy(&pods, &disrupted.pods), ..counts };
    let again = disrupted.again;
    if let Some(status) = budget::status(&budget, counts, disrupted.pods, now) {
        if pods.is_empty() {
            ctx.event(&budget).normal("NoPods", "No matching pods found");
        }
        if let Some(selector) = selector.filter(|_| !unmanaged.is_empty()) {
            ctx.event(&budget).warning("UnmanagedPods", &unmanaged_note(selector));
        }
        write(&ctx, &budget, status).await?;
    }
    Ok(again.map_or_else(Action::done, Action::requeue_after))
}

/// Returns the expected and desired numbers of pods of a budget, and the names of pods without a controller. An error
/// is the message for the budget's condition.
async fn expected(
    ctx: &Context,
    budget: &PodDisruptionBudget,
    pods: &[Arc<Pod>],
) -> Result<(Counts, Vec<String>), String> {
    let bound = Bound::of(budget.spec.as_ref());
    if !bound.needs_scales() {
        return Ok((bound.counts(pods.len(), 0)?, Vec::new()));
    }
    let namespace = budget.metadata.namespace.as_deref().unwrap_or_default();
    let controllers = Controllers::of(pods);
    let mut scales = HashMap::<String, i32>::new();
    for (owner, pod) in controllers.owners {
        match scale_of(ctx, namespace, owner).await? {
            Some((uid, replicas)) => scales.insert(uid, replicas),
            None => return Err(format!("found no controllers for pod {pod:?}")),
        };
    }
    let sum = scales.values().fold(0, |sum: i32, replicas| sum.saturating_add(*replicas));
    Ok((bound.counts(pods.len(), sum)?, controllers.unmanaged))
}

async fn scale_of(ctx: &Context, namespace: &str, owner: &OwnerReference) -> Result<Option<Scale>, String> {
    let (group, _) = owner.api_version.split_once('/').unwrap_or_default();
    let scale = match (group, owner.kind.as_str()) {
        ("", "ReplicationController") => find::<ReplicationController>(ctx, namespace, owner)?
            .map(|found| found.spec.as_ref().and_then(|spec| spec.replicas)),
        ("apps", "StatefulSet") => {
            find::<StatefulSet>(ctx, namespace, owner)?.map(|found| found.spec.as_ref().and_then(|spec| spec.replicas))
        }
        ("apps" | "extensions", "ReplicaSet") => {
            let Some(set) = find::<ReplicaSet>(ctx, namespace, owner)? else {
                return scale_from_server(ctx, namespace, owner).await;
            };
            match controller_of(&set.metadata).filter(|parent| parent.kind == "Deployment") {
                Some(parent) => {
                    if let Some(found) = find::<Deployment>(ctx, namespace, parent)? {
                        let replicas = found.spec.as_ref().and_then(|spec| spec.replicas);
                        return Ok(Some((parent.uid.clone(), replicas.unwrap_or(1))));
                    }
                    None
                }
                None => Some(set.spec.as_ref().and_then(|spec| spec.replicas)),
            }
        }
        _ => None,
    };
    match scale {
        Some(replicas) => Ok(Some((owner.uid.clone(), replicas.unwrap_or(1)))),
        None => scale_from_server(ctx, namespace, owner).await,
    }
}

/// Returns the object of an owner reference.
fn find<K: Object<DynamicType: Default>>(
    ctx: &Context,
    namespace: &str,
    owner: &OwnerReference,
) -> Result<Option<Arc<K>>, String> {
    let found = ctx.get::<K>(&ObjectKey::namespaced(namespace, &owner.name)).map_err(|error| error.to_string())?;
    Ok(found.filter(|found| found.meta().uid.as_deref() == Some(owner.uid.as_str())))
}

/// Reads the scale subresource of any resource that has one.
async fn scale_from_server(ctx: &Context, namespace: &str, owner: &OwnerReference) -> Result<Option<Scale>, String> {
    let OwnerReference { api_version, kind, name, uid, .. } = owner;
    let (group, _) = api_version.split_once('/').unwrap_or_default();
    let root = if group.is_empty() { format!("/api/{api_version}") } else { format!("/apis/{api_version}") };
    let unknown = || format!("no matches for kind {kind:?} in version {api_version:?}");
    let served = fetch(ctx, &root).await?.ok_or_else(unknown)?;
    let plural = expected::scalable(&served, group, kind).ok_or_else(unknown)??;
    let scale = fetch(ctx, &format!("{root}/namespaces/{namespace}/{plural}/{name}/scale")).await?;
    let scale = scale.filter(|scale| scale["metadata"]["uid"].as_str() == Some(uid.as_str()));
    let replicas = |scale: Value| scale["spec"]["replicas"].as_i64().and_then(|number| number.try_into().ok());
    Ok(scale.map(|scale| (uid.clone(), replicas(scale).unwrap_or_default())))
}

/// Fetches a path. Returns `None` if it does not exist.
async fn fetch(ctx: &Context, path: &str) -> Result<Option<Value>, String> {
    let request = http::Request::get(path).body(Vec::new()).map_err(|error| error.to_string())?;
    match ctx.client().request::<Value>(request).await {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(kube::Error::Api(status)) => Err(status.message.clone()),
        Err(error) => Err(error.to_string()),
    }
}

async fn write(
    ctx: &Context,
    budget: &PodDisruptionBudget,
    status: k8s_openapi::api::policy::v1::PodDisruptionBudgetStatus,
) -> Result<()> {
    ctx.update_status(PodDisruptionBudget { status: Some(status), ..budget.clone() }).await?;
    Ok(())
}

/// The event message for pods without a controller, with the selector in Go's format.
fn unmanaged_note(selector: &LabelSelector) -> String {
    let labels = selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}: {value},"));
    let expressions = selector.match_expressions.iter().flatten().map(|one| {
        let values = one.values.iter().flatten().map(String::as_str).collect::<Vec<_>>().join(" ");
        format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
    });
    format!(
        "Pods selected by this PodDisruptionBudget (selector: &LabelSelector{{MatchLabels:map[string]string{{{}}},\
         MatchExpressions:[]LabelSelectorRequirement{{{}}},}}) were found to be unmanaged. As a result, the status of \
         the PDB cannot be calculated correctly, which may result in undefined behavior. To account for these pods \
         please set \".spec.minAvailable\" field of the PDB to an integer value.",
        labels.collect::<String>(),
        expressions.collect::<String>()
    )
}

/// The condition of a pod that was to be disrupted but is not terminating.
fn target(pod: &Pod) -> Option<&PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| condition.type_ == "DisruptionTarget")?;
    let by_kubelet = condition.reason.as_deref() == Some("TerminationByKubelet");
    (condition.status == "True" && !by_kubelet && pods::is_active(pod)).then_some(condition)
}

/// Resets the condition of a pod that was to be disrupted long ago.
async fn reset_stale(pod: Arc<Pod>, ctx: Context) -> Result<Action> {
    let Some(condition) = target(&pod) else { return Ok(Action::done()) };
    let now = windlass_clock::now_in_seconds();
    let since = condition.last_transition_time.as_ref().map_or(Timestamp::UNIX_EPOCH, |time| time.0);
    let left = STALE - now.duration_since(since);
    if let Ok(left) = Duration::try_from(left)
        && !left.is_zero()
    {
        return Ok(Action::requeue_after(left));
    }
    let mut pod = Pod::clone(&pod);
    let generation = pod.metadata.generation;
    let conditions = pod.status.iter_mut().flat_map(|status| status.conditions.iter_mut().flatten());
    for condition in conditions.filter(|condition| condition.type_ == "DisruptionTarget") {
        *condition = PodCondition {
            type_: "DisruptionTarget".to_owned(),
            status: "False".to_owned(),
            observed_generation: generation,
            last_transition_time: Some(Time(now)),
            ..PodCondition::default()
        };
    }
    ctx.update_status(pod).await?;
    Ok(Action::done())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_selector_is_formatted_as_in_go() {
        let selector = serde_json::from_value(serde_json::json!({
            "matchLabels": {"app": "e"}, "matchExpressions": [{"key": "t", "operator": "In", "values": ["a", "b"]}],
        }));
        let shown = "(selector: &LabelSelector{MatchLabels:map[string]string{app: e,},MatchExpressions:\
                     []LabelSelectorRequirement{LabelSelectorRequirement{Key:t,Operator:In,Values:[a b],},},})";
        assert!(unmanaged_note(&selector.unwrap()).contains(shown));
    }
}
