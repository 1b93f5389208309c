//! Paths of requests.

/// The resource of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ResourcePath {
    pub(super) group: String,
    pub(super) resource: String,
    pub(super) namespace: Option<String>,
    pub(super) name: Option<String>,
    pub(super) subresource: Option<String>,
    /// Path of the collection.
    pub(super) collection: String,
}

impl ResourcePath {
    /// Parses `/api/v1/namespaces/default/pods/web/status`; returns `None` for paths that are not resources.
    pub(super) fn parse(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_matches('/').split('/').collect();
        let (group, version, mut rest) = match parts.as_slice() {
            ["api", version, rest @ ..] => ("", *version, rest),
            ["apis", group, version, rest @ ..] => (*group, *version, rest),
            _ => return None,
        };
        let mut collection = match group {
            "" => format!("/api/{version}"),
            _ => format!("/apis/{group}/{version}"),
        };
        let mut namespace = None;
        if let ["namespaces", within, resource, ..] = rest
            && !(rest.len() == 3 && matches!(*resource, "status" | "finalize"))
        {
            namespace = Some((*within).to_owned());
            collection.push_str(&format!("/namespaces/{within}"));
            rest = &rest[2..];
        }
        let (resource, rest) = rest.split_first()?;
        collection.push_str(&format!("/{resource}"));
        let text = |parts: &[&str]| (!parts.is_empty()).then(|| parts.join("/"));
        Some(Self {
            group: group.to_owned(),
            resource: (*resource).to_owned(),
            namespace,
            name: rest.first().map(|name| (*name).to_owned()),
            subresource: rest.get(1..).and_then(text),
            collection,
        })
    }

    /// Returns the path of an object of the collection.
    pub(super) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.collection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_resources_are_parsed() {
        let parsed = |path: &str| {
            let path = ResourcePath::parse(path)?;
            let part = |part: Option<String>| part.unwrap_or_default();
            Some([path.group, part(path.namespace), path.resource, part(path.name), part(path.subresource)].join(" "))
        };
        for (path, expected) in [
            ("/api/v1/namespaces/default/pods/web/status", " default pods web status"),
            ("/api/v1/namespaces/default/pods", " default pods  "),
            ("/api/v1/pods", "  pods  "),
            ("/api/v1/namespaces", "  namespaces  "),
            ("/api/v1/namespaces/default", "  namespaces default "),
            ("/api/v1/namespaces/default/status", "  namespaces default status"),
            ("/apis/apps/v1/namespaces/a/deployments/web/scale", "apps a deployments web scale"),
            ("/apis/example.com/v1/sites/a", "example.com  sites a "),
        ] {
            assert_eq!(parsed(path).as_deref(), Some(expected), "{path}");
        }
        for path in ["/version", "/healthz", "/api", "/apis/apps", "/apis/apps/v1"] {
            assert_eq!(parsed(path), None, "{path}");
        }
        let path = ResourcePath::parse("/apis/apps/v1/namespaces/a/deployments/web/scale").unwrap();
        assert_eq!(path.object("web"), "/apis/apps/v1/namespaces/a/deployments/web");
    }
}
