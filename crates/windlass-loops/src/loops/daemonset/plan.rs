//! The changes to make to a daemon set's pods. Pure.

use std::{collections::BTreeMap, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::{
        apps::v1::{DaemonSet, RollingUpdateDaemonSet},
        core::v1::{Node, Pod},
    },
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass_schema::sorting;

use super::fit::{Fit, HASH_LABEL, fit, is_updated, target_node, template_generation};
use crate::pods;

/// The observed state.
pub(super) struct View<'a> {
    pub(super) set: &'a DaemonSet,
    pub(super) nodes: &'a [Arc<Node>],
    pub(super) pods: &'a [Arc<Pod>],
    /// The hash of the current revision.
    pub(super) hash: &'a str,
    pub(super) now: Timestamp,
}

/// Reasons why a pod is deleted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Failed,
    Succeeded,
    /// It is on the wrong node, surplus, or from an old template.
    Unwanted,
}

/// The changes to make.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Plan {
    /// Nodes to create pods for.
    pub(super) create: Vec<String>,
    pub(super) delete: Vec<(Arc<Pod>, Why)>,
}

/// The new pod of a node, and the old one.
type Pair<'p> = (Option<&'p Arc<Pod>>, Option<&'p Arc<Pod>>);

impl Plan {
    pub(super) fn is_empty(&self) -> bool {
        self.create.is_empty() && self.delete.is_empty()
    }

    fn delete(&mut self, pod: &Arc<Pod>, why: Why) {
        self.delete.push((pod.clone(), why));
    }
}

/// Pods by the node that they run on or are created for.
pub(super) type ByNode<'a> = BTreeMap<&'a str, Vec<Arc<Pod>>>;

impl<'a> View<'a> {
    /// The relevant pods by node; the status counts the first of each node.
    pub(super) fn by_node(&self) -> ByNode<'a> {
        let mut by_node = ByNode::new();
        for pod in self.pods {
            let has_ended = matches!(pods::phase(pod), "Failed" | "Succeeded");
            if has_ended && pods::is_terminating(pod) {
                continue;
            }
            if let Some(node) = target_node(pod) {
                by_node.entry(node).or_default().push(pod.clone());
            }
        }
        for all in by_node.values_mut() {
            sorting::sort_by(all, |a, b| {
                let created = |pod: &Pod| pod.metadata.creation_timestamp.as_ref().map(|time| time.0);
                let by_place = pods::is_scheduled(b).cmp(&pods::is_scheduled(a));
                by_place.then_with(|| created(a).cmp(&created(b))).then_with(|| a.metadata.name.cmp(&b.metadata.name))
            });
        }
        by_node
    }

    pub(super) fn is_available(&self, pod: &Pod) -> bool {
        pods::is_available(pod, self.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds), self.now)
    }

    pub(super) fn is_updated(&self, pod: &Pod) -> bool {
        is_updated(pod, self.hash, template_generation(self.set))
    }

    fn rolling(&self) -> Option<&RollingUpdateDaemonSet> {
        let strategy = self.set.spec.as_ref()?.update_strategy.as_ref()?;
        strategy.rolling_update.as_ref().filter(|_| strategy.type_.as_deref() != Some("OnDelete"))
    }

    fn surge(&self, nodes: usize) -> usize {
        self.rolling().and_then(|rolling| rolling.max_surge.as_ref()).map_or(0, |surge| scaled(surge, nodes))
    }

    /// Ensures one pod on every eligible node and none elsewhere.
    pub(super) fn manage(&self) -> Plan {
        let by_node = self.by_node();
        let mut plan = Plan::default();
        for node in self.nodes {
            let name = node.metadata.name.as_deref().unwrap_or_default();
            self.manage_node(name, fit(self.set, node), by_node.get(name).map(Vec::as_slice), &mut plan);
        }
        // Nothing else removes pods that wait for a missing node.
        let is_there = |name: &str| self.nodes.iter().any(|node| node.metadata.name.as_deref() == Some(name));
        for pods in by_node.iter().filter(|(name, _)| !is_there(name)).map(|(_, pods)| pods) {
            for pod in pods.iter().filter(|pod| !pods::is_scheduled(pod) && !pods::is_terminating(pod)) {
                plan.delete(pod, Why::Unwanted);
            }
        }
        plan
    }

    fn manage_node(&self, name: &str, fit: Fit, there: Option<&[Arc<Pod>]>, plan: &mut Plan) {
        let Some(all) = there else {
            if fit.runs {
                plan.create.push(name.to_owned());
            }
            return;
        };
        let living = all.iter().filter(|pod| !pods::is_terminating(pod));
        if !fit.stays {
            living.for_each(|pod| plan.delete(pod, Why::Unwanted));
            return;
        }
        let mut running: Vec<&Arc<Pod>> = Vec::new();
        for pod in living {
            match pods::phase(pod) {
                "Failed" => plan.delete(pod, Why::Failed),
                "Succeeded" => plan.delete(pod, Why::Succeeded),
                _ => running.push(pod),
            }
        }
        if self.surge(1) == 0 {
            running.iter().skip(1).for_each(|pod| plan.delete(pod, Why::Unwanted));
            return;
        }
        if running.is_empty() && fit.runs {
            plan.create.push(name.to_owned());
        }
        if running.len() > 1 {
            self.prune(&running, plan);
        }
    }

    /// Two pods may be on a node while the new one is not available and the old one is ready.
    fn prune(&self, running: &[&Arc<Pod>], plan: &mut Plan) {
        let (mut new, mut old) = (None, None);
        for pod in running {
            let label = pod.metadata.labels.as_ref().and_then(|labels| labels.get(HASH_LABEL));
            let place = if label.is_some_and(|label| label == self.hash) { &mut new } else { &mut old };
            match place {
                None => *place = Some(*pod),
                Some(_) => plan.delete(pod, Why::Unwanted),
            }
        }
        if let (Some(new), Some(old)) = (new, old)
            && (!pods::is_ready(old) || self.is_available(new))
        {
            plan.delete(old, Why::Unwanted);
        }
    }

    /// Replaces pods of old templates, within the limits of the update strategy.
    pub(super) fn roll(&self) -> Plan {
        let mut plan = Plan::default();
        let is_on_delete = self.set.spec.as_ref().and_then(|spec| spec.update_strategy.as_ref()?.type_.as_deref());
        if is_on_delete == Some("OnDelete") {
            return plan;
        }
        let mut by_node = self.by_node();
        let mut desired = 0;
        for node in self.nodes.iter().filter(|node| fit(self.set, node).runs) {
            desired += 1;
            by_node.entry(node.metadata.name.as_deref().unwrap_or_default()).or_default();
        }
        let surge = self.surge(desired);
        let unavailable = self.rolling().and_then(|rolling| rolling.max_unavailable.as_ref());
        let unavailable = unavailable.map_or(0, |unavailable| scaled(unavailable, desired));
        // Only old servers allow both to be zero.
        let unavailable = if surge == 0 { unavailable.max(1) } else { unavailable };
        if surge == 0 {
            self.replace(&by_node, unavailable, &mut plan)
        } else {
            self.surge_over(&by_node, surge, desired, &mut plan)
        }
        plan
    }

    /// The new and the old pod of a node. Returns `None` if there are several of either.
    fn pair<'p>(&self, pods: &'p [Arc<Pod>]) -> Option<Pair<'p>> {
        let (mut new, mut old) = (None, None);
        for pod in pods.iter().filter(|pod| !pods::is_terminating(pod)) {
            let place = if self.is_updated(pod) { &mut new } else { &mut old };
            if place.replace(pod).is_some() {
                return None;
            }
        }
        Some((new, old))
    }

    /// Deletes old pods; new ones are created where none is left.
    fn replace(&self, by_node: &ByNode<'_>, most: usize, plan: &mut Plan) {
        let mut unavailable = 0;
        let mut candidates = Vec::new();
        for pods in by_node.values() {
            match self.pair(pods) {
                Some((Some(new), None)) => unavailable += usize::from(!self.is_available(new)),
                Some((None, Some(old))) if !self.is_available(old) => {
                    plan.delete(old, Why::Unwanted);
                    unavailable += 1;
                }
                Some((None, Some(old))) => candidates.push(old),
                _ => unavailable += 1,
            }
        }
        for old in candidates.into_iter().take(most.saturating_sub(unavailable)) {
            plan.delete(old, Why::Unwanted);
        }
    }

    /// Creates new pods next to old ones, which are deleted once the new ones are available.
    fn surge_over(&self, by_node: &ByNode<'_>, most: usize, desired: usize, plan: &mut Plan) {
        let (mut surging, mut available) = (0, 0);
        let (mut candidates, mut misplaced) = (Vec::new(), Vec::new());
        for (name, pods) in by_node {
            let Some((new, old)) = self.pair(pods) else {
                surging += 1;
                continue;
            };
            available += usize::from(old.or(new).is_some_and(|pod| self.is_available(pod)));
            let node = self.nodes.iter().find(|node| node.metadata.name.as_deref() == Some(name));
            let runs = node.is_some_and(|node| fit(self.set, node).runs);
            match (new, old) {
                (_, None) => {}
                (None, Some(old)) if !self.is_available(old) && !runs => plan.delete(old, Why::Unwanted),
                (None, Some(old)) if !self.is_available(old) => plan.create.push((*name).to_owned()),
                (None, Some(old)) if !runs => misplaced.push(old),
                (None, Some(_)) => candidates.push((*name).to_owned()),
                (Some(new), Some(_)) if !self.is_available(new) => surging += 1,
                (Some(_), Some(old)) => plan.delete(old, Why::Unwanted),
            }
        }
        for old in misplaced.into_iter().take(available.saturating_sub(desired)) {
            plan.delete(old, Why::Unwanted);
        }
        plan.create.extend(candidates.into_iter().take(most.saturating_sub(surging)));
    }
}

/// A number, or a percentage of all, rounded up.
fn scaled(value: &IntOrString, all: usize) -> usize {
    match value {
        IntOrString::Int(number) => usize::try_from(*number).unwrap_or(0),
        IntOrString::String(text) => {
            let percent: usize = text.strip_suffix('%').and_then(|text| text.parse().ok()).unwrap_or(0);
            (all * percent).div_ceil(100)
        }
    }
}

#[cfg(test)]
mod tests;
