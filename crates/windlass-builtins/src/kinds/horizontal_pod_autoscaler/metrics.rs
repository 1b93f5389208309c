//! Metrics in the format of the `autoscaling/v1` annotations: flat, with different field names.

use serde_json::{Value, json};
use windlass_schema::go_format::marshal;

use crate::object::{copy, is_set, set, text};

/// A field: its name in the annotation, its JSON pointer in `autoscaling/v2`, and the value if it is absent; `None` if
/// it is then omitted.
type Column = (&'static str, &'static str, Option<&'static str>);

/// A metric source: its type, its field, and the fields within that.
type Sort = (&'static str, &'static str, &'static [Column]);

const NAME: Column = ("metricName", "/metric/name", Some("\"\""));
const ZERO: Option<&str> = Some("\"0\"");

const SPECS: [Sort; 5] = [
    (
        "Object",
        "object",
        &[
            ("target", "/describedObject", Some("{}")),
            NAME,
            ("targetValue", "/target/value", ZERO),
            ("selector", "/metric/selector", None),
            ("averageValue", "/target/averageValue", None),
        ],
    ),
    (
        "Pods",
        "pods",
        &[NAME, ("targetAverageValue", "/target/averageValue", ZERO), ("selector", "/metric/selector", None)],
    ),
    (
        "Resource",
        "resource",
        &[
            ("name", "/name", Some("\"\"")),
            ("targetAverageUtilization", "/target/averageUtilization", None),
            ("targetAverageValue", "/target/averageValue", None),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", "/name", Some("\"\"")),
            ("targetAverageUtilization", "/target/averageUtilization", None),
            ("targetAverageValue", "/target/averageValue", None),
            ("container", "/container", Some("\"\"")),
        ],
    ),
    (
        "External",
        "external",
        &[
            NAME,
            ("metricSelector", "/metric/selector", None),
            ("targetValue", "/target/value", None),
            ("targetAverageValue", "/target/averageValue", None),
        ],
    ),
];

const STATUSES: [Sort; 5] = [
    (
        "Object",
        "object",
        &[
            ("target", "/describedObject", Some("{}")),
            NAME,
            ("currentValue", "/current/value", ZERO),
            ("selector", "/metric/selector", None),
            ("averageValue", "/current/averageValue", None),
        ],
    ),
    (
        "Pods",
        "pods",
        &[NAME, ("currentAverageValue", "/current/averageValue", ZERO), ("selector", "/metric/selector", None)],
    ),
    (
        "Resource",
        "resource",
        &[
            ("name", "/name", Some("\"\"")),
            ("currentAverageUtilization", "/current/averageUtilization", None),
            ("currentAverageValue", "/current/averageValue", ZERO),
        ],
    ),
    (
        "ContainerResource",
        "containerResource",
        &[
            ("name", "/name", Some("\"\"")),
            ("currentAverageUtilization", "/current/averageUtilization", None),
            ("currentAverageValue", "/current/averageValue", ZERO),
            ("container", "/container", Some("\"\"")),
        ],
    ),
    (
        "External",
        "external",
        &[
            NAME,
            ("metricSelector", "/metric/selector", None),
            ("currentValue", "/current/value", ZERO),
            ("currentAverageValue", "/current/averageValue", None),
        ],
    ),
];

/// Formats a metric of the spec for the annotation.
pub(super) fn old_spec(metric: &Value) -> String {
    old(metric, &SPECS)
}

/// Formats a metric of the status for the annotation.
pub(super) fn old_status(metric: &Value) -> String {
    old(metric, &STATUSES)
}

/// Parses a metric of the status from the annotation.
pub(super) fn new_status(metric: &Value) -> Value {
    new(metric, &STATUSES)
}

/// Parses a metric of the spec from the annotation.
pub(super) fn new_spec(metric: &Value) -> Value {
    let mut metric = new(metric, &SPECS);
    for (kind, field, _) in SPECS {
        if !is_set(&metric, &format!("/{field}")) {
            continue;
        }
        let has = |name: &str| is_set(&metric, &format!("/{field}/target/{name}"));
        let target = match kind {
            "Object" if has("averageValue") && text(&metric, "/object/target/value") == "0" => {
                crate::object::remove(&mut metric, "/object/target/value");
                "AverageValue"
            }
            "Pods" => "AverageValue",
            "Object" if has("averageValue") => "AverageValue",
            "Object" => "Value",
            "External" if has("value") => "Value",
            "Resource" | "ContainerResource" if has("averageUtilization") => "Utilization",
            _ => "AverageValue",
        };
        set(&mut metric, &format!("/{field}/target/type"), target);
    }
    metric
}

fn old(metric: &Value, sorts: &[Sort]) -> String {
    let mut out = format!("{{\"type\":{}", marshal(&copy(metric, "/type")));
    for (_, field, columns) in sorts {
        let Some(source) = metric.get(field).filter(|source| !source.is_null()) else { continue };
        let fields: Vec<String> = columns
            .iter()
            .filter_map(|(name, pointer, absent)| {
                let value = source.pointer(pointer).filter(|value| !value.is_null());
                let shown = match value {
                    Some(value) if *name == "target" => reference(value),
                    Some(value) => marshal(value),
                    None => (*absent)?.to_owned(),
                };
                Some(format!("\"{name}\":{shown}"))
            })
            .collect();
        out += &format!(",\"{field}\":{{{}}}", fields.join(","));
    }
    out + "}"
}

fn reference(value: &Value) -> String {
    let field = |name: &str| marshal(&json!(text(value, &format!("/{name}"))));
    let mut out = format!("{{\"kind\":{},\"name\":{}", field("kind"), field("name"));
    if !text(value, "/apiVersion").is_empty() {
        out += &format!(",\"apiVersion\":{}", field("apiVersion"));
    }
    out + "}"
}

fn new(metric: &Value, sorts: &[Sort]) -> Value {
    let mut out = json!({"type": text(metric, "/type")});
    for (_, field, columns) in sorts {
        let Some(source) = metric.get(field).filter(|source| source.is_object()) else { continue };
        let mut made = json!({});
        for (name, pointer, _) in *columns {
            if let Some(value) = source.get(name).filter(|value| !value.is_null()) {
                set(&mut made, pointer, value.clone());
            }
        }
        out[field] = made;
    }
    out
}
