//! Owner references.
//!
//! An object has at most one owner that is its *controller*, which created and manages it. Owners are compared by UID,
//! so that an owner that was deleted and recreated under the same name does not inherit its objects.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::Resource;

use super::AsObject;
use crate::{key::ObjectKey, object::Object};

/// An owner and its namespace: everything that is needed to own objects.
#[derive(Clone, Debug, PartialEq)]
pub struct Owner {
    reference: OwnerReference,
    namespace: Option<String>,
}

/// Reason why one object cannot own another.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OwnerError {
    /// The owner has no name or UID: it is not from an API server.
    #[error("the owner has no UID: only an object from the API server can own others")]
    NotStored,
    /// The owner is neither in the namespace of the object nor cluster-scoped.
    #[error("{owner} cannot own {object}: an owner must be in the same namespace or cluster-scoped")]
    OtherNamespace {
        /// The owner.
        owner: ObjectKey,
        /// The object.
        object: ObjectKey,
    },
    /// The object already has a controller.
    #[error("{object} is already controlled by {kind} {name}")]
    Controlled {
        /// The object.
        object: ObjectKey,
        /// Kind of its controller.
        kind: String,
        /// Name of its controller.
        name: String,
    },
}

impl Owner {
    /// Returns an object as a controlling owner.
    pub fn of<P: Object<DynamicType: Default>>(parent: &impl AsObject<P>) -> Result<Self, OwnerError> {
        Self::of_with(parent, &P::DynamicType::default())
    }

    /// Returns an object of a kind that is known at run time as a controlling owner.
    pub fn of_with<P: Object>(parent: &impl AsObject<P>, dynamic: &P::DynamicType) -> Result<Self, OwnerError> {
        let parent = parent.object();
        let mut reference = parent.controller_owner_ref(dynamic).ok_or(OwnerError::NotStored)?;
        reference.block_owner_deletion = Some(true);
        Ok(Self { reference, namespace: parent.meta().namespace.clone() })
    }

    /// Returns the owner reference.
    pub fn reference(&self) -> &OwnerReference {
        &self.reference
    }

    /// Returns the owner's namespace; `None` if it is cluster-scoped.
    pub fn namespace(&self) -> Option<&str> {
        self.namespace.as_deref()
    }

    /// Returns the owner's UID.
    pub fn uid(&self) -> &str {
        &self.reference.uid
    }

    /// Makes this owner the controller of an object, unless it has another or is in another namespace. An existing
    /// reference is updated; other owners are kept.
    pub fn own(&self, meta: &mut ObjectMeta) -> Result<(), OwnerError> {
        let key = key_of(meta);
        self.may_own(&key)?;
        if let Some(other) = controller_of(meta).filter(|other| other.uid != self.reference.uid) {
            return Err(OwnerError::Controlled { object: key, kind: other.kind.clone(), name: other.name.clone() });
        }
        let owners = meta.owner_references.get_or_insert_default();
        match owners.iter_mut().find(|owner| owner.uid == self.reference.uid) {
            Some(owner) => *owner = self.reference.clone(),
            None => owners.push(self.reference.clone()),
        }
        Ok(())
    }

    /// Checks that the garbage collector would accept this owner for an object of this key.
    pub(crate) fn may_own(&self, object: &ObjectKey) -> Result<(), OwnerError> {
        match self.namespace() {
            Some(namespace) if object.namespace() != Some(namespace) => Err(OwnerError::OtherNamespace {
                owner: ObjectKey::namespaced(namespace, &self.reference.name),
                object: object.clone(),
            }),
            _ => Ok(()),
        }
    }
}

/// Returns the reference that makes `parent` the controller of an object. Foreground deletion of the parent waits for
/// it.
///
/// ```
/// use k8s_openapi::api::core::v1::{ConfigMap, Secret};
/// use windlass_runtime::objects::owner;
///
/// let mut parent = ConfigMap::default();
/// parent.metadata.name = Some("settings".into());
/// parent.metadata.namespace = Some("default".into());
/// parent.metadata.uid = Some("7c9d".into());
/// let mut child = Secret::default();
/// child.metadata.namespace = Some("default".into());
/// owner::set_controller(&parent, &mut child)?;
/// assert!(owner::is_controlled_by(&child, &parent));
/// # Ok::<(), windlass_runtime::objects::owner::OwnerError>(())
/// ```
pub fn controller_reference<P: Object<DynamicType: Default>>(
    parent: &impl AsObject<P>,
) -> Result<OwnerReference, OwnerError> {
    Owner::of(parent).map(|owner| owner.reference)
}

/// Makes `parent` the controller of `child`. Fails if the child has another controller, or is in another namespace.
pub fn set_controller<P: Object<DynamicType: Default>>(
    parent: &impl AsObject<P>,
    child: &mut impl Resource,
) -> Result<(), OwnerError> {
    Owner::of(parent)?.own(child.meta_mut())
}

/// Removes the owner with this UID. Returns whether there was one.
pub fn remove(child: &mut impl Resource, uid: &str) -> bool {
    let owners = &mut child.meta_mut().owner_references;
    let Some(list) = owners else { return false };
    let before = list.len();
    list.retain(|owner| owner.uid != uid);
    let removed = list.len() < before;
    if list.is_empty() {
        *owners = None;
    }
    removed
}

/// Returns whether `parent` is an owner of `child`, controlling or not.
pub fn is_owned_by(child: &impl Resource, parent: &impl Resource) -> bool {
    let Some(uid) = parent.meta().uid.as_deref() else { return false };
    child.meta().owner_references.iter().flatten().any(|owner| owner.uid == uid)
}

/// Returns whether `parent` is the controller of `child`.
pub fn is_controlled_by(child: &impl Resource, parent: &impl Resource) -> bool {
    let Some(uid) = parent.meta().uid.as_deref() else { return false };
    controller_of(child.meta()).is_some_and(|owner| owner.uid == uid)
}

/// Returns the controller of an object.
pub fn controller_of(meta: &ObjectMeta) -> Option<&OwnerReference> {
    meta.owner_references.iter().flatten().find(|owner| owner.controller == Some(true))
}

/// Returns whether a reference is to an object of this group and kind, regardless of the version: CRDs gain versions,
/// and references keep the one they were created with.
pub fn refers_to(reference: &OwnerReference, group: &str, kind: &str) -> bool {
    let of = reference.api_version.rsplit_once('/').map_or("", |(group, _)| group);
    of == group && reference.kind == kind
}

fn key_of(meta: &ObjectMeta) -> ObjectKey {
    let name = meta.name.as_deref().or(meta.generate_name.as_deref()).unwrap_or_default();
    match meta.namespace.as_deref() {
        Some(namespace) => ObjectKey::namespaced(namespace, name),
        None => ObjectKey::cluster(name),
    }
}

#[cfg(test)]
mod tests;
