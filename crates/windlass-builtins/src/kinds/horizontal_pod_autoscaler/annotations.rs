//! The annotations in which `autoscaling/v1` objects store values that have no field there, in kube-apiserver's format.

use serde_json::{Map, Value, json};
use windlass_schema::{go_format::marshal, sorting::Gather as _};

use super::metrics;
use crate::kinds::internal_types::{self, Field, NUMBER, OPTIONAL, Shape, TEXT, pointer};
use crate::object::{items, text};

/// Metrics other than the CPU utilization.
pub(super) const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";
const ALL: [&str; 6] = [
    METRICS,
    BEHAVIOR,
    CURRENT_METRICS,
    CONDITIONS,
    "autoscaling.alpha.kubernetes.io/scale-down-tolerance",
    "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
];

const POLICY: &[Field] =
    &[("Type", "type", TEXT), ("Value", "value", NUMBER), ("PeriodSeconds", "periodSeconds", NUMBER)];
const RULES: &[Field] = &[
    ("StabilizationWindowSeconds", "stabilizationWindowSeconds", OPTIONAL),
    ("SelectPolicy", "selectPolicy", OPTIONAL),
    ("Policies", "policies", Shape::List(POLICY)),
    ("Tolerance", "tolerance", OPTIONAL),
];
const BEHAVIOR_FIELDS: &[Field] = &[("ScaleUp", "scaleUp", pointer(RULES)), ("ScaleDown", "scaleDown", pointer(RULES))];

/// The values that `autoscaling/v1` has no fields for.
#[derive(Default)]
pub(super) struct Annotations {
    /// `spec.metrics`, without the CPU utilization.
    pub(super) metrics: Vec<Value>,
    /// `spec.behavior`.
    pub(super) behavior: Option<Value>,
    /// `status.currentMetrics`.
    pub(super) current: Option<Value>,
    /// `status.conditions`.
    pub(super) conditions: Option<Value>,
}

impl Annotations {
    /// Writes the annotations.
    pub(super) fn write(&self, object: &mut Value) {
        drop_all(object);
        let mut note = |key: &str, text: String| object["metadata"]["annotations"][key] = text.into();
        let list = |all: Vec<String>| format!("[{}]", all.join(","));
        if !self.metrics.is_empty() {
            note(METRICS, list(self.metrics.iter().map(metrics::old_spec).collect()));
        }
        let current = self.current.as_ref().and_then(Value::as_array).filter(|current| !current.is_empty());
        if let Some(current) = current {
            note(CURRENT_METRICS, list(current.iter().map(metrics::old_status).collect()));
        }
        if let Some(behavior) = self.behavior.as_ref().filter(|behavior| !behavior.is_null()) {
            note(BEHAVIOR, internal_types::show(behavior, BEHAVIOR_FIELDS));
        }
        let conditions = self.conditions.as_ref().and_then(Value::as_array).filter(|all| !all.is_empty());
        if let Some(conditions) = conditions {
            note(CONDITIONS, list(conditions.iter().map(show_condition).collect()));
        }
    }

    /// Reads and removes the annotations.
    pub(super) fn take(object: &mut Value) -> Self {
        let read = |key: &str| -> Option<Value> {
            serde_json::from_str(object.get("metadata")?.get("annotations")?.get(key)?.as_str()?).ok()
        };
        let list = |value: Option<Value>| value.and_then(|value| value.as_array().cloned());
        let annotations = Self {
            metrics: list(read(METRICS)).unwrap_or_default().iter().map(metrics::new_spec).collect(),
            behavior: read(BEHAVIOR)
                .map(lower_names)
                .filter(|behavior| behavior.as_object().is_some_and(|b| !b.is_empty())),
            current: list(read(CURRENT_METRICS)).map(|all| all.iter().map(metrics::new_status).collect()),
            conditions: list(read(CONDITIONS)).map(Value::from),
        };
        drop_all(object);
        annotations
    }
}

fn drop_all(object: &mut Value) {
    let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) else { return };
    let Some(annotations) = metadata.get_mut("annotations").and_then(Value::as_object_mut) else { return };
    annotations.retain(|key, _| !ALL.contains(&key.as_str()));
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
}

fn show_condition(condition: &Value) -> String {
    let field = |name: &str| marshal(condition.get(name).unwrap_or(&Value::Null));
    let mut out = format!("{{\"type\":{},\"status\":{}", field("type"), field("status"));
    out += &format!(",\"lastTransitionTime\":{}", field("lastTransitionTime"));
    for name in ["reason", "message"] {
        if !text(condition, &format!("/{name}")).is_empty() {
            out += &format!(",\"{name}\":{}", field(name));
        }
    }
    out + "}"
}

/// Converts Go field names to JSON names and drops null fields.
fn lower_names(value: Value) -> Value {
    match value {
        Value::Object(fields) => {
            let fields = fields.into_iter().filter(|(_, value)| !value.is_null()).map(|(name, value)| {
                let mut letters = name.chars();
                let first = letters.next().map(|letter| letter.to_ascii_lowercase());
                (first.into_iter().chain(letters).collect::<String>(), lower_names(value))
            });
            Value::Object(fields.gather::<Map<_, _>>())
        }
        Value::Array(list) => list.into_iter().map(lower_names).collect(),
        other => other,
    }
}

/// Separates the CPU utilization from the other metrics.
pub(super) fn split(metrics: Option<&Value>) -> (Option<i64>, Vec<Value>) {
    let (mut cpu, mut rest) = (None, Vec::new());
    for metric in metrics.map_or(&[][..], |metrics| items(metrics, "")) {
        let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        match metric["resource"]["target"]["averageUtilization"].as_i64().filter(|_| is_cpu) {
            Some(percent) => cpu = cpu.or(Some(percent)),
            None => rest.push(metric.clone()),
        }
    }
    (cpu, rest)
}

/// Returns the metric that has a field in `autoscaling/v1`.
pub(super) fn cpu_metric(percent: i64) -> Value {
    let target = json!({"type": "Utilization", "averageUtilization": percent});
    json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})
}
