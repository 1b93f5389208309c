//! The rules of all custom resources beyond their schemas.

use serde_json::Value;
use windlass_builtins::{
    facts::{Generation, KindFacts},
    strategy::Strategy,
};
use windlass_schema::{field::quote, names};

use crate::meta;

/// The strategy of every custom resource.
pub(super) struct CustomStrategy;

/// The facts of every custom resource.
pub(super) static FACTS: KindFacts =
    KindFacts { generation: Generation::AllButMetadata, allows_unconditional_update: false, ..KindFacts::DEFAULT };

/// The finalizers of Kubernetes itself, which need no domain.
const STANDARD_FINALIZERS: [&str; 3] = ["orphan", "foregroundDeletion", "kubernetes"];

impl Strategy for CustomStrategy {
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
