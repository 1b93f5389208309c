//! Proposals of metrics, as they appear in the status and in messages. Pure.

use k8s_openapi::{
    api::autoscaling::v2::{MetricIdentifier, MetricSpec, MetricStatus, MetricValueStatus},
    apimachinery::pkg::{api::resource::Quantity, apis::meta::v1::LabelSelector},
};
use windlass_schema::quantity::{Format, Quantity as Number};

use super::calculate::milli;

/// The proposal of a metric.
pub(super) struct Proposal {
    pub(super) replicas: i32,
    /// The name of the metric.
    pub(super) name: String,
    pub(super) status: MetricStatus,
}

/// Reason why a metric makes no proposal.
pub(super) struct Failure {
    pub(super) reason: &'static str,
    /// The cause.
    pub(super) cause: String,
    /// The cause, with the attempted operation.
    pub(super) error: String,
}

pub(super) fn failure(reason: &'static str, cause: String, tried: &str) -> Failure {
    Failure { reason, error: format!("{tried}: {cause}"), cause }
}

pub(super) fn of_type(spec: &MetricSpec) -> MetricStatus {
    MetricStatus { type_: spec.type_.clone(), ..MetricStatus::default() }
}

pub(super) fn wanted(quantity: Option<&Quantity>) -> Option<i64> {
    milli(&quantity?.0)
}

pub(super) fn quantity(thousandths: i64, format: Format) -> Quantity {
    Quantity(Number::milli(thousandths, format).to_string())
}

pub(super) fn averaging(thousandths: i64) -> MetricValueStatus {
    MetricValueStatus { average_value: Some(quantity(thousandths, Format::DecimalSi)), ..MetricValueStatus::default() }
}

pub(super) fn valued(thousandths: i64) -> MetricValueStatus {
    MetricValueStatus { value: Some(quantity(thousandths, Format::DecimalSi)), ..MetricValueStatus::default() }
}

pub(super) fn described(metric: &MetricIdentifier) -> String {
    format!("external metric {}({})", metric.name, printed(metric.selector.as_ref()))
}

/// Formats a selector as Go does.
pub(super) fn printed(selector: Option<&LabelSelector>) -> String {
    let Some(selector) = selector else { return "nil".to_owned() };
    let labels: String =
        selector.match_labels.iter().flatten().map(|(name, value)| format!("{name}: {value},")).collect();
    let expressions = selector.match_expressions.iter().flatten();
    let expressions: String = expressions
        .map(|one| {
            let values = one.values.clone().unwrap_or_default().join(" ");
            format!("LabelSelectorRequirement{{Key:{},Operator:{},Values:[{values}],}},", one.key, one.operator)
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_selector_is_formatted_as_in_go() {
        assert_eq!(printed(None), "nil");
        let selector = json!({"matchLabels": {"a": "b"}, "matchExpressions": [{"key": "k", "operator": "In", "values": ["x", "y"]}]});
        let selector: LabelSelector = serde_json::from_value(selector).unwrap();
        let expected = "&LabelSelector{MatchLabels:map[string]string{a: b,},MatchExpressions:[]LabelSelectorRequirement{LabelSelectorRequirement{Key:k,Operator:In,Values:[x y],},},}";
        assert_eq!(printed(Some(&selector)), expected);
    }
}
