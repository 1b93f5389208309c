//! References to objects.

use std::fmt;

use serde_json::Value;

/// An object by kind and name.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Reference {
    /// Group and version.
    pub(crate) api_version: String,
    /// Kind.
    pub(crate) kind: String,
    /// Namespace, if specified.
    pub(crate) namespace: Option<String>,
    /// Name.
    pub(crate) name: String,
}

impl Reference {
    /// Returns the reference of an object. Missing parts are empty.
    pub(crate) fn of(object: &Value) -> Self {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self {
            api_version: text("/apiVersion"),
            kind: text("/kind"),
            namespace: Some(text("/metadata/namespace")).filter(|namespace| !namespace.is_empty()),
            name: text("/metadata/name"),
        }
    }

    /// API group; empty for the core group.
    pub(crate) fn group(&self) -> &str {
        self.api_version.rsplit_once('/').map_or("", |(group, _)| group)
    }
}

impl fmt::Display for Reference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, namespace, name, .. } = self;
        match namespace {
            Some(namespace) => write!(f, "{kind} {namespace}/{name}"),
            None => write!(f, "{kind} {name}"),
        }
    }
}
