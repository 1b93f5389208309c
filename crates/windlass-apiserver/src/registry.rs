//! The registry: an endpoint for each resource of each group version.
//!
//! A registry is immutable. The server holds the current one behind an `ArcSwap`; a request loads it once and sees a
//! consistent state until its end. Each change of a CustomResourceDefinition creates a new registry, which shares all
//! but the changed group with the previous one.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use imbl::OrdMap;
use windlass_builtins::{
    kinds::{self, event::conversion as event, horizontal_pod_autoscaler::conversion as autoscaler},
    resource::{Group, Resource, Table},
};

pub(crate) use crate::endpoint::{Conversion, Endpoint};
use windlass_schema::sorting;

use crate::{
    definitions,
    endpoint::Form,
    metrics::UsualSeries,
    old_definitions, runtime_config,
    storage::{ResourceCache, Storage},
};

/// Built-in endpoints by version and plural name.
type Versions = HashMap<&'static str, HashMap<&'static str, Arc<Endpoint>>>;

/// All endpoints.
#[derive(Clone)]
pub(crate) struct Registry {
    /// The table of built-in kinds.
    pub(crate) table: &'static Table,
    builtin: Arc<HashMap<&'static str, Versions>>,
    /// The groups of built-in kinds.
    groups: Arc<[Group]>,
    /// CustomResourceDefinitions in `v1beta1`, if that is served.
    old_definitions: Option<Arc<Endpoint>>,
    custom: OrdMap<Arc<str>, Arc<CustomGroup>>,
    /// The number of changes so far.
    pub(crate) generation: u64,
}

/// The custom resources of a group.
#[derive(Clone)]
struct CustomGroup {
    /// The group's discovery entry.
    group: Group,
    /// By version and plural name.
    endpoints: OrdMap<String, OrdMap<String, Arc<Endpoint>>>,
}

/// Core and events.k8s.io events are two views of the same objects.
static EVENT: Conversion =
    Conversion { to_served_version: event::core_to_events, to_storage_version: event::events_to_core };

/// `autoscaling/v1` is a smaller view of `v2` autoscalers.
static AUTOSCALER: Conversion =
    Conversion { to_served_version: autoscaler::v2_to_v1, to_storage_version: autoscaler::v1_to_v2 };

fn form(resource: &Resource) -> Form {
    match (&*resource.group, &*resource.version, &*resource.plural) {
        ("events.k8s.io", "v1", "events") => Form::Converted(&EVENT),
        ("autoscaling", "v1", "horizontalpodautoscalers") => Form::Converted(&AUTOSCALER),
        _ if runtime_config::base_of(resource).is_some() => Form::View,
        _ => Form::Stored,
    }
}

impl Registry {
    /// Returns a registry of the built-in kinds.
    pub(crate) fn builtin(table: &'static Table, storage: &Storage) -> Self {
        let mut groups: HashMap<&'static str, Versions> = HashMap::new();
        for resource in &table.resources {
            let stored = stored_as(table, resource);
            let group = if stored.group.is_empty() { "core" } else { &stored.group };
            let cache: Arc<ResourceCache> = storage.cache(&format!("/{group}/{}/", stored.plural));
            let key = (&*resource.group, &*resource.plural);
            let endpoint = Endpoint {
                resource: Arc::new(resource.clone()),
                table,
                strategy: kinds::strategy(&resource.group, &resource.plural),
                facts: kinds::facts(&resource.group, &resource.plural),
                stored: Arc::new(stored),
                cache,
                form: form(resource),
                returns_deleted: resource.deletion_returns_object || key == ("", "namespaces"),
                empty: OnceLock::new(),
                usual: UsualSeries::default(),
            };
            let versions = groups.entry(&resource.group).or_default();
            versions.entry(&resource.version).or_default().insert(&resource.plural, Arc::new(endpoint));
        }
        Self {
            table,
            builtin: Arc::new(groups),
            groups: table.groups.clone().into(),
            old_definitions: None,
            custom: OrdMap::new(),
            generation: 0,
        }
    }

    /// Adds CustomResourceDefinitions in `v1beta1`.
    pub(crate) fn with_old_definitions(mut self) -> Self {
        if let Some(current) = self.endpoint(definitions::GROUP, "v1", definitions::PLURAL) {
            self.old_definitions = Some(Arc::new(old_definitions::endpoint(current)));
            let mut groups = self.groups.to_vec();
            for group in groups.iter_mut().filter(|group| &*group.name == definitions::GROUP) {
                group.versions.push(old_definitions::VERSION.into());
            }
            self.groups = groups.into();
        }
        self
    }

    /// Returns the endpoint of `v1beta1` CustomResourceDefinitions, if it is served and this is its group version.
    fn old_definitions(&self, group: &str, version: &str) -> Option<&Arc<Endpoint>> {
        self.old_definitions.as_ref().filter(|_| old_definitions::is_version(group, version))
    }

    /// Replaces the endpoints of a custom resource; no endpoints remove it.
    pub(crate) fn replace_custom(&mut self, group: &str, plural: &str, endpoints: &[Arc<Endpoint>]) {
        self.generation += 1;
        let mut changed = match self.custom.get(group) {
            Some(group) => (**group).clone(),
            None => CustomGroup {
                group: Group { name: group.to_owned().into(), versions: Vec::new() },
                endpoints: OrdMap::new(),
            },
        };
        let having = changed.endpoints.iter().filter(|(_, resources)| resources.contains_key(plural));
        let having: Vec<String> = having.map(|(version, _)| version.clone()).collect();
        for version in having {
            let mut resources = changed.endpoints.remove(&version).unwrap_or_default();
            resources.remove(plural);
            if !resources.is_empty() {
                changed.endpoints.insert(version, resources);
            }
        }
        for endpoint in endpoints {
            let version = endpoint.resource.version.to_string();
            let mut resources = changed.endpoints.remove(&version).unwrap_or_default();
            resources.insert(plural.to_owned(), endpoint.clone());
            changed.endpoints.insert(version, resources);
        }
        if changed.endpoints.is_empty() {
            self.custom.remove(group);
            return;
        }
        let mut versions: Vec<&String> = changed.endpoints.keys().collect();
        sorting::sort_by(&mut versions, |a, b| windlass_schema::names::compare_versions(b, a));
        // In a built-in group, the built-in versions come first.
        let builtin = self.groups.iter().find(|have| &*have.name == group);
        let mut all = builtin.map(|group| group.versions.clone()).unwrap_or_default();
        for version in versions {
            if all.iter().all(|have| &**have != version.as_str()) {
                all.push(version.clone().into());
            }
        }
        changed.group.versions = all;
        self.custom.insert(group.into(), Arc::new(changed));
    }

    /// Returns the groups in the order of discovery.
    pub(crate) fn groups(&self) -> impl Iterator<Item = &Group> {
        let custom = self.custom.values().map(|custom| &custom.group);
        let builtin = self.groups.iter().map(|group| self.custom.get(&*group.name).map_or(group, |both| &both.group));
        builtin.chain(custom.filter(|group| !self.builtin.contains_key(&*group.name)))
    }

    /// Returns whether a version of a group has built-in kinds.
    pub(crate) fn has_builtin_version(&self, group: &str, version: &str) -> bool {
        self.builtin.get(group).is_some_and(|versions| versions.contains_key(version))
    }

    /// Returns whether a group is one of the built-in ones.
    pub(crate) fn has_builtin_group(&self, group: &str) -> bool {
        self.builtin.contains_key(group)
    }

    /// Returns whether a version of a group is served.
    pub(crate) fn has_version(&self, group: &str, version: &str) -> bool {
        self.builtin.get(group).is_some_and(|versions| versions.contains_key(version))
            || self.custom.get(group).is_some_and(|custom| custom.endpoints.contains_key(version))
            || self.old_definitions(group, version).is_some()
    }

    /// Returns the endpoint of a resource.
    pub(crate) fn endpoint(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<Endpoint>> {
        let builtin = self.builtin.get(group).and_then(|versions| versions.get(version)?.get(plural));
        let custom = || self.custom.get(group)?.endpoints.get(version)?.get(plural);
        let old = || self.old_definitions(group, version).filter(|_| plural == definitions::PLURAL);
        builtin.or_else(custom).or_else(old)
    }

    /// Returns the resources of a group version: the built-in ones in the order of discovery, or the custom ones.
    pub(crate) fn resources(&self, group: &str, version: &str) -> Vec<&Resource> {
        let of_version = |resource: &&Resource| &*resource.group == group && &*resource.version == version;
        let builtin = self.table.resources.iter().filter(of_version);
        let endpoints = self.custom_endpoints(group, version).chain(self.old_definitions(group, version));
        builtin.chain(endpoints.map(|endpoint| &*endpoint.resource)).collect()
    }

    /// Returns the custom resources of a group version.
    pub(crate) fn custom_endpoints(&self, group: &str, version: &str) -> impl Iterator<Item = &Arc<Endpoint>> {
        let resources = self.custom.get(group).and_then(|custom| custom.endpoints.get(version));
        resources.into_iter().flat_map(OrdMap::values)
    }

    /// Returns whether the objects of a group version are computed.
    pub(crate) fn is_computed(&self, group: &str, version: &str) -> bool {
        let mut customs = self.custom_endpoints(group, version).filter_map(|endpoint| endpoint.custom());
        customs.any(|custom| custom.computed.is_some())
    }

    /// Returns the versions of a custom resource.
    pub(crate) fn versions_of(&self, group: &str, plural: &str) -> impl Iterator<Item = &Arc<Endpoint>> {
        let versions = self.custom.get(group).into_iter().flat_map(|custom| custom.endpoints.values());
        versions.filter_map(move |resources| resources.get(plural))
    }

    /// Returns all versions of a resource, in all groups.
    pub(crate) fn equivalents<'a>(&'a self, endpoint: &'a Endpoint) -> impl Iterator<Item = &'a Arc<Endpoint>> {
        let resource = &*endpoint.resource;
        let versions = self.builtin.values().flat_map(HashMap::values);
        let builtin = versions.filter_map(|resources| resources.get(&*resource.plural));
        let builtin = builtin.filter(|other| Arc::ptr_eq(&other.cache, &endpoint.cache));
        builtin.chain(self.versions_of(&resource.group, &resource.plural))
    }

    /// Returns all group versions with custom resources.
    pub(crate) fn custom_versions(&self) -> impl Iterator<Item = (&str, &str)> {
        self.custom
            .iter()
            .flat_map(|(group, custom)| custom.endpoints.keys().map(move |version| (&**group, version.as_str())))
    }
}

/// Returns the resource in its storage version: events of both groups are stored as core events, views in the version that
/// they are views of, whether it is served or not, and all other resources in the preferred version of their group.
fn stored_as(table: &'static Table, resource: &'static Resource) -> Resource {
    let base = runtime_config::base_of(resource);
    let (group, version) = match (&*resource.group, &*resource.plural) {
        ("events.k8s.io", "events") => ("", "v1"),
        (group, _) => {
            let preferred = table.groups.iter().find(|have| &*have.name == group).map(|group| &*group.versions[0]);
            (group, base.or(preferred).unwrap_or(&resource.version))
        }
    };
    let same = |have: &&Resource| &*have.group == group && &*have.version == version && have.plural == resource.plural;
    match (table.resources.iter().find(same), base) {
        (Some(stored), _) => stored.clone(),
        (None, Some(base)) => Resource { version: base.into(), ..resource.clone() },
        (None, None) => resource.clone(),
    }
}
