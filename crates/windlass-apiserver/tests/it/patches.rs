//! Patches whose outcome is not an object of the kind, and their messages.

use http::Method;
use serde_json::{Value, json};

use crate::client::{Answer, CONFIG_MAPS, Client, config_map};

const CONFIG_MAP: &str = "/api/v1/namespaces/default/configmaps/c";
const WIDGET: &str = "/apis/acme.io/v1/namespaces/default/widgets/w";

async fn with_objects() -> Client {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("c")).await.expect(201);
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let crd = json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.acme.io"},
        "spec": {
            "group": "acme.io", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}],
        },
    });
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &crd).await.expect(201);
    let widget = json!({"apiVersion": "acme.io/v1", "kind": "Widget", "metadata": {"name": "w"}, "data": {"a": "1"}});
    client.post("/apis/acme.io/v1/namespaces/default/widgets", &widget).await.expect(201);
    client
}

async fn strategic(client: &Client, patch: Value) -> Answer {
    let headers = [("content-type", "application/strategic-merge-patch+json")];
    client.ask(Method::PATCH, CONFIG_MAP, &headers, patch.to_string()).await
}

#[tokio::test]
async fn a_strategic_patch_with_a_wrong_type_is_rejected_with_the_message_of_the_copying_step() {
    let client = with_objects().await;
    let rejected = strategic(&client, json!({"immutable": "x"})).await;
    assert_eq!(
        (rejected.code, rejected.message()),
        (422, " \"\" is invalid: patch: Invalid value: \"map[immutable:x]\": unrecognized type: bool".to_owned())
    );
    strategic(&client, json!({"data": {"b": "2"}})).await.expect(200);
}

#[tokio::test]
async fn an_apply_with_a_wrong_value_is_rejected_with_the_message_of_the_copying_step() {
    let client = with_objects().await;
    let budget = json!({
        "apiVersion": "policy/v1", "kind": "PodDisruptionBudget", "metadata": {"name": "b"},
        "spec": {"minAvailable": true},
    });
    let path = "/apis/policy/v1/namespaces/default/poddisruptionbudgets/b?fieldManager=m";
    let headers = [("content-type", "application/apply-patch+yaml")];
    let rejected = client.ask(Method::PATCH, path, &headers, budget.to_string()).await;
    assert_eq!(rejected.code, 500);
    let expected = "unable to convert unstructured object to policy/v1, Kind=PodDisruptionBudget: \
                    json: cannot unmarshal bool into Go value of type int32";
    assert!(rejected.message().ends_with(expected), "{}", rejected.message());
}

#[tokio::test]
async fn a_patch_that_removes_the_version_of_a_built_in_kind_loses_everything_else() {
    let client = with_objects().await;
    for patch in [json!({"apiVersion": null}), json!({"apiVersion": ""})] {
        let rejected = client.merge(CONFIG_MAP, &patch).await;
        let warnings: Vec<_> = rejected.headers.get_all("warning").iter().collect();
        assert_eq!(warnings, ["299 - \"unknown field \\\"data\\\"\"", "299 - \"unknown field \\\"metadata\\\"\""]);
        let expected = "the name of the object (c based on URL) was undeterminable: name must be provided";
        assert_eq!((rejected.code, rejected.message()), (400, expected.to_owned()));
    }
    let strict = client.merge(&format!("{CONFIG_MAP}?fieldValidation=Strict"), &json!({"apiVersion": null})).await;
    assert_eq!(strict.code, 422);
    let expected = "strict decoding error: unknown field \"data\", unknown field \"metadata\"";
    assert!(strict.message().ends_with(expected), "{}", strict.message());
    client.merge(CONFIG_MAP, &json!({"kind": null})).await.expect(200);
}

#[tokio::test]
async fn a_patched_custom_resource_needs_a_kind_and_a_version() {
    let client = with_objects().await;
    let missing = client.merge(WIDGET, &json!({"apiVersion": null})).await.expect(500);
    let expected = "Internal error occurred: Object 'apiVersion' is missing in 'object has no apiVersion field'";
    assert_eq!((&missing["message"], &missing["reason"]), (&json!(expected), &json!("InternalError")));
    let missing = client.merge(WIDGET, &json!({"kind": ""})).await;
    assert_eq!(missing.code, 422);
    assert!(missing.message().contains("Object 'Kind' is missing in '{\"apiVersion\":\"acme.io/v1\",\"data\":"));
    for path in [WIDGET, CONFIG_MAP] {
        let wrong = client.merge(path, &json!({"kind": 5})).await;
        assert_eq!(wrong.code, 422);
        let expected = "couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field \
                        .kind of type string";
        assert!(wrong.message().ends_with(expected), "{}", wrong.message());
    }
    let other = client.merge(WIDGET, &json!({"apiVersion": "v1"})).await;
    let expected = "Widget \"w\" is invalid: apiVersion: Invalid value: \"v1\": must be acme.io/v1";
    assert_eq!((other.code, other.message()), (422, expected.to_owned()));
}

#[tokio::test]
async fn an_empty_list_clears_the_managed_fields_of_a_built_in_kind() {
    let client = with_objects().await;
    let clear = async |path: &str| {
        let owned = client.merge(&format!("{path}?fieldManager=m"), &json!({"data": {"b": "2"}})).await.expect(200);
        let cleared = client.merge(path, &json!({"metadata": {"managedFields": []}})).await.expect(200);
        [owned, cleared].map(|object| object["metadata"]["managedFields"].clone())
    };
    let [before, after] = clear(CONFIG_MAP).await;
    assert_eq!((before.is_array(), after), (true, json!(null)));
    let [before, after] = clear(WIDGET).await;
    assert!(before.is_array());
    assert_eq!(after, before);
}

#[tokio::test]
async fn duplicate_keys_in_yaml_are_a_warning_each() {
    let client = with_objects().await;
    let twice = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata: {a: b, a: c, b: d}\ndata: {a: b}\n";
    let apply = async |query: &str| {
        let path = format!("{CONFIG_MAP}?fieldManager=m&force=true&{query}");
        client.ask(Method::PATCH, &path, &[("content-type", "application/apply-patch+yaml")], twice).await
    };
    let accepted = apply("").await;
    let warnings: Vec<_> = accepted.headers.get_all("warning").iter().map(|value| value.to_str().unwrap()).collect();
    let expected = |line: u32, key: &str| format!("299 - \"line {line}: key \\\"{key}\\\" already set in map\"");
    assert_eq!(warnings, [expected(4, "a"), expected(5, "data")]);
    accepted.expect(200);
    let rejected = apply("fieldValidation=Strict").await;
    let expected = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:\n  \
                    line 4: key \"a\" already set in map\n  line 5: key \"data\" already set in map";
    assert_eq!((rejected.code, rejected.message()), (400, expected.to_owned()));
    let put = client.ask(Method::PUT, CONFIG_MAP, &[("content-type", "application/yaml")], twice).await;
    assert_eq!(put.headers.get_all("warning").iter().count(), 2);
}
