use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_status, check_update, created};

fn valid() -> Value {
    json!({"apiVersion": "autoscaling/v2", "metadata": {"name": "h"}, "spec": {"maxReplicas": 3,
        "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}}})
}

fn metric(metric: Value) -> Value {
    json!({"/spec/metrics": [metric]})
}

#[test]
fn an_autoscaler_defaults_to_cpu_utilization() {
    let made = created(&HorizontalPodAutoscaler, &valid());
    assert_eq!(made["spec"]["minReplicas"], 1);
    assert_eq!(
        made["spec"]["metrics"][0]["resource"]["target"],
        json!({"type": "Utilization", "averageUtilization": 80})
    );
    assert_eq!(made["spec"].get("behavior"), None);
    let old = created(&HorizontalPodAutoscaler, &changed(&valid(), &json!({"/apiVersion": "autoscaling/v1"})));
    assert_eq!(old["spec"]["targetCPUUtilizationPercentage"], 80);
    let slow = json!({"/spec/behavior": {"scaleDown": {"stabilizationWindowSeconds": 60}}});
    let slow = created(&HorizontalPodAutoscaler, &changed(&valid(), &slow));
    assert_eq!(
        slow["spec"]["behavior"],
        json!({
            "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [
                {"type": "Pods", "value": 4, "periodSeconds": 15}, {"type": "Percent", "value": 100, "periodSeconds": 15}]},
            "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [
                {"type": "Percent", "value": 100, "periodSeconds": 15}]},
        })
    );
}

#[test]
fn bounds_and_target_are_validated() {
    check_create(
        &HorizontalPodAutoscaler,
        &valid(),
        &[
            (
                json!({"/spec/minReplicas": 0, "/spec/maxReplicas": null}),
                &[
                    "spec.minReplicas: Invalid value: 0: must be greater than or equal to 1",
                    "spec.maxReplicas: Required value: must be set and greater than 0",
                    "spec.metrics: Forbidden: must specify at least one Object or External metric to support scaling to zero replicas",
                ],
            ),
            (
                json!({"/spec/maxReplicas": -1}),
                &[
                    "spec.maxReplicas: Invalid value: -1: must be greater than or equal to 1",
                    "spec.maxReplicas: Invalid value: -1: must be greater than or equal to `minReplicas`",
                ],
            ),
            (
                json!({"/spec/scaleTargetRef": {"kind": "a/b"}}),
                &[
                    "spec.scaleTargetRef.kind: Invalid value: \"a/b\": may not contain '/'",
                    "spec.scaleTargetRef.name: Required value",
                    "spec.scaleTargetRef.apiVersion: Invalid value: \"\": apiVersion must specify API group",
                ],
            ),
            (
                json!({"/spec/scaleTargetRef/apiVersion": "a/b/c"}),
                &["spec.scaleTargetRef.apiVersion: Invalid value: \"a/b/c\": unexpected GroupVersion string: a/b/c"],
            ),
            (json!({"/spec/scaleTargetRef": {"kind": "ReplicationController", "name": "r", "apiVersion": "v1"}}), &[]),
            (
                json!({"/apiVersion": "autoscaling/v1", "/spec/targetCPUUtilizationPercentage": 0}),
                &["spec.metrics[0].resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
            ),
        ],
    );
    let old = changed(&created(&HorizontalPodAutoscaler, &valid()), &json!({"/spec/scaleTargetRef/apiVersion": ""}));
    check_update(&HorizontalPodAutoscaler, &old, &[(json!({"/spec/scaleTargetRef/name": "other"}), &[])]);
}

#[test]
fn each_metric_source_is_validated() {
    check_create(
        &HorizontalPodAutoscaler,
        &valid(),
        &[
            (
                metric(json!({"type": "Resource"})),
                &["spec.metrics[0].resource: Required value: must populate information for the given metric source"],
            ),
            (
                metric(json!({"type": "X"})),
                &[
                    "spec.metrics[0].type: Unsupported value: \"X\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
                    "spec.metrics[0].type: Unsupported value: \"X\": supported values: \"ContainerResource\", \"External\", \"Object\", \"Pods\", \"Resource\"",
                ],
            ),
            (
                metric(json!({"type": "Pods", "pods": {"metric": {}, "target": {"type": "Odd", "averageValue": "0"}}})),
                &[
                    "spec.metrics[0].pods.metric.name: Required value: must specify a metric name",
                    "spec.metrics[0].pods.target.type: Invalid value: \"Odd\": must be either Utilization, Value, or AverageValue",
                    "spec.metrics[0].pods.target.averageValue: Invalid value: \"0\": must be positive",
                ],
            ),
            (
                metric(
                    json!({"type": "External", "external": {"metric": {"name": "m"}, "target": {"type": "Value", "value": "1", "averageValue": "1"}}}),
                ),
                &[
                    "spec.metrics[0].external.target.value: Forbidden: may not set both a target value for metric and a per-pod target",
                ],
            ),
            (
                metric(
                    json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "target": {"type": "Utilization"}}}),
                ),
                &[
                    "spec.metrics[0].containerResource.container: Required value: must specify a container",
                    "spec.metrics[0].containerResource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
                ],
            ),
        ],
    );
}

#[test]
fn scaling_behavior_is_validated() {
    check_create(
        &HorizontalPodAutoscaler,
        &valid(),
        &[
            (
                json!({"/spec/behavior": {"scaleUp": {"stabilizationWindowSeconds": 3601, "selectPolicy": "X", "policies": [], "tolerance": "-1"}}}),
                &[
                    "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                    "spec.behavior.scaleUp.selectPolicy: Unsupported value: \"X\": supported values: \"Disabled\", \"Max\", \"Min\"",
                    "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
                    "spec.behavior.scaleUp.tolerance: Invalid value: \"-1\": must be greater than or equal to 0",
                ],
            ),
            (
                json!({"/spec/behavior": {"scaleDown": {"policies": [{"type": "X", "value": 0, "periodSeconds": 1801}]}}}),
                &[
                    "spec.behavior.scaleDown.policies[0].type: Unsupported value: \"X\": supported values: \"Percent\", \"Pods\"",
                    "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
                    "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                ],
            ),
        ],
    );
    check_status(
        &HorizontalPodAutoscaler,
        &json!({}),
        &[(
            json!({"/status/desiredReplicas": -1}),
            &["status.desiredReplicas: Invalid value: -1: must be greater than or equal to 0"],
        )],
    );
}
