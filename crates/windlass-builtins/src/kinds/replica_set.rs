//! ReplicaSets.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};

use super::deployment::not_more_than_replicas;
use super::pod_template;
use crate::columns::{self, Column, Printer, column, wide};
use crate::field_errors::FieldErrors;
use crate::object::{carry_over, integer, set, set_default};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of ReplicaSets.
#[derive(Debug, Clone, Copy)]
pub struct ReplicaSet;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column(
        "Desired",
        "integer",
        "Replicas is the number of desired pods. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    column(
        "Current",
        "integer",
        "Replicas is the most recently observed number of non-terminating pods. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicaset",
    ),
    column(
        "Ready",
        "integer",
        "The number of non-terminating pods targeted by this ReplicaSet with a Ready Condition.",
    ),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
    wide(
        "Selector",
        "string",
        "Selector is a label query over pods that should match the replica count. Label keys and values that must match in order to be controlled by this replica set. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for ReplicaSet {
    fn default(&self, object: &mut Value) {
        set_default(object, "/spec/replicas", 1);
        pod_template::default(object);
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({"replicas": 0}));
        set(object, "/metadata/generation", 1);
        pod_template::drop_disabled(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let spec = object.get("spec").unwrap_or(&Value::Null);
        errors.nonnegative(&path.child("replicas"), integer(spec, "/replicas"));
        errors.nonnegative(&path.child("minReadySeconds"), integer(spec, "/minReadySeconds"));
        pod_template::validate_selector(spec, &path, &mut errors);
        pod_template::validate_for_replicas(spec, &path, &mut errors);
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/status");
        pod_template::drop_disabled(object);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(object);
        pod_template::validate_selector_unchanged(object, old, &mut errors);
        errors
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        if subresource == "status" {
            carry_over(object, old, "/spec");
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        if subresource == "status" { validate_status(object) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        pod_template::warnings(object, old)
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    cells_with_selector(object, now, columns::selector(object, "/spec/selector"))
}

/// Returns the cells of a ReplicaSet or ReplicationController, whose selectors are formatted differently.
pub(super) fn cells_with_selector(object: &Value, now: Timestamp, selector: String) -> Vec<Value> {
    let number = |pointer| Value::from(integer(object, pointer).unwrap_or_default());
    let (containers, images) = columns::containers(object, "/spec/template/spec/containers");
    vec![
        columns::name(object),
        number("/spec/replicas"),
        number("/status/replicas"),
        number("/status/readyReplicas"),
        columns::age(object, now),
        containers.into(),
        images.into(),
        selector.into(),
    ]
}

/// Validates the status of a ReplicaSet or ReplicationController. The latter has no terminating replicas.
pub(super) fn validate_status(object: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let status = object.get("status").unwrap_or(&Value::Null);
    let number = |name: &str| status.get(name).and_then(Value::as_i64);
    for field in [
        "replicas",
        "fullyLabeledReplicas",
        "readyReplicas",
        "availableReplicas",
        "observedGeneration",
        "terminatingReplicas",
    ] {
        errors.nonnegative(&path.child(field), number(field));
    }
    not_more_than_replicas(status, &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"], &path, &mut errors);
    let available = number("availableReplicas").unwrap_or_default();
    if available > number("readyReplicas").unwrap_or_default() {
        errors.invalid(&path.child("availableReplicas"), available, "cannot be greater than readyReplicas");
    }
    errors
}
