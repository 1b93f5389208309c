//! Validation of `selectableFields`.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::structural::field_path::{Brackets, FieldPath};

use super::schema::Props;
use crate::object::text;

/// Maximum number of selectable fields of a version.
pub(super) const MAX_FIELDS: usize = 8;

/// Validates selectable fields against a schema, if it is structural.
pub(super) fn validate(fields: &[Value], schema: Option<Props<'_>>, path: &Path, any_number: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut unique = BTreeSet::new();
    for (index, field) in fields.iter().enumerate() {
        let path = path.index(index).child("jsonPath");
        let json_path = text(field, "/jsonPath");
        if json_path.is_empty() {
            errors.push(FieldError::required(&path, ""));
            continue;
        }
        let mut invalid = |detail: &str| errors.push(FieldError::invalid(&path, &json_path.into(), detail));
        let found = match FieldPath::parse(json_path, schema, Brackets::Forbidden) {
            Ok(found) => found,
            Err(error) => {
                invalid(&format!("is an invalid path: {error}"));
                continue;
            }
        };
        if found.root == "metadata" {
            invalid("must not point to fields in metadata");
        }
        let kind = found.schema.map_or("", |schema| schema.text("type"));
        if !["string", "boolean", "integer"].contains(&kind) {
            invalid(
                "must point to a field of type string, boolean or integer. Enum string fields and strings with \
                 formats are allowed.",
            );
        }
        if !unique.insert(found.path.to_string()) {
            errors.push(FieldError::duplicate(&path, &json_path.into()));
        }
    }
    if unique.len() > MAX_FIELDS && !any_number {
        errors.push(FieldError::too_many(path, unique.len(), MAX_FIELDS));
    }
    errors
}
