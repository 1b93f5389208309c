//! NodeMetrics and PodMetrics, and their tables. Pure.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_apiserver::computed::ComputedTable;
use windlass_schema::{
    quantity::{Format, Quantity},
    time::{format_duration, parse_duration},
};

use crate::{sample::MeasuredObject, windows::Usage};

/// The API group.
pub const GROUP: &str = "metrics.k8s.io";
/// The version.
pub const VERSION: &str = "v1beta1";

/// Returns the NodeMetrics of a node.
pub(crate) fn node(about: &MeasuredObject, usage: &Usage, now: Timestamp) -> Value {
    json!({
        "kind": "NodeMetrics", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata(about, now),
        "timestamp": seconds(usage.time), "window": window(usage), "usage": resources(usage),
    })
}

/// Returns the PodMetrics of a pod.
pub(crate) fn pod(about: &MeasuredObject, usages: &[(&str, Usage)], now: Timestamp) -> Value {
    let containers: Vec<Value> =
        usages.iter().map(|(name, usage)| json!({"name": name, "usage": resources(usage)})).collect();
    let earliest = usages.iter().map(|(_, usage)| usage).min_by_key(|usage| usage.time);
    json!({
        "kind": "PodMetrics", "apiVersion": format!("{GROUP}/{VERSION}"), "metadata": metadata(about, now),
        "timestamp": seconds(earliest.map_or(now, |usage| usage.time)),
        "window": earliest.map_or_else(|| "0s".to_owned(), window), "containers": containers,
    })
}

fn metadata(about: &MeasuredObject, now: Timestamp) -> Value {
    let mut metadata = json!({"name": about.name, "creationTimestamp": seconds(now)});
    if !about.namespace.is_empty() {
        metadata["namespace"] = about.namespace.as_str().into();
    }
    if !about.labels.is_empty() {
        metadata["labels"] = json!(about.labels);
    }
    metadata
}

fn resources(usage: &Usage) -> Value {
    json!({"cpu": cores(usage.cpu), "memory": Quantity::new(saturated(usage.memory), Format::BinarySi).to_string()})
}

/// Formats billionths of a core.
fn cores(nanos: u64) -> String {
    Quantity::parse(&format!("{nanos}n")).map_or_else(|_| "0".to_owned(), |quantity| quantity.to_string())
}

fn saturated(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

fn window(usage: &Usage) -> String {
    format_duration(i64::try_from(usage.window.as_nanos()).unwrap_or(i64::MAX))
}

fn seconds(time: Timestamp) -> String {
    Timestamp::from_second(time.as_second()).unwrap_or(time).to_string()
}

/// Returns metrics as a table: the total usage, and the window.
pub(crate) fn table(objects: &[Value]) -> ComputedTable {
    let column = |name: &str, format: &str, description: &str| json!({"name": name, "type": "string", "format": format, "description": description, "priority": 0});
    let rows: Vec<Vec<Value>> = objects.iter().map(row).collect();
    let columns = [
        column("Name", "name", "Name of the resource"),
        column("cpu", "quantity", ""),
        column("memory", "quantity", ""),
        column("Window", "duration", ""),
    ];
    ComputedTable { columns: if rows.is_empty() { Vec::new() } else { columns.into() }, rows }
}

fn row(object: &Value) -> Vec<Value> {
    let usages: Vec<&Value> = match object["containers"].as_array() {
        Some(containers) => containers.iter().map(|container| &container["usage"]).collect(),
        None => vec![&object["usage"]],
    };
    let total = |resource: &str| {
        let mut quantities = usages.iter().filter_map(|usage| Quantity::parse(usage[resource].as_str()?).ok());
        let first = quantities.next().unwrap_or_else(Quantity::zero);
        quantities.fold(first, |mut total, next| {
            total.add(&next);
            total
        })
    };
    // Reformatted as a Go duration.
    let window = object["window"].as_str().and_then(|text| parse_duration(text).ok()).map(format_duration);
    vec![
        object["metadata"]["name"].clone(),
        total("cpu").to_string().into(),
        total("memory").to_string().into(),
        window.unwrap_or_default().into(),
    ]
}

/// Returns a kind in the form of a CustomResourceDefinition.
pub(crate) fn definition(kind: &str, plural: &str, scope: &str, usage: &Value) -> Value {
    let mut properties = json!({
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "timestamp": {"type": "string", "format": "date-time", "description": "End of the window."},
        "window": {"type": "string", "description": "Length of the window over which usage was measured."},
    });
    if let (Some(properties), Some(usage)) = (properties.as_object_mut(), usage.as_object()) {
        properties.extend(usage.clone());
    }
    let description = match kind {
        "NodeMetrics" => "Resource usage of a node.",
        _ => "Resource usage of a pod.",
    };
    json!({
        "metadata": {"name": format!("{plural}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": scope, "names": {"kind": kind, "plural": plural},
            "versions": [{"name": VERSION, "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "description": description, "properties": properties}}}],
        },
    })
}

/// The schema of a list of resources.
pub(crate) fn usage_schema() -> Value {
    let quantity = json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true});
    json!({"type": "object", "description": "Used amounts by resource.", "additionalProperties": quantity})
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn now() -> Timestamp {
        Timestamp::from_second(1_800_000_000).unwrap()
    }

    fn usage(cpu: u64, memory: u64) -> Usage {
        Usage { time: now(), window: Duration::from_millis(15_012), cpu, memory }
    }

    #[test]
    fn objects_have_the_form_of_those_of_metrics_server() {
        let labels = [("app".to_owned(), "web".to_owned())].into();
        let about = MeasuredObject { namespace: "default".to_owned(), name: "web".to_owned(), labels };
        let pod = pod(&about, &[("a", usage(1_234_567, 2048)), ("b", usage(0, 1))], now());
        assert_eq!(
            pod,
            json!({
                "kind": "PodMetrics", "apiVersion": "metrics.k8s.io/v1beta1",
                "metadata": {"name": "web", "namespace": "default", "creationTimestamp": "2027-01-15T08:00:00Z",
                    "labels": {"app": "web"}},
                "timestamp": "2027-01-15T08:00:00Z", "window": "15.012s",
                "containers": [{"name": "a", "usage": {"cpu": "1234567n", "memory": "2Ki"}},
                    {"name": "b", "usage": {"cpu": "0", "memory": "1"}}],
            })
        );
        let about = MeasuredObject { name: "node-1".to_owned(), ..MeasuredObject::default() };
        let node = node(&about, &usage(2_000_000_000, 3 << 20), now());
        assert_eq!(node["usage"], json!({"cpu": "2", "memory": "3Mi"}));
        assert_eq!(node["metadata"], json!({"name": "node-1", "creationTimestamp": "2027-01-15T08:00:00Z"}));
        let rows = [table(&[pod]).rows.remove(0), table(&[node]).rows.remove(0)];
        assert_eq!(json!(rows), json!([["web", "1234567n", "2049", "15.012s"], ["node-1", "2", "3Mi", "15.012s"]]));
        assert_eq!(table(&[]), ComputedTable::default());
    }
}
