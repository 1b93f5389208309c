//! Webhooks, admission policies and aggregation.

use jiff::Timestamp;
use serde_json::Value;

use super::Entry;
use crate::columns::{AGE, NAME, age, column, name};
use crate::object::{is_set, items, text};
use crate::strategy::Column;

pub(super) fn policies(resource: &str) -> Option<Entry> {
    Some(match resource {
        "mutatingwebhookconfigurations" => (MUTATING_WEBHOOK, webhooks),
        "validatingwebhookconfigurations" => (VALIDATING_WEBHOOK, webhooks),
        "validatingadmissionpolicies" => (VALIDATING_POLICY, |object, now| policy(object, now, "/spec/validations")),
        "mutatingadmissionpolicies" => (MUTATING_POLICY, |object, now| policy(object, now, "/spec/mutations")),
        "validatingadmissionpolicybindings" => (VALIDATING_POLICY_BINDING, policy_binding),
        "mutatingadmissionpolicybindings" => (MUTATING_POLICY_BINDING, policy_binding),
        _ => return None,
    })
}

pub(super) fn aggregation(resource: &str) -> Option<Entry> {
    (resource == "apiservices").then_some((API_SERVICE, api_service as fn(&Value, Timestamp) -> Vec<Value>))
}

fn webhooks(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "/webhooks").len().into(), age(object, now)]
}

fn policy(object: &Value, now: Timestamp, rules: &str) -> Vec<Value> {
    let kind = if is_set(object, "/spec/paramKind") {
        format!("{}/{}", text(object, "/spec/paramKind/apiVersion"), text(object, "/spec/paramKind/kind"))
    } else {
        "<unset>".to_owned()
    };
    vec![name(object), items(object, rules).len().into(), kind.into(), age(object, now)]
}

fn policy_binding(object: &Value, now: Timestamp) -> Vec<Value> {
    let parameter = text(object, "/spec/paramRef/name");
    let shown = if !parameter.is_empty() {
        // Without a namespace it cannot be told whether the parameter has one.
        let namespace = text(object, "/spec/paramRef/namespace");
        format!("{}/{parameter}", if namespace.is_empty() { "*" } else { namespace })
    } else if is_set(object, "/spec/paramRef/selector") {
        go_selector(&object["spec"]["paramRef"]["selector"])
    } else {
        "<unset>".to_owned()
    };
    vec![name(object), text(object, "/spec/policyName").into(), shown.into(), age(object, now)]
}

/// A selector as Go prints the struct, which is what the real server shows here.
fn go_selector(selector: &Value) -> String {
    let labels: String = crate::object::entries(selector, "/matchLabels")
        .map(|(key, value)| format!("{key}: {},", value.as_str().unwrap_or_default()))
        .collect();
    let expressions: String = items(selector, "/matchExpressions")
        .iter()
        .map(|expression| {
            let values: Vec<_> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
            format!(
                "LabelSelectorRequirement{{Key:{},Operator:{},Values:[{}],}},",
                text(expression, "/key"),
                text(expression, "/operator"),
                values.join(" ")
            )
        })
        .collect();
    format!(
        "&LabelSelector{{MatchLabels:map[string]string{{{labels}}},MatchExpressions:[]LabelSelectorRequirement{{{expressions}}},}}"
    )
}

fn api_service(object: &Value, now: Timestamp) -> Vec<Value> {
    let service = if is_set(object, "/spec/service") {
        format!("{}/{}", text(object, "/spec/service/namespace"), text(object, "/spec/service/name"))
    } else {
        "Local".to_owned()
    };
    let condition =
        items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == "Available");
    let available = match condition.map(|condition| (text(condition, "/status"), text(condition, "/reason"))) {
        None => "Unknown".to_owned(),
        Some(("True", _)) => "True".to_owned(),
        Some((status, "")) => status.to_owned(),
        Some((status, reason)) => format!("{status} ({reason})"),
    };
    vec![name(object), service.into(), available.into(), age(object, now)]
}

const MUTATING_WEBHOOK: &[Column] = &[
    NAME,
    column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
    AGE,
];

const VALIDATING_WEBHOOK: &[Column] = &[
    NAME,
    column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
    AGE,
];

const VALIDATING_POLICY: &[Column] = &[
    NAME,
    column(
        "Validations",
        "integer",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
    column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
    AGE,
];

const VALIDATING_POLICY_BINDING: &[Column] = &[
    NAME,
    column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
    column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
    AGE,
];

const MUTATING_POLICY: &[Column] = &[
    NAME,
    column("Mutations", "integer", "Mutation indicates the number of mutations rules defined in this configuration"),
    column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
    AGE,
];

const MUTATING_POLICY_BINDING: &[Column] = &[
    NAME,
    column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
    column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
    AGE,
];

const API_SERVICE: &[Column] = &[
    NAME,
    column("Service", "string", "The reference to the service that hosts this API endpoint."),
    column("Available", "string", "Whether this service is available."),
    AGE,
];
