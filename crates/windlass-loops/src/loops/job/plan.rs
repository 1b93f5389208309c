//! The changes to the pods of an unfinished job.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::Pod;
use windlass_schema::sorting::Gather as _;

use super::{
    backoff::{finished_at, remaining},
    view::{Indexed, View, all_failures, index_of, is_indexed},
};
use crate::pods::{is_terminating, phase, rank_alone};

/// Maximum number of pods created or deleted per reconciliation.
const MAX_PODS: usize = 500;

/// The next change to the pods. Never both at a time: deletion comes first.
#[derive(Debug)]
pub(super) enum Step {
    Nothing,
    /// Pods have to be created, but not before this time has passed.
    Wait(Duration),
    /// Surplus pods to delete.
    Remove(Vec<Arc<Pod>>),
    /// Pods to create, with or without an index.
    Make(Vec<Option<i64>>),
}

/// Decides the next step.
pub(super) fn plan(view: &View) -> Step {
    if view.is_suspended() {
        return remove(too_many(view, view.active.len()));
    }
    let (active, parallelism) = (long(view.active.len()), i64::from(view.spec().parallelism.unwrap_or(1)));
    let wanted = match view.spec().completions {
        // Without `completions`, the first success is enough: running pods may finish.
        None if view.succeeded > 0 => active,
        None => parallelism,
        Some(completions) => (i64::from(completions) - view.succeeded).min(parallelism).max(0),
    };
    let mut surplus = too_many(view, usize::try_from(active - wanted).unwrap_or_default());
    surplus.truncate(MAX_PODS);
    if !surplus.is_empty() {
        return remove(surplus);
    }
    let leaving = if view.replaces_only_failed() { i64::from(view.terminating) } else { 0 };
    let missing = usize::try_from(wanted - leaving - active).unwrap_or_default().min(MAX_PODS);
    if missing == 0 {
        return Step::Nothing;
    }
    match &view.indexed {
        Some(indexed) if indexed.failed.is_some() => each_in_its_time(view, indexed, missing),
        indexed => match (view.failures.remaining(view.now), indexed) {
            (Duration::ZERO, None) => Step::Make(vec![None; missing]),
            (Duration::ZERO, Some(indexed)) => make(pending(view, indexed, missing)),
            (wait, _) => Step::Wait(wait),
        },
    }
}

fn remove(pods: Vec<Arc<Pod>>) -> Step {
    if pods.is_empty() { Step::Nothing } else { Step::Remove(pods) }
}

fn make(indexes: Vec<i64>) -> Step {
    if indexes.is_empty() { Step::Nothing } else { Step::Make(indexes.into_iter().map(Some).collect()) }
}

/// The missing indexes whose backoff is over, or the shortest remaining backoff.
fn each_in_its_time(view: &View, indexed: &Indexed, missing: usize) -> Step {
    let wait = |index: &i64| {
        let Some(pod) = indexed.replaced.get(index) else { return Duration::ZERO };
        let failures = u32::try_from(all_failures(pod)).unwrap_or_default().saturating_add(1);
        remaining(failures, finished_at(pod), view.now)
    };
    let pending = pending(view, indexed, missing);
    let now: Vec<i64> = pending.iter().copied().filter(|index| wait(index).is_zero()).collect();
    match pending.iter().map(wait).min() {
        Some(shortest) if now.is_empty() => Step::Wait(shortest),
        _ => make(now),
    }
}

/// The first indexes without an active pod.
fn pending(view: &View, indexed: &Indexed, count: usize) -> Vec<i64> {
    let indexes =
        |pods: &mut dyn Iterator<Item = &Arc<Pod>>| -> BTreeSet<i64> { pods.filter_map(|pod| index_of(pod)).gather() };
    let mut taken = indexed.succeeded.with(&indexes(&mut view.active.iter()));
    if view.replaces_only_failed() {
        let leaving = |pod: &&Arc<Pod>| is_terminating(pod) && !matches!(phase(pod), "Succeeded" | "Failed");
        taken = taken.with(&indexes(&mut view.pods.iter().filter(leaving)));
    }
    if let Some(failed) = &indexed.failed {
        taken = taken.merged(failed);
    }
    taken.first_absent(count, indexed.completions)
}

/// The pods to delete: at least `at_least`, all but one per index, and those with an invalid index.
fn too_many(view: &View, at_least: usize) -> Vec<Arc<Pod>> {
    let mut left = view.active.clone();
    let mut surplus = Vec::new();
    if is_indexed(view.spec()) {
        let completions = i64::from(view.spec().completions.unwrap_or_default());
        rank_alone(&mut left);
        let mut seen = BTreeSet::new();
        // The last pod of each index in the ranking is kept.
        let mut kept: Vec<_> = Vec::with_capacity(left.len());
        for pod in left.into_iter().rev() {
            match index_of(&pod) {
                Some(index) if index < completions && seen.insert(index) => kept.push(pod),
                _ => surplus.push(pod),
            }
        }
        kept.reverse();
        left = kept;
    }
    if surplus.len() < at_least {
        rank_alone(&mut left);
        let more = at_least - surplus.len();
        surplus.extend(left.into_iter().take(more));
    }
    surplus
}

fn long(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests;
