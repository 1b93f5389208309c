//! Discovery of the resources that a server serves.

use std::{collections::HashMap, sync::Arc};

use kube::{Client, core::ApiResource};
use serde::Deserialize;

/// Media type of aggregated discovery, which returns everything in one response.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A resource in one version.
#[derive(Debug, Clone)]
pub(super) struct ServedResource {
    pub(super) resource: ApiResource,
    pub(super) namespaced: bool,
    /// Whether this is the preferred version.
    pub(super) preferred: bool,
    verbs: Vec<String>,
}

/// All served resources.
#[derive(Debug, Default)]
pub(super) struct Served {
    pub(super) resources: Vec<ServedResource>,
    /// Group versions of aggregated API servers that do not respond: their resources are unknown.
    pub(super) unknown: Vec<String>,
    /// Indices into `resources`, by API version and kind.
    kinds: HashMap<(String, String), usize>,
}

impl ServedResource {
    pub(super) fn has(&self, verb: &str) -> bool {
        self.verbs.iter().any(|have| have == verb)
    }
}

impl Served {
    /// Fetches the served resources.
    pub(super) async fn fetch(client: &Client) -> Result<Arc<Self>, kube::Error> {
        let ask = async |path: &str| {
            let request = http::Request::get(path).header(http::header::ACCEPT, AGGREGATED).body(Vec::new());
            let request = request.map_err(|error| kube::Error::Service(error.into()))?;
            client.request::<List<Group>>(request).await
        };
        let (core, named) = futures_util::future::try_join(ask("/api"), ask("/apis")).await?;
        Ok(Arc::new(Self::new(core.items.into_iter().chain(named.items))))
    }

    /// Returns the resource of a kind.
    pub(super) fn find(&self, api_version: &str, kind: &str) -> Option<&ServedResource> {
        // Owned keys are good enough for the few lookups.
        self.kinds.get(&(api_version.to_owned(), kind.to_owned())).map(|&at| &self.resources[at])
    }

    /// The preferred versions of the resources that support all these verbs.
    pub(super) fn preferred<'a>(&'a self, verbs: &'a [&str]) -> impl Iterator<Item = &'a ServedResource> {
        self.resources.iter().filter(|one| one.preferred && verbs.iter().all(|verb| one.has(verb)))
    }

    fn new(groups: impl Iterator<Item = Group>) -> Self {
        let mut served = Self::default();
        for group in groups {
            let name = group.metadata.name;
            let first = served.resources.len();
            for version in group.versions {
                let api_version =
                    if name.is_empty() { version.version.clone() } else { format!("{name}/{}", version.version) };
                if version.freshness.as_deref() == Some("Stale") {
                    served.unknown.push(api_version.clone());
                }
                for Resource { resource: plural, response_kind, scope, verbs } in version.resources {
                    let known = served.resources[first..].iter().any(|other| other.resource.plural == plural);
                    let Some(ResponseKind { kind }) = response_kind.filter(|kind| !kind.kind.is_empty()) else {
                        continue;
                    };
                    served.kinds.entry((api_version.clone(), kind.clone())).or_insert(served.resources.len());
                    served.resources.push(ServedResource {
                        resource: ApiResource {
                            group: name.clone(),
                            version: version.version.clone(),
                            api_version: api_version.clone(),
                            kind,
                            plural,
                        },
                        namespaced: scope == "Namespaced",
                        preferred: !known,
                        verbs,
                    });
                }
            }
        }
        served
    }
}

#[derive(Deserialize)]
struct List<T> {
    #[serde(default = "Vec::new")]
    items: Vec<T>,
}

#[derive(Deserialize)]
struct Group {
    #[serde(default)]
    metadata: Name,
    #[serde(default)]
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
struct Name {
    #[serde(default)]
    name: String,
}

#[derive(Deserialize)]
struct Version {
    version: String,
    #[serde(default)]
    resources: Vec<Resource>,
    freshness: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: Option<ResponseKind>,
    #[serde(default)]
    scope: String,
    #[serde(default)]
    verbs: Vec<String>,
}

#[derive(Deserialize)]
struct ResponseKind {
    #[serde(default)]
    kind: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn served(groups: serde_json::Value) -> Served {
        let groups: Vec<Group> = serde_json::from_value(groups).unwrap();
        Served::new(groups.into_iter())
    }

    #[test]
    fn the_first_version_that_has_a_resource_is_preferred() {
        let resource = |plural: &str, kind: &str| {
            serde_json::json!({"resource": plural, "responseKind": {"group": "", "version": "", "kind": kind},
                "scope": "Namespaced", "verbs": ["list", "watch"]})
        };
        let served = served(serde_json::json!([
            {"versions": [{"version": "v1", "resources": [resource("pods", "Pod")]}]},
            {"metadata": {"name": "example.com"}, "versions": [
                {"version": "v2", "resources": [resource("foos", "Foo")], "freshness": "Current"},
                {"version": "v1", "resources": [resource("foos", "Foo"), resource("bars", "Bar")]},
            ]},
            {"metadata": {"name": "broken.example.com"}, "versions": [{"version": "v1", "freshness": "Stale"}]},
        ]));
        let preferred: Vec<_> = served
            .preferred(&["list", "watch"])
            .map(|one| format!("{}/{}", one.resource.api_version, one.resource.plural))
            .collect();
        assert_eq!(preferred, ["v1/pods", "example.com/v2/foos", "example.com/v1/bars"]);
        assert_eq!(served.preferred(&["delete"]).count(), 0);
        assert_eq!(served.find("example.com/v1", "Foo").unwrap().resource.version, "v1");
        assert!(served.find("example.com/v3", "Foo").is_none());
        assert_eq!(served.unknown, ["broken.example.com/v1"]);
    }
}
