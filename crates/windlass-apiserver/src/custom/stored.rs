//! Objects that are stored exactly as they are served.

use std::sync::{Arc, atomic::Ordering};

use super::{Custom, EXPECTS_OLDER};
use crate::storage::{ResourceCache, StoredObject};

impl Custom {
    /// Returns whether an object, written under another version or schema, is certainly served as it is stored. Most
    /// objects are, and this takes much less time than [`Self::to_served_version`].
    pub(crate) fn serves_unchanged(&self, object: &StoredObject) -> bool {
        object.api_version() == self.api_version && self.compiled().schema.is_normal(object.bytes())
    }

    /// Checks all older objects. If they are stored exactly as they are served, reads return the stored bytes from then
    /// on.
    pub(crate) fn recheck_stored(&self, cache: &ResourceCache) {
        let after = self.served_as_stored_after();
        if after.0 >= EXPECTS_OLDER || after.0 == 0 {
            return;
        }
        let snapshot = cache.snapshot();
        let mut old = snapshot.objects().filter(|object| object.written <= after);
        let fits = |object: &Arc<StoredObject>| {
            if self.serves_unchanged(object) {
                return true;
            }
            let value = object.to_value();
            self.to_served_version(value.clone()) == value
        };
        if old.all(fits) {
            // This does nothing if an object was written in the meantime.
            let _ = self.served_as_stored_after.compare_exchange(after.0, 0, Ordering::AcqRel, Ordering::Relaxed);
        }
    }
}
