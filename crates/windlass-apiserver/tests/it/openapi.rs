//! Descriptions in the OpenAPI documents, as read by `kubectl explain`.

use serde_json::{Value, json};
use windlass_descriptions::Descriptions;

use crate::client::Client;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

/// Returns the description of a field, following the references of a document as kubectl does.
fn explain(document: &Value, kind: &str, path: &[&str]) -> Option<String> {
    let mut schema = document.pointer(&format!("/components/schemas/{kind}"))?;
    let mut description = schema["description"].as_str();
    for field in path {
        let property = &schema["properties"][field];
        description = property["description"].as_str();
        let reference = property.pointer("/allOf/0/$ref").or_else(|| property.get("$ref")).and_then(Value::as_str);
        schema = reference.and_then(|name| document.pointer(name.strip_prefix('#')?)).unwrap_or(property);
    }
    description.map(str::to_owned)
}

#[tokio::test]
async fn kinds_and_fields_are_explained() {
    let client = Client::new().await;
    let table = Descriptions::inflate();
    let document = client.get("/openapi/v3/apis/apps/v1").await.expect(200);
    let deployment = "io.k8s.api.apps.v1.Deployment";
    assert_eq!(explain(&document, deployment, &[]).as_deref(), table.schema(deployment));
    let strategy = explain(&document, deployment, &["spec", "strategy"]);
    assert_eq!(strategy.as_deref(), table.property("io.k8s.api.apps.v1.DeploymentSpec", "strategy"));
    assert!(strategy.is_some_and(|text| text.contains("replace existing pods")));
    let surge = explain(&document, deployment, &["spec", "strategy", "rollingUpdate", "maxSurge"]);
    assert_eq!(surge.as_deref(), table.property("io.k8s.api.apps.v1.RollingUpdateDeployment", "maxSurge"));
    assert!(surge.is_some());
}

#[tokio::test]
async fn the_whole_document_is_explained_except_for_lists() {
    let client = Client::new().await;
    let document = client.get("/openapi/v2").await.expect(200);
    let definitions = document["definitions"].as_object().unwrap();
    let without = |schema: &&str| definitions[*schema].get("description").is_none();
    let missing: Vec<_> = definitions.keys().map(String::as_str).filter(without).collect();
    assert!(missing.iter().all(|name| name.ends_with("List")), "{missing:?}");
    let properties = definitions.iter().filter(|(name, _)| !name.ends_with("List"));
    let properties: Vec<_> = properties.flat_map(|(_, schema)| schema["properties"].as_object()).flatten().collect();
    let described = properties.iter().filter(|(_, schema)| schema.get("description").is_some()).count();
    // Kubernetes has no description for a few of them, such as those of JSONSchemaProps.
    assert!(described * 100 > properties.len() * 95, "{described} of {}", properties.len());
}

#[tokio::test]
async fn custom_resources_have_the_descriptions_of_every_object() {
    let client = Client::new().await;
    let schema = json!({"type": "object", "description": "A cup.", "properties": {"spec": {"type": "object"}}});
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cups.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "cups", "kind": "Cup"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]},
    });
    client.post(DEFINITIONS, &definition).await.expect(201);
    let document = client.get("/openapi/v3/apis/example.com/v1").await.expect(200);
    let table = Descriptions::inflate();
    assert_eq!(explain(&document, "com.example.v1.Cup", &[]).as_deref(), Some("A cup."));
    for field in ["apiVersion", "kind", "metadata"] {
        let usual = table.property("io.k8s.api.core.v1.Pod", field);
        assert!(usual.is_some());
        assert_eq!(explain(&document, "com.example.v1.Cup", &[field]).as_deref(), usual);
    }
    let labels = explain(&document, "com.example.v1.Cup", &["metadata", "labels"]);
    assert_eq!(labels.as_deref(), table.property("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta", "labels"));
}
