//! Counting each terminated pod exactly once, despite interruptions.
//!
//! A pod keeps its finalizer until the status lists its UID as uncounted (or its index as completed). The UID leaves
//! the list, and the counters grow, once the finalizer is removed.

use std::{
    collections::{BTreeSet, HashSet},
    sync::Arc,
};

use k8s_openapi::api::{batch::v1::JobStatus, core::v1::Pod};
use windlass_schema::sorting;

use super::{
    conditions::{condition, ensure, holding, renamed},
    view::{View, has_finalizer, index_of, is_indexed},
};
use crate::pods::phase;

/// Maximum number of UIDs in the status, to keep it small.
const MAX_UIDS: usize = 500;

/// Changes for terminated pods.
#[derive(Debug, Default)]
pub(super) struct Tracking {
    /// Pods that lose their finalizer once the status is written.
    pub(super) release: Vec<Arc<Pod>>,
    /// UIDs of all pods with the finalizer.
    pub(super) held: HashSet<String>,
    /// Whether the status has to be written first.
    pub(super) flush: bool,
    /// Whether there are more pods than fit into the status.
    pub(super) full: bool,
}

/// Lists terminated pods in the status, and sets the condition that announces the outcome.
pub(super) fn track(view: &mut View, mut flush: bool) -> Tracking {
    let mut pods = view.pods.clone();
    if is_indexed(view.spec()) {
        sorting::sort_by_key(&mut pods, |pod| index_of(pod).unwrap_or(-1));
    }
    let held = pods.iter().filter(|pod| has_finalizer(pod)).map(uid).collect();
    let mut tracking = Tracking { held, ..Tracking::default() };
    let (known_succeeded, known_failed) = {
        let (succeeded, failed) = view.uncounted();
        let owned = |uids: BTreeSet<&str>| uids.into_iter().map(str::to_owned).collect::<HashSet<String>>();
        (owned(succeeded), owned(failed))
    };
    flush |= settle(view.status(), &tracking.held);
    let heads_for_failure = view.finished.as_ref().is_some_and(|end| end.type_ != "SuccessCriteriaMet");
    let (mut indexes, mut succeeded, mut failed) = (BTreeSet::new(), Vec::new(), Vec::new());
    let listed = {
        let (succeeded, failed) = view.uncounted();
        succeeded.len() + failed.len()
    };
    for pod in pods.iter().filter(|pod| has_finalizer(pod)) {
        if !may_release(view, pod) {
            continue;
        }
        tracking.release.push(pod.clone());
        let uid = uid(pod);
        if phase(pod) == "Succeeded" && !known_failed.contains(&uid) {
            match (&view.indexed, index_of(pod)) {
                (Some(indexed), Some(index)) if index < indexed.completions && !indexed.counted.has(index) => {
                    indexes.insert(index);
                }
                (None, _) if !known_succeeded.contains(&uid) => succeeded.push(uid),
                _ => {}
            }
        } else if (view.is_failed(pod) || heads_for_failure)
            && !known_failed.contains(&uid)
            && view.has_valid_index(pod)
            && view.judge(pod).counts()
        {
            failed.push(uid);
        }
        if listed + indexes.len() + succeeded.len() + failed.len() >= MAX_UIDS {
            tracking.full = true;
            break;
        }
    }
    flush |= !indexes.is_empty() || !succeeded.is_empty() || !failed.is_empty();
    let uncounted = view.status().uncounted_terminated_pods.get_or_insert_default();
    add(&mut uncounted.succeeded, succeeded);
    add(&mut uncounted.failed, failed);
    flush |= write_indexes(view, &indexes);
    flush |= write_target(view);
    tracking.flush = flush;
    tracking
}

/// Returns whether a pod is no longer needed for counting.
fn may_release(view: &View, pod: &Pod) -> bool {
    if view.job.metadata.deletion_timestamp.is_some() || view.finished.is_some() || phase(pod) == "Succeeded" {
        return true;
    }
    let replaced = view.indexed.as_ref().map(|indexed| &indexed.replaced);
    let kept = index_of(pod).and_then(|index| replaced?.get(&index));
    view.is_failed(pod) && kept.is_none_or(|kept| kept.metadata.uid != pod.metadata.uid)
}

fn write_indexes(view: &mut View, new: &BTreeSet<i64>) -> bool {
    let Some(indexed) = &mut view.indexed else { return false };
    indexed.succeeded = indexed.succeeded.with(new);
    let completed = Some(indexed.succeeded.to_string()).filter(|text| !text.is_empty());
    let total = i32::try_from(indexed.succeeded.total()).unwrap_or(i32::MAX);
    let failed = indexed.failed.as_ref().map(ToString::to_string);
    let status = view.status();
    let changed = status.completed_indexes.as_deref().unwrap_or_default() != completed.as_deref().unwrap_or_default()
        || status.failed_indexes != failed;
    status.succeeded = Some(total).filter(|total| *total > 0);
    status.completed_indexes = completed;
    status.failed_indexes = failed;
    changed
}

/// Sets the condition that announces the outcome before finalizers are removed, and derives the final one.
fn write_target(view: &mut View) -> bool {
    let now = view.now;
    let Some(finished) = view.finished.take() else { return false };
    let (end, is_new) = match finished.type_.as_str() {
        "FailureTarget" => ("Failed", true),
        "SuccessCriteriaMet" => ("Complete", holding(&view.job, "SuccessCriteriaMet").is_none()),
        _ => {
            view.finished = Some(finished);
            return false;
        }
    };
    view.finished = Some(renamed(&finished, end, now));
    if is_new {
        view.status().conditions.get_or_insert_default().push(finished);
    }
    is_new
}

/// Counts listed pods without a finalizer. Returns whether there were any.
pub(super) fn settle(status: &mut JobStatus, held: &HashSet<String>) -> bool {
    let uncounted = status.uncounted_terminated_pods.get_or_insert_default();
    let mut changed = false;
    let lists = [(&mut uncounted.succeeded, &mut status.succeeded), (&mut uncounted.failed, &mut status.failed)];
    for (list, counter) in lists {
        let Some(uids) = list else { continue };
        let before = uids.len();
        uids.retain(|uid| held.contains(uid));
        let gone = i32::try_from(before - uids.len()).unwrap_or(i32::MAX);
        if uids.is_empty() {
            *list = None;
        }
        if gone > 0 {
            *counter = Some(counter.unwrap_or_default().saturating_add(gone));
            changed = true;
        }
    }
    changed
}

/// Finishes the job if everything is counted and no pod is terminating. Returns whether it has finished.
pub(super) fn end(view: &mut View) -> bool {
    let (succeeded, failed) = view.uncounted();
    if !succeeded.is_empty() || !failed.is_empty() || view.terminating > 0 {
        return false;
    }
    let Some(finished) = view.finished.clone() else { return false };
    if finished.type_ == "Complete" {
        view.status().completion_time.clone_from(&finished.last_transition_time);
    }
    ensure(&mut view.status().conditions, finished);
    true
}

/// Sets or clears the suspension of a job. Returns the reason of the event, if it changed.
pub(super) fn suspension(view: &mut View) -> Option<&'static str> {
    let now = view.now;
    if view.is_suspended() {
        let suspended = condition("Suspended", true, "JobSuspended", "Job suspended", now);
        return ensure(&mut view.status().conditions, suspended).then(|| {
            // Its deadline starts again when it is resumed.
            view.status().start_time = None;
            "Suspended"
        });
    }
    let resumed = condition("Suspended", false, "JobResumed", "Job resumed", now);
    ensure(&mut view.status().conditions, resumed).then(|| {
        view.status().start_time = Some(super::view::seconds(now));
        "Resumed"
    })
}

fn uid(pod: &Arc<Pod>) -> String {
    pod.metadata.uid.clone().unwrap_or_default()
}

fn add(list: &mut Option<Vec<String>>, uids: Vec<String>) {
    if !uids.is_empty() {
        list.get_or_insert_default().extend(uids);
    }
}

#[cfg(test)]
mod tests;
