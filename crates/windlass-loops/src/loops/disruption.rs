//! Maintains the status of pod disruption budgets.
//!
//! The status of a budget counts the pods it selects, the healthy ones and the number that must be healthy. Evictions
//! use up the allowed disruptions, and record pods in the budget until this loop has observed their deletion.

mod budget;
mod expected;

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::{
    api::{
        apps::v1::{Deployment, ReplicaSet, StatefulSet},
        core::v1::{Pod, PodCondition, ReplicationController},
        policy::v1::PodDisruptionBudget,
    },
    apimachinery::pkg::apis::meta::v1::{LabelSelector, Time},
};
use windlass::{
    Result,
    context::Context,
    controller::{
        Action, Watch,
        filter::{self, Change, Filter},
    },
    operator::Operator,
};

use self::budget::Counts;
use crate::{loops::ClusterCertificates, pods};

const NAME: &str = "disruption-controller";
/// The reporter of events.
const REPORTER: &str = "controllermanager";
/// Number of budgets that are reconciled at the same time.
const CONCURRENCY: usize = 4;
/// When to retry a budget whose pods have controllers that cannot be found.
const AFTER_A_FAILURE: Duration = Duration::from_secs(30);
/// After this time, a pod that was to be disrupted is assumed to stay.
const STALE: SignedDuration = SignedDuration::from_mins(2);

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
    let expected = expected::pods(&ctx, &budget, &pods).await;
    let (counts, unmanaged) = match expected {
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
