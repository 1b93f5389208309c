//! Validation of the defaults within a schema, which must be valid against the schema itself.

use std::sync::Arc;

use serde_json::Value;
use windlass_cel::rules;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::structural::Structural;
use windlass_schema::structural::defaults::{self, DefaultCandidate, DefaultOptions};

use super::schema::Props;
use super::structural;
use crate::table::object_meta;

/// Validates the defaults of a structural schema; `schema` is its compiled form.
pub(super) fn validate(schema: &Structural, path: &Path, require_pruned: bool) -> ErrorList {
    let options = DefaultOptions { resource_root: true, require_pruned };
    let mut budget = rules::OBJECT_BUDGET;
    defaults::validate(path, schema, object_meta(), options, &mut |candidate| break_rules(&candidate, &mut budget))
}

/// Returns the validation rules that a default violates.
fn break_rules(candidate: &DefaultCandidate<'_>, budget: &mut i64) -> ErrorList {
    if *budget < 0 || !rules::has_rules(candidate.schema) {
        return ErrorList::new();
    }
    let schema = Arc::new(candidate.schema.clone());
    let compiled = rules::compile(&schema, candidate.resource_root);
    compiled.map_or_else(ErrorList::new, |rules| rules.validate_default(candidate.path, candidate.value, budget))
}

/// Returns whether no default of a schema has fields that would be pruned; true if that cannot be determined.
pub(super) fn are_pruned(schema: &Value) -> bool {
    let props = Props::new(schema);
    if !props.any(|schema| schema.value("default").is_some()) || !structural::is_structural(props) {
        return true;
    }
    let Ok(compiled) = Structural::compile(schema) else { return true };
    let mut pruned = compiled.clone();
    pruned.prune_defaults(object_meta()).is_err() || pruned == compiled
}
