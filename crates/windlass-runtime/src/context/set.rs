//! Apply sets: everything that a parent desires, and nothing that it no longer does.

use std::sync::Arc;

use hashbrown::HashSet;
use kube::{api::DeleteParams, core::ObjectMeta};

use super::{
    AdoptionPolicy, Context, ContextError,
    any_kind::{AnyKind, KindInfo, ResourceScope, kind_info},
};
use crate::{
    any_object::AnyObject,
    key::ObjectKey,
    object::Object,
    objects::{meta::label_value, owner::Owner},
};

/// Label with the name of the set that an object belongs to.
pub const SET_LABEL: &str = "windlass.dev/set";

/// Objects of any kinds that a parent desires.
#[derive(Default)]
pub struct Desired {
    objects: Vec<DesiredObject>,
}

/// Result of [`Context::apply_set`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOutcome {
    /// Number of objects that are as desired.
    pub applied: usize,
    /// Kinds and keys of objects that were deleted because they are no longer desired.
    pub pruned: Vec<(String, ObjectKey)>,
}

/// A type-erased object of the set.
struct DesiredObject {
    object: Arc<dyn AnyObject>,
    kind_info: Arc<dyn KindInfo>,
}

impl Desired {
    /// Creates an empty set.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds an object. Without a namespace, it belongs in the parent's.
    #[must_use]
    pub fn with<K: Object<DynamicType: Default>>(mut self, object: K) -> Self {
        self.add(object);
        self
    }

    /// Adds an object.
    pub fn add<K: Object<DynamicType: Default>>(&mut self, object: K) {
        self.add_with(object, &K::DynamicType::default());
    }

    /// Adds an object of a kind that is known at run time.
    pub fn add_with<K: Object>(&mut self, object: K, dynamic: &K::DynamicType) {
        self.objects.push(DesiredObject { object: Arc::new(object), kind_info: kind_info::<K>(dynamic) });
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether nothing is desired.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl Context {
    /// Like [`apply_set`](Context::apply_set), for an owner whose kind is known at run time.
    pub async fn apply_set_of(&self, owner: &Owner, set: &str, desired: &Desired) -> Result<SetOutcome, ContextError> {
        let set = &label_value(set);
        let mut outcome = SetOutcome::default();
        let mut failures = Vec::new();
        let mut wanted = HashSet::new();
        for object in &desired.objects {
            let resource = object.kind_info.resource();
            wanted.insert((resource.group, resource.kind, object.key(owner)));
            match object.apply(self, owner, set).await {
                Ok(()) => outcome.applied += 1,
                Err(error) => failures.push(error),
            }
        }
        let mut total = desired.len();
        if failures.is_empty() {
            for entry in self.watched_kinds.all() {
                let (group, kind) = (&entry.resource.group, &entry.resource.kind);
                for owned in entry.controlled_by(owner.uid()) {
                    let meta = owned.metadata();
                    let key = ObjectKey::of_meta(meta);
                    // Already deleted through another entry of the same kind.
                    let it = (group.clone(), kind.clone(), key.clone());
                    if !is_of(set, meta) || meta.deletion_timestamp.is_some() || wanted.contains(&it) {
                        continue;
                    }
                    total += 1;
                    let deleting = AnyKind::new(self, entry.kind_info.clone());
                    match deleting.delete(meta, &DeleteParams::background()).await {
                        Ok(()) => outcome.pruned.push((kind.clone(), key)),
                        Err(error) => failures.push(error),
                    }
                    wanted.insert(it);
                }
            }
        }
        if failures.is_empty() { Ok(outcome) } else { Err(ContextError::Set { set: set.clone(), total, failures }) }
    }
}

/// Returns whether an object belongs to a set; `set` is the value of its label.
fn is_of(set: &str, meta: &ObjectMeta) -> bool {
    meta.labels.as_ref().and_then(|labels| labels.get(SET_LABEL)).is_some_and(|label| label == set)
}

impl DesiredObject {
    fn key(&self, owner: &Owner) -> ObjectKey {
        let key = ObjectKey::of_meta(self.object.metadata());
        match (key.namespace(), owner.namespace()) {
            (None, Some(namespace)) if self.kind_info.resource_scope() != ResourceScope::Cluster => {
                ObjectKey::namespaced(namespace, key.name())
            }
            _ => key,
        }
    }

    async fn apply(&self, context: &Context, owner: &Owner, set: &str) -> Result<(), ContextError> {
        let mut meta = self.object.metadata().clone();
        meta.labels.get_or_insert_default().insert(SET_LABEL.to_owned(), set.to_owned());
        let kind = AnyKind::new(context, self.kind_info.clone());
        kind.apply_owned(owner, &*self.object, meta, AdoptionPolicy::Reject).await.map(drop)
    }
}
