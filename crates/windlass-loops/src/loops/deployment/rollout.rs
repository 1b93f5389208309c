//! The desired state of a deployment's replica sets and status, computed from the observed state.

use std::{cmp::Reverse, sync::Arc};

use jiff::Timestamp;
use k8s_openapi::{
    api::apps::v1::{Deployment, DeploymentStatus, ReplicaSet, ReplicaSetSpec},
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference, Time},
};
use windlass_schema::sorting;

use super::{
    annotations::{self, REVISION},
    arithmetic::{self, Fenceposts, Size, sum},
    conditions::{self, PROGRESSING, condition, reason},
    is_rolling,
    progress::{self, Sets, actual, available, desired, replicas},
    template::{self, HASH_LABEL},
};

/// A deployment and its replica sets in their desired state.
pub(super) struct Rollout {
    /// The deployment. Only its status and revision change.
    pub(super) deployment: Deployment,
    /// The replica sets, oldest first.
    pub(super) sets: Vec<ReplicaSet>,
    /// The replica sets as observed.
    present: Vec<Arc<ReplicaSet>>,
    /// Index of the replica set with the deployment's template.
    new: Option<usize>,
    /// Replica sets to delete.
    pub(super) surplus: Vec<Arc<ReplicaSet>>,
    now: Timestamp,
}

/// The next step.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    /// Create this replica set, [add](Rollout::add) it, and decide again.
    Create(Box<ReplicaSet>),
    /// Write the changes.
    Write,
}

impl Rollout {
    /// Starts from the observed state. `now` is in whole seconds.
    pub(super) fn new(deployment: &Deployment, mut sets: Vec<Arc<ReplicaSet>>, now: Timestamp) -> Self {
        sorting::sort_by(&mut sets, |first, second| age(first).cmp(&age(second)));
        let template = deployment.spec.as_ref().map(|spec| &spec.template);
        let same = |set: &Arc<ReplicaSet>| {
            let own = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            own.zip(template).is_some_and(|(own, template)| template::same(own, template))
        };
        Self {
            deployment: deployment.clone(),
            new: sets.iter().position(same),
            sets: sets.iter().map(|set| ReplicaSet::clone(set)).collect(),
            present: sets,
            surplus: Vec::new(),
            now,
        }
    }

    /// The changed replica sets, as observed and as desired.
    pub(super) fn changed(&self) -> impl Iterator<Item = (&Arc<ReplicaSet>, &ReplicaSet)> {
        self.present.iter().zip(&self.sets).filter(|(present, wanted)| ***present != **wanted)
    }

    /// The replica set with the deployment's template.
    pub(super) fn newest(&self) -> Option<&ReplicaSet> {
        self.new.map(|at| &self.sets[at])
    }

    /// Only updates the status, for a deployment that is being deleted.
    pub(super) fn only_count(&mut self) {
        self.count();
    }

    /// Decides the next step. `runs_pods` returns whether a replica set has pods that have not ended.
    pub(super) fn decide(&mut self, owner: &OwnerReference, runs_pods: &dyn Fn(&ReplicaSet) -> bool) -> Next {
        self.note_pause();
        let paused = self.is_paused();
        if paused || self.is_scaled() {
            self.sync_revision();
            self.scale();
            if paused {
                self.clean_up();
            }
            self.count();
            return Next::Write;
        }
        let next = match is_rolling(&self.deployment) {
            true => self.roll(owner),
            false => self.recreate(owner, runs_pods),
        };
        if next == Next::Write {
            self.count_and_judge();
        }
        next
    }

    /// A step of a rolling update.
    fn roll(&mut self, owner: &OwnerReference) -> Next {
        self.sync_revision();
        let Some(new) = self.new else { return Next::Create(Box::new(self.new_set(owner))) };
        let (desired, posts) = (desired(&self.deployment), self.posts());
        let size = replicas(&self.sets[new]);
        if size > desired {
            self.resize(new, desired);
        } else {
            let total = sum(self.sets.iter().map(replicas));
            self.resize(new, arithmetic::new_replicas(desired, posts.surge, total, size));
        }
        let old: Vec<usize> = self.old().collect();
        let sizes: Vec<Size> = old.iter().map(|at| self.size(*at)).collect();
        for (at, size) in old.into_iter().zip(arithmetic::scale_down_old(desired, posts, self.size(new), &sizes)) {
            self.resize(at, size);
        }
        self.clean_up_when_complete();
        Next::Write
    }

    /// A step of the `Recreate` strategy: old pods are deleted before new ones are created.
    fn recreate(&mut self, owner: &OwnerReference, runs_pods: &dyn Fn(&ReplicaSet) -> bool) -> Next {
        self.sync_revision();
        let old: Vec<usize> = self.old().collect();
        if old.iter().any(|at| replicas(&self.sets[*at]) > 0) {
            for at in old {
                self.resize(at, 0);
            }
            return Next::Write;
        }
        if old.iter().any(|at| actual(&self.sets[*at]) > 0 || runs_pods(&self.sets[*at])) {
            return Next::Write;
        }
        let Some(new) = self.new else { return Next::Create(Box::new(self.new_set(owner))) };
        self.resize(new, desired(&self.deployment));
        self.clean_up_when_complete();
        Next::Write
    }

    /// Adds a replica set that was just created.
    pub(super) fn add(&mut self, set: Arc<ReplicaSet>, created: bool) {
        if let Some(revision) = set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISION)) {
            self.set_revision(revision.clone());
        }
        if created && progress::deadline(&self.deployment).is_some() {
            let message = format!("Created new replica set \"{}\"", set.metadata.name.as_deref().unwrap_or_default());
            self.progressing("True", reason::CREATED, &message);
        }
        self.new = Some(self.sets.len());
        self.sets.push(ReplicaSet::clone(&set));
        self.present.push(set);
    }

    /// Records that a replica set could not be created.
    pub(super) fn not_created(&mut self, message: &str) {
        if progress::deadline(&self.deployment).is_some() {
            self.progressing("False", reason::CREATE_FAILED, message);
        }
    }

    /// Records a hash collision with another template.
    pub(super) fn collided(&mut self) {
        let count = &mut self.status().collision_count;
        *count = Some(count.unwrap_or_default().saturating_add(1));
    }

    /// The replica set for the deployment's template.
    fn new_set(&self, owner: &OwnerReference) -> ReplicaSet {
        let deployment = &self.deployment;
        let spec = deployment.spec.clone().unwrap_or_default();
        let collisions = deployment.status.as_ref().and_then(|status| status.collision_count);
        let hash = template::hash(&spec.template, collisions);
        let (mut template, mut selector) = (spec.template, spec.selector);
        let labels = template.metadata.get_or_insert_default().labels.get_or_insert_default();
        labels.insert(HASH_LABEL.to_owned(), hash.clone());
        let labels = labels.clone();
        selector.match_labels.get_or_insert_default().insert(HASH_LABEL.to_owned(), hash.clone());
        let (desired, surge) = (desired(deployment), self.posts().surge);
        let total = sum(self.sets.iter().map(replicas));
        let size = if is_rolling(deployment) { arithmetic::new_replicas(desired, surge, total, 0) } else { desired };
        let mut set = ReplicaSet {
            metadata: ObjectMeta {
                name: Some(template::set_name(deployment.metadata.name.as_deref().unwrap_or_default(), &hash)),
                namespace: deployment.metadata.namespace.clone(),
                owner_references: Some(vec![owner.clone()]),
                labels: Some(labels),
                ..ObjectMeta::default()
            },
            spec: Some(ReplicaSetSpec {
                replicas: Some(size),
                min_ready_seconds: spec.min_ready_seconds,
                selector,
                template: Some(template),
            }),
            status: None,
        };
        annotations::update_newest(&mut set, deployment, annotations::highest_revision(&self.sets) + 1);
        annotations::set_sizes(&mut set, desired, desired + surge);
        set
    }

    /// Sets the revision and inherited annotations of the new replica set, and the revision of the deployment.
    fn sync_revision(&mut self) {
        let Some(new) = self.new else { return };
        let revision = annotations::highest_revision(self.old().map(|at| &self.sets[at])) + 1;
        let set = &mut self.sets[new];
        annotations::update_newest(set, &self.deployment, revision);
        let seconds = self.deployment.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
        if let Some(spec) = &mut set.spec
            && spec.min_ready_seconds.unwrap_or_default() != seconds
        {
            spec.min_ready_seconds = Some(seconds);
        }
        let revision = set.metadata.annotations.as_ref().and_then(|annotations| annotations.get(REVISION)).cloned();
        let message = format!("Found new replica set \"{}\"", set.metadata.name.as_deref().unwrap_or_default());
        self.set_revision(revision.unwrap_or_default());
        if progress::deadline(&self.deployment).is_some() && conditions::get(self.status(), PROGRESSING).is_none() {
            self.progressing("True", reason::FOUND, &message);
        }
    }

    fn set_revision(&mut self, revision: String) {
        let annotations = self.deployment.metadata.annotations.get_or_insert_default();
        annotations.insert(REVISION.to_owned(), revision);
    }

    /// Returns whether the deployment's size differs from the one that its replica sets were last scaled for.
    fn is_scaled(&self) -> bool {
        let desired = desired(&self.deployment);
        let active = self.sets.iter().filter(|set| replicas(set) > 0);
        active.filter_map(annotations::desired_replicas).any(|before| before != desired)
    }

    /// Scales the replica sets to the deployment's size without continuing a rollout: a single one gets everything,
    /// several are scaled proportionally.
    fn scale(&mut self) {
        let desired = desired(&self.deployment);
        let active: Vec<usize> = (0..self.sets.len()).filter(|at| replicas(&self.sets[*at]) > 0).collect();
        let alone = match active[..] {
            [] => self.new.or(self.sets.len().checked_sub(1)),
            [alone] => Some(alone),
            _ => None,
        };
        if let Some(alone) = alone {
            self.resize(alone, desired);
        } else if self.is_saturated() {
            for at in self.old() {
                self.resize(at, 0);
            }
        } else if is_rolling(&self.deployment) {
            self.scale_in_proportion(active);
        }
    }

    fn scale_in_proportion(&mut self, mut active: Vec<usize>) {
        let (desired, surge) = (desired(&self.deployment), self.posts().surge);
        let most = desired + surge;
        let grows = most > sum(active.iter().map(|at| replicas(&self.sets[*at]))) && desired > 0;
        // Largest first; among equal sizes, the newest grows first and the oldest shrinks first.
        sorting::sort_by(&mut active, |first, second| {
            let (first, second) = (&self.sets[*first], &self.sets[*second]);
            let by_age = if grows { age(second).cmp(&age(first)) } else { age(first).cmp(&age(second)) };
            Reverse(replicas(first)).cmp(&Reverse(replicas(second))).then(by_age)
        });
        let sizes: Vec<Size> = active.iter().map(|at| self.size(*at)).collect();
        let present = self.deployment.status.as_ref().and_then(|status| status.replicas).unwrap_or_default();
        for (at, size) in active.into_iter().zip(arithmetic::proportional(desired, most, present, &sizes)) {
            self.resize(at, size);
            annotations::set_sizes(&mut self.sets[at], desired, most);
        }
    }

    /// Returns whether the new replica set has all desired pods, and all are available.
    fn is_saturated(&self) -> bool {
        let desired = desired(&self.deployment);
        let saturated = |set: &ReplicaSet| {
            replicas(set) == desired && annotations::desired_replicas(set) == Some(desired) && available(set) == desired
        };
        self.newest().is_some_and(saturated)
    }

    /// Resizes a replica set, and records the deployment's size.
    fn resize(&mut self, at: usize, size: i32) {
        if replicas(&self.sets[at]) == size {
            return;
        }
        let (desired, surge) = (desired(&self.deployment), self.posts().surge);
        if let Some(spec) = &mut self.sets[at].spec {
            spec.replicas = Some(size);
        }
        annotations::set_sizes(&mut self.sets[at], desired, desired + surge);
    }

    fn clean_up_when_complete(&mut self) {
        let moved = self.present.iter().zip(&self.sets).any(|(present, wanted)| replicas(present) != replicas(wanted));
        let status = self.deployment.status.clone().unwrap_or_default();
        if !moved && progress::is_complete(&self.deployment, &status) {
            self.clean_up();
        }
    }

    /// Drops the oldest replica sets without pods beyond the history limit.
    fn clean_up(&mut self) {
        let limit = self.deployment.spec.as_ref().and_then(|spec| spec.revision_history_limit);
        let Some(limit) = limit.filter(|limit| *limit != i32::MAX) else { return };
        let old = self.old().filter(|at| self.sets[*at].metadata.deletion_timestamp.is_none());
        let mut old: Vec<usize> = old.collect();
        let Some(surplus) = old.len().checked_sub(usize::try_from(limit).unwrap_or_default()) else { return };
        sorting::sort_by_key(&mut old, |at| annotations::revision(&self.sets[*at]).unwrap_or_default());
        let empty = |set: &ReplicaSet| {
            let observed = set.status.as_ref().and_then(|status| status.observed_generation);
            actual(set) == 0 && replicas(set) == 0 && set.metadata.generation <= observed
        };
        let surplus = old.into_iter().take(surplus).filter(|at| empty(&self.sets[*at]));
        self.surplus = surplus.map(|at| self.present[at].clone()).collect();
    }

    /// Records that a deployment is paused or resumed, unless its deadline is exceeded, which takes precedence.
    fn note_pause(&mut self) {
        let has =
            |reason| conditions::has_reason(self.deployment.status.as_ref().unwrap_or(&NO_STATUS), PROGRESSING, reason);
        if progress::deadline(&self.deployment).is_none() || has(reason::TIMED_OUT) {
            return;
        }
        match (self.is_paused(), has(reason::PAUSED)) {
            (true, false) => self.progressing("Unknown", reason::PAUSED, "Deployment is paused"),
            (false, true) => self.progressing("Unknown", reason::RESUMED, "Deployment is resumed"),
            _ => {}
        }
    }

    fn is_paused(&self) -> bool {
        self.deployment.spec.as_ref().and_then(|spec| spec.paused).unwrap_or_default()
    }

    fn progressing(&mut self, status: &str, reason: &str, message: &str) {
        let condition = condition(PROGRESSING, status, reason, message, self.now);
        conditions::set(self.status(), condition);
    }

    fn status(&mut self) -> &mut DeploymentStatus {
        self.deployment.status.get_or_insert_default()
    }

    fn count(&mut self) {
        let counted = progress::counted(&self.deployment, self.all(), self.posts().unavailable, self.now);
        self.deployment.status = Some(counted);
    }

    fn count_and_judge(&mut self) {
        let mut status = progress::counted(&self.deployment, self.all(), self.posts().unavailable, self.now);
        progress::judge(&self.deployment, &mut status, self.all(), self.now);
        self.deployment.status = Some(status);
    }

    fn all(&self) -> Sets<'_> {
        Sets { all: &self.sets, new: self.newest() }
    }

    fn old(&self) -> impl Iterator<Item = usize> + use<> {
        let new = self.new;
        (0..self.sets.len()).filter(move |at| Some(*at) != new)
    }

    fn size(&self, at: usize) -> Size {
        let set = &self.sets[at];
        Size { replicas: replicas(set), available: available(set), max_before: annotations::max_replicas(set) }
    }

    /// The limits of the update: none, unless the strategy is `RollingUpdate`.
    fn posts(&self) -> Fenceposts {
        let strategy = self.deployment.spec.as_ref().and_then(|spec| spec.strategy.as_ref());
        if !is_rolling(&self.deployment) {
            return Fenceposts { surge: 0, unavailable: 0 };
        }
        let rolling = strategy.and_then(|strategy| strategy.rolling_update.as_ref());
        let surge = rolling.and_then(|rolling| rolling.max_surge.as_ref());
        let unavailable = rolling.and_then(|rolling| rolling.max_unavailable.as_ref());
        arithmetic::fenceposts(surge, unavailable, desired(&self.deployment))
    }
}

/// The sort key for age; names break ties within a second.
fn age(set: &ReplicaSet) -> (Option<&Time>, Option<&str>) {
    (set.metadata.creation_timestamp.as_ref(), set.metadata.name.as_deref())
}

/// The status of a deployment that has none yet.
static NO_STATUS: DeploymentStatus = DeploymentStatus {
    available_replicas: None,
    collision_count: None,
    conditions: None,
    observed_generation: None,
    ready_replicas: None,
    replicas: None,
    terminating_replicas: None,
    unavailable_replicas: None,
    updated_replicas: None,
};

#[cfg(test)]
mod tests;
