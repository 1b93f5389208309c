//! DaemonSets.

mod validation;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::ErrorList;

use super::pod_template;
use crate::columns::{self, Column, Printer, column, wide};
use crate::diff::same;
use crate::object::{copy, integer, is_set, map, set, set_default, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of DaemonSets.
#[derive(Debug, Clone, Copy)]
pub struct DaemonSet;

/// Counts the changes of the template. Formerly a field of the spec, it still is one in kube-apiserver's internal type.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const COLUMNS: &[Column] = &[
    columns::NAME,
    column(
        "Desired",
        "integer",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    column(
        "Current",
        "integer",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    column(
        "Ready",
        "integer",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod running with a Ready Condition.",
    ),
    column("Up-to-date", "integer", "The total number of nodes that are running updated daemon pod"),
    column(
        "Available",
        "integer",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available (ready for at least spec.minReadySeconds)",
    ),
    column(
        "Node Selector",
        "string",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's labels for the pod to be scheduled on that node. More info: https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
    ),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
    wide(
        "Selector",
        "string",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for DaemonSet {
    fn default(&self, object: &mut Value) {
        set_default_text(object, "/spec/updateStrategy/type", "RollingUpdate");
        if text(object, "/spec/updateStrategy/type") == "RollingUpdate" {
            set_default(object, "/spec/updateStrategy/rollingUpdate/maxUnavailable", 1);
            set_default(object, "/spec/updateStrategy/rollingUpdate/maxSurge", 0);
        } else if is_set(object, "/spec/updateStrategy/rollingUpdate") {
            // kube-apiserver's internal type has numbers here, which cannot be absent.
            set_default(object, "/spec/updateStrategy/rollingUpdate/maxUnavailable", 0);
            set_default(object, "/spec/updateStrategy/rollingUpdate/maxSurge", 0);
        }
        set_default(object, "/spec/revisionHistoryLimit", 10);
        pod_template::default(object);
        let generation = template_generation(object);
        set_template_generation(object, generation);
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled(object);
        let generation = template_generation(object).max(1);
        set_template_generation(object, generation);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        pod_template::drop_disabled(object);
        let changed = !same(&copy(object, "/spec/template"), &copy(old, "/spec/template"));
        set_template_generation(object, template_generation(old).saturating_add(i64::from(changed)));
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        pod_template::validate_selector_unchanged(object, old, &mut errors);
        errors.extend(validation::validate(object));
        errors
    }

    fn prepare_for_subresource_update(
        &self,
        _subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        set_template_generation(object, template_generation(old));
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { validation::validate_status(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_some_and(|old| template_generation(object) == template_generation(old)) {
            return Vec::new();
        }
        pod_template::template_warnings(object)
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let (names, images) = columns::containers(object, "/spec/template/spec/containers");
    let status = |pointer| Value::from(integer(object, pointer).unwrap_or_default());
    vec![
        columns::name(object),
        status("/status/desiredNumberScheduled"),
        status("/status/currentNumberScheduled"),
        status("/status/numberReady"),
        status("/status/updatedNumberScheduled"),
        status("/status/numberAvailable"),
        columns::labels(object, "/spec/template/spec/nodeSelector").into(),
        columns::age(object, now),
        names.into(),
        images.into(),
        columns::selector(object, "/spec/selector").into(),
    ]
}

fn template_generation(object: &Value) -> i64 {
    let annotation = map(object, "/metadata/annotations").and_then(|all| all.get(TEMPLATE_GENERATION)?.as_str());
    annotation.and_then(|text| text.parse().ok()).unwrap_or_default()
}

fn set_template_generation(object: &mut Value, generation: i64) {
    set(object, &format!("/metadata/annotations/{TEMPLATE_GENERATION}"), generation.to_string());
}

#[cfg(test)]
mod tests;
