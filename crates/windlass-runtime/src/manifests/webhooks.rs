//! Webhook configurations, and certificates unless they are self-signed.

use serde_json::{Value, json};

use super::{Manifest, OperatorManifests, Part, Permission, WebhookCertificates};
use crate::webhook::{
    self, CaBundleTarget, Description, Endpoint, FailurePolicy, MatchPolicy, ReinvocationPolicy, Rule, RuleScope,
    SideEffects,
};

const ADMISSION: &str = "admissionregistration.k8s.io";

const CONFIGURATIONS: [(Endpoint, &str, &str); 2] = [
    (Endpoint::Mutating, "MutatingWebhookConfiguration", "mutatingwebhookconfigurations"),
    (Endpoint::Validating, "ValidatingWebhookConfiguration", "validatingwebhookconfigurations"),
];

pub(super) fn manifests(operator: &OperatorManifests) -> Vec<Manifest> {
    let mut manifests = Vec::new();
    if operator.has_webhook_server() && operator.certificates == WebhookCertificates::CertManager {
        manifests.extend(certificate(operator));
    }
    for (endpoint, kind, plural) in CONFIGURATIONS {
        let webhooks: Vec<_> = operator.webhooks_of(endpoint).map(|webhook| entry(operator, webhook)).collect();
        if webhooks.is_empty() {
            continue;
        }
        let content = json!({ "webhooks": webhooks });
        let resource = (ADMISSION, "v1", kind, plural);
        let mut manifest = operator.manifest(Part::Webhooks, resource, None, &operator.name, content);
        inject_authority(operator, &mut manifest);
        manifests.push(manifest);
    }
    manifests
}

/// Lets cert-manager write the CA bundle. For a self-signed CA, the operator does that.
pub(super) fn inject_authority(operator: &OperatorManifests, manifest: &mut Manifest) {
    if operator.certificates == WebhookCertificates::CertManager {
        let certificate = format!("{}/{}", operator.namespace, operator.webhook_service());
        let annotations = manifest.object.metadata.annotations.get_or_insert_default();
        annotations.insert("cert-manager.io/inject-ca-from".to_owned(), certificate);
    }
}

/// Returns the name of the Secret in which cert-manager stores the certificate.
pub(super) fn certificate_secret(operator: &OperatorManifests) -> String {
    format!("{}-tls", operator.webhook_service())
}

/// Returns the permissions for [`SelfSigned`](crate::webhook::SelfSigned) certificates: for their Secret, and for the
/// objects with a CA bundle.
pub(super) fn self_signed_permissions(operator: &OperatorManifests) -> Vec<Permission> {
    let targets = CaBundleTarget::all(&operator.name, &operator.webhooks, &operator.definitions);
    let secret = webhook::secret_of(&operator.webhook_service());
    webhook::permissions(&operator.namespace, &secret, &targets)
}

fn entry(operator: &OperatorManifests, webhook: &Description) -> Value {
    let calls = &webhook.calls;
    let mut entry = json!({
        "name": webhook.name,
        "admissionReviewVersions": ["v1"],
        "clientConfig": operator.webhook_client(&webhook.path),
        "failurePolicy": match calls.failure_policy {
            FailurePolicy::Fail => "Fail",
            FailurePolicy::Ignore => "Ignore",
        },
        "rules": webhook.rules.iter().map(rule).collect::<Value>(),
        "sideEffects": match calls.side_effects {
            SideEffects::None => "None",
            SideEffects::NoneOnDryRun => "NoneOnDryRun",
        },
        "timeoutSeconds": calls.timeout_seconds,
    });
    if !calls.match_conditions.is_empty() {
        let conditions = calls
            .match_conditions
            .iter()
            .map(|condition| json!({ "name": condition.name, "expression": condition.expression }));
        entry["matchConditions"] = conditions.collect();
    }
    // Fields with the API server's defaults are left out.
    if calls.match_policy == MatchPolicy::Exact {
        entry["matchPolicy"] = "Exact".into();
    }
    if calls.reinvocation_policy == ReinvocationPolicy::IfNeeded && webhook.endpoint == Endpoint::Mutating {
        entry["reinvocationPolicy"] = "IfNeeded".into();
    }
    for (field, selector) in
        [("objectSelector", &calls.object_selector), ("namespaceSelector", &calls.namespace_selector)]
    {
        if let Some(selector) = selector {
            entry[field] = json!(selector);
        }
    }
    entry
}

fn rule(rule: &Rule) -> Value {
    let operations: Vec<_> = rule.operations.iter().map(|operation| operation.as_str()).collect();
    let mut value = json!({
        "apiGroups": rule.groups,
        "apiVersions": rule.versions,
        "operations": operations,
        "resources": rule.resources,
    });
    match rule.scope {
        RuleScope::All => {}
        RuleScope::Namespaced => value["scope"] = "Namespaced".into(),
        RuleScope::Cluster => value["scope"] = "Cluster".into(),
    }
    value
}

fn certificate(operator: &OperatorManifests) -> [Manifest; 2] {
    let service = operator.webhook_service();
    let namespace = &operator.namespace;
    let made = |kind: &str, plural: &str, spec: Value| {
        let resource = ("cert-manager.io", "v1", kind, plural);
        operator.manifest(Part::Webhooks, resource, Some(namespace), &service, json!({ "spec": spec }))
    };
    [
        made("Issuer", "issuers", json!({ "selfSigned": {} })),
        made(
            "Certificate",
            "certificates",
            json!({
                "dnsNames": [format!("{service}.{namespace}.svc"), format!("{service}.{namespace}.svc.cluster.local")],
                "issuerRef": { "kind": "Issuer", "name": service },
                "secretName": certificate_secret(operator),
            }),
        ),
    ]
}
