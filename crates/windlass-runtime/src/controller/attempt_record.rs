//! Record of what an attempt has read and written of its own object.
//!
//! A status that a failing attempt sets, or its error hook, is an event like any other, and would trigger the next attempt
//! at once, without backoff. The record tells whether the object has changed in any other way.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use parking_lot::Mutex;
use serde_json::Value;

use crate::{
    any_object::{AnyObject, value_of},
    controller::OwnChanges,
    object::revision,
};

/// The record of an attempt. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct AttemptRecord {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    /// The object as it was when the attempt began.
    seen: Option<Arc<dyn AnyObject>>,
    writes: u32,
    up_to: u64,
}

impl AttemptRecord {
    /// Records the object that the attempt reconciles.
    pub(crate) fn saw(&self, object: &Arc<dyn AnyObject>) {
        self.state.lock().seen = Some(object.clone());
    }

    /// Records the response to a write of any object.
    pub(crate) fn wrote(&self, written: &ObjectMeta) {
        let mut state = self.state.lock();
        if let Some(seen) = &state.seen
            && seen.metadata().uid == written.uid
        {
            // A write that changed nothing has no event; counting it is harmless.
            state.writes += 1;
            state.up_to = state.up_to.max(revision(written));
        }
    }

    /// Returns the changes by the attempt, if the object has only a new status since it began.
    pub(crate) fn own_changes(&self, now: &dyn AnyObject) -> Option<OwnChanges> {
        let state = self.state.lock();
        let seen = state.seen.as_ref().filter(|_| state.writes > 0)?;
        let same = without_status(&**seen)? == without_status(now)?;
        same.then_some(OwnChanges { writes: state.writes, up_to: state.up_to })
    }
}

/// Returns everything but the status, and fields that change with every write.
fn without_status(object: &dyn AnyObject) -> Option<Value> {
    let mut value = value_of(object).ok()?;
    value.as_object_mut()?.remove("status");
    let metadata = value.get_mut("metadata")?.as_object_mut()?;
    metadata.remove("resourceVersion");
    metadata.remove("managedFields");
    Some(value)
}

#[cfg(test)]
mod tests {
    use k8s_openapi::api::core::v1::Pod;

    use super::*;

    fn pod(uid: &str, version: &str) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.uid = Some(uid.into());
        pod.metadata.resource_version = Some(version.into());
        pod
    }

    #[test]
    fn only_writes_that_change_nothing_but_the_status_of_the_object_count() {
        let record = AttemptRecord::default();
        let seen: Arc<dyn AnyObject> = Arc::new(pod("a", "1"));
        record.wrote(&pod("a", "2").metadata);
        record.saw(&seen);
        let mut now = pod("a", "3");
        assert_eq!(record.own_changes(&now), None, "nothing was written");
        record.wrote(&pod("b", "2").metadata);
        assert_eq!(record.own_changes(&now), None, "another object was written");
        record.wrote(&now.metadata);
        now.status.get_or_insert_default().phase = Some("Failed".into());
        assert_eq!(record.own_changes(&now), Some(OwnChanges { writes: 1, up_to: 3 }));
        now.metadata.labels = Some([("changed".to_owned(), "by a user".to_owned())].into());
        assert_eq!(record.own_changes(&now), None);
    }
}
