//! What the server serves: an endpoint for each resource of each group version.
//!
//! A registry never changes. The server holds the current one behind an `ArcSwap`; a request takes it once and sees a
//! consistent picture to its end.

use std::{collections::HashMap, sync::Arc};

use serde_json::Value;
use windlass_builtins::{
    kinds::{self, autoscaler::conversion as autoscaler, event::conversion as event},
    resource::{Group, Resource, Table},
    strategy::Strategy,
};

use crate::storage::{ResourceCache, Storage};

/// A resource in a group version, with everything needed to serve it.
pub struct Endpoint {
    /// Its names, verbs and subresources.
    pub resource: &'static Resource,
    /// The types it is made of.
    pub table: &'static Table,
    /// What the schema cannot say.
    pub strategy: &'static dyn Strategy,
    /// The resource as it is stored: the same, or another version of it.
    pub stored: &'static Resource,
    /// Its objects.
    pub cache: Arc<ResourceCache>,
    /// How to get from the stored version to this one and back; `None` if they are the same.
    pub conversion: Option<&'static Conversion>,
    /// Kinds that answer a completed deletion with the object instead of a Status.
    pub returns_deleted: bool,
}

/// A pair of functions between the stored version of an object and another one.
pub struct Conversion {
    /// Stored to served.
    pub serve: fn(Value) -> Value,
    /// Served to stored.
    pub store: fn(Value) -> Value,
}

/// Endpoints by version and plural name.
type Versions = HashMap<&'static str, HashMap<&'static str, Arc<Endpoint>>>;

/// All endpoints.
pub struct Registry {
    /// The table of built-in kinds.
    pub table: &'static Table,
    groups: HashMap<&'static str, Versions>,
}

/// Core and events.k8s.io events are two views of the same objects.
static EVENT: Conversion = Conversion { serve: event::core_to_events, store: event::events_to_core };

/// The smaller, older version of autoscalers.
static AUTOSCALER: Conversion = Conversion { serve: autoscaler::v2_to_v1, store: autoscaler::v1_to_v2 };

fn conversion(resource: &Resource) -> Option<&'static Conversion> {
    match (&*resource.group, &*resource.version, &*resource.plural) {
        ("events.k8s.io", "v1", "events") => Some(&EVENT),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Some(&AUTOSCALER),
        _ => None,
    }
}

impl Registry {
    /// The built-in kinds.
    pub fn builtin(table: &'static Table, storage: &Storage) -> Self {
        let mut registry = Self { table, groups: HashMap::new() };
        for resource in &table.resources {
            let stored = stored_as(table, resource);
            let group = if stored.group.is_empty() { "core" } else { &stored.group };
            let key = (&*resource.group, &*resource.plural);
            let endpoint = Endpoint {
                resource,
                table,
                strategy: kinds::strategy(&resource.group, &resource.plural),
                stored,
                cache: storage.cache(&format!("/{group}/{}/", stored.plural)),
                conversion: conversion(resource),
                returns_deleted: resource.deletion_returns_object || key == ("", "namespaces"),
            };
            registry.insert(Arc::new(endpoint));
        }
        registry
    }

    fn insert(&mut self, endpoint: Arc<Endpoint>) {
        let resource = endpoint.resource;
        let versions = self.groups.entry(&resource.group).or_default();
        versions.entry(&resource.version).or_default().insert(&resource.plural, endpoint);
    }

    /// The groups in discovery's order.
    pub fn groups(&self) -> &[Group] {
        &self.table.groups
    }

    /// Whether a group is served at all.
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Whether a version of a group is served.
    pub fn has_version(&self, group: &str, version: &str) -> bool {
        self.groups.get(group).is_some_and(|versions| versions.contains_key(version))
    }

    /// The endpoint of a resource.
    pub fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Endpoint>> {
        self.groups.get(group)?.get(version)?.get(plural)
    }
}

/// The resource whose form is stored: events of both groups are core events, everything else is stored in the group's
/// preferred version.
fn stored_as(table: &'static Table, resource: &'static Resource) -> &'static Resource {
    let (group, version) = match (&*resource.group, &*resource.plural) {
        ("events.k8s.io", "events") => ("", "v1"),
        (group, _) => {
            let preferred = table.groups.iter().find(|have| &*have.name == group).map(|group| &*group.versions[0]);
            (group, preferred.unwrap_or(&resource.version))
        }
    };
    let same = |have: &&Resource| &*have.group == group && &*have.version == version && have.plural == resource.plural;
    table.resources.iter().find(same).unwrap_or(resource)
}

impl Endpoint {
    /// The key of an object within the cache.
    pub fn key(&self, namespace: &str, name: &str) -> String {
        if self.resource.namespaced { format!("{namespace}/{name}") } else { name.to_owned() }
    }

    /// The key of an object in the store.
    pub fn store_key(&self, key: &str) -> String {
        format!("{}{key}", self.cache.prefix())
    }

    /// A stored object in this endpoint's version.
    pub fn serve(&self, stored: Value) -> Value {
        match self.conversion {
            Some(conversion) => (conversion.serve)(stored),
            None => stored,
        }
    }

    /// An object of this endpoint's version as it is stored.
    pub fn store(&self, served: Value) -> Value {
        match self.conversion {
            Some(conversion) => (conversion.store)(served),
            None => served,
        }
    }

    /// Whether stored bytes can be sent as they are.
    pub fn serves_stored_form(&self) -> bool {
        std::ptr::eq(self.resource, self.stored)
    }
}
