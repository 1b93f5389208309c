//! Webhooks of the operator.

use serde_json::{Value, json};

use super::{Package, definitions, of_kind};

/// Fields that a webhook definition shares with a webhook configuration.
const SAME: &[&str] = &[
    "admissionReviewVersions",
    "failurePolicy",
    "matchPolicy",
    "objectSelector",
    "reinvocationPolicy",
    "rules",
    "sideEffects",
    "timeoutSeconds",
];

/// Admission webhooks with their types.
pub(super) fn configured<'a>(package: &Package<'a>) -> impl Iterator<Item = (&'static str, &'a Value)> {
    let kinds = [
        ("MutatingWebhookConfiguration", "MutatingAdmissionWebhook"),
        ("ValidatingWebhookConfiguration", "ValidatingAdmissionWebhook"),
    ];
    let package = *package;
    kinds.into_iter().flat_map(move |(kind, of_type)| {
        let all = of_kind(&package, kind).filter_map(|object| object["webhooks"].as_array()).flatten();
        all.map(move |webhook| (of_type, webhook)).collect::<Vec<_>>()
    })
}

/// Webhook definitions, which OLM turns into webhook configurations.
pub(super) fn entries(package: &Package<'_>) -> Vec<Value> {
    let port = of_kind(package, "Deployment")
        .filter_map(|deployment| deployment.pointer("/spec/template/spec/containers/0/ports")?.as_array())
        .flatten()
        .find(|port| port["name"] == "webhook")
        .map_or(json!(9443), |port| port["containerPort"].clone());
    let mut all = Vec::new();
    for (of_type, webhook) in configured(package) {
        let mut entry = json!({
            "type": of_type,
            "generateName": webhook["name"],
            "deploymentName": package.name(),
            "containerPort": 443,
            "targetPort": port,
            "webhookPath": webhook.pointer("/clientConfig/service/path"),
        });
        for field in SAME {
            if let Some(value) = webhook.get(field) {
                entry[field] = value.clone();
            }
        }
        all.push(entry);
    }
    for definition in definitions(package) {
        let Some(webhook) = definition.pointer("/spec/conversion/webhook") else { continue };
        let kind = definition["spec"]["names"]["singular"].as_str().unwrap_or_default();
        all.push(json!({
            "type": "ConversionWebhook",
            "generateName": format!("c{kind}.{}", definition["spec"]["group"].as_str().unwrap_or_default()),
            "deploymentName": package.name(),
            "containerPort": 443,
            "targetPort": port,
            "admissionReviewVersions": ["v1"],
            "conversionCRDs": [definition["metadata"]["name"]],
            "sideEffects": "None",
            "webhookPath": webhook.pointer("/clientConfig/service/path"),
        }));
    }
    all
}
