//! Finalizers: added and removed without touching anybody else's.

use std::sync::Arc;

use kube::api::Patch;

use super::{ContextError, Kind, error::Verb};
use crate::{
    key::ObjectKey,
    object::Object,
    objects::{AsObject, finalizer},
};

/// How often a write that lost a race is tried, each time with the server's state.
pub(super) const TRIES: usize = 5;

impl<K: Object> Kind<'_, K> {
    /// Adds a finalizer, if the object has it not. Refused for an object that is being deleted, as by the server.
    /// Other finalizers stay whoever changes them meanwhile.
    pub async fn add_finalizer(&self, object: &impl AsObject<K>, name: &str) -> Result<Arc<K>, ContextError> {
        let mut object = Arc::new(object.object().clone());
        let key = ObjectKey::of(object.as_ref());
        for tries in 1.. {
            let patch = match finalizer::adding(object.as_ref(), name) {
                Ok(Some(patch)) => patch,
                Ok(None) => return Ok(object),
                Err(_) => return Err(self.target(Verb::Patch, &key).lacks("life left: it is being deleted")),
            };
            match self.patch(&key, &Patch::Merge(patch)).await {
                Err(error) if error.is_conflict() && tries < TRIES => match self.same(&key, object.as_ref()).await? {
                    Some(fresh) => object = fresh,
                    None => return Err(error),
                },
                answer => return answer,
            }
        }
        unreachable!("the last try returns")
    }

    /// Removes a finalizer, if the object has it. Succeeds if the object is gone; answers its state if it is not.
    pub async fn remove_finalizer(
        &self,
        object: &impl AsObject<K>,
        name: &str,
    ) -> Result<Option<Arc<K>>, ContextError> {
        let mut object = Arc::new(object.object().clone());
        let key = ObjectKey::of(object.as_ref());
        for tries in 1.. {
            let Some(patch) = finalizer::removing(object.as_ref(), name) else { return Ok(Some(object)) };
            match self.patch(&key, &Patch::Merge(patch)).await {
                Ok(object) => return Ok(Some(object)),
                Err(error) if error.is_not_found() => {
                    let uid = object.meta().uid.as_deref().unwrap_or_default();
                    self.context.parts.caches.deleted::<K>(&self.dynamic, &key, uid);
                    return Ok(None);
                }
                Err(error) if error.is_conflict() && tries < TRIES => match self.same(&key, object.as_ref()).await? {
                    Some(fresh) => object = fresh,
                    None => return Ok(None),
                },
                Err(error) => return Err(error),
            }
        }
        unreachable!("the last try returns")
    }

    /// The server's state of an object, if it is still the same one.
    pub(super) async fn same(&self, key: &ObjectKey, object: &K) -> Result<Option<Arc<K>>, ContextError> {
        let fresh = self.live_get(key).await?;
        Ok(fresh.filter(|fresh| fresh.meta().uid == object.meta().uid).map(Arc::new))
    }
}
