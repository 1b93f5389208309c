//! Discovery with the groups of other servers: their order among the server's own groups, and their resources.

use std::{sync::Arc, time::Duration};

use http::header;
use serde_json::{Map, Value, json};
use windlass_schema::{names::compare_versions, sorting};

use super::{
    Aggregation, Entry, Routes,
    availability::aggregator,
    link::{Document, Link},
    openapi,
    priorities::{self, Priorities},
    registration,
};
use crate::{registry::Registry, server::Inner};

/// The time limit of a request for the resources of a server.
const LIMIT: Duration = Duration::from_secs(5);
const ACCEPT: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                      application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The group versions of a server and of those behind it.
pub(crate) struct Listing<'a> {
    pub(crate) registry: &'a Registry,
    aggregation: &'a Aggregation,
    routes: Arc<Routes>,
    /// The groups that are listed; all if `None`.
    only: Option<&'a [String]>,
}

/// A group with its versions in order.
pub(crate) struct ListedGroup {
    pub(crate) name: Arc<str>,
    pub(crate) versions: Vec<ListedVersion>,
}

/// A version of a group.
pub(crate) struct ListedVersion {
    pub(crate) name: Box<str>,
    priorities: Priorities,
    /// APIService of the group version, unless it is a default one.
    entry: Option<Arc<Entry>>,
}

impl ListedVersion {
    /// Returns the entry of aggregated discovery, if another server serves the version.
    pub(crate) fn remote_discovery(&self) -> Option<Value> {
        let link = self.entry.as_ref()?.link.as_ref()?;
        let resources = link.resources.load_full();
        Some(match resources {
            Some(resources) => json!({"version": &*self.name, "resources": &*resources, "freshness": "Current"}),
            None => json!({"version": &*self.name, "freshness": "Stale"}),
        })
    }
}

impl<'a> Listing<'a> {
    pub(crate) fn new(registry: &'a Registry, server: &'a Inner) -> Self {
        let aggregation = &server.aggregation;
        Self { registry, aggregation, routes: aggregation.routes(), only: server.only_groups.as_deref() }
    }

    /// Returns the groups other than the core group, in the order of `/apis`.
    pub(crate) fn groups(&self) -> Vec<ListedGroup> {
        let mut versions = self.versions(|group, version| !self.is_hidden(group, version));
        let local = self.routes.entries.values().filter(|entry| entry.link.is_none());
        for entry in local.filter(|entry| !self.registry.has_version(&entry.group, &entry.version)) {
            versions.push((entry.group.clone(), listed(&entry.version, Some(entry.clone()), &entry.group)));
        }
        versions.retain(|(group, _)| !group.is_empty());
        sorting::sort_by(&mut versions, |one, other| {
            let order = other.1.priorities.group.cmp(&one.1.priorities.group);
            order.then_with(|| name(one).cmp(name(other)))
        });
        grouped(versions)
    }

    /// Returns a group; `None` if it has no versions.
    pub(crate) fn group(&self, name: &str) -> Option<ListedGroup> {
        self.groups().into_iter().find(|group| &*group.name == name)
    }

    /// Returns the groups in the order of aggregated discovery: the core group, or all others.
    pub(crate) fn aggregated(&self, core: bool) -> Vec<ListedGroup> {
        let mut versions = self.versions(|_, _| true);
        versions.retain(|(group, _)| group.is_empty() == core);
        let mut groups = grouped(versions);
        let priority = |group: &ListedGroup| group.versions.iter().map(|version| version.priorities.group).max();
        sorting::sort_by(&mut groups, |one, other| {
            priority(other).cmp(&priority(one)).then_with(|| one.name.cmp(&other.name))
        });
        groups
    }

    /// Returns the served group versions of this server that `is_listed`, and those of all other servers.
    fn versions(&self, is_listed: impl Fn(&str, &str) -> bool) -> Vec<(Arc<str>, ListedVersion)> {
        let mut versions = Vec::new();
        let is_shown = |name: &str| self.only.is_none_or(|only| only.iter().any(|group| group == name));
        for group in self.registry.groups().filter(|group| is_shown(&group.name)) {
            let name: Arc<str> = (*group.name).into();
            for version in group.versions.iter().filter(|version| is_listed(&group.name, version)) {
                if self.routes.remote(&group.name, version).is_none() {
                    let entry = self.routes.entries.get(&*format!("{version}.{name}"));
                    versions.push((name.clone(), listed(version, entry.cloned(), &name)));
                }
            }
        }
        let remote = self.routes.remotes();
        versions.extend(remote.map(|entry| (entry.group.clone(), listed(&entry.version, Some(entry.clone()), ""))));
        versions
    }

    /// Returns whether a built-in group version has lost its APIService, which hides it until the next start.
    fn is_hidden(&self, group: &str, version: &str) -> bool {
        registration::is_required(self.registry, group, version)
            && self.aggregation.objects.get(&format!("{version}.{group}")).is_none()
    }
}

fn listed(version: &str, entry: Option<Arc<Entry>>, group: &str) -> ListedVersion {
    let priorities = entry.as_ref().map_or_else(|| priorities::of(group, version), |entry| entry.priorities);
    ListedVersion { name: version.into(), priorities, entry }
}

/// Returns the characters of an APIService's name.
fn name((group, version): &(Arc<str>, ListedVersion)) -> impl Iterator<Item = u8> {
    version.name.bytes().chain([b'.']).chain(group.bytes())
}

/// Returns the groups in the order in which they occur first, with their versions in order.
fn grouped(versions: Vec<(Arc<str>, ListedVersion)>) -> Vec<ListedGroup> {
    let mut places = std::collections::HashMap::new();
    let mut groups: Vec<ListedGroup> = Vec::new();
    for (name, version) in versions {
        let place = *places.entry(name.clone()).or_insert_with(|| {
            groups.push(ListedGroup { name, versions: Vec::new() });
            groups.len() - 1
        });
        groups[place].versions.push(version);
    }
    for group in &mut groups {
        sorting::sort_by(&mut group.versions, |one, other| {
            let order = other.priorities.version.cmp(&one.priorities.version);
            order.then_with(|| compare_versions(&other.name, &one.name))
        });
    }
    groups
}

/// Reads the resources of another server.
///
/// # Errors
/// Returns an error if the server returns none.
pub(super) async fn refresh(server: &Arc<Inner>, entry: &Entry, link: &Link) -> Result<(), String> {
    let from = &server.aggregation;
    let document = link.get(from, "/apis", &aggregator(), &[(header::ACCEPT, ACCEPT)], LIMIT).await?;
    let resources = match is_aggregated(&document) {
        true => aggregated_resources(&parse(&document)?, entry),
        false => {
            let accept = [(header::ACCEPT, "application/json")];
            let document = link.get(from, &entry.path(), &aggregator(), &accept, LIMIT).await?;
            if !document.status.is_success() {
                return Err(format!("{} answered with status {}", entry.path(), document.status.as_u16()));
            }
            from_resource_list(&parse(&document)?, entry)
        }
    };
    link.remember(resources, openapi::find(server, entry, link).await);
    Ok(())
}

fn is_aggregated(document: &Document) -> bool {
    let content_type = document.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    document.status.is_success() && content_type.contains("as=APIGroupDiscoveryList")
}

fn parse(document: &Document) -> Result<Value, String> {
    serde_json::from_slice(&document.body).map_err(|error| format!("the document of the server is not JSON: {error}"))
}

fn list<'a>(value: &'a Value, field: &str) -> &'a [Value] {
    value[field].as_array().map_or(&[], Vec::as_slice)
}

/// Returns the resources of the group version in a list of groups.
fn aggregated_resources(document: &Value, entry: &Entry) -> Value {
    let group = list(document, "items")
        .iter()
        .find(|group| group["metadata"]["name"].as_str().unwrap_or_default() == &*entry.group);
    let versions = group.map_or(&[][..], |group| list(group, "versions"));
    let version = versions.iter().find(|version| version["version"] == *entry.version);
    let mut resources = version.map_or_else(Vec::new, |version| list(version, "resources").to_vec());
    // Old clients fail without a kind.
    let nothing = || json!({"group": "", "version": "", "kind": ""});
    for resource in resources.iter_mut().filter_map(Value::as_object_mut) {
        resource.entry("responseKind").or_insert_with(nothing);
        let subresources = resource.get_mut("subresources").and_then(Value::as_array_mut).into_iter().flatten();
        for subresource in subresources.filter_map(Value::as_object_mut) {
            subresource.entry("responseKind").or_insert_with(nothing);
        }
    }
    resources.into()
}

/// Returns the resources of an APIResourceList in the form of aggregated discovery.
fn from_resource_list(document: &Value, entry: &Entry) -> Value {
    let kind = |resource: &Value| {
        let or = |field: &str, other: &str| {
            resource[field].as_str().filter(|text| !text.is_empty()).unwrap_or(other).to_owned()
        };
        json!({"group": or("group", &entry.group), "version": or("version", &entry.version), "kind": resource["kind"]})
    };
    let mut resources: Vec<Map<String, Value>> = Vec::new();
    for resource in list(document, "resources") {
        let name = resource["name"].as_str().unwrap_or_default();
        let mut listed = Map::new();
        match name.split_once('/') {
            None => {
                listed.insert("resource".to_owned(), name.into());
                let scope = if resource["namespaced"] == true { "Namespaced" } else { "Cluster" };
                listed.insert("scope".to_owned(), scope.into());
                listed.insert("singularResource".to_owned(), resource["singularName"].clone());
            }
            Some((_, subresource)) => drop(listed.insert("subresource".to_owned(), subresource.into())),
        }
        listed.insert("responseKind".to_owned(), kind(resource));
        listed.insert("verbs".to_owned(), resource["verbs"].clone());
        for field in ["shortNames", "categories"] {
            if resource[field].is_array() {
                listed.insert(field.to_owned(), resource[field].clone());
            }
        }
        match name.split_once('/') {
            None => resources.push(listed),
            Some((parent, _)) => {
                let Some(parent) = resources.iter_mut().find(|known| known["resource"] == parent) else { continue };
                let subresources = parent.entry("subresources").or_insert_with(|| json!([]));
                subresources.as_array_mut().into_iter().for_each(|all| all.push(Value::Object(listed.clone())));
            }
        }
    }
    resources.into_iter().map(Value::Object).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry() -> Entry {
        Entry {
            name: "v1.example.com".into(),
            group: "example.com".into(),
            version: "v1".into(),
            priorities: Priorities { group: 1, version: 1 },
            link: None,
            available: true,
        }
    }

    #[test]
    fn old_discovery_is_translated() {
        let document = json!({"resources": [
            {"name": "flunders", "singularName": "flunder", "namespaced": true, "kind": "Flunder", "verbs": ["get"],
             "shortNames": ["fl"]},
            {"name": "flunders/scale", "singularName": "", "namespaced": true, "kind": "Scale", "verbs": ["get"],
             "group": "autoscaling", "version": "v1"},
            {"name": "orphan/status", "kind": "Orphan", "verbs": []},
        ]});
        assert_eq!(
            from_resource_list(&document, &entry()),
            json!([{
                "resource": "flunders", "scope": "Namespaced", "singularResource": "flunder", "verbs": ["get"],
                "shortNames": ["fl"],
                "responseKind": {"group": "example.com", "version": "v1", "kind": "Flunder"},
                "subresources": [{
                    "subresource": "scale", "verbs": ["get"],
                    "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
                }],
            }])
        );
    }

    #[test]
    fn only_the_group_version_itself_is_taken_from_a_list_of_groups() {
        let version = |name: &str, resource: &str| json!({"version": name, "resources": [{"resource": resource}]});
        let document = json!({"items": [
            {"metadata": {"name": "other.com"}, "versions": [version("v1", "others")]},
            {"metadata": {"name": "example.com"}, "versions": [version("v2", "new"), version("v1", "things")]},
        ]});
        let nothing = json!({"group": "", "version": "", "kind": ""});
        assert_eq!(aggregated_resources(&document, &entry()), json!([{"resource": "things", "responseKind": nothing}]));
        assert_eq!(aggregated_resources(&json!({"items": []}), &entry()), json!([]));
    }
}
