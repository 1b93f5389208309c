//! Discovery: groups, versions and resources, in the old form and in the aggregated one.

use http::{HeaderMap, HeaderValue, Response, StatusCode, Uri, header};
use serde_json::{Value, json};
use windlass_builtins::{resource::Subresource, verb::Verb};
use windlass_schema::sorting;
use windlass_schema::{json as go_json, types::Str};

use crate::{
    aggregation::{ListedGroup, Listing},
    body::Body,
    entity_tag::EntityTag,
    health, negotiate,
    registry::Registry,
    represent,
    status::{ApiError, Result},
};

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Answers `/api`, `/apis` and the paths below them down to a group version.
pub(crate) fn answer(listing: &Listing<'_>, path: &str, headers: &HeaderMap, uri: &Uri) -> Result<Response<Body>> {
    let registry = listing.registry;
    let segments: Vec<&str> = path.split('/').skip(1).collect();
    let value = match segments.as_slice() {
        ["api"] | ["apis"] => {
            let core = segments[0] == "api";
            if negotiate::wants_aggregated_discovery(headers)? {
                return tagged(&aggregated(listing, core), headers, uri);
            }
            if core { api_versions() } else { group_list(listing) }
        }
        ["api", version] if registry.has_version("", version) => resource_list(registry, "", version),
        ["apis", name] => match listing.group(name) {
            Some(found) => group(&found),
            None => return Err(ApiError::page_not_found()),
        },
        ["apis", group, version] if registry.has_version(group, version) => resource_list(registry, group, version),
        ["apis", group, _] if !registry.has_builtin_group(group) => return Err(ApiError::page_not_found()),
        ["api" | "apis", ..] => return Err(ApiError::no_such_resource()),
        _ => return Err(ApiError::page_not_found()),
    };
    if segments.len() > 1 {
        negotiate::accept_untransformed(headers)?;
    }
    represent::value(headers, uri, StatusCode::OK, &value)
}

/// Responds with the aggregated form, unless the client has it already.
fn tagged(value: &Value, headers: &HeaderMap, uri: &Uri) -> Result<Response<Body>> {
    let tag = EntityTag::of(&go_json::encode(value));
    let mut response = match tag.is_known(headers) {
        true => tag.not_modified(),
        false => {
            let mut response = represent::value_as(headers, uri, StatusCode::OK, value, AGGREGATED)?;
            tag.add_to(response.headers_mut());
            response
        }
    };
    response.headers_mut().insert(header::CACHE_CONTROL, HeaderValue::from_static("public"));
    Ok(response)
}

/// Returns the response to `/`: the served paths.
pub(crate) fn paths(listing: &Listing<'_>) -> Value {
    let mut paths = vec![
        "/.well-known/openid-configuration".to_owned(),
        "/api".to_owned(),
        "/api/v1".to_owned(),
        "/apis".to_owned(),
        "/apis/".to_owned(),
    ];
    for group in listing.groups() {
        paths.push(format!("/apis/{}", group.name));
        paths.extend(group.versions.iter().map(|version| format!("/apis/{}/{}", group.name, version.name)));
    }
    let rest = [
        "/flagz",
        "/metrics",
        "/openapi/v2",
        "/openapi/v3",
        "/openid/v1/jwks",
        "/statusz",
        "/version",
        "/windlass/snapshot",
    ];
    paths.extend(health::paths().chain(rest.map(str::to_owned)));
    sorting::sort_by_key(&mut paths, String::clone);
    json!({"paths": paths})
}

fn api_versions() -> Value {
    json!({
        "kind": "APIVersions", "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": ""}],
    })
}

fn group_list(listing: &Listing<'_>) -> Value {
    let groups: Vec<Value> = listing
        .groups()
        .iter()
        .map(|found| {
            let mut value = group(found);
            let map = value.as_object_mut().expect("a group must be an object");
            map.remove("kind");
            map.remove("apiVersion");
            value
        })
        .collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

fn group(group: &ListedGroup) -> Value {
    let version = |version: &str| json!({"groupVersion": format!("{}/{version}", group.name), "version": version});
    let versions: Vec<Value> = group.versions.iter().map(|listed| version(&listed.name)).collect();
    json!({
        "kind": "APIGroup", "apiVersion": "v1", "name": &*group.name,
        "preferredVersion": versions[0], "versions": versions,
    })
}

fn resource_list(registry: &Registry, group: &str, version: &str) -> Value {
    let mut entries = Vec::new();
    for resource in registry.resources(group, version) {
        let mut entry = json!({
            "name": &*resource.plural, "singularName": &*resource.singular, "namespaced": resource.namespaced,
            "kind": &*resource.kind, "verbs": names(&resource.verbs),
        });
        if !resource.short_names.is_empty() {
            entry["shortNames"] = texts(&resource.short_names);
        }
        if !resource.categories.is_empty() {
            entry["categories"] = texts(&resource.categories);
        }
        if !resource.storage_version_hash.is_empty() {
            entry["storageVersionHash"] = json!(&*resource.storage_version_hash);
        }
        entries.push(entry);
        for sub in &resource.subresources {
            let mut entry = json!({
                "name": format!("{}/{}", resource.plural, sub.name), "singularName": "",
                "namespaced": resource.namespaced, "kind": &*sub.kind, "verbs": names(&sub.verbs),
            });
            if !sub.version.is_empty() {
                entry["group"] = json!(&*sub.group);
                entry["version"] = json!(&*sub.version);
                if sub.group.is_empty() {
                    entry.as_object_mut().expect("an entry must be an object").remove("group");
                }
            }
            entries.push(entry);
        }
    }
    // Custom resources list status before scale, in the order of their CustomResourceDefinition.
    if registry.has_builtin_group(group) {
        sorting::sort_by(&mut entries, |a, b| a["name"].as_str().cmp(&b["name"].as_str()));
    }
    let group_version = if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") };
    let mut list = json!({"kind": "APIResourceList", "groupVersion": group_version, "resources": entries});
    if !group.is_empty() {
        list["apiVersion"] = "v1".into();
    }
    list
}

fn aggregated(listing: &Listing<'_>, core: bool) -> Value {
    let items: Vec<Value> = listing
        .aggregated(core)
        .iter()
        .map(|group| {
            let own = |version: &str| aggregated_version(listing.registry, &group.name, version);
            let versions = group.versions.iter();
            let versions: Vec<Value> =
                versions.map(|version| version.remote_discovery().unwrap_or_else(|| own(&version.name))).collect();
            let metadata = if core { json!({}) } else { json!({"name": &*group.name}) };
            json!({"metadata": metadata, "versions": versions})
        })
        .collect();
    json!({"kind": "APIGroupDiscoveryList", "apiVersion": "apidiscovery.k8s.io/v2", "metadata": {}, "items": items})
}

fn aggregated_version(registry: &Registry, group: &str, version: &str) -> Value {
    let mut entries: Vec<Value> = registry
        .resources(group, version)
        .into_iter()
        .map(|resource| {
            let mut entry = json!({
                "resource": &*resource.plural,
                "responseKind": {"group": "", "version": "", "kind": &*resource.kind},
                "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
                "singularResource": &*resource.singular,
                "verbs": names(&resource.verbs),
            });
            if !resource.short_names.is_empty() {
                entry["shortNames"] = texts(&resource.short_names);
            }
            if !resource.categories.is_empty() {
                entry["categories"] = texts(&resource.categories);
            }
            if !resource.subresources.is_empty() {
                entry["subresources"] = resource.subresources.iter().map(aggregated_subresource).collect();
            }
            entry
        })
        .collect();
    sorting::sort_by(&mut entries, |a, b| a["resource"].as_str().cmp(&b["resource"].as_str()));
    json!({"version": version, "resources": entries, "freshness": "Current"})
}

fn aggregated_subresource(sub: &Subresource) -> Value {
    json!({
        "subresource": &*sub.name,
        "responseKind": {"group": &*sub.group, "version": &*sub.version, "kind": &*sub.kind},
        "verbs": names(&sub.verbs),
    })
}

fn names(verbs: &[Verb]) -> Value {
    verbs.iter().map(|verb| Value::from(verb.as_str())).collect()
}

fn texts(list: &[Str]) -> Value {
    list.iter().map(|text| Value::from(&**text)).collect()
}
