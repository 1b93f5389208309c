//! The permission that a request needs, in the terms of roles.

use http::{Method, Uri};
use windlass_schema::selector::FieldSelector;

use crate::{
    query::{Query, unescape_path},
    request_info::RequestInfo,
    verb::Verb,
};

/// The permission that a request needs.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Permission {
    /// Access to a resource.
    Resource {
        /// The verb.
        verb: Verb,
        /// The API group; empty for the core group.
        group: String,
        /// The plural name.
        resource: String,
        /// The subresource; empty for the object itself.
        subresource: String,
        /// The namespace; empty at cluster scope.
        namespace: String,
        /// The name, from the path or from a field selector for `metadata.name`; empty for collections.
        name: String,
    },
    /// Access to a path that is not a resource's.
    Path {
        /// The HTTP method in lower case.
        verb: String,
        /// The path.
        path: String,
    },
}

impl Permission {
    /// Returns the permission that a request needs; `None` if its path is malformed.
    pub fn of(method: &Method, uri: &Uri) -> Option<Self> {
        let path = unescape_path(uri.path())?;
        Some(match RequestInfo::from_path(&path) {
            RequestInfo::Path(path) => Self::Path { verb: method.as_str().to_ascii_lowercase(), path: path.to_owned() },
            RequestInfo::Resource(target) => {
                let query = Query::parse(uri.query());
                let verb = target.verb(method, &query);
                let selected = || match verb {
                    Verb::List | Verb::Watch => selected_name(query.text("fieldSelector")),
                    _ => None,
                };
                Self::Resource {
                    verb,
                    group: target.group.to_owned(),
                    resource: target.resource.to_owned(),
                    subresource: target.subresource.to_owned(),
                    namespace: if target.resource == "namespaces" { "" } else { target.namespace }.to_owned(),
                    name: match target.name {
                        "" => selected().unwrap_or_default().to_owned(),
                        name => name.to_owned(),
                    },
                }
            }
        })
    }
}

/// Returns the name that a field selector selects, which counts like one in the path. An invalid selector selects none.
pub(super) fn selected_name(selector: &str) -> Option<&str> {
    if selector.is_empty() || FieldSelector::parse(selector).is_err() {
        return None;
    }
    selector.split(',').find_map(|term| {
        let (field, name) = term.split_once('=')?;
        let name = name.strip_prefix('=').unwrap_or(name);
        (field == "metadata.name" && !name.is_empty()).then_some(name)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_need_the_same_permissions_as_in_kube_apiserver() {
        for (method, uri, expected) in [
            ("GET", "/api/v1/pods", "list |pods|||"),
            ("GET", "/api/v1/pods?watch=true", "watch |pods|||"),
            ("GET", "/api/v1/namespaces/a/pods/b", "get |pods||a|b"),
            ("GET", "/api/v1/namespaces/a/pods/b/log?follow=true", "get |pods|log|a|b"),
            ("POST", "/api/v1/namespaces/a/pods/b/exec?command=ls", "create |pods|exec|a|b"),
            ("GET", "/apis/apps/v1/deployments?fieldSelector=metadata.name%3Dx&watch=1", "watch apps|deployments|||x"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!%3Dx", "list |pods|||"),
            ("GET", "/api/v1/pods?fieldSelector=spec.nodeName=a,metadata.name==x", "list |pods|||x"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da%3Db", "list |pods|||"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Da,b", "list |pods|||"),
            ("PATCH", "/apis/apps/v1/namespaces/a/deployments/d/status", "patch apps|deployments|status|a|d"),
            ("DELETE", "/api/v1/namespaces/a/pods", "deletecollection |pods||a|"),
            ("PUT", "/api/v1/namespaces/a/finalize", "update |namespaces|finalize||a"),
            (
                "GET",
                "/apis/rbac.authorization.k8s.io/v1/clusterroles/system%3Anode",
                "get rbac.authorization.k8s.io|clusterroles|||system:node",
            ),
            ("GET", "/apis/apps/v1", "get /apis/apps/v1"),
            ("GET", "/metrics", "get /metrics"),
        ] {
            let permission = Permission::of(&method.parse().unwrap(), &uri.parse().unwrap()).unwrap();
            let text = match permission {
                Permission::Resource { verb, group, resource, subresource, namespace, name } => {
                    format!("{verb} {group}|{resource}|{subresource}|{namespace}|{name}")
                }
                Permission::Path { verb, path } => format!("{verb} {path}"),
            };
            assert_eq!(text, expected, "{method} {uri}");
        }
    }
}
