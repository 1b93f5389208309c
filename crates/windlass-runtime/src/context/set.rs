//! Sets: all that a parent wants, and nothing that it wanted before.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use hashbrown::HashSet;
use kube::core::ApiResource;

use super::{Context, ContextError, Existing, Kind};
use crate::{
    key::ObjectKey,
    object::{Object, resource_of},
    objects::owner::Owner,
};

/// The label that says to which set of its controller an object belongs.
pub const SET_LABEL: &str = "windlass.dev/set";

/// Objects of any kinds that a parent wants to exist.
#[derive(Default)]
pub struct Desired {
    objects: Vec<Box<dyn DesiredObject>>,
}

/// What [`Context::apply_set`] has done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SetOutcome {
    /// How many objects are as desired.
    pub applied: usize,
    /// The kinds and keys of objects that were deleted because they are not desired any more.
    pub pruned: Vec<(String, ObjectKey)>,
}

trait DesiredObject: Send + Sync {
    fn resource(&self) -> ApiResource;
    fn key(&self, owner: &Owner) -> ObjectKey;
    fn apply<'a>(
        &'a self,
        context: &'a Context,
        owner: &'a Owner,
        set: &'a str,
    ) -> BoxFuture<'a, Result<(), ContextError>>;
}

struct Of<K: Object> {
    object: Arc<K>,
    dynamic: K::DynamicType,
}

impl Desired {
    /// Nothing.
    pub fn new() -> Self {
        Self::default()
    }

    /// And this object. One without a namespace is meant to be in the parent's.
    #[must_use]
    pub fn with<K: Object<DynamicType: Default>>(mut self, object: K) -> Self {
        self.add(object);
        self
    }

    /// Adds an object.
    pub fn add<K: Object<DynamicType: Default>>(&mut self, object: K) {
        self.add_with(object, &K::DynamicType::default());
    }

    /// Adds an object of a type known at run time.
    pub fn add_with<K: Object>(&mut self, object: K, dynamic: &K::DynamicType) {
        self.objects.push(Box::new(Of { object: Arc::new(object), dynamic: dynamic.clone() }));
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Whether nothing is desired.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }
}

impl Context {
    /// [`apply_set`](Context::apply_set) for an owner whose type is known at run time.
    pub async fn apply_set_of(&self, owner: &Owner, set: &str, desired: &Desired) -> Result<SetOutcome, ContextError> {
        let mut outcome = SetOutcome::default();
        let mut failures = Vec::new();
        let mut wanted = HashSet::new();
        for object in &desired.objects {
            let resource = object.resource();
            wanted.insert((resource.group, resource.kind, object.key(owner)));
            match object.apply(self, owner, set).await {
                Ok(()) => outcome.applied += 1,
                Err(error) => failures.push(error),
            }
        }
        let mut total = desired.len();
        if failures.is_empty() {
            for kind in self.wired.all() {
                let resource = kind.resource();
                for owned in kind.owned(owner.uid()) {
                    // What was deleted by another entry of the same kind is not there any more.
                    let it = (resource.group.clone(), resource.kind.clone(), owned.key.clone());
                    if owned.set.as_deref() != Some(set) || owned.terminating || wanted.contains(&it) {
                        continue;
                    }
                    total += 1;
                    match kind.delete(self, &owned).await {
                        Ok(()) => outcome.pruned.push((resource.kind.clone(), owned.key)),
                        Err(error) => failures.push(error),
                    }
                    wanted.insert(it);
                }
            }
        }
        if failures.is_empty() { Ok(outcome) } else { Err(ContextError::Set { set: set.to_owned(), total, failures }) }
    }
}

impl<K: Object> DesiredObject for Of<K> {
    fn resource(&self) -> ApiResource {
        resource_of::<K>(&self.dynamic)
    }

    fn key(&self, owner: &Owner) -> ObjectKey {
        let key = ObjectKey::of(self.object.as_ref());
        match (key.namespace(), owner.namespace()) {
            (None, Some(namespace)) if !super::kind::is_of_cluster::<K>() => {
                ObjectKey::namespaced(namespace, key.name())
            }
            _ => key,
        }
    }

    fn apply<'a>(
        &'a self,
        context: &'a Context,
        owner: &'a Owner,
        set: &'a str,
    ) -> BoxFuture<'a, Result<(), ContextError>> {
        Box::pin(async move {
            let mut object = self.object.as_ref().clone();
            object.meta_mut().labels.get_or_insert_default().insert(SET_LABEL.to_owned(), set.to_owned());
            let kind: Kind<'_, K> = context.kind_with(&self.dynamic);
            kind.apply_owned(owner, object, Existing::Refuse).await.map(drop)
        })
    }
}
