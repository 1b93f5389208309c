//! All that the scheduler knows, and what it does next: pure, but for the time that is told to it.

use std::{collections::HashMap, sync::Arc};

use k8s_openapi::api::core::v1::{Namespace, Node, PersistentVolumeClaim, Pod};
use tokio::time::Instant;
use windlass::key::ObjectKey;

use super::{
    NAME,
    cluster::{Claim, Cluster},
    decide::{Verdict, decide},
    pending::Pending,
    preempt::{Preemption, preempt},
    wish::Wish,
};
use windlass_loops::pods;

/// What is to be done.
#[derive(Debug)]
pub(super) enum Step {
    /// Give a pod this node. It counts as placed there from now on.
    Bind {
        /// The pod.
        pod: Arc<Pod>,
        /// The node.
        node: String,
    },
    /// Say that there is none for it.
    Refuse {
        /// The pod.
        pod: Arc<Pod>,
        /// Why.
        message: String,
        /// What has to go so that there will be one.
        preemption: Option<Displacement>,
    },
}

/// Pods that have to leave a node.
#[derive(Debug)]
pub(super) struct Displacement {
    pub(super) node: String,
    /// With their uids.
    pub(super) victims: Vec<(ObjectKey, String)>,
}

/// All that the scheduler knows.
#[derive(Debug, Default)]
pub(super) struct State {
    cluster: Cluster,
    pending: Pending,
    /// Pods that wait until others, by uid, have gone.
    preempting: HashMap<String, Vec<String>>,
}

impl State {
    pub(super) fn node_is(&mut self, node: &Node) {
        if self.cluster.node_is(node) {
            self.pending.retry();
        }
    }

    pub(super) fn node_is_gone(&mut self, name: &str) {
        self.cluster.node_is_gone(name);
        // The reason that pods are told has changed, if nothing else.
        self.pending.retry();
    }

    pub(super) fn namespace_is(&mut self, namespace: &Namespace) {
        let name = namespace.metadata.name.clone().unwrap_or_default();
        let labels = namespace.metadata.labels.clone().unwrap_or_default();
        if self.cluster.namespaces.insert(name, labels.clone()) != Some(labels) {
            self.pending.retry();
        }
    }

    pub(super) fn namespace_is_gone(&mut self, name: &str) {
        self.cluster.namespaces.remove(name);
    }

    pub(super) fn claim_is(&mut self, claim: &PersistentVolumeClaim) {
        let now = Claim::of(claim);
        if self.cluster.claims.insert(ObjectKey::of(claim), now) != Some(now) {
            self.pending.retry();
        }
    }

    pub(super) fn claim_is_gone(&mut self, claim: &PersistentVolumeClaim) {
        self.cluster.claims.remove(&ObjectKey::of(claim));
    }

    /// A pod is there, or has changed from what it was.
    pub(super) fn pod_is(&mut self, old: Option<&Arc<Pod>>, pod: &Arc<Pod>) {
        let uid = pod.metadata.uid.as_deref().unwrap_or_default();
        let key = ObjectKey::of(pod.as_ref());
        if matches!(pods::phase(pod), "Succeeded" | "Failed") {
            self.pending.forget(&key);
            return self.displaced(uid);
        }
        if let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()).filter(|node| !node.is_empty())
        {
            self.pending.forget(&key);
            let known = self.cluster.placed(uid).is_some_and(|placed| placed.node == node);
            let same = old.is_some_and(|old| {
                old.metadata.labels == pod.metadata.labels && old.metadata.generation == pod.metadata.generation
            });
            if known && same {
                return;
            }
            let wish = Arc::new(Wish::of(pod));
            self.cluster.place(uid, node, &wish);
            // One that others want to be near of, perhaps.
            if !known || !same {
                self.pending.retry();
            }
            return;
        }
        let spec = pod.spec.as_ref();
        let gated = spec.and_then(|spec| spec.scheduling_gates.as_ref()).is_some_and(|gates| !gates.is_empty());
        let ours = spec.and_then(|spec| spec.scheduler_name.as_deref()).unwrap_or(NAME) == NAME;
        if gated || !ours || pods::is_terminating(pod) {
            self.pending.forget(&key);
            return self.displaced(uid);
        }
        let anew = old.is_none_or(|old| {
            old.metadata.labels != pod.metadata.labels || old.metadata.generation != pod.metadata.generation
        });
        self.pending.put(pod, anew);
    }

    pub(super) fn pod_is_gone(&mut self, pod: &Pod) {
        self.preempting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
        self.pending.forget(&ObjectKey::of(pod));
        self.displaced(pod.metadata.uid.as_deref().unwrap_or_default());
    }

    fn displaced(&mut self, uid: &str) {
        if self.cluster.displace(uid) {
            self.pending.retry();
        }
    }

    /// What to do next, if there is something.
    pub(super) fn next(&mut self, now: Instant) -> Option<Step> {
        let pod = self.pending.next(now)?;
        let wish = Arc::new(Wish::of(&pod));
        match decide(&self.cluster, &wish) {
            Verdict::Place(node) => {
                self.preempting.remove(pod.metadata.uid.as_deref().unwrap_or_default());
                self.cluster.place(pod.metadata.uid.as_deref().unwrap_or_default(), &node, &wish);
                Some(Step::Bind { pod, node })
            }
            Verdict::Refuse(refusal) => {
                self.pending.failed(&ObjectKey::of(pod.as_ref()), true, now);
                let preemption = self.preempt(&pod, &wish, &refusal.crowded);
                Some(Step::Refuse { pod, message: refusal.message, preemption })
            }
        }
    }

    /// What has to go for a pod, unless something is on its way out for it already.
    fn preempt(&mut self, pod: &Pod, wish: &Wish, crowded: &[String]) -> Option<Displacement> {
        let uid = pod.metadata.uid.clone().unwrap_or_default();
        let leaving = self.preempting.get(&uid);
        if leaving.is_some_and(|leaving| leaving.iter().any(|victim| self.cluster.placed(victim).is_some())) {
            return None;
        }
        self.preempting.remove(&uid);
        let Preemption { node, victims } = preempt(&self.cluster, wish, crowded)?;
        self.preempting.insert(uid, victims.clone());
        let named = victims.into_iter().filter_map(|uid| {
            let placed = self.cluster.placed(&uid)?;
            Some((ObjectKey::namespaced(&placed.wish.shape.namespace, &placed.wish.name), uid))
        });
        Some(Displacement { node, victims: named.collect() })
    }

    /// When there may be something to do, if there is nothing now.
    pub(super) fn next_at(&self) -> Option<Instant> {
        self.pending.next_at()
    }

    /// A step of [`State::next`] has failed.
    pub(super) fn not_bound(&mut self, pod: &Pod, now: Instant) {
        let key = ObjectKey::of(pod);
        self.cluster.displace(pod.metadata.uid.as_deref().unwrap_or_default());
        self.pending.failed(&key, false, now);
    }
}
