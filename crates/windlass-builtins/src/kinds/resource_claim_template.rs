//! ResourceClaimTemplates of dynamic resource allocation.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::go_format::marshal;
use windlass_schema::object_meta::{validate_annotations, validate_labels};

use super::device_claim;
use super::internal_types::show;
use super::pod::validation::claims::forbid_other_metadata;
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{copy, map};
use crate::strategy::Strategy;

/// Strategy of ResourceClaimTemplates.
#[derive(Debug, Clone, Copy)]
pub struct ResourceClaimTemplate;

impl Strategy for ResourceClaimTemplate {
    fn default(&self, object: &mut Value) {
        object.pointer_mut("/spec/spec").into_iter().for_each(device_claim::default);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let path = Path::new("spec").child("metadata");
        let annotations = map(object, "/spec/metadata/annotations");
        let mut errors = validate_annotations(annotations, &path.child("annotations"));
        errors.extend(validate_labels(map(object, "/spec/metadata/labels"), &path.child("labels")));
        forbid_other_metadata(&object["spec"]["metadata"], &path, &mut errors);
        device_claim::validate(&object["spec"]["spec"], &Path::new("spec").child("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if !same(&copy(object, "/spec"), &copy(old, "/spec")) {
            // The metadata is embedded.
            let metadata = marshal(&copy(object, "/spec/metadata"));
            let metadata = metadata.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).unwrap_or_default();
            let separator = if metadata.is_empty() { "" } else { "," };
            let claim = show(&object["spec"]["spec"], device_claim::CLAIM_SPEC);
            let shown = format!("{{{metadata}{separator}\"Spec\":{claim}}}");
            errors.invalid_shown(&Path::new("spec"), shown, "field is immutable");
        }
        errors
    }
}
