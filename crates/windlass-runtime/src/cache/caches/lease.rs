//! Informers that end with their users.

use std::sync::{Arc, Weak, atomic::Ordering};

use super::{Caches, InformerKey, Inner};
use crate::{
    cache::any_informer::{AnyInformer, WatchTarget},
    object::Object,
    scope::Scope,
};

/// A share of an informer. When the last one is dropped, the informer ends, unless something else uses it.
pub(crate) struct InformerLease {
    caches: Weak<Inner>,
    key: InformerKey,
    informer: Arc<AnyInformer>,
}

impl Caches {
    /// Returns the informer of a kind for as long as the lease is held, and starts it if needed.
    pub(crate) fn lease<K: Object>(
        &self,
        dynamic: &K::DynamicType,
        scope: &Scope,
    ) -> (Arc<AnyInformer>, InformerLease) {
        let target = WatchTarget::of::<K>(dynamic, scope.clone());
        let key = target.key();
        let informer = self.inner.informer_for(target, &|running| {
            running.leases.fetch_add(1, Ordering::Relaxed);
        });
        let lease = InformerLease { caches: Arc::downgrade(&self.inner), key, informer: informer.clone() };
        (informer, lease)
    }
}

impl Drop for InformerLease {
    fn drop(&mut self) {
        let Some(caches) = self.caches.upgrade() else { return };
        caches.remove(&self.key, |running| {
            // It may have been removed and started again in the meantime.
            Arc::ptr_eq(&running.informer, &self.informer)
                && running.leases.fetch_sub(1, Ordering::Relaxed) == 1
                && !running.pinned.load(Ordering::Relaxed)
        });
    }
}
