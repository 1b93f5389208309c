//! Apply sets: everything that a parent desires, and nothing that it no longer does.

use std::{any::Any, fmt, sync::Arc};

use super::any_kind::{KindInfo, ResourceScope, kind_info};
use crate::{
    any_object::{AnyObject, typed_ref, value_of},
    key::ObjectKey,
    object::Object,
    objects::{
        conditions::{ConditionUpdate, ready},
        owner::Owner,
        readiness::{self, Readiness},
    },
};

mod left;
mod write;

/// Label with the name of the set that an object belongs to.
pub const SET_LABEL: &str = "windlass.dev/set";
/// Annotation of objects that depend on others of their set, with the length of the longest chain of dependencies.
/// Objects with a higher number are deleted before those with a lower one.
pub const SET_ORDER: &str = "windlass.dev/set-order";

/// Number of objects that are applied or deleted concurrently, unless the set has another.
const DEFAULT_CONCURRENCY: usize = 8;

/// Objects of any kinds that a parent desires, and their order.
///
/// ```
/// use k8s_openapi::api::{apps::v1::{Deployment, StatefulSet}, batch::v1::Job, core::v1::Service};
/// use windlass_runtime::context::Desired;
///
/// # let (database, migration, web, service) = (StatefulSet::default(), Job::default(), Deployment::default(), Service::default());
/// let mut desired = Desired::new().with(service);
/// let database = desired.add(database);
/// let migration = desired.add(migration);
/// desired.after(migration, [database]);
/// // A Job is ready when it has started; this one must have ended.
/// desired.ready_when(migration, |job: &Job| job.status.as_ref().is_some_and(|status| status.succeeded == Some(1)));
/// let web = desired.add(web);
/// desired.after(web, [migration]);
/// ```
pub struct Desired {
    objects: Vec<DesiredObject>,
    concurrency: usize,
}

impl Default for Desired {
    fn default() -> Self {
        Self { objects: Vec::new(), concurrency: DEFAULT_CONCURRENCY }
    }
}

/// An object of a [`Desired`] set.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChildId(usize);

/// Function that decides whether an object is ready.
type ReadyWhen = Arc<dyn Fn(&dyn AnyObject) -> bool + Send + Sync>;

/// A type-erased object of the set.
struct DesiredObject {
    object: Arc<dyn AnyObject>,
    kind_info: Arc<dyn KindInfo>,
    /// Positions of the objects that must be ready before; all smaller than its own.
    after: Vec<usize>,
    ready_when: Option<ReadyWhen>,
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

    /// Adds an object that is applied when all objects that were added before are ready.
    #[must_use]
    pub fn then<K: Object<DynamicType: Default>>(mut self, object: K) -> Self {
        let before = self.objects.len();
        let child = self.add(object);
        self.after(child, (0..before).map(ChildId));
        self
    }

    /// Adds an object.
    pub fn add<K: Object<DynamicType: Default>>(&mut self, object: K) -> ChildId {
        self.add_with(object, &K::DynamicType::default())
    }

    /// Adds an object of a kind that is known at run time.
    pub fn add_with<K: Object>(&mut self, object: K, dynamic: &K::DynamicType) -> ChildId {
        let kind_info = kind_info::<K>(dynamic);
        self.objects.push(DesiredObject { object: Arc::new(object), kind_info, after: Vec::new(), ready_when: None });
        ChildId(self.objects.len() - 1)
    }

    /// Declares that an object is applied only when others are ready, and deleted before they are. While one of them is
    /// not ready, the object is left as it is, and so is everything that it may depend on: objects that are no longer
    /// desired and have a lower order.
    ///
    /// # Panics
    ///
    /// If one of the others was added after the object, or belongs to another set: dependencies cannot be circular.
    pub fn after(&mut self, child: ChildId, others: impl IntoIterator<Item = ChildId>) -> &mut Self {
        for ChildId(other) in others {
            assert!(other < child.0, "an object of a set can only depend on objects that were added before");
            self.objects[child.0].after.push(other);
        }
        self
    }

    /// Sets when an object is ready, instead of the [rules for its kind](crate::objects::readiness).
    ///
    /// # Panics
    ///
    /// If the object is of another kind.
    pub fn ready_when<K: Object>(
        &mut self,
        child: ChildId,
        is_ready: impl Fn(&K) -> bool + Send + Sync + 'static,
    ) -> &mut Self {
        let child = &mut self.objects[child.0];
        let object: &dyn Any = &*child.object;
        assert!(object.is::<K>(), "the object is a {}", child.kind_info.kind());
        child.ready_when = Some(Arc::new(move |object| is_ready(typed_ref(object))));
        self
    }

    /// Sets the number of objects that are applied or deleted concurrently; 8 by default.
    #[must_use]
    pub fn concurrency(mut self, objects: usize) -> Self {
        self.concurrency = objects.max(1);
        self
    }

    /// Returns the number of objects.
    pub fn len(&self) -> usize {
        self.objects.len()
    }

    /// Returns whether nothing is desired.
    pub fn is_empty(&self) -> bool {
        self.objects.is_empty()
    }

    /// Returns the length of the longest chain of dependencies of each object.
    fn levels(&self) -> Vec<usize> {
        let mut levels: Vec<usize> = Vec::with_capacity(self.objects.len());
        for object in &self.objects {
            levels.push(object.after.iter().map(|before| levels[*before] + 1).max().unwrap_or(0));
        }
        levels
    }
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
}

/// Result of [`Context::apply_set`](super::Context::apply_set).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct SetOutcome {
    /// The desired objects, in the order in which they were added.
    pub children: Vec<Child>,
    /// Kinds and keys of objects that were deleted because they are no longer desired.
    pub pruned: Vec<(String, ObjectKey)>,
    /// Kinds and keys of objects that are no longer desired and still exist: they are being deleted, or wait for
    /// others.
    pub deleting: Vec<(String, ObjectKey)>,
    /// Kinds and objects of which it is unknown whether they belong to the set, with the reason: for example, kinds whose
    /// watched version is not served any more while another one is. It is not looked for if something could not be applied.
    pub unknown: Vec<String>,
}

impl SetOutcome {
    /// Returns the number of objects that are as desired, ready or not.
    pub fn applied(&self) -> usize {
        self.children.iter().filter(|child| child.object.is_ok()).count()
    }

    /// Returns whether all objects are applied and ready.
    pub fn is_ready(&self) -> bool {
        self.unready().next().is_none()
    }

    /// Returns whether nothing is left of objects that are no longer desired, as far as the kinds that the controller watches
    /// are concerned. False if that is [unknown](Self::unknown).
    pub fn is_gone(&self) -> bool {
        self.deleting.is_empty() && self.unknown.is_empty()
    }

    /// Returns the objects that are not ready.
    pub fn unready(&self) -> impl Iterator<Item = &Child> {
        self.children.iter().filter(|child| !child.readiness().is_ready())
    }

    /// Returns an object of the set.
    pub fn child(&self, child: ChildId) -> Option<&Child> {
        self.children.get(child.0)
    }

    /// Returns the state of the first applied object of a Rust type.
    pub fn get<K: Object>(&self) -> Option<Arc<K>> {
        self.children.iter().find_map(Child::object)
    }

    /// Returns the condition `Ready`: whether all objects are ready, and what is missing.
    pub fn condition(&self) -> ConditionUpdate {
        let missing: Vec<String> =
            self.unready().map(|child| format!("{} {}: {}", child.kind, child.key.name(), child.readiness())).collect();
        match missing.is_empty() {
            true => ready(true).reason("AllReady").message(format!("{} objects are ready", self.children.len())),
            false if self.unready().any(|child| child.readiness().is_failed()) => {
                ready(false).reason("Failed").message(missing.join("; "))
            }
            false => ready(false).reason("InProgress").message(missing.join("; ")),
        }
    }
}

/// An object of an applied set.
#[derive(Clone)]
pub struct Child {
    /// Kind of the object.
    pub kind: String,
    /// The object.
    pub key: ObjectKey,
    /// The state after the apply, or why it was not applied.
    object: Result<Arc<dyn AnyObject>, String>,
    kind_info: Arc<dyn KindInfo>,
    ready_when: Option<ReadyWhen>,
}

impl fmt::Debug for Child {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Child").field("kind", &self.kind).field("key", &self.key).finish_non_exhaustive()
    }
}

impl Child {
    fn new(desired: &DesiredObject, owner: &Owner, object: Result<Arc<dyn AnyObject>, String>) -> Self {
        Self {
            kind: desired.kind_info.kind(),
            key: desired.key(owner),
            object,
            kind_info: desired.kind_info.clone(),
            ready_when: desired.ready_when.clone(),
        }
    }

    /// Returns the state of the object after the apply; `None` if it was not applied, or is of another Rust type.
    pub fn object<K: Object>(&self) -> Option<Arc<K>> {
        let object: Arc<dyn Any + Send + Sync> = self.object.clone().ok()?;
        object.downcast().ok()
    }

    /// Returns whether the object is ready, by the [rules for its kind](crate::objects::readiness) or by
    /// [`Desired::ready_when`].
    pub fn readiness(&self) -> Readiness {
        let object = match &self.object {
            Ok(object) => object,
            Err(why) => return Readiness::Waiting(why.clone()),
        };
        if let Some(ready_when) = &self.ready_when {
            return match ready_when(&**object) {
                true => Readiness::Ready,
                false => Readiness::InProgress("it is not ready yet".into()),
            };
        }
        let resource = self.kind_info.resource();
        match value_of(&**object) {
            Ok(value) => readiness::of_kind(&resource.group, &resource.kind, &value, self.reports_conditions(&value)),
            Err(error) => Readiness::InProgress(error.to_string()),
        }
    }

    /// Returns whether the kind has conditions, that is, whether one survives a round trip.
    fn reports_conditions(&self, object: &serde_json::Value) -> bool {
        // Open kinds accept any field, so they are inconclusive.
        if self.kind_info.is_open() || self.kind_info.is_metadata() {
            return false;
        }
        let mut probe = object.clone();
        probe["status"]["conditions"] = serde_json::json!([{
            "type": "Ready", "status": "True", "reason": "Probe", "message": "",
            "lastTransitionTime": "2000-01-01T00:00:00Z",
        }]);
        let there = serde_json::to_vec(&probe).and_then(|probe| self.kind_info.read(&probe));
        let and_back = there.and_then(|object| value_of(&*object));
        and_back.is_ok_and(|value| value.pointer("/status/conditions/0/type").is_some())
    }
}
