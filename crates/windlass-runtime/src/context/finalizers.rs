//! Adding and removing finalizers without touching others.

use std::sync::Arc;

use kube::api::Patch;

use super::{ContextError, Kind, any_kind::AnyKind, error::Verb};
use crate::{
    any_object::{AnyObject, typed},
    key::ObjectKey,
    object::Object,
    objects::{AsObject, finalizer},
};

/// Number of attempts of a write that hit a conflict, each with the current state of the API server.
pub(super) const TRIES: usize = 5;

impl<K: Object> Kind<'_, K> {
    /// Adds a finalizer, unless the object has it. Rejected for an object that is being deleted, as by the API server.
    /// Other finalizers are kept, even if they change concurrently.
    pub async fn add_finalizer(&self, object: &impl AsObject<K>, name: &str) -> Result<Arc<K>, ContextError> {
        let object = Arc::new(object.object().clone());
        self.any().add_finalizer(object, name).await.map(typed)
    }

    /// Removes a finalizer, if the object has it. Succeeds if the object is deleted; otherwise returns its state.
    pub async fn remove_finalizer(
        &self,
        object: &impl AsObject<K>,
        name: &str,
    ) -> Result<Option<Arc<K>>, ContextError> {
        let object = Arc::new(object.object().clone());
        Ok(self.any().remove_finalizer(object, name).await?.map(typed))
    }
}

impl AnyKind<'_> {
    /// See [`Kind::add_finalizer`].
    pub(crate) async fn add_finalizer(
        &self,
        mut object: Arc<dyn AnyObject>,
        name: &str,
    ) -> Result<Arc<dyn AnyObject>, ContextError> {
        let key = ObjectKey::of_meta(object.metadata());
        for tries in 1.. {
            let patch = match finalizer::adding_to(object.metadata(), name) {
                Ok(Some(patch)) => patch,
                Ok(None) => return Ok(object),
                Err(_) => return Err(self.target(Verb::Patch, &key).lacks("time left, as it is being deleted")),
            };
            match self.patch(&key, &Patch::Merge(patch)).await {
                Err(error) if error.is_conflict() && tries < TRIES => {
                    match self.same(&key, object.metadata().uid.as_deref()).await? {
                        Some(fresh) => object = fresh,
                        None => return Err(error),
                    }
                }
                answer => return answer,
            }
        }
        unreachable!("the last try returns")
    }

    /// See [`Kind::remove_finalizer`].
    pub(crate) async fn remove_finalizer(
        &self,
        mut object: Arc<dyn AnyObject>,
        name: &str,
    ) -> Result<Option<Arc<dyn AnyObject>>, ContextError> {
        let key = ObjectKey::of_meta(object.metadata());
        for tries in 1.. {
            let Some(patch) = finalizer::removing_from(object.metadata(), name) else { return Ok(Some(object)) };
            match self.patch(&key, &Patch::Merge(patch)).await {
                Ok(object) => return Ok(Some(object)),
                Err(error) if error.is_not_found() => {
                    self.is_gone(&key, object.metadata().uid.as_deref().unwrap_or_default());
                    return Ok(None);
                }
                Err(error) if error.is_conflict() && tries < TRIES => {
                    match self.same(&key, object.metadata().uid.as_deref()).await? {
                        Some(fresh) => object = fresh,
                        None => return Ok(None),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }
}
