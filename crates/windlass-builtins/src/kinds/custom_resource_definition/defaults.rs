//! The defaults within a schema: they must be values that the schema itself accepts.

use std::sync::{Arc, LazyLock};

use serde_json::Value;
use windlass_cel::rules;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::structural::defaults::{self, Candidate, DefaultOptions};
use windlass_schema::structural::{ObjectMetaType, Structural};
use windlass_schema::types::StructId;

use super::schema::Props;
use super::structural;
use crate::table;

/// What is wrong with the defaults of a structural schema, `schema` being its compiled form.
pub(super) fn validate(schema: &Structural, path: &Path, require_pruned: bool) -> ErrorList {
    let options = DefaultOptions { resource_root: true, require_pruned };
    let mut budget = rules::OBJECT_BUDGET;
    defaults::validate(path, schema, object_meta(), options, &mut |candidate| break_rules(&candidate, &mut budget))
}

/// The rules that a default breaks: those that compare it with itself, then those that see it as new.
fn break_rules(candidate: &Candidate<'_>, budget: &mut i64) -> ErrorList {
    if *budget < 0 || !rules::has_rules(candidate.schema) {
        return ErrorList::new();
    }
    let schema = Arc::new(candidate.schema.clone());
    let Some(compiled) = rules::compile(&schema, candidate.resource_root) else { return ErrorList::new() };
    let mut errors = ErrorList::new();
    let mut left = *budget;
    for old in [Some(candidate.value), None] {
        let mut remaining = *budget;
        let mut known = errors.clone();
        for error in compiled.validate(candidate.path, candidate.value, old, &mut remaining).errors {
            // What both ways of looking find is one error.
            match known.iter().position(|known| *known == error) {
                Some(index) => drop(known.swap_remove(index)),
                None => errors.push(error),
            }
        }
        left = left.min(remaining);
    }
    *budget = left;
    errors
}

/// Whether no default of a schema has fields that would be pruned; true where that cannot be said.
pub(super) fn are_pruned(schema: &Value) -> bool {
    let props = Props::new(schema);
    if !props.any(|schema| schema.value("default").is_some()) || !structural::is_structural(props) {
        return true;
    }
    let Ok(compiled) = Structural::compile(schema) else { return true };
    let mut pruned = compiled.clone();
    pruned.prune_defaults(object_meta()).is_err() || pruned == compiled
}

/// The type of metadata.
fn object_meta() -> ObjectMetaType<'static> {
    static ID: LazyLock<StructId> = LazyLock::new(|| {
        let name = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta";
        let at = table().types.structs.iter().position(|have| have.name == name);
        StructId(at.and_then(|at| at.try_into().ok()).expect("the table must have ObjectMeta"))
    });
    ObjectMetaType { table: &table().types, id: *ID }
}
