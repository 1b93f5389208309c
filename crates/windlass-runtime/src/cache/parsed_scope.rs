//! Whether an object is within a scope, as far as this can be decided without the API server.

use std::collections::BTreeMap;

use kube::core::{ObjectMeta, Selector, SelectorExt};

use super::selector::parse_selector;
use crate::scope::Scope;

/// Whether an object belongs to an informer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScopeMatch {
    /// The watch will deliver it.
    Within,
    /// The watch will not deliver it, or will deliver its deletion.
    Outside,
    /// Only the API server knows.
    Unknown,
}

/// A scope with parsed selectors.
pub(super) struct ParsedScope {
    namespace: Option<String>,
    labels: Selector,
    /// Terms on name and namespace: the field, whether it must be equal, and the value.
    fields: Vec<(Field, bool, String)>,
    /// Whether a selector has terms that only the API server understands.
    opaque: bool,
}

#[derive(Clone, Copy)]
enum Field {
    Name,
    Namespace,
}

impl ParsedScope {
    pub(super) fn new(scope: &Scope) -> Self {
        let labels = parse_selector(scope.labels.as_deref().unwrap_or_default());
        let mut parsed_scope = Self {
            namespace: scope.namespace.clone(),
            opaque: labels.is_err(),
            labels: labels.unwrap_or_default(),
            fields: Vec::new(),
        };
        let terms = scope.fields.as_deref().unwrap_or_default().split(',').filter(|term| !term.trim().is_empty());
        for term in terms {
            match field(term) {
                Some(field) => parsed_scope.fields.push(field),
                None => parsed_scope.opaque = true,
            }
        }
        parsed_scope
    }

    /// Returns whether objects of this namespace can be within the scope.
    pub(super) fn has_namespace(&self, namespace: Option<&str>) -> bool {
        self.namespace.is_none() || self.namespace.as_deref() == namespace
    }

    pub(super) fn fit(&self, meta: &ObjectMeta) -> ScopeMatch {
        let fields = self.fields.iter().all(|(field, equal, value)| {
            let actual = match field {
                Field::Name => &meta.name,
                Field::Namespace => &meta.namespace,
            };
            (actual.as_deref().unwrap_or_default() == value) == *equal
        });
        let none = BTreeMap::new();
        if !fields
            || !self.has_namespace(meta.namespace.as_deref())
            || !self.labels.matches(meta.labels.as_ref().unwrap_or(&none))
        {
            ScopeMatch::Outside
        } else if self.opaque {
            ScopeMatch::Unknown
        } else {
            ScopeMatch::Within
        }
    }
}

fn field(term: &str) -> Option<(Field, bool, String)> {
    let (name, equal, value) = match term.split_once("!=") {
        Some((name, value)) => (name, false, value),
        None => {
            let (name, value) = term.split_once('=')?;
            (name, true, value.strip_prefix('=').unwrap_or(value))
        }
    };
    let field = match name.trim() {
        "metadata.name" => Field::Name,
        "metadata.namespace" => Field::Namespace,
        _ => return None,
    };
    // Values can escape commas; names contain none.
    (!value.contains('\\')).then(|| (field, equal, value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_fits_by_namespace_labels_and_the_fields_that_everything_has() {
        let metadata = ObjectMeta {
            name: Some("web".into()),
            namespace: Some("shop".into()),
            labels: Some([("app".to_owned(), "web".to_owned())].into()),
            ..ObjectMeta::default()
        };
        for (scope, fit) in [
            (Scope::all(), ScopeMatch::Within),
            (Scope::namespace("shop"), ScopeMatch::Within),
            (Scope::namespace("other"), ScopeMatch::Outside),
            (Scope::all().labels("app=web"), ScopeMatch::Within),
            (Scope::all().labels("app=api"), ScopeMatch::Outside),
            (Scope::all().labels("app>1"), ScopeMatch::Unknown),
            (Scope::all().fields("metadata.name=web"), ScopeMatch::Within),
            (Scope::all().fields("metadata.name!=web"), ScopeMatch::Outside),
            (Scope::all().fields("metadata.name==web,metadata.namespace=other"), ScopeMatch::Outside),
            (Scope::all().fields("spec.nodeName=a"), ScopeMatch::Unknown),
            (Scope::all().labels("app=api").fields("spec.nodeName=a"), ScopeMatch::Outside),
        ] {
            assert_eq!(ParsedScope::new(&scope).fit(&metadata), fit, "{scope:?}");
        }
    }
}
