//! The names of all CRDs, by group.

use std::collections::HashMap;

use serde_json::Value;
use windlass_builtins::kinds::custom_resource_definition::GroupNames;
use windlass_store::Revision;

use crate::storage::{Change, ResourceCache};

/// The names that decisions are based on.
pub(super) struct Names {
    groups: HashMap<String, GroupNames>,
    /// The revision up to which they are those in the store, if other servers write to it.
    followed: Revision,
}

impl Names {
    /// Creates an index without names, to be filled with those of a revision.
    pub(super) fn new(at: Revision) -> Self {
        Self { groups: HashMap::new(), followed: at }
    }

    /// Returns the names of a group.
    pub(super) fn group(&mut self, group: &str) -> &GroupNames {
        self.groups.entry(group.to_owned()).or_default()
    }

    /// Records the names of a CRD; returns whether its accepted names differ from those recorded before.
    pub(super) fn set(&mut self, name: &str, object: &Value) -> bool {
        let group = object["spec"]["group"].as_str().unwrap_or_default();
        self.groups.entry(group.to_owned()).or_default().set(name, object)
    }

    /// Releases the names of a CRD that was deleted; returns the CRDs that may have waited for them.
    pub(super) fn remove(&mut self, name: &str) -> Vec<String> {
        let group = group_of(name);
        if let Some(names) = self.groups.get_mut(group) {
            names.remove(name);
            if names.is_empty() {
                self.groups.remove(group);
            }
        }
        self.waiting(group)
    }

    /// Returns the CRDs of a group whose names are not all accepted.
    pub(super) fn waiting(&self, group: &str) -> Vec<String> {
        self.groups.get(group).into_iter().flat_map(GroupNames::waiting).map(str::to_owned).collect()
    }

    /// Returns all CRDs with names.
    pub(super) fn definitions(&self) -> impl Iterator<Item = &str> {
        self.groups.values().flat_map(GroupNames::definitions)
    }

    /// Records the names of all CRDs that were written so far, by this server or others: a decision on a CRD must know
    /// all names that were accepted or requested before it was written. Returns the CRDs that this may affect.
    pub(super) fn follow(&mut self, cache: &ResourceCache) -> Vec<String> {
        let mut affected = Vec::new();
        loop {
            let Some(events) = cache.events_after(self.followed, usize::MAX) else { return self.reload(cache) };
            let Some(last) = events.last() else { return affected };
            self.followed = last.object.revision;
            for event in &events {
                let name = &*event.object.header.name;
                if event.change == Change::Deleted {
                    affected.extend(self.remove(name));
                } else if self.set(name, &event.object.to_value()) {
                    affected.extend(self.waiting(group_of(name)));
                }
            }
        }
    }

    /// Records the names of all CRDs again; returns those that wait for names.
    fn reload(&mut self, cache: &ResourceCache) -> Vec<String> {
        let snapshot = cache.snapshot();
        self.followed = snapshot.revision;
        self.groups.clear();
        for source in snapshot.objects() {
            self.set(&source.header.name, &source.to_value());
        }
        self.groups.values().flat_map(GroupNames::waiting).map(str::to_owned).collect()
    }
}

/// Returns the group in the name of a CRD.
fn group_of(name: &str) -> &str {
    name.split_once('.').map_or("", |(_, group)| group)
}
