//! Rules and selectors that decide which requests a webhook or policy matches.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::core::{Selector, SelectorExt as _};
use serde_json::Value;
use windlass_schema::sorting::Gather as _;

/// The attributes of a request that rules match.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestAttributes<'a> {
    pub(super) operation: &'a str,
    pub(super) group: &'a str,
    pub(super) version: &'a str,
    pub(super) resource: &'a str,
    pub(super) subresource: &'a str,
    /// For a request for a namespace, its name.
    pub(super) namespace: &'a str,
    /// The name in the request; empty if there is none.
    pub(super) name: &'a str,
}

/// A rule of a webhook or policy.
#[derive(Debug)]
pub(super) struct Rule {
    operations: Vec<String>,
    groups: Vec<String>,
    versions: Vec<String>,
    /// Resources, each with its subresource.
    resources: Vec<(String, String)>,
    scope: String,
    /// Names of objects; empty for all. Only policies have them.
    names: Vec<String>,
}

impl Rule {
    pub(super) fn new(rule: &Value) -> Self {
        let texts = |field: &str| -> Vec<String> {
            let list = rule[field].as_array().into_iter().flatten();
            list.filter_map(|text| text.as_str().map(str::to_owned)).collect()
        };
        let split = |resource: String| match resource.split_once('/') {
            Some((name, subresource)) => (name.to_owned(), subresource.to_owned()),
            None => (resource, String::new()),
        };
        Self {
            operations: texts("operations"),
            groups: texts("apiGroups"),
            versions: texts("apiVersions"),
            resources: texts("resources").into_iter().map(split).collect(),
            scope: rule["scope"].as_str().unwrap_or("*").to_owned(),
            names: texts("resourceNames"),
        }
    }

    pub(super) fn matches(&self, asked: RequestAttributes<'_>) -> bool {
        let any = |list: &[String], value: &str| list.iter().any(|have| have == "*" || have == value);
        self.matches_in_some_version(asked) && any(&self.groups, asked.group) && any(&self.versions, asked.version)
    }

    /// Returns whether it matches the request apart from group and version.
    pub(super) fn matches_in_some_version(&self, asked: RequestAttributes<'_>) -> bool {
        let any = |list: &[String], value: &str| list.iter().any(|have| have == "*" || have == value);
        let is_namespace = (asked.group, asked.resource) == ("", "namespaces");
        let is_cluster_wide = is_namespace || asked.namespace.is_empty();
        let scope = match self.scope.as_str() {
            "*" => true,
            "Namespaced" => !is_cluster_wide,
            "Cluster" => is_cluster_wide,
            _ => false,
        };
        let resource = |(name, subresource): &(String, String)| {
            (name == "*" || name == asked.resource) && (subresource == "*" || subresource == asked.subresource)
        };
        self.resources.iter().any(resource)
            && any(&self.operations, asked.operation)
            && scope
            && (self.names.is_empty() || self.names.iter().any(|name| name == asked.name))
    }
}

/// A label selector.
pub(crate) struct Labels(Option<Result<Selector, String>>);

impl Labels {
    pub(crate) fn new(selector: &Value) -> Self {
        let is_empty = |field: &str| match &selector[field] {
            Value::Array(list) => list.is_empty(),
            Value::Object(map) => map.is_empty(),
            _ => true,
        };
        if is_empty("matchLabels") && is_empty("matchExpressions") {
            return Self(None);
        }
        let parsed = serde_json::from_value::<LabelSelector>(selector.clone()).map_err(|error| error.to_string());
        Self(Some(parsed.and_then(|parsed| Selector::try_from(parsed).map_err(|error| error.to_string()))))
    }

    /// Returns whether it selects everything.
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_none()
    }

    /// Returns whether it selects an object by its labels.
    pub(crate) fn selects(&self, object: &Value) -> Result<bool, String> {
        let labels = object["metadata"]["labels"].as_object().into_iter().flatten();
        self.selects_labels(labels.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?))))
    }

    /// Returns whether it selects an object with these labels.
    pub(crate) fn selects_labels<'a>(&self, labels: impl Iterator<Item = (&'a str, &'a str)>) -> Result<bool, String> {
        match &self.0 {
            None => Ok(true),
            Some(Err(error)) => Err(error.clone()),
            Some(Ok(selector)) => {
                let labels: BTreeMap<String, String> =
                    labels.map(|(key, value)| (key.to_owned(), value.to_owned())).gather();
                Ok(selector.matches(&labels))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const CREATE: RequestAttributes<'static> = RequestAttributes {
        operation: "CREATE",
        group: "apps",
        version: "v1",
        resource: "deployments",
        subresource: "",
        namespace: "default",
        name: "web",
    };

    fn rule(operations: &[&str], resources: &[&str], scope: &str) -> Rule {
        Rule::new(&json!({
            "operations": operations, "apiGroups": ["apps", ""], "apiVersions": ["v1"], "resources": resources,
            "scope": scope,
        }))
    }

    #[test]
    fn rules_match_operations_resources_and_subresources() {
        let status = RequestAttributes { subresource: "status", ..CREATE };
        assert!(rule(&["CREATE"], &["deployments"], "*").matches(CREATE));
        assert!(rule(&["*"], &["*"], "*").matches(CREATE));
        assert!(!rule(&["UPDATE"], &["deployments"], "*").matches(CREATE));
        assert!(!rule(&["*"], &["deployments"], "*").matches(status));
        assert!(rule(&["*"], &["*/status"], "*").matches(status));
        assert!(rule(&["*"], &["deployments/*"], "*").matches(status));
        // An asterisk after the slash matches the object itself, too.
        assert!(rule(&["*"], &["deployments/*"], "*").matches(CREATE));
        assert!(!rule(&["*"], &["deployments"], "*").matches(RequestAttributes { version: "v2", ..CREATE }));
        assert!(!rule(&["*"], &["*"], "*").matches(RequestAttributes { group: "batch", ..CREATE }));
    }

    #[test]
    fn namespaces_are_cluster_wide() {
        let namespace = RequestAttributes { group: "", resource: "namespaces", ..CREATE };
        let node = RequestAttributes { group: "", resource: "nodes", namespace: "", ..CREATE };
        for cluster_wide in [namespace, node] {
            assert!(rule(&["*"], &["*"], "Cluster").matches(cluster_wide));
            assert!(!rule(&["*"], &["*"], "Namespaced").matches(cluster_wide));
        }
        assert!(rule(&["*"], &["*"], "Namespaced").matches(CREATE));
        assert!(!rule(&["*"], &["*"], "Cluster").matches(CREATE));
    }

    #[test]
    fn selectors_without_requirements_select_everything() {
        let object = json!({"metadata": {"labels": {"a": "1"}}});
        for everything in [json!(null), json!({}), json!({"matchLabels": {}})] {
            assert_eq!(Labels::new(&everything).selects(&json!({})), Ok(true));
        }
        assert_eq!(Labels::new(&json!({"matchLabels": {"a": "1"}})).selects(&object), Ok(true));
        let not_in = json!({"matchExpressions": [{"key": "b", "operator": "NotIn", "values": ["1"]}]});
        assert_eq!(Labels::new(&not_in).selects(&object), Ok(true));
        assert_eq!(Labels::new(&json!({"matchLabels": {"a": "2"}})).selects(&object), Ok(false));
    }
}
