//! Descriptions in the OpenAPI documents, as read by `kubectl explain`.

use bytes::Bytes;
use http::{HeaderMap, Request, header};
use http_body_util::{BodyExt as _, Full};
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

/// Sends a GET and returns the status, the headers and the body.
async fn get(client: &Client, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap, Bytes) {
    let mut request = Request::builder().uri(path);
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let response = client.send(request.body(Full::new(Bytes::new())).unwrap()).await;
    let (parts, body) = response.into_parts();
    (parts.status.as_u16(), parts.headers, body.collect().await.unwrap().to_bytes())
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> &'a str {
    headers.get(name).map_or("", |value| value.to_str().unwrap())
}

#[tokio::test]
async fn a_client_that_has_a_document_does_not_get_it_again() {
    let client = Client::new().await;
    let aggregated = ("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList");
    for (path, accept, caching) in [
        ("/openapi/v2", ("accept", "application/json"), "no-cache, private"),
        ("/openapi/v3/apis/apps/v1", ("accept", "*/*"), "no-cache, private"),
        ("/apis", aggregated, "public"),
        ("/api", aggregated, "public"),
    ] {
        let (code, headers, body) = get(&client, path, &[accept]).await;
        let tag = text(&headers, "etag");
        assert_eq!((code, tag.len(), text(&headers, "vary")), (200, 130, "Accept"), "{path}");
        assert_eq!(text(&headers, "cache-control"), caching, "{path}");
        assert!(!body.is_empty());
        let (code, again, body) = get(&client, path, &[accept, ("if-none-match", tag)]).await;
        assert_eq!((code, body.len(), text(&again, "etag")), (304, 0, tag), "{path}");
        assert_eq!((text(&again, "cache-control"), text(&again, "vary")), (caching, "Accept"), "{path}");
        assert_eq!(get(&client, path, &[accept, ("if-none-match", "\"other\"")]).await.0, 200, "{path}");
    }
    // A definition changes them.
    let before = get(&client, "/openapi/v2", &[]).await.1;
    let (_, discovery, _) = get(&client, "/apis", &[aggregated]).await;
    let definition = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "cups.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "cups", "kind": "Cup"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {"type": "object"}}}]},
    });
    client.post(DEFINITIONS, &definition).await.expect(201);
    for (path, accept, before) in [("/openapi/v2", ("accept", "*/*"), before), ("/apis", aggregated, discovery)] {
        assert_eq!(get(&client, path, &[accept, ("if-none-match", text(&before, "etag"))]).await.0, 200, "{path}");
    }
}

#[tokio::test]
async fn the_hash_of_a_document_is_its_tag() {
    let client = Client::new().await;
    let index = client.get("/openapi/v3").await.expect(200);
    for place in ["apis/apps/v1", "api/v1"] {
        let address = index["paths"][place]["serverRelativeURL"].as_str().unwrap();
        let (path, hash) = address.split_once("?hash=").unwrap();
        let (code, headers, _) = get(&client, address, &[]).await;
        assert_eq!((code, text(&headers, "etag")), (200, &*format!("\"{hash}\"")));
        assert_eq!(text(&headers, "cache-control"), "public, immutable");
        assert!(text(&headers, "expires").ends_with(" UTC"), "{headers:?}");
        let (code, headers, body) = get(&client, &format!("{path}?hash=0"), &[]).await;
        assert_eq!((code, text(&headers, header::LOCATION.as_str()), body.len()), (301, address, 0));
        let (_, headers, _) = get(&client, path, &[]).await;
        assert_eq!(text(&headers, "expires"), "");
    }
}

#[tokio::test]
async fn documents_have_few_media_types() {
    const PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf";
    let client = Client::new().await;
    for (path, accept, expected) in [
        ("/openapi/v2", "", Some("application/json")),
        ("/openapi/v2", "*/*", Some("application/json")),
        ("/openapi/v2", "application/*", Some("application/json")),
        ("/openapi/v2", "text/html, application/json;q=0.5", Some("application/json")),
        ("/openapi/v2", PROTOBUF, Some(PROTOBUF)),
        ("/openapi/v2", "application/com.github.proto-openapi.spec.v2@v1.0+protobuf", Some(PROTOBUF)),
        (
            "/openapi/v2",
            "application/json;q=0.1,application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
            Some(PROTOBUF),
        ),
        ("/openapi/v2", "application/yaml", None),
        ("/openapi/v3/apis/apps/v1", "", Some("application/json")),
        ("/openapi/v3/apis/apps/v1", "text/html", None),
    ] {
        let (code, headers, body) = get(&client, path, &[("accept", accept)]).await;
        match expected {
            Some(expected) => assert_eq!((code, text(&headers, "content-type")), (200, expected), "{path} {accept}"),
            None => assert_eq!((code, body.len()), (406, 0), "{path} {accept}"),
        }
    }
}
