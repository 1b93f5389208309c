//! The objects that a plan has written.

use std::{collections::BTreeMap, sync::Arc};

use hashbrown::HashMap;
use parking_lot::Mutex;
use serde_json::Value;

use super::{PlannedAction, PlannedChange, diff};

/// Resource versions of planned states: greater than those of any API server, so that caches show these states from
/// then on.
const FIRST_REVISION: u64 = 1 << 62;

/// The objects that a plan has written, by path.
#[derive(Default)]
pub(super) struct PlannedState {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    objects: HashMap<String, PlannedObject>,
    /// Paths in the order of their first write.
    order: Vec<String>,
    calls: Vec<PlannedChange>,
    revisions: u64,
    /// Number of generated names.
    names: u64,
}

/// A written object.
#[derive(Clone, Debug, Default)]
pub(super) struct PlannedObject {
    /// The stored state, without the plan.
    pub(super) live: Option<Value>,
    /// The state after it.
    pub(super) planned: Option<Value>,
    /// Whether the planned object is another than the stored one.
    pub(super) detached: bool,
    /// Whether the stored state could not be read.
    pub(super) is_unknown: bool,
    /// What each field manager has applied last to the object or its status: the result, or the configuration if the API
    /// server does not know the object.
    pub(super) applied: BTreeMap<Applier, Value>,
    pub(super) controller: Option<Arc<str>>,
}

/// A field manager, and the subresource that it applies to.
pub(super) type Applier = (String, Option<String>);

impl PlannedObject {
    /// Returns whether the API server does not know the planned object, so that writes are evaluated here.
    pub(super) fn is_only_planned(&self) -> bool {
        self.planned.is_some() && (self.live.is_none() || self.detached)
    }

    /// Returns the resource versions of the planned and of the stored state.
    pub(super) fn revisions(&self) -> Option<(&str, &str)> {
        Some((revision(self.planned.as_ref()?)?, revision(self.live.as_ref()?)?))
    }
}

/// Returns the resource version of an object.
pub(super) fn revision(object: &Value) -> Option<&str> {
    object["metadata"]["resourceVersion"].as_str()
}

impl PlannedState {
    pub(super) fn get(&self, path: &str) -> Option<PlannedObject> {
        self.inner.lock().objects.get(path).cloned()
    }

    /// Stores the state of an object. Returns it with a new resource version.
    pub(super) fn store(&self, path: &str, mut object: PlannedObject) -> Option<Value> {
        let mut inner = self.inner.lock();
        inner.revisions += 1;
        let revision = FIRST_REVISION + inner.revisions;
        if let Some(meta) = object.planned.as_mut().and_then(|planned| planned.get_mut("metadata"))
            && let Some(meta) = meta.as_object_mut()
        {
            meta.insert("resourceVersion".to_owned(), revision.to_string().into());
            // Caches ignore objects without one.
            meta.entry("uid").or_insert_with(|| format!("planned-{revision}").into());
        }
        let planned = object.planned.clone();
        match inner.objects.get_mut(path) {
            Some(present) => {
                object.controller = present.controller.take().or(object.controller);
                *present = object;
            }
            None => {
                inner.order.push(path.to_owned());
                inner.objects.insert(path.to_owned(), object);
            }
        }
        planned
    }

    /// Returns another number for each generated name.
    pub(super) fn next_number(&self) -> u64 {
        let mut inner = self.inner.lock();
        inner.names += 1;
        inner.names
    }

    /// Records the call of a subresource.
    pub(super) fn called(&self, call: PlannedChange) {
        self.inner.lock().calls.push(call);
    }

    /// Returns the changes whose fields are all those of the object, as its stored state could not be read.
    pub(super) fn unknown(&self) -> Vec<PlannedChange> {
        let inner = self.inner.lock();
        let objects = inner.order.iter().filter_map(|path| inner.objects.get(path));
        objects.filter(|object| object.is_unknown).filter_map(change).collect()
    }

    /// Returns all changes.
    pub(super) fn changes(&self) -> Vec<PlannedChange> {
        let inner = self.inner.lock();
        let objects = inner.order.iter().filter_map(|path| change(inner.objects.get(path)?));
        objects.chain(inner.calls.iter().cloned()).collect()
    }
}

fn change(object: &PlannedObject) -> Option<PlannedChange> {
    let PlannedObject { live, planned, controller, .. } = object;
    let known = planned.as_ref().or(live.as_ref())?;
    let begins_to_end =
        |state: &Option<Value>| state.as_ref().is_some_and(|state| !state["metadata"]["deletionTimestamp"].is_null());
    let fields = diff::fields(live.as_ref(), planned.as_ref());
    let action = match (live, planned) {
        (None, _) => PlannedAction::Create,
        (Some(_), None) => PlannedAction::Delete,
        _ if begins_to_end(planned) && !begins_to_end(live) => PlannedAction::Delete,
        _ if fields.is_empty() => return None,
        _ => PlannedAction::Update,
    };
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    Some(PlannedChange {
        action,
        api_version: text(&known["apiVersion"]),
        kind: text(&known["kind"]),
        namespace: known["metadata"]["namespace"].as_str().map(str::to_owned),
        name: text(&known["metadata"]["name"]),
        controller: controller.as_deref().map(str::to_owned),
        fields,
    })
}
