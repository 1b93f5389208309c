//! Writing a set: applying what is desired, deleting what no longer is.

use std::sync::Arc;

use futures_util::{StreamExt, future::BoxFuture, stream};
use hashbrown::HashSet;
use kube::api::DeleteParams;

use super::{
    Child, Desired, DesiredObject, SET_LABEL, SET_ORDER, SetOutcome,
    left::{Left, Leftover},
};
use crate::{
    any_object::AnyObject,
    context::{AdoptionPolicy, Context, ContextError, any_kind::AnyKind},
    key::ObjectKey,
    objects::{meta::label_value, owner::Owner},
};

/// Group, kind and key of an object.
pub(super) type Identity = (String, String, ObjectKey);

impl Context {
    /// Like [`apply_set`](Context::apply_set), for an owner whose kind is known at run time.
    pub async fn apply_set_of(&self, owner: &Owner, set: &str, desired: &Desired) -> Result<SetOutcome, ContextError> {
        let set = &label_value(set);
        if let Some((_, kind, key)) = desired.duplicate(owner) {
            return Err(ContextError::Duplicate { set: set.clone(), kind, key });
        }
        let mut failures = Vec::new();
        let mut outcome = SetOutcome {
            children: self.apply_in_order(owner, set, desired, &mut failures).await,
            ..SetOutcome::default()
        };
        let mut total = desired.len();
        if failures.is_empty() {
            let identity = |object: &DesiredObject| object.identity(owner);
            let both = desired.objects.iter().zip(&outcome.children);
            let waiting = both.filter(|(_, child)| child.object.is_err());
            let pruning = Pruning {
                context: self,
                owner,
                set,
                wanted: desired.objects.iter().map(identity).collect(),
                waiting: waiting.map(|(object, _)| identity(object)).collect(),
                concurrency: desired.concurrency,
            };
            total += pruning.run(&mut outcome, &mut failures).await;
        }
        if failures.is_empty() { Ok(outcome) } else { Err(ContextError::Set { set: set.clone(), total, failures }) }
    }

    /// Applies the objects, each after its dependencies.
    async fn apply_in_order(
        &self,
        owner: &Owner,
        set: &str,
        desired: &Desired,
        failures: &mut Vec<ContextError>,
    ) -> Vec<Child> {
        let levels = desired.levels();
        let mut children: Vec<Option<Child>> = desired.objects.iter().map(|_| None).collect();
        for level in 0..=levels.iter().copied().max().unwrap_or(0) {
            let mut applies: Vec<BoxFuture<'_, (usize, Result<Child, ContextError>)>> = Vec::new();
            for (place, object) in desired.objects.iter().enumerate().filter(|(place, _)| levels[*place] == level) {
                match blocked(object, &children) {
                    Some(why) => children[place] = Some(Child::new(object, owner, Err(why))),
                    None => applies.push(Box::pin(async move {
                        let applied = object.apply(self, owner, set, level).await;
                        (place, applied.map(|applied| Child::new(object, owner, Ok(applied))))
                    })),
                }
            }
            let mut applied = stream::iter(applies).buffer_unordered(desired.concurrency);
            while let Some((place, child)) = applied.next().await {
                children[place] = Some(child.unwrap_or_else(|error| {
                    let why = error.to_string();
                    failures.push(error);
                    Child::new(&desired.objects[place], owner, Err(why))
                }));
            }
        }
        children.into_iter().flatten().collect()
    }
}

/// Returns which object of the set must be ready before, if one is not.
fn blocked(object: &DesiredObject, children: &[Option<Child>]) -> Option<String> {
    let mut before = object.after.iter().filter_map(|before| children[*before].as_ref());
    let child = before.find(|child| !child.readiness().is_ready())?;
    Some(format!("waits for {} {}", child.kind, child.key.name()))
}

impl Desired {
    /// Returns an object that is in the set twice: two applies of one manager would keep replacing each other.
    fn duplicate(&self, owner: &Owner) -> Option<Identity> {
        let mut seen = HashSet::new();
        self.objects.iter().map(|object| object.identity(owner)).find(|identity| !seen.insert(identity.clone()))
    }
}

impl DesiredObject {
    fn identity(&self, owner: &Owner) -> Identity {
        let resource = self.kind_info.resource();
        (resource.group, resource.kind, self.key(owner))
    }

    async fn apply(
        &self,
        context: &Context,
        owner: &Owner,
        set: &str,
        level: usize,
    ) -> Result<Arc<dyn AnyObject>, ContextError> {
        let mut meta = self.object.metadata().clone();
        meta.labels.get_or_insert_default().insert(SET_LABEL.to_owned(), set.to_owned());
        if level > 0 {
            meta.annotations.get_or_insert_default().insert(SET_ORDER.to_owned(), level.to_string());
        }
        let kind = AnyKind::new(context, self.kind_info.clone());
        kind.apply_owned(owner, &*self.object, meta, AdoptionPolicy::Reject).await
    }
}

/// Deletes the objects of a set that are no longer desired.
pub(super) struct Pruning<'a> {
    pub(super) context: &'a Context,
    pub(super) owner: &'a Owner,
    pub(super) set: &'a str,
    pub(super) wanted: HashSet<Identity>,
    /// Those of them that are left as they are, because one that they depend on is not ready.
    pub(super) waiting: HashSet<Identity>,
    concurrency: usize,
}

impl Pruning<'_> {
    /// Deletes dependencies last, and keeps those on which a retained object may depend. Returns the number of
    /// deletions.
    async fn run(&self, outcome: &mut SetOutcome, failures: &mut Vec<ContextError>) -> usize {
        let mut deleted: HashSet<Identity> = HashSet::new();
        loop {
            let Left { objects: left, needed_below, unknown } = self.left().await;
            let last = left.iter().map(|object| object.level).max().unwrap_or(0);
            let due = |object: &&Leftover| {
                let fresh = object.meta.deletion_timestamp.is_none() && !deleted.contains(&object.identity);
                object.level == last && fresh && object.level >= needed_below
            };
            let due: Vec<&Leftover> = left.iter().filter(due).collect();
            if due.is_empty() || !failures.is_empty() {
                let of = |object: &Leftover| (object.identity.1.clone(), object.identity.2.clone());
                outcome.deleting = left.iter().map(of).collect();
                outcome.unknown = unknown;
                return deleted.len();
            }
            // Objects that depended on the others must be deleted together with their dependents.
            let in_order = left.iter().any(|object| object.level < last);
            let params = if in_order { DeleteParams::foreground() } else { DeleteParams::background() };
            let deletions = due.iter().map(|object| -> BoxFuture<'_, _> {
                let (kind, params) = (AnyKind::new(self.context, object.kind_info.clone()), &params);
                Box::pin(async move { (object.identity.clone(), kind.delete(&object.meta, params).await) })
            });
            let deletions: Vec<_> = deletions.collect();
            let mut deletions = stream::iter(deletions).buffer_unordered(self.concurrency);
            while let Some((identity, answer)) = deletions.next().await {
                match answer {
                    Ok(()) => outcome.pruned.push((identity.1.clone(), identity.2.clone())),
                    Err(error) => failures.push(error),
                }
                deleted.insert(identity);
            }
        }
    }
}
