//! Differences between two states of an object.

use std::fmt;

use serde_json::{Value, json};

/// A field that would change.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct FieldChange {
    /// Path of the field: `spec.replicas`, `metadata.labels["example.com/a"]`, `spec.containers[0].image`.
    pub path: String,
    /// Value before; `None` if the field would be added.
    pub old: Option<Value>,
    /// Value after; `None` if the field would be removed.
    pub new: Option<Value>,
}

/// Fields that every write changes, or that the API server sets.
const IGNORED: [&str; 6] = ["managedFields", "resourceVersion", "generation", "creationTimestamp", "uid", "selfLink"];

/// Text in place of the values of Secrets.
const HIDDEN: &str = "(hidden)";

/// Annotation in which `kubectl apply` keeps a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields that differ between two states of an object; `None` is an object that does not exist.
pub(super) fn fields(old: Option<&Value>, new: Option<&Value>) -> Vec<FieldChange> {
    let is_secret = [old, new].into_iter().flatten().any(|object| object["kind"] == "Secret");
    let cleaned = |object: Option<&Value>| {
        let mut object = object.cloned().unwrap_or_else(|| json!({}));
        if let Some(fields) = object.as_object_mut() {
            fields.remove("apiVersion");
            fields.remove("kind");
        }
        if let Some(meta) = object.get_mut("metadata").and_then(Value::as_object_mut) {
            meta.retain(|name, _| !IGNORED.contains(&name.as_str()));
            meta.remove("name");
            meta.remove("namespace");
        }
        let is_empty = object["metadata"].as_object().is_some_and(|meta| meta.is_empty());
        if is_empty && let Some(fields) = object.as_object_mut() {
            fields.remove("metadata");
        }
        object
    };
    let mut changes = Vec::new();
    compare("", Some(&cleaned(old)), Some(&cleaned(new)), &mut changes);
    if is_secret {
        let copy = field("metadata.annotations", LAST_APPLIED);
        let holds_values = |change: &&mut FieldChange| {
            change.path == copy || matches!(change.path.split(['.', '[']).next(), Some("data" | "stringData"))
        };
        for change in changes.iter_mut().filter(holds_values) {
            for value in [&mut change.old, &mut change.new].into_iter().flatten() {
                *value = HIDDEN.into();
            }
        }
    }
    changes
}

fn compare(path: &str, old: Option<&Value>, new: Option<&Value>, changes: &mut Vec<FieldChange>) {
    match (old, new) {
        (Some(old), Some(new)) if old == new => {}
        (Some(Value::Object(_)), Some(Value::Object(_)))
        | (None, Some(Value::Object(_)))
        | (Some(Value::Object(_)), None)
            if !is_empty(old) || !is_empty(new) =>
        {
            let fields = |value: Option<&Value>| value.and_then(Value::as_object).cloned().unwrap_or_default();
            let (old, new) = (fields(old), fields(new));
            let mut names: Vec<_> = old.keys().chain(new.keys()).collect();
            names.sort();
            names.dedup();
            for name in names {
                compare(&field(path, name), old.get(name), new.get(name), changes);
            }
        }
        (Some(Value::Array(old)), Some(Value::Array(new))) if old.len() == new.len() => {
            for (place, (old, new)) in old.iter().zip(new).enumerate() {
                compare(&format!("{path}[{place}]"), Some(old), Some(new), changes);
            }
        }
        _ => changes.push(FieldChange { path: path.to_owned(), old: old.cloned(), new: new.cloned() }),
    }
}

fn is_empty(value: Option<&Value>) -> bool {
    value.and_then(Value::as_object).is_none_or(|fields| fields.is_empty())
}

fn field(path: &str, name: &str) -> String {
    let is_plain = name.chars().all(|it| it.is_ascii_alphanumeric() || it == '_' || it == '-');
    match (is_plain, path.is_empty()) {
        (true, true) => name.to_owned(),
        (true, false) => format!("{path}.{name}"),
        (false, _) => format!("{path}[{name:?}]"),
    }
}

impl FieldChange {
    pub(super) fn to_json(&self) -> Value {
        json!({ "path": self.path, "old": self.old, "new": self.new })
    }
}

/// `~ spec.replicas: 1 -> 2`, `+ data.color: "red"`, `- data.size: 3`.
impl fmt::Display for FieldChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.old, &self.new) {
            (Some(old), Some(new)) => write!(f, "~ {}: {old} -> {new}", self.path),
            (None, Some(new)) => write!(f, "+ {}: {new}", self.path),
            (Some(old), None) => write!(f, "- {}: {old}", self.path),
            (None, None) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(old: Option<Value>, new: Option<Value>) -> Vec<String> {
        fields(old.as_ref(), new.as_ref()).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn fields_are_compared_one_by_one() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1, "labels": {"a/b": "1"}},
            "spec": {"replicas": 1, "items": [1, 2], "containers": [{"name": "x", "image": "a"}]}});
        let new = json!({"metadata": {"name": "a", "resourceVersion": "2", "generation": 2, "labels": {"a/b": "2"}},
            "spec": {"replicas": 2, "items": [1], "containers": [{"name": "x", "image": "b"}], "paused": true}});
        let expected = [
            r#"~ metadata.labels["a/b"]: "1" -> "2""#,
            r#"~ spec.containers[0].image: "a" -> "b""#,
            "~ spec.items: [1,2] -> [1]",
            "+ spec.paused: true",
            "~ spec.replicas: 1 -> 2",
        ];
        assert_eq!(lines(Some(old.clone()), Some(new)), expected);
        assert_eq!(lines(Some(old.clone()), Some(old)), [""; 0]);
    }

    #[test]
    fn new_and_deleted_objects_list_their_fields() {
        let object = json!({"kind": "ConfigMap", "metadata": {"name": "a", "uid": "u"}, "data": {"k": "v"}});
        assert_eq!(lines(None, Some(object.clone())), [r#"+ data.k: "v""#]);
        assert_eq!(lines(Some(object), None), [r#"- data.k: "v""#]);
    }

    #[test]
    fn contents_of_secrets_are_hidden() {
        let secret = |value: &str| json!({"kind": "Secret", "type": "Opaque", "data": {"k": value}});
        assert_eq!(lines(Some(secret("a")), Some(secret("b"))), [r#"~ data.k: "(hidden)" -> "(hidden)""#]);
        assert_eq!(lines(None, Some(secret("b"))), [r#"+ data.k: "(hidden)""#, r#"+ type: "Opaque""#]);
        // The copy that `kubectl apply` keeps.
        let applied = |value: &str| {
            let copy = secret(value).to_string();
            json!({"kind": "Secret", "metadata": {"annotations": {LAST_APPLIED: copy, "a": value}}})
        };
        let path = r#"metadata.annotations["kubectl.kubernetes.io/last-applied-configuration"]"#;
        let expected = [r#"~ metadata.annotations.a: "a" -> "b""#, &format!(r#"~ {path}: "(hidden)" -> "(hidden)""#)];
        assert_eq!(lines(Some(applied("a")), Some(applied("b"))), expected);
        let expected = [r#"- metadata.annotations.a: "a""#, &format!(r#"- {path}: "(hidden)""#)];
        assert_eq!(lines(Some(applied("a")), None), expected);
    }
}
