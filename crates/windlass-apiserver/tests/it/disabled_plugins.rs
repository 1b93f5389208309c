//! Disabled plugins for what users configure: policies, webhooks and quotas.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apiserver::Server;
use windlass_store::{Store, memory::MemoryStore};

use crate::{
    client::{CONFIG_MAPS, Client, config_map},
    webhook_server::{WebhookServer, denied, patched},
};

const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const NAMESPACE: &str = "/api/v1/namespaces/default";
const PLUGINS: [&str; 5] = [
    "MutatingAdmissionPolicy",
    "MutatingAdmissionWebhook",
    "ValidatingAdmissionPolicy",
    "ValidatingAdmissionWebhook",
    "ResourceQuota",
];

async fn start(store: &Arc<dyn Store>, disabled: &[&str]) -> Client {
    let builder = Server::builder(store.clone());
    let disabled = disabled.iter().map(|name| (*name).to_owned());
    Client::of(builder.disable_admission_plugins(disabled).build().await.unwrap())
}

/// Configures each plugin to change or to reject something.
async fn configure(client: &Client, server: &WebhookServer) {
    let rules =
        json!([{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]);
    let create = async |plural: &str, object: Value| {
        client.post(&format!("{GROUP}/{plural}"), &object).await.expect(201);
    };
    let constraints = json!({"resourceRules": rules});
    let patch = "[JSONPatch{op: 'add', path: '/data/policy', value: 'yes'}]";
    let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": patch}});
    let spec = json!({"matchConstraints": constraints, "reinvocationPolicy": "Never", "mutations": [mutation]});
    create("mutatingadmissionpolicies", json!({"metadata": {"name": "p"}, "spec": spec})).await;
    create("mutatingadmissionpolicybindings", json!({"metadata": {"name": "p"}, "spec": {"policyName": "p"}})).await;
    let validations = json!([{"expression": "object.metadata.name != 'policy'"}]);
    let spec = json!({"matchConstraints": constraints, "validations": validations});
    create("validatingadmissionpolicies", json!({"metadata": {"name": "p"}, "spec": spec})).await;
    let spec = json!({"policyName": "p", "validationActions": ["Deny"]});
    create("validatingadmissionpolicybindings", json!({"metadata": {"name": "p"}, "spec": spec})).await;
    for (plural, path, condition) in [
        ("mutatingwebhookconfigurations", "/change", "true"),
        ("validatingwebhookconfigurations", "/deny", "object.metadata.name == 'webhook'"),
    ] {
        let webhook = json!({
            "name": "a.example.com", "clientConfig": server.at(path), "sideEffects": "None",
            "admissionReviewVersions": ["v1"], "rules": rules,
            "matchConditions": [{"name": "c", "expression": condition}],
        });
        create(plural, json!({"metadata": {"name": "w"}, "webhooks": [webhook]})).await;
    }
    let quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"count/secrets": "0"}}});
    client.post(&format!("{NAMESPACE}/resourcequotas"), &quota).await.expect(201);
    let status = json!({"status": {"hard": {"count/secrets": "0"}, "used": {"count/secrets": "0"}}});
    client.merge(&format!("{NAMESPACE}/resourcequotas/q/status"), &status).await.expect(200);
}

/// Returns the plugins that have an effect.
async fn effective(client: &Client) -> Vec<&'static str> {
    let probe = async |object: Value| client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &object).await;
    let data = probe(config_map("x")).await.expect(201)["data"].clone();
    let secret = json!({"metadata": {"name": "x"}});
    let effects = [
        data["policy"] == "yes",
        data["webhook"] == "yes",
        probe(config_map("policy")).await.code == 422,
        probe(config_map("webhook")).await.code == 403,
        client.post(&format!("{NAMESPACE}/secrets?dryRun=All"), &secret).await.code == 403,
    ];
    PLUGINS.into_iter().zip(effects).filter(|(_, has_effect)| *has_effect).map(|(name, _)| name).collect()
}

#[tokio::test]
async fn policies_webhooks_and_quotas_can_be_disabled() {
    let server = WebhookServer::start(&[], |path, review| match path.starts_with("/change") {
        true => patched(review, &json!([{"op": "add", "path": "/data/webhook", "value": "yes"}])),
        false => denied(review, "no"),
    });
    let server = server.await;
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    // Configured while they are disabled: their objects are stored like others.
    let client = start(&store, &PLUGINS).await;
    configure(&client, &server).await;
    assert_eq!(effective(&client).await, [""; 0]);
    drop(client);
    let client = start(&store, &[]).await;
    assert_eq!(effective(&client).await, PLUGINS);
    drop(client);
    for disabled in PLUGINS {
        let client = start(&store, &[disabled]).await;
        let others: Vec<&str> = PLUGINS.into_iter().filter(|name| *name != disabled).collect();
        assert_eq!(effective(&client).await, others, "without {disabled}");
    }
}
