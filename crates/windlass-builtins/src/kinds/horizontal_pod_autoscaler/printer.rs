//! The cells of HorizontalPodAutoscalers: current and target metrics.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns::{age, name};
use crate::object::{integer, is_set, items, text};

/// Returns the cells of a row, for both API versions.
pub(super) fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let target = format!("{}/{}", text(object, "/spec/scaleTargetRef/kind"), text(object, "/spec/scaleTargetRef/name"));
    let least = integer(object, "/spec/minReplicas").map_or_else(|| "<unset>".to_owned(), |least| least.to_string());
    vec![
        name(object),
        target.into(),
        metrics(object).into(),
        least.into(),
        integer(object, "/spec/maxReplicas").unwrap_or_default().into(),
        integer(object, "/status/currentReplicas").unwrap_or_default().into(),
        age(object, now),
    ]
}

/// Formats at most two metrics and the number of the others.
fn metrics(object: &Value) -> String {
    let statuses = items(object, "/status/currentMetrics");
    let mut list: Vec<_> = items(object, "/spec/metrics")
        .iter()
        .enumerate()
        .map(|(i, spec)| metric(spec, statuses.get(i).unwrap_or(&Value::Null)))
        .collect();
    // `autoscaling/v1` has only the CPU utilization.
    if let Some(target) = integer(object, "/spec/targetCPUUtilizationPercentage") {
        let current = percent(integer(object, "/status/currentCPUUtilizationPercentage"), "<unknown>");
        list.push(format!("cpu: {current}/{target}%"));
    }
    match list.len() {
        0 => "<none>".to_owned(),
        1 | 2 => list.join(", "),
        more => format!("{} + {} more...", list[..2].join(", "), more - 2),
    }
}

fn metric(spec: &Value, status: &Value) -> String {
    let field = match text(spec, "/type") {
        "External" => "external",
        "Pods" => "pods",
        "Object" => "object",
        "Resource" => "resource",
        "ContainerResource" => "containerResource",
        _ => return "<unknown type>".to_owned(),
    };
    let target = |value: &str| format!("/{field}/target/{value}");
    let current = |value: &str| match status.pointer(&format!("/{field}/current/{value}")).and_then(Value::as_str) {
        Some(amount) => amount.to_owned(),
        // A quantity that is not a pointer prints its zero value.
        None if is_set(status, &format!("/{field}/current")) && !matches!(field, "external" | "object") => {
            "0".to_owned()
        }
        None => "<unknown>".to_owned(),
    };
    let averaged = is_set(spec, &target("averageValue"));
    let amount = |value: &str| text(spec, &target(value)).to_owned();
    match field {
        "pods" => format!("{}/{}", current("averageValue"), amount("averageValue")),
        "external" | "object" if averaged => format!("{}/{} (avg)", current("averageValue"), amount("averageValue")),
        "external" | "object" => format!("{}/{}", current("value"), amount("value")),
        _ => {
            let resource = text(spec, &format!("/{field}/name"));
            if averaged {
                return format!("{resource}: {}/{}", current("averageValue"), amount("averageValue"));
            }
            let now = percent(integer(status, &format!("/{field}/current/averageUtilization")), "<unknown>");
            let aim = percent(integer(spec, &target("averageUtilization")), "<auto>");
            format!("{resource}: {now}/{aim}")
        }
    }
}

fn percent(value: Option<i64>, absent: &str) -> String {
    value.map_or_else(|| absent.to_owned(), |value| format!("{value}%"))
}
