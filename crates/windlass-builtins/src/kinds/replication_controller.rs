//! ReplicationControllers, the predecessors of ReplicaSets.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::{pod, pod_template, replica_set};
use crate::columns::{self, Column, Printer, column, wide};
use crate::field_errors::FieldErrors;
use crate::object::{copy, entries, integer, map, set, set_default};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of ReplicationControllers.
#[derive(Debug, Clone, Copy)]
pub struct ReplicationController;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column(
        "Desired",
        "integer",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    column(
        "Current",
        "integer",
        "Replicas is the most recently observed number of replicas. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    column("Ready", "integer", "The number of ready replicas for this replication controller."),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
    wide(
        "Selector",
        "string",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted to the labels present on the Pod template. Label keys and values that must match in order to be controlled by this replication controller, if empty defaulted to labels on Pod template. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for ReplicationController {
    fn default(&self, object: &mut Value) {
        let labels = copy(object, "/spec/template/metadata/labels");
        if labels.is_object() {
            for pointer in ["/spec/selector", "/metadata/labels"] {
                if map(object, pointer).is_none_or(|have| have.is_empty()) {
                    set(object, pointer, labels.clone());
                }
            }
        }
        if object.get("spec").is_some_and(Value::is_object) {
            set_default(object, "/spec/replicas", 1);
        }
        pod_template::default(object);
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        errors.nonnegative(&path.child("minReadySeconds"), integer(spec, "/minReadySeconds"));
        if entries(spec, "/selector").next().is_none() {
            errors.required(&path.child("selector"));
        }
        match integer(spec, "/replicas") {
            None => errors.required(&path.child("replicas")),
            replicas => errors.nonnegative(&path.child("replicas"), replicas),
        }
        let path = path.child("template");
        let Some(template) = spec.get("template").filter(|template| !template.is_null()) else {
            errors.required(&path);
            return errors;
        };
        let label = |key: &str| template.pointer("/metadata/labels").and_then(|labels| labels.get(key));
        let selected = entries(spec, "/selector").all(|(key, value)| label(key) == Some(value));
        pod_template::validate_selected(selected, template, &path, &mut errors);
        pod::validation::validate_template(template, &path, &mut errors);
        pod_template::validate_runs_on(template, &path, "ReplicationController", &mut errors);
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled(object);
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        if subresource == "status" { replica_set::validate_status(object) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        pod_template::warnings(object, old)
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("status.replicas", integer(object, "/status/replicas").unwrap_or_default().to_string())]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    replica_set::cells_with_selector(object, now, columns::labels(object, "/spec/selector"))
}

#[cfg(test)]
mod tests;
