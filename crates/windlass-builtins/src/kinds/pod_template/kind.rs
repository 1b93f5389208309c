//! The PodTemplate kind.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::{default_at, drop_disabled_at, same_generation};
use crate::columns::{self, Column, Printer, column};
use crate::kinds::pod;
use crate::strategy::{Strategy, WriteContext};

/// Strategy of PodTemplates.
#[derive(Debug, Clone, Copy)]
pub struct PodTemplate;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Containers", "string", "Names of each container in the template."),
    column("Images", "string", "Images referenced by each container in the template."),
    column("Pod Labels", "string", "The labels for the pod template."),
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PodTemplate {
    fn default(&self, object: &mut Value) {
        default_at(object, "/template");
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        drop_disabled_at(object, "/template");
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let template = object.get("template").unwrap_or(&Value::Null);
        pod::validation::validate_template(template, &Path::new("template"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        drop_disabled_at(object, "/template");
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| same_generation(object, old)) {
            return Vec::new();
        }
        pod::template_warnings(object.get("template").unwrap_or(&Value::Null), &Path::new("template"))
    }
}

fn cells(object: &Value, _now: Timestamp) -> Vec<Value> {
    let (names, images) = columns::containers(object, "/template/spec/containers");
    let labels = columns::labels(object, "/template/metadata/labels");
    vec![columns::name(object), names.into(), images.into(), labels.into()]
}

#[cfg(test)]
mod tests;
