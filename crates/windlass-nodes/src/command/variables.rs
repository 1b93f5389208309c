//! Environment variables of a container whose values are known.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::containers::items;

/// The variables of a container; `None` if the value of one is not known.
#[derive(Debug, Default)]
pub(super) struct Variables(BTreeMap<String, Option<String>>);

impl Variables {
    pub(super) fn of(pod: &Value, container: &Value) -> Self {
        let mut variables = Self::default();
        for entry in items(container, "env") {
            let name = entry["name"].as_str().unwrap_or_default().to_owned();
            let value = match (entry["value"].as_str(), &entry["valueFrom"]) {
                (Some(value), _) => variables.expand_references(value),
                (None, Value::Null) => Some(String::new()),
                (None, source) => field(pod, source["fieldRef"]["fieldPath"].as_str().unwrap_or_default()),
            };
            variables.0.insert(name, value);
        }
        variables
    }

    /// Returns the value of a variable, which is empty if it is not set; `None` if the value is not known.
    pub(super) fn get(&self, name: &str) -> Option<String> {
        self.0.get(name).cloned().unwrap_or_else(|| Some(String::new()))
    }

    /// Replaces references such as `$(NAME)`, as kubelets do. References to unset variables remain.
    pub(super) fn expand_references(&self, text: &str) -> Option<String> {
        let mut expanded = String::new();
        let mut rest = text;
        while let Some(start) = rest.find('$') {
            expanded.push_str(&rest[..start]);
            rest = &rest[start..];
            let name = rest.strip_prefix("$(").and_then(|inner| inner.split_once(')'));
            if let Some(escaped) = rest.strip_prefix("$$") {
                expanded.push('$');
                rest = escaped;
            } else if let Some((name, after)) = name
                && let Some(value) = self.0.get(name)
            {
                expanded.push_str(value.as_deref()?);
                rest = after;
            } else {
                expanded.push('$');
                rest = &rest[1..];
            }
        }
        expanded.push_str(rest);
        Some(expanded)
    }
}

/// Returns a field of the pod that is known before it runs.
fn field(pod: &Value, path: &str) -> Option<String> {
    let metadata = &pod["metadata"];
    let found = match path {
        "metadata.name" => &metadata["name"],
        "metadata.namespace" => &metadata["namespace"],
        "metadata.uid" => &metadata["uid"],
        "spec.nodeName" => &pod["spec"]["nodeName"],
        "spec.serviceAccountName" => &pod["spec"]["serviceAccountName"],
        _ => {
            let entry = |list: &str| path.strip_prefix(list)?.strip_prefix("['")?.strip_suffix("']");
            let labels = entry("metadata.labels").map(|key| &metadata["labels"][key]);
            let annotations = || entry("metadata.annotations").map(|key| &metadata["annotations"][key]);
            let value = labels.or_else(annotations)?;
            return Some(value.as_str().unwrap_or_default().to_owned());
        }
    };
    found.as_str().map(str::to_owned)
}
