//! Kinds used in the story.

use super::Selection;

/// A kind, as kubectl knows it from discovery.
#[derive(Debug, PartialEq, Eq)]
pub(in super::super) struct Kind {
    group: &'static str,
    version: &'static str,
    kind: &'static str,
    /// As in paths.
    pub(in super::super) plural: &'static str,
    singular: &'static str,
    short: &'static str,
    /// Whether its objects are namespaced.
    pub(in super::super) namespaced: bool,
}

const KINDS: &[Kind] = &[
    core("Node", "nodes", "node", "no", false),
    core("Pod", "pods", "pod", "po", true),
    core("Service", "services", "service", "svc", true),
    core("ConfigMap", "configmaps", "configmap", "cm", true),
    core("Event", "events", "event", "ev", true),
    of("apps", "Deployment", "deployments", "deployment", "deploy", true),
    of("apps", "ReplicaSet", "replicasets", "replicaset", "rs", true),
    of(
        "apiextensions.k8s.io",
        "CustomResourceDefinition",
        "customresourcedefinitions",
        "customresourcedefinition",
        "crd",
        false,
    ),
    of("samplecrd.k8s.io", "Network", "networks", "network", "", true),
    of("webapp.tutorial.kubebuilder.io", "Guestbook", "guestbooks", "guestbook", "", true),
];

const fn core(
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static str,
    namespaced: bool,
) -> Kind {
    of("", kind, plural, singular, short, namespaced)
}

const fn of(
    group: &'static str,
    kind: &'static str,
    plural: &'static str,
    singular: &'static str,
    short: &'static str,
    namespaced: bool,
) -> Kind {
    Kind { group, version: "v1", kind, plural, singular, short, namespaced }
}

/// Returns a kind by any of its names.
pub(in super::super) fn kind(name: &str) -> Option<&'static Kind> {
    let names = |kind: &&Kind| {
        [kind.kind, kind.plural, kind.singular].contains(&name) || (!name.is_empty() && name == kind.short)
    };
    KINDS.iter().find(names)
}

impl Kind {
    /// The name that kubectl prints before object names: `deployment.apps`.
    pub(in super::super) fn printed(&self) -> String {
        match self.group {
            "" => self.singular.to_owned(),
            group => format!("{}.{group}", self.singular),
        }
    }

    /// Path of the collection, in the default namespace if namespaced.
    pub(in super::super) fn collection(&self, selection: &Selection) -> String {
        let selectors = [("labelSelector", &selection.labels), ("fieldSelector", &selection.fields)];
        let query: Vec<String> = selectors
            .iter()
            .filter_map(|(name, selector)| Some(format!("{name}={}", escape(selector.as_deref()?))))
            .collect();
        let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
        format!("{}{query}", self.path())
    }

    /// Path of an object.
    pub(in super::super) fn object(&self, name: &str) -> String {
        format!("{}/{name}", self.path())
    }

    fn path(&self) -> String {
        let Self { group, version, plural, .. } = self;
        let group = if group.is_empty() { "/api".to_owned() } else { format!("/apis/{group}") };
        let place = if self.namespaced { "namespaces/default/" } else { "" };
        format!("{group}/{version}/{place}{plural}")
    }
}

/// Escapes a selector in a query.
fn escape(selector: &str) -> String {
    selector.replace('%', "%25").replace('=', "%3D").replace(',', "%2C").replace('/', "%2F")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_have_names_and_paths() {
        let selection = Selection { labels: Some("a/b=c".to_owned()), ..Selection::default() };
        let path = |name: &str| kind(name).unwrap().collection(&selection);
        assert_eq!(path("no"), "/api/v1/nodes?labelSelector=a%2Fb%3Dc");
        assert_eq!(path("deploy"), "/apis/apps/v1/namespaces/default/deployments?labelSelector=a%2Fb%3Dc");
        assert_eq!(
            kind("Network").unwrap().object("office"),
            "/apis/samplecrd.k8s.io/v1/namespaces/default/networks/office"
        );
        assert_eq!(kind("deployment").unwrap().printed(), "deployment.apps");
        assert_eq!(kind("pods").unwrap().printed(), "pod");
        assert_eq!(kind(""), None);
    }
}
