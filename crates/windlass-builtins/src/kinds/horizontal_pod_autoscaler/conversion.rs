//! Conversion between `autoscaling/v2` and `autoscaling/v1`, which has only one metric, the CPU utilization. Everything
//! else is stored in annotations, so that the conversion is lossless.

use serde_json::{Value, json};

use super::annotations::{Annotations, cpu_metric, split};

/// Converts from the stored version, `autoscaling/v2`, to `autoscaling/v1`.
pub fn v2_to_v1(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v1".into();
    let mut annotations = Annotations::default();
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let (cpu, rest) = split(spec.remove("metrics").as_ref());
        if let Some(cpu) = cpu {
            spec.insert("targetCPUUtilizationPercentage".to_owned(), cpu.into());
        }
        annotations.metrics = rest;
        annotations.behavior = spec.remove("behavior");
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        annotations.current = status.remove("currentMetrics");
        let current = annotations.current.as_ref().and_then(Value::as_array).into_iter().flatten();
        let is_cpu = |metric: &&Value| metric["type"] == "Resource" && metric["resource"]["name"] == "cpu";
        let mut used =
            current.filter(is_cpu).filter_map(|metric| metric["resource"]["current"]["averageUtilization"].as_i64());
        if let Some(cpu) = used.next_back() {
            status.insert("currentCPUUtilizationPercentage".to_owned(), cpu.into());
        }
        annotations.conditions = status.remove("conditions");
        status.entry("currentReplicas").or_insert_with(|| 0.into());
    }
    annotations.write(&mut object);
    object
}

/// Converts from `autoscaling/v1` to the stored version, `autoscaling/v2`.
pub fn v1_to_v2(mut object: Value) -> Value {
    object["apiVersion"] = "autoscaling/v2".into();
    let annotations = Annotations::take(&mut object);
    if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut) {
        let cpu = spec.remove("targetCPUUtilizationPercentage").and_then(|value| value.as_i64());
        let mut metrics = annotations.metrics;
        metrics.extend(cpu.map(cpu_metric));
        if !metrics.is_empty() {
            spec.insert("metrics".to_owned(), metrics.into());
        }
        if let Some(behavior) = annotations.behavior {
            spec.insert("behavior".to_owned(), behavior);
        }
    }
    if let Some(status) = object.get_mut("status").and_then(Value::as_object_mut) {
        let cpu = status.remove("currentCPUUtilizationPercentage").and_then(|value| value.as_i64());
        let cpu = cpu.map(|percent| {
            json!([{"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": percent}}}])
        });
        // `autoscaling/v2` always has the list, even if it is empty.
        status.insert("currentMetrics".to_owned(), annotations.current.or(cpu).unwrap_or(Value::Null));
        if let Some(conditions) = annotations.conditions {
            status.insert("conditions".to_owned(), conditions);
        }
        if status.get("currentReplicas").is_some_and(|replicas| replicas == 0) {
            status.remove("currentReplicas");
        }
    }
    object
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
    fn conversion_to_v1_and_back_is_lossless() {
        let condition = json!({"type": "AbleToScale", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z", "reason": "R"});
        let target = json!({"apiVersion": "v1", "kind": "Service", "name": "s"});
        let v2 = json!({"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": {"name": "h"},
            "spec": {"maxReplicas": 3, "behavior": {"scaleDown": {"stabilizationWindowSeconds": 5, "policies": [
                    {"type": "Pods", "value": 1, "periodSeconds": 2}]}},
                "metrics": [
                {"type": "Pods", "pods": {"metric": {"name": "qps"}, "target": {"type": "AverageValue", "averageValue": "10"}}},
                {"type": "Object", "object": {"describedObject": target, "metric": {"name": "m"},
                    "target": {"type": "Value", "value": "3"}}},
                {"type": "External", "external": {"metric": {"name": "m", "selector": {"matchLabels": {"a": "b"}}},
                    "target": {"type": "AverageValue", "averageValue": "3"}}},
                {"type": "ContainerResource", "containerResource": {"name": "memory", "container": "c",
                    "target": {"type": "Utilization", "averageUtilization": 3}}}]},
            "status": {"currentMetrics": [
                {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 4, "averageValue": "2"}}}],
                "conditions": [condition]}});
        let v1 = v2_to_v1(v2.clone());
        assert_eq!(
            v1["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/behavior"],
            "{\"ScaleUp\":null,\"ScaleDown\":{\"StabilizationWindowSeconds\":5,\"SelectPolicy\":null,\"Policies\":[{\"Type\":\"Pods\",\"Value\":1,\"PeriodSeconds\":2}],\"Tolerance\":null}}"
        );
        let metrics =
            v1["metadata"]["annotations"]["autoscaling.alpha.kubernetes.io/metrics"].as_str().expect("a note");
        let first = "[{\"type\":\"Pods\",\"pods\":{\"metricName\":\"qps\",\"targetAverageValue\":\"10\"}},";
        assert!(metrics.starts_with(first), "{metrics}");
        assert_eq!(v1["status"], json!({"currentCPUUtilizationPercentage": 4, "currentReplicas": 0}));
        assert_eq!(v1_to_v2(v1), v2);
    }
}
