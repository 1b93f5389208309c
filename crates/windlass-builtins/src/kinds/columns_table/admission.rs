//! Webhooks, admission policies, flow control and aggregation.

use jiff::Timestamp;
use serde_json::Value;

use super::{Entry, count, text_or_none};
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

pub(super) fn flow_control(resource: &str) -> Option<Entry> {
    Some(match resource {
        "flowschemas" => (FLOW_SCHEMA, flow_schema),
        "prioritylevelconfigurations" => (PRIORITY_LEVEL, priority_level),
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

fn flow_schema(object: &Value, now: Timestamp) -> Vec<Value> {
    let dangling = items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == "Dangling");
    vec![
        name(object),
        text(object, "/spec/priorityLevelConfiguration/name").into(),
        count(object, "/spec/matchingPrecedence"),
        text_or_none(object, "/spec/distinguisherMethod/type"),
        age(object, now),
        dangling.map_or("?", |condition| text(condition, "/status")).into(),
    ]
}

fn priority_level(object: &Value, now: Timestamp) -> Vec<Value> {
    let limited = |under: &str, field: &str| {
        if is_set(object, under) { count(object, &format!("{under}/{field}")) } else { "<none>".into() }
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    vec![
        name(object),
        text(object, "/spec/type").into(),
        limited("/spec/limited", "nominalConcurrencyShares"),
        limited(queuing, "queues"),
        limited(queuing, "handSize"),
        limited(queuing, "queueLengthLimit"),
        age(object, now),
    ]
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

const FLOW_SCHEMA: &[Column] = &[
    NAME,
    column(
        "PriorityLevel",
        "string",
        "`name` is the name of the priority level configuration being referenced Required.",
    ),
    column(
        "MatchingPrecedence",
        "string",
        "`matchingPrecedence` is used to choose among the FlowSchemas that match a given request. The chosen FlowSchema is among those with the numerically lowest (which we take to be logically highest) MatchingPrecedence.  Each MatchingPrecedence value must be ranged in [1,10000]. Note that if the precedence is not specified, it will be set to 1000 as default.",
    ),
    column(
        "DistinguisherMethod",
        "string",
        "`distinguisherMethod` defines how to compute the flow distinguisher for requests that match this schema. `nil` specifies that the distinguisher is disabled and thus will always be the empty string.",
    ),
    AGE,
    column("MissingPL", "string", "references a broken or non-existent PriorityLevelConfiguration"),
];

const PRIORITY_LEVEL: &[Column] = &[
    NAME,
    column(
        "Type",
        "string",
        "`type` indicates whether this priority level is subject to limitation on request execution.  A value of `\"Exempt\"` means that requests of this priority level are not subject to a limit (and thus are never queued) and do not detract from the capacity made available to other priority levels.  A value of `\"Limited\"` means that (a) requests of this priority level _are_ subject to limits and (b) some of the server's limited capacity is made available exclusively to this priority level. Required.",
    ),
    column(
        "NominalConcurrencyShares",
        "string",
        "`nominalConcurrencyShares` (NCS) contributes to the computation of the NominalConcurrencyLimit (NominalCL) of this level. This is the number of execution seats available at this priority level. This is used both for requests dispatched from this priority level as well as requests dispatched from other priority levels borrowing seats from this level. The server's concurrency limit (ServerCL) is divided among the Limited priority levels in proportion to their NCS values:\n\nNominalCL(i)  = ceil( ServerCL * NCS(i) / sum_ncs ) sum_ncs = sum[priority level k] NCS(k)\n\nBigger numbers mean a larger nominal concurrency limit, at the expense of every other priority level.\n\nIf not specified, this field defaults to a value of 30.\n\nSetting this field to zero supports the construction of a \"jail\" for this priority level that is used to hold some request(s)",
    ),
    column(
        "Queues",
        "string",
        "`queues` is the number of queues for this priority level. The queues exist independently at each apiserver. The value must be positive.  Setting it to 1 effectively precludes shufflesharding and thus makes the distinguisher method of associated flow schemas irrelevant.  This field has a default value of 64.",
    ),
    column(
        "HandSize",
        "string",
        "`handSize` is a small positive number that configures the shuffle sharding of requests into queues.  When enqueuing a request at this priority level the request's flow identifier (a string pair) is hashed and the hash value is used to shuffle the list of queues and deal a hand of the size specified here.  The request is put into one of the shortest queues in that hand. `handSize` must be no larger than `queues`, and should be significantly smaller (so that a few heavy flows do not saturate most of the queues).  See the user-facing documentation for more extensive guidance on setting this field.  This field has a default value of 8.",
    ),
    column(
        "QueueLengthLimit",
        "string",
        "`queueLengthLimit` is the maximum number of requests allowed to be waiting in a given queue of this priority level at a time; excess requests are rejected.  This value must be positive.  If not specified, it will be defaulted to 50.",
    ),
    AGE,
];

const API_SERVICE: &[Column] = &[
    NAME,
    column("Service", "string", "The reference to the service that hosts this API endpoint."),
    column("Available", "string", "Whether this service is available."),
    AGE,
];
