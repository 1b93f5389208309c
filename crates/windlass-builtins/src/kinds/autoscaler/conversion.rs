//! `autoscaling/v1` is a smaller view of `autoscaling/v2`: one metric, the use of the CPU. What does not fit into it
//! travels in annotations, so that nothing is lost on the way there and back.

use serde_json::{Value, json};

const METRICS: &str = "autoscaling.alpha.kubernetes.io/metrics";
const BEHAVIOR: &str = "autoscaling.alpha.kubernetes.io/behavior";
const CURRENT_METRICS: &str = "autoscaling.alpha.kubernetes.io/current-metrics";
const CONDITIONS: &str = "autoscaling.alpha.kubernetes.io/conditions";

/// The stored form (`autoscaling/v2`) as `autoscaling/v1`.
pub fn v2_to_v1(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v1".into();
    let mut notes = Vec::new();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let metrics = spec.remove("metrics");
        let (cpu, rest) = split(metrics, |metric| metric["resource"]["target"]["averageUtilization"].as_i64());
        if let Some(cpu) = cpu {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), cpu.into());
        }
        notes.push((METRICS, rest));
        notes.push((BEHAVIOR, spec.remove("behavior")));
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let metrics = status.remove("currentMetrics");
        let (cpu, rest) = split(metrics, |metric| metric["resource"]["current"]["averageUtilization"].as_i64());
        if let Some(cpu) = cpu {
            status.insert("currentCPUUtilizationPercentage".to_owned(), cpu.into());
        }
        notes.push((CURRENT_METRICS, rest));
        notes.push((CONDITIONS, status.remove("conditions")));
    }
    for (key, value) in notes {
        if let Some(value) = value.filter(|value| !value.is_null() && *value != json!([])) {
            object["metadata"]["annotations"][key] = value.to_string().into();
        }
    }
    object
}

/// `autoscaling/v1` as it is stored (`autoscaling/v2`).
pub fn v1_to_v2(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v2".into();
    let metrics = take_note(&mut object, METRICS);
    let behavior = take_note(&mut object, BEHAVIOR);
    let current = take_note(&mut object, CURRENT_METRICS);
    let conditions = take_note(&mut object, CONDITIONS);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let cpu = spec.remove("targetCPUUtilizationPercentage").and_then(|value| value.as_i64());
        let cpu =
            cpu.map(|percent| json!({"name": "cpu", "target": {"type": "Utilization", "averageUtilization": percent}}));
        if let Some(metrics) = join(cpu, metrics) {
            spec.insert("metrics".to_owned(), metrics);
        }
        if let Some(behavior) = behavior {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let cpu = status.remove("currentCPUUtilizationPercentage").and_then(|value| value.as_i64());
        let cpu = cpu.map(|percent| json!({"name": "cpu", "current": {"averageUtilization": percent}}));
        // `autoscaling/v2` always writes the list, empty or not.
        status.insert("currentMetrics".to_owned(), join(cpu, current).unwrap_or(Value::Null));
        if let Some(conditions) = conditions {
            status.insert("conditions".to_owned(), conditions);
        }
    }
    object
}

/// The use of the CPU among some metrics, and the others.
fn split(metrics: Option<Value>, percent: impl Fn(&Value) -> Option<i64>) -> (Option<i64>, Option<Value>) {
    let Some(Value::Array(metrics)) = metrics else { return (None, None) };
    let mut cpu = None;
    let mut rest = Vec::new();
    for metric in metrics {
        let is_cpu = metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        match percent(&metric).filter(|_| is_cpu && cpu.is_none()) {
            Some(found) => cpu = Some(found),
            None => rest.push(metric),
        }
    }
    (cpu, Some(Value::Array(rest)))
}

fn join(cpu: Option<Value>, rest: Option<Value>) -> Option<Value> {
    let mut all = match rest {
        Some(Value::Array(rest)) => rest,
        _ => Vec::new(),
    };
    all.extend(cpu.map(|resource| json!({"type": "Resource", "resource": resource})));
    (!all.is_empty()).then_some(Value::Array(all))
}

fn take_note(object: &mut Value, key: &str) -> Option<Value> {
    let annotations = object.get_mut("metadata")?.get_mut("annotations")?.as_object_mut()?;
    let value = serde_json::from_str(annotations.get(key)?.as_str()?).ok()?;
    annotations.remove(key);
    if annotations.is_empty() {
        object["metadata"].as_object_mut()?.remove("annotations");
    }
    Some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_utilization_is_a_metric_in_the_stored_form() {
        let v1 = json!({"apiVersion": "autoscaling/v1", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "targetCPUUtilizationPercentage": 70}, "status": {"currentReplicas": 0}});
        let v2 = v1_to_v2(v1.clone());
        assert_eq!(v2["spec"]["metrics"][0]["resource"]["target"]["averageUtilization"], 70);
        assert_eq!(v2["spec"]["targetCPUUtilizationPercentage"], Value::Null);
        assert_eq!(v2_to_v1(v2), v1);
    }

    #[test]
    fn what_the_old_version_cannot_say_survives_the_way_there_and_back() {
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "metrics": [{"type": "Pods", "pods": {"metric": {"name": "qps"}}}],
                "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5}}},
            "status": {"currentMetrics": null, "conditions": [{"type": "AbleToScale", "status": "True"}]}});
        let v1 = v2_to_v1(v2.clone());
        assert_eq!(v1["spec"]["behavior"], Value::Null);
        assert_eq!(v1_to_v2(v1), v2);
    }
}
