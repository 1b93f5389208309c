//! The scheduler's state and its next step: pure, with the current time as an input.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use tokio::time::Instant;
use windlass::key::ObjectKey;

use super::{
    NAME,
    cluster::{Claim, Cluster},
    decide::{Decision, decide},
    pending::Pending,
    preempt::{Preemption, preempt},
    requirements::PodRequirements,
};
use windlass_loops::pods;

/// The next action of the scheduler.
#[derive(Debug)]
pub(super) enum Step {
    /// Bind a pod to this node. From now on it counts as placed there.
    Bind { pod: Arc<Pod>, node: String },
    /// Report that no node is feasible.
    Unschedulable {
        pod: Arc<Pod>,
        /// The reason.
        message: String,
        /// Pods to preempt, if that makes a node feasible.
        preemption: Option<PreemptionVictims>,
    },
}

/// Victims of preemption on a node.
#[derive(Debug)]
pub(super) struct PreemptionVictims {
    pub(super) node: String,
    /// Keys and UIDs of the victims.
    pub(super) victims: Vec<(ObjectKey, String)>,
}

/// The scheduler's state.
#[derive(Debug, Default)]
pub(super) struct State {
    cluster: Cluster,
    pending: Pending,
    /// Pods that wait for their victims to terminate, by UID.
    preempting: HashMap<String, Nomination>,
}

/// A node that a pod has freed by preemption. Pods of lower priority do not get the room.
#[derive(Debug)]
struct Nomination {
    node: String,
    /// UIDs of the victims.
    victims: Vec<String>,
    requirements: Arc<PodRequirements>,
}

impl State {
    pub(super) fn update_node(&mut self, node: &Node) {
        if self.cluster.update_node(node) {
            self.pending.retry();
        }
    }

    pub(super) fn remove_node(&mut self, name: &str) {
        self.cluster.remove_node(name);
        // At least the message for unschedulable pods has changed.
        self.pending.retry();
    }

    pub(super) fn update_namespace(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        if self.cluster.namespaces.insert(name, labels.clone()) != Some(labels) {
            self.pending.retry();
        }
    }

    pub(super) fn remove_namespace(&mut self, name: &str) {
        self.cluster.namespaces.remove(name);
    }

    pub(super) fn update_claim(&mut self, claim: &PersistentVolumeClaim) {
        let now = Claim::of(claim);
        if self.cluster.claims.insert(ObjectKey::of(claim), now) != Some(now) {
            self.pending.retry();
        }
    }

    pub(super) fn remove_claim(&mut self, claim: &PersistentVolumeClaim) {
        self.cluster.claims.remove(&ObjectKey::of(claim));
    }

    /// Adds or updates a pod.
    pub(super) fn update_pod(&mut self, old: Option<&Arc<Pod>>, pod: &Arc<Pod>) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let key = ObjectKey::of(pod.as_ref());
        if matches!(pods::phase(pod), "Succeeded" | "Failed") {
            self.pending.remove(&key);
            return self.displaced(uid);
        }
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty())
        {
            self.pending.remove(&key);
            let known = self.cluster.placed(uid).is_some_and(|placed| placed.node == node);
            let same = old.is_some_and(|old| {
                old.metadata.labels == pod.metadata.labels && old.metadata.generation == pod.metadata.generation
            });
            if known && same {
                return;
            }
            let requirements = Arc::new(PodRequirements::of(pod));
            self.cluster.place(uid, node, &requirements);
            // Another pod may have affinity to this one.
            if !known || !same {
                self.pending.retry();
            }
            return;
        }
        let spec = pod.spec.as_ref();
        let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
        let ours = spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(NAME) == NAME;
        if gated || !ours || pods::is_terminating(pod) {
            self.preempting.remove(uid);
            self.pending.remove(&key);
            return self.displaced(uid);
        }
        let anew = old.is_none_or(|old| {
            old.metadata.labels != pod.metadata.labels || old.metadata.generation != pod.metadata.generation
        });
        self.pending.add(pod, anew);
    }

    pub(super) fn remove_pod(&mut self, pod: &Pod) {
        self.preempting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        self.pending.remove(&ObjectKey::of(pod));
        self.displaced(pod.metadata.uid.as_deref().unwrap_or_default());
    }

    fn displaced(&mut self, uid: &str) {
        if self.cluster.displace(uid) {
            self.pending.retry();
        }
    }

    /// Returns the next action, if there is one.
    pub(super) fn next(&mut self, now: Instant) -> Option<Step> {
        let pod = self.pending.next(now)?;
        let requirements = Arc::new(PodRequirements::of(&pod));
        match self.decide(pod.metadata.uid.as_deref().unwrap_or_default(), &requirements) {
            Decision::Schedule(node) => {
                self.preempting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
                self.cluster.place(pod.metadata.uid.as_deref().unwrap_or_default(), &node, &requirements);
                Some(Step::Bind { pod, node })
            }
            Decision::Unschedulable(error) => {
                self.pending.failed(&ObjectKey::of(pod.as_ref()), true, now);
                let preemption = self.preempt(&pod, &requirements, &error.resolvable_nodes);
                Some(Step::Unschedulable { pod, message: error.message, preemption })
            }
        }
    }

    /// Selects a node for a pod. Nodes are as full as if the pods that they are nominated for were on them, except for
    /// those of lower priority.
    fn decide(&mut self, uid: &str, requirements: &PodRequirements) -> Decision {
        let counts = |(other, nomination): &(&String, &Nomination)| {
            other.as_str() != uid
                && nomination.requirements.priority >= requirements.priority
                && self.cluster.placed(other).is_none()
        };
        let nominated = self.preempting.iter().filter(counts);
        let nominated: Vec<_> = nominated
            .map(|(uid, nomination)| (uid.clone(), nomination.node.clone(), nomination.requirements.clone()))
            .collect();
        for (uid, node, requirements) in &nominated {
            self.cluster.place(uid, node, requirements);
        }
        let decision = decide(&self.cluster, requirements);
        for (uid, ..) in &nominated {
            self.cluster.displace(uid);
        }
        decision
    }

    /// Selects victims for a pod, unless earlier victims are still terminating.
    fn preempt(
        &mut self,
        pod: &Pod,
        requirements: &Arc<PodRequirements>,
        resolvable_nodes: &[String],
    ) -> Option<PreemptionVictims> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let is_placed = |victim: &String| self.cluster.placed(victim).is_some();
        if self.preempting.get(&uid).is_some_and(|nomination| nomination.victims.iter().any(is_placed)) {
            return None;
        }
        self.preempting.remove(&uid);
        let Preemption { node, victims } = preempt(&self.cluster, requirements, resolvable_nodes)?;
        let nomination =
            Nomination { node: node.clone(), victims: victims.clone(), requirements: requirements.clone() };
        self.preempting.insert(uid, nomination);
        let named = victims.into_iter().filter_map(|uid| {
            let placed = self.cluster.placed(&uid)?;
            Some((ObjectKey::namespaced(&placed.requirements.class.namespace, &placed.requirements.name), uid))
        });
        Some(PreemptionVictims { node, victims: named.collect() })
    }

    /// Returns the time at which there may be a next action, if there is none now.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.pending.next_at()
    }

    /// Puts back a pod whose binding has failed.
    pub(super) fn binding_failed(&mut self, pod: &Pod, now: Instant) {
        let key = ObjectKey::of(pod);
        self.cluster.displace(pod.metadata.uid.as_deref().unwrap_or_default());
        self.pending.failed(&key, false, now);
    }
}
