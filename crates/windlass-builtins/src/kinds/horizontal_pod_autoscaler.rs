//! HorizontalPodAutoscalers, in both API versions.

mod annotations;
pub mod conversion;
mod metrics;
mod printer;
mod validation;

use std::borrow::Cow;

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};

use crate::columns::{self, Column, Printer, column};
use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, map, set, set_default, text};
use crate::strategy::Strategy;

/// Strategy of HorizontalPodAutoscalers.
#[derive(Debug, Clone, Copy)]
pub struct HorizontalPodAutoscaler;

/// Default target of the CPU utilization, in percent.
const DEFAULT_CPU: i64 = 80;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column(
        "Reference",
        "string",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.",
    ),
    column(
        "Targets",
        "string",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
    ),
    column(
        "MinPods",
        "string",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.",
    ),
    column(
        "MaxPods",
        "string",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.",
    ),
    column(
        "Replicas",
        "string",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
    ),
    columns::AGE,
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, printer::cells);

impl Strategy for HorizontalPodAutoscaler {
    fn default(&self, object: &mut Value) {
        if !object.get("spec").is_some_and(Value::is_object) {
            return;
        }
        set_default(object, "/spec/minReplicas", 1);
        if is_old(object) {
            let has_others =
                map(object, "/metadata/annotations").is_some_and(|all| all.contains_key(annotations::METRICS));
            if !has_others {
                set_default(object, "/spec/targetCPUUtilizationPercentage", DEFAULT_CPU);
            }
            return;
        }
        if items(object, "/spec/metrics").is_empty() {
            let target = json!({"type": "Utilization", "averageUtilization": DEFAULT_CPU});
            let metric = json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
            set(object, "/spec/metrics", json!([metric]));
        }
        default_behavior(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(&new_form(object), None)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate(&new_form(object), Some(&new_form(old)))
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if subresource == "status" {
            for field in ["currentReplicas", "desiredReplicas"] {
                errors.nonnegative(&Path::new("status").child(field), integer(object, &format!("/status/{field}")));
            }
        }
        errors
    }
}

/// Returns whether an object is of `autoscaling/v1`.
fn is_old(object: &Value) -> bool {
    text(object, "/apiVersion") == "autoscaling/v1"
}

/// Converts an object of either version to `autoscaling/v2`.
fn new_form(object: &Value) -> Cow<'_, Value> {
    if is_old(object) { Cow::Owned(conversion::v1_to_v2(object.clone())) } else { Cow::Borrowed(object) }
}

/// Sets the defaults of `spec.behavior`, if it is present.
fn default_behavior(object: &mut Value) {
    if !object.pointer("/spec/behavior").is_some_and(Value::is_object) {
        return;
    }
    let policy = |kind: &str, value: i64| json!({"type": kind, "value": value, "periodSeconds": 15});
    set_default(object, "/spec/behavior/scaleUp/stabilizationWindowSeconds", 0);
    for (direction, policies) in [
        ("scaleUp", json!([policy("Pods", 4), policy("Percent", 100)])),
        ("scaleDown", json!([policy("Percent", 100)])),
    ] {
        let path = format!("/spec/behavior/{direction}");
        if is_set(object, &path) && !object.pointer(&path).is_some_and(Value::is_object) {
            continue;
        }
        set_default(object, &format!("{path}/selectPolicy"), "Max");
        set_default(object, &format!("{path}/policies"), policies);
    }
}

#[cfg(test)]
mod tests;
