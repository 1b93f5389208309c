//! Migration from client-side to server-side apply: `kubectl` keeps its last configuration in an annotation.

use serde_json::{Map, Value};
use windlass_schema::{go_format, json, object_meta::ANNOTATIONS_MAX_BYTES};

use super::{FieldManager, object::text};
use crate::apply::{
    set::Set,
    typed::{self, ValidateOptions},
};

/// Default manager of kubectl for server-side apply; only this one is migrated.
pub(super) const MANAGER: &str = "kubectl";

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// Returns the fields of the annotation's configuration that the object still has unchanged, or `None` if there is no
/// usable annotation.
pub(super) fn fields(manager: &FieldManager<'_>, live: &Value) -> Option<Set> {
    let configuration = annotation(live)?;
    let strict = ValidateOptions::default();
    typed::validate(live, manager.types, strict).ok()?;
    let configuration = json::parse(configuration.as_bytes()).ok()?.value;
    if text(&configuration, "apiVersion") != manager.api_version || text(&configuration, "kind") != manager.kind {
        return None;
    }
    typed::validate(&configuration, manager.types, strict).ok()?;
    let set = typed::to_field_set(&configuration, manager.types).ok()?;
    let comparison = typed::compare(&configuration, live, manager.types).ok()?;
    Some(set.difference(&comparison.modified).difference(&comparison.added).difference(&comparison.removed))
}

/// Updates the annotation, if the object has it, to a configuration that was just applied.
pub(super) fn update_annotation(object: &mut Value, patch: &Value) {
    if annotation(object).is_none() {
        return;
    }
    let mut configuration = patch.clone();
    if let Some(annotations) = annotations_mut(&mut configuration) {
        annotations.remove(ANNOTATION);
    }
    let text = encode(&configuration);
    let Some(annotations) = annotations_mut(object) else { return };
    annotations.insert(ANNOTATION.to_owned(), text.into());
    let size: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if size > ANNOTATIONS_MAX_BYTES {
        annotations.remove(ANNOTATION);
    }
}

fn annotation(object: &Value) -> Option<&str> {
    let annotations = object.get("metadata")?.get("annotations")?;
    annotations.get(ANNOTATION)?.as_str().filter(|text| !text.is_empty())
}

fn annotations_mut(object: &mut Value) -> Option<&mut Map<String, Value>> {
    object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()
}

/// Serializes JSON like Go's stream encoder: safe inside HTML, with a trailing newline.
fn encode(value: &Value) -> String {
    go_format::marshal(value) + "\n"
}
