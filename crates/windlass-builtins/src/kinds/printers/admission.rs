//! The columns of admission policies, their bindings and APIServices.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{is_set, items, text};

pub(in crate::kinds) const VALIDATING_POLICY: Printer =
    Printer::new(VALIDATING_POLICY_COLUMNS, |object, now| policy(object, now, "/spec/validations"));

pub(in crate::kinds) const MUTATING_POLICY: Printer =
    Printer::new(MUTATING_POLICY_COLUMNS, |object, now| policy(object, now, "/spec/mutations"));

pub(in crate::kinds) const POLICY_BINDING: Printer = Printer::new(POLICY_BINDING_COLUMNS, policy_binding);

pub(in crate::kinds) const API_SERVICE: Printer = Printer::new(API_SERVICE_COLUMNS, api_service);

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
        // Without a namespace, it is unknown whether the parameter is namespaced.
        let namespace = text(object, "/spec/paramRef/namespace");
        format!("{}/{parameter}", if namespace.is_empty() { "*" } else { namespace })
    } else if is_set(object, "/spec/paramRef/selector") {
        go_selector(&object["spec"]["paramRef"]["selector"])
    } else {
        "<unset>".to_owned()
    };
    vec![name(object), text(object, "/spec/policyName").into(), shown.into(), age(object, now)]
}

/// Formats a selector as Go prints the struct, as kube-apiserver does here.
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

const VALIDATING_POLICY_COLUMNS: &[Column] = &[
    NAME,
    column(
        "Validations",
        "integer",
        "Validations indicates the number of validation rules defined in this configuration",
    ),
    column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
    AGE,
];

const POLICY_BINDING_COLUMNS: &[Column] = &[
    NAME,
    column("PolicyName", "string", "PolicyName indicates the policy definition which the policy binding binded to"),
    column("ParamRef", "string", "ParamRef indicates the param resource which sets the configuration param"),
    AGE,
];

const MUTATING_POLICY_COLUMNS: &[Column] = &[
    NAME,
    column("Mutations", "integer", "Mutation indicates the number of mutations rules defined in this configuration"),
    column("ParamKind", "string", "ParamKind specifies the kind of resources used to parameterize this policy"),
    AGE,
];

const API_SERVICE_COLUMNS: &[Column] = &[
    NAME,
    column("Service", "string", "The reference to the service that hosts this API endpoint."),
    column("Available", "string", "Whether this service is available."),
    AGE,
];
