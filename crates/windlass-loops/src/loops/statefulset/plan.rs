//! The changes to make to a stateful set's pods. Pure.
//!
//! Ordered sets take one step at a time and wait until the preceding pods are available; parallel sets do not wait.

use std::{ops::Range, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{PersistentVolumeClaim, Pod, PodTemplateSpec},
};
use windlass::objects::owner::OwnerError;
use windlass_schema::sorting;

use super::{claims, identity};
use crate::pods::{self, batch};

/// A template and the name of its revision.
pub(super) struct Revision<'a> {
    pub(super) name: &'a str,
    pub(super) template: &'a PodTemplateSpec,
}

/// The observed state.
pub(super) struct View<'a> {
    pub(super) set: &'a StatefulSet,
    /// The revision of pods below the partition.
    pub(super) current: Revision<'a>,
    /// The revision of the set's template.
    pub(super) update: Revision<'a>,
    pub(super) pods: &'a [Arc<Pod>],
    /// Looks up a claim by name.
    pub(super) claim: &'a dyn Fn(&str) -> Option<Arc<PersistentVolumeClaim>>,
    pub(super) now: Timestamp,
}

/// One change.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Create the claims of a pod, and the pod.
    Create(Box<Pod>),
    /// Create the missing claims of a pod, and set their owners.
    Claim(Arc<Pod>),
    /// Restore the identity, volumes and claims of a pod.
    Repair(Arc<Pod>),
    /// Delete a pod.
    Delete(Arc<Pod>),
}

/// An existing pod, or the one to create in its place.
enum Slot {
    There(Arc<Pod>),
    New(Box<Pod>),
}

/// Whether further steps are allowed in the same reconciliation.
#[derive(PartialEq, Eq)]
enum Turn {
    GoesOn,
    Ends,
}

/// Returns the steps to take, in order; those of parallel sets may be taken concurrently.
pub(super) fn plan(view: &View<'_>) -> Result<Vec<Step>, OwnerError> {
    let mut steps = Vec::new();
    if view.set.metadata.deletion_timestamp.is_some() {
        return Ok(steps);
    }
    let (slots, condemned) = view.slots()?;
    let is_ordered = view.is_ordered();
    for slot in &slots {
        if view.replica(slot, &mut steps) == Turn::Ends && is_ordered {
            return Ok(steps);
        }
    }
    for pod in &condemned {
        if view.owners_are_wrong(pod) {
            steps.push(Step::Claim(pod.clone()));
        }
    }
    // At this point all replicas of an ordered set are available. The lowest pod to be deleted may be unavailable, and
    // is deleted anyway.
    let first_unwell = condemned.iter().rev().find(|pod| view.is_unavailable(pod));
    for pod in &condemned {
        if pods::is_terminating(pod) {
            if is_ordered {
                return Ok(steps);
            }
            continue;
        }
        let is_first_unwell = first_unwell.is_some_and(|first| Arc::ptr_eq(first, pod));
        if is_ordered && !is_first_unwell && !(is_running_and_ready(pod) && view.is_available(pod)) {
            return Ok(steps);
        }
        steps.push(Step::Delete(pod.clone()));
        if is_ordered {
            return Ok(steps);
        }
    }
    if view.ordinals() == identity::ordinals(view.set) {
        view.roll(&slots, &mut steps);
    }
    Ok(steps)
}

impl View<'_> {
    fn is_ordered(&self) -> bool {
        let policy = self.set.spec.as_ref().and_then(|spec| spec.pod_management_policy.as_deref());
        policy != Some("Parallel")
    }

    fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds), self.now)
    }

    fn is_unavailable(&self, pod: &Pod) -> bool {
        !self.is_available(pod) || pods::is_terminating(pod)
    }

    /// The ordinals that one plan covers: enough for all pods and a burst of new ones, however many replicas are
    /// desired.
    fn ordinals(&self) -> Range<i64> {
        let all = identity::ordinals(self.set);
        let window = i64::try_from(self.pods.len() + batch::BURST).unwrap_or(i64::MAX);
        all.start..all.end.min(all.start.saturating_add(window))
    }

    /// A slot for each ordinal, and the surplus pods, highest ordinal first.
    fn slots(&self) -> Result<(Vec<Slot>, Vec<Arc<Pod>>), OwnerError> {
        let (all, ordinals) = (identity::ordinals(self.set), self.ordinals());
        let count = usize::try_from(ordinals.end - ordinals.start).unwrap_or(0);
        let mut there: Vec<Option<Arc<Pod>>> = vec![None; count];
        let mut condemned = Vec::new();
        for pod in self.pods {
            let Some(ordinal) = identity::ordinal(pod) else { continue };
            match usize::try_from(ordinal - ordinals.start).ok().and_then(|place| there.get_mut(place)) {
                Some(slot) => *slot = Some(pod.clone()),
                None if all.contains(&ordinal) => {}
                None => condemned.push(pod.clone()),
            }
        }
        sorting::sort_by_key(&mut condemned, |pod| std::cmp::Reverse(identity::ordinal(pod)));
        let slot = |(there, ordinal): (Option<Arc<Pod>>, i64)| match there {
            Some(pod) => Ok(Slot::There(pod)),
            None => self.new_pod(ordinal).map(|pod| Slot::New(Box::new(pod))),
        };
        let slots = there.into_iter().zip(ordinals).map(slot).collect::<Result<_, _>>()?;
        Ok((slots, condemned))
    }

    /// A pod of the revision that its ordinal should have.
    fn new_pod(&self, ordinal: i64) -> Result<Pod, OwnerError> {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let is_rolling = strategy.is_none_or(|strategy| strategy.type_.as_deref() != Some("OnDelete"));
        let below = match rolling {
            Some(rolling) => rolling.partition.unwrap_or(0),
            None if is_rolling => self.set.status.as_ref().and_then(|status| status.current_replicas).unwrap_or(0),
            None => 0,
        };
        let is_below = ordinal < identity::ordinals(self.set).start + i64::from(below);
        let revision = if is_below { &self.current } else { &self.update };
        identity::new_pod(self.set, revision.template, revision.name, ordinal)
    }

    /// Plans the steps for one desired pod.
    fn replica(&self, slot: &Slot, steps: &mut Vec<Step>) -> Turn {
        let pod = match slot {
            Slot::New(pod) => {
                if !self.must_wait_for_claims(pod) {
                    steps.push(Step::Create(pod.clone()));
                }
                return Turn::Ends;
            }
            Slot::There(pod) => pod,
        };
        // A pod that has ended is recreated after its deletion, regardless of its exit code.
        if matches!(pods::phase(pod), "Failed" | "Succeeded") {
            if !pods::is_terminating(pod) {
                steps.push(Step::Delete(pod.clone()));
            }
            return Turn::Ends;
        }
        if pods::phase(pod) == "Pending" && (self.lacks_claims(pod) || self.owners_are_wrong(pod)) {
            steps.push(Step::Claim(pod.clone()));
        }
        if self.is_ordered() && (pods::is_terminating(pod) || !is_running_and_ready(pod) || !self.is_available(pod)) {
            return Turn::Ends;
        }
        let is_whole = identity::is_identified(self.set, pod) && identity::is_attached(self.set, pod);
        if !is_whole {
            steps.push(Step::Repair(pod.clone()));
        } else if pods::phase(pod) != "Pending" && self.owners_are_wrong(pod) {
            steps.push(Step::Claim(pod.clone()));
        }
        Turn::GoesOn
    }

    /// Replaces one pod of another revision, highest ordinal first, once those above it are available.
    fn roll(&self, slots: &[Slot], steps: &mut Vec<Step>) {
        let strategy = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref());
        if strategy.is_some_and(|strategy| strategy.type_.as_deref() == Some("OnDelete")) {
            return;
        }
        let partition = strategy.and_then(|strategy| strategy.rolling_update.as_ref()?.partition).unwrap_or(0);
        let partition = usize::try_from(partition).unwrap_or(0);
        for slot in slots.iter().skip(partition).rev() {
            // A pod that is being created is not available yet.
            let Slot::There(pod) = slot else { return };
            if identity::revision(pod) != self.update.name && !pods::is_terminating(pod) {
                let is_going = |step: &Step| matches!(step, Step::Delete(other) if Arc::ptr_eq(other, pod));
                if !steps.iter().any(is_going) {
                    steps.push(Step::Delete(pod.clone()));
                }
                return;
            }
            if self.is_unavailable(pod) {
                return;
            }
        }
    }

    fn claims_of<'p>(&'p self, pod: &'p Pod) -> impl Iterator<Item = Option<Arc<PersistentVolumeClaim>>> + 'p {
        let ordinal = identity::ordinal(pod);
        let templates = identity::claim_templates(self.set).iter();
        templates.filter_map(move |template| Some((self.claim)(&identity::claim_name(self.set, template, ordinal?))))
    }

    fn lacks_claims(&self, pod: &Pod) -> bool {
        self.claims_of(pod).any(|claim| claim.is_none())
    }

    fn owners_are_wrong(&self, pod: &Pod) -> bool {
        self.claims_of(pod).flatten().any(|claim| claims::owners_to_set(self.set, pod, &claim).is_some())
    }

    /// Returns whether a claim of a pod to create is being deleted.
    fn must_wait_for_claims(&self, pod: &Pod) -> bool {
        let name = pod.metadata.name.as_deref().unwrap_or_default();
        self.claims_of(pod)
            .flatten()
            .any(|claim| claim.metadata.deletion_timestamp.is_some() || claims::is_stale(self.set, name, &claim))
    }
}

/// Returns whether it is running and ready.
pub(super) fn is_running_and_ready(pod: &Pod) -> bool {
    pods::phase(pod) == "Running" && pods::is_ready(pod)
}

#[cfg(test)]
mod tests;
