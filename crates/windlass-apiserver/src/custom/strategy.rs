//! What all custom resources have in common beyond their schemas.

use serde_json::Value;
use windlass_builtins::strategy::Strategy;
use windlass_schema::{field::quote, names};

use crate::meta;

/// The strategy of every custom resource.
pub(super) struct CustomStrategy;

/// The finalizers of Kubernetes itself, which need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

impl Strategy for CustomStrategy {
    fn has_generation(&self) -> bool {
        true
    }

    fn changes_generation(&self, object: &Value, old: &Value) -> bool {
        let (Some(new), Some(old)) = (object.as_object(), old.as_object()) else { return object != old };
        let differs = |name: &String| name != "metadata" && new.get(name) != old.get(name);
        new.keys().chain(old.keys()).any(differs)
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let known = old.map(meta::finalizers).unwrap_or_default();
        let mut added = meta::finalizers(object);
        added.retain(|name| !known.contains(name));
        added.sort_unstable();
        added.dedup();
        added.iter().flat_map(|name| finalizer_warnings(name)).collect()
    }
}

fn finalizer_warnings(name: &str) -> Vec<String> {
    let about = |what: &str| format!("metadata.finalizers: {}: {what}", quote(name));
    let mut warnings: Vec<String> = names::is_qualified_name(name).iter().map(|error| about(error)).collect();
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        let path = if name.contains('.') { " including a path (/)" } else { "" };
        warnings.push(about(&format!(
            "prefer a domain-qualified finalizer name{path} to avoid accidental conflicts with other finalizer writers"
        )));
    }
    warnings
}
