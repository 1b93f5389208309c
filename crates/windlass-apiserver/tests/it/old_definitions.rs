//! CustomResourceDefinitions of `apiextensions.k8s.io/v1beta1`: accepted, stored as `v1`, and returned as they were
//! written.

use http::Method;
use serde_json::{Value, json};

use crate::{
    client::{Answer, Client, names},
    definitions::DEFINITIONS,
};

const OLD: &str = "/apis/apiextensions.k8s.io/v1beta1/customresourcedefinitions";
const DEPRECATED: &str = "apiextensions.k8s.io/v1beta1 CustomResourceDefinition is deprecated in v1.16+, unavailable in \
                          v1.22+; use apiextensions.k8s.io/v1 CustomResourceDefinition";

fn old(name: &str, spec: &Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1beta1", "kind": "CustomResourceDefinition",
        "metadata": {"name": name}, "spec": spec,
    })
}

/// Only group, version, names and scope.
fn networks() -> Value {
    old(
        "networks.samplecrd.k8s.io",
        &json!({
            "group": "samplecrd.k8s.io", "version": "v1", "scope": "Namespaced",
            "names": {"kind": "Network", "plural": "networks"},
        }),
    )
}

/// Validation, subresources and columns at the top level.
fn crontabs() -> Value {
    old(
        "crontabs.stable.example.com",
        &json!({
            "group": "stable.example.com", "version": "v1", "scope": "Namespaced",
            "names": {"kind": "CronTab", "plural": "crontabs", "singular": "crontab", "shortNames": ["ct"]},
            "validation": {"openAPIV3Schema": {"properties": {"spec": {"properties": {
                "cronSpec": {"type": "string"},
                "replicas": {"type": "integer", "minimum": 1, "maximum": 10},
            }}}}},
            "subresources": {"status": {}, "scale": {
                "specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas",
            }},
            "additionalPrinterColumns": [{"name": "Spec", "type": "string", "JSONPath": ".spec.cronSpec"}],
        }),
    )
}

/// A short name one level too high, as in some tutorials.
fn autoscalers() -> Value {
    old(
        "verticalpodautoscalers.autoscaling.k8s.io",
        &json!({
            "group": "autoscaling.k8s.io", "scope": "Namespaced", "shortNames": ["vpa"],
            "names": {"kind": "VerticalPodAutoscaler", "plural": "verticalpodautoscalers"},
            "version": "v1beta1",
            "versions": [
                {"name": "v1beta1", "served": false, "storage": false},
                {"name": "v1beta2", "served": true, "storage": true},
            ],
        }),
    )
}

fn named(definition: &Value) -> String {
    format!("/{}", definition["metadata"]["name"].as_str().unwrap())
}

/// Returns the warnings of a response; the first is the one that every response has.
fn warnings(answer: &Answer) -> Vec<String> {
    let all = answer.headers.get_all("warning").iter().map(|value| value.to_str().unwrap());
    let text = |value: &str| value.strip_prefix("299 - \"").unwrap().strip_suffix('"').unwrap().replace("\\\"", "\"");
    let mut all: Vec<String> = all.map(text).collect();
    assert_eq!(all.remove(0), DEPRECATED);
    all
}

#[tokio::test]
async fn a_definition_of_names_alone_is_stored_as_v1_and_served_at_once() {
    let client = Client::new().await;
    let answer = client.post(OLD, &networks()).await;
    let stored_as = "stored as apiextensions.k8s.io/v1: ";
    assert_eq!(
        warnings(&answer),
        [
            format!("{stored_as}spec.version v1 is now the only entry of spec.versions, served and stored"),
            format!("{stored_as}version v1 had no schema: it now has one that allows any field"),
            format!(
                "{stored_as}the group samplecrd.k8s.io is reserved for Kubernetes: the annotation \
                 api-approved.kubernetes.io was set to \"unapproved, legacy upgrade\", without which it would be rejected"
            ),
        ]
    );
    let made = answer.expect(201);
    assert_eq!(made["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(made["spec"]["version"], "v1");
    let networks = "/apis/samplecrd.k8s.io/v1/namespaces/default/networks";
    let network = json!({
        "apiVersion": "samplecrd.k8s.io/v1", "kind": "Network", "metadata": {"name": "example"},
        "spec": {"cidr": "192.168.0.0/16", "gateway": "192.168.0.1"},
    });
    let made = client.post(networks, &network).await.expect(201);
    assert_eq!(made["spec"], network["spec"]);
    let stored = client.get(&format!("{DEFINITIONS}/networks.samplecrd.k8s.io")).await.expect(200);
    assert_eq!(
        stored["spec"]["versions"],
        json!([{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
            "type": "object", "x-kubernetes-preserve-unknown-fields": true,
        }}}])
    );
    assert_eq!(stored["status"]["storedVersions"], json!(["v1"]));
}

#[tokio::test]
async fn a_misplaced_short_name_is_moved_to_its_place() {
    let client = Client::new().await;
    let answer = client.post(OLD, &autoscalers()).await;
    let moved = "stored as apiextensions.k8s.io/v1: spec.shortNames was moved to spec.names.shortNames";
    assert_eq!(warnings(&answer)[0], moved);
    answer.expect(201);
    let resources = client.get("/apis/autoscaling.k8s.io/v1beta2").await.expect(200);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["vpa"]));
    // A client that corrects the name in the old place wants that name.
    let path = OLD.to_owned() + &named(&autoscalers());
    client.merge(&path, &json!({"spec": {"shortNames": ["va"]}})).await.expect(200);
    let resources = client.get("/apis/autoscaling.k8s.io/v1beta2").await.expect(200);
    assert_eq!(resources["resources"][0]["shortNames"], json!(["va"]));
}

#[tokio::test]
async fn top_level_fields_of_v1beta1_apply_to_its_version() {
    let client = Client::new().await;
    client.post(OLD, &crontabs()).await.expect(201);
    let path = OLD.to_owned() + &named(&crontabs());
    let read = client.get(&path).await;
    assert_eq!(warnings(&read), Vec::<String>::new());
    let read = read.expect(200);
    for field in ["version", "subresources", "additionalPrinterColumns"] {
        assert_eq!(read["spec"][field], crontabs()["spec"][field], "{field}");
    }
    assert_eq!(read["spec"]["versions"], json!([{"name": "v1", "served": true, "storage": true}]));
    assert_eq!(read["spec"]["preserveUnknownFields"], true);

    let collection = "/apis/stable.example.com/v1/namespaces/default/crontabs";
    let mut crontab = json!({
        "apiVersion": "stable.example.com/v1", "kind": "CronTab", "metadata": {"name": "a"},
        "spec": {"cronSpec": "* * * * */5", "replicas": 3, "image": "kept"},
    });
    let made = client.post(collection, &crontab).await.expect(201);
    assert_eq!(made["spec"]["image"], "kept", "unknown fields stay, as they did");
    let scale = client.get(&format!("{collection}/a/scale")).await.expect(200);
    assert_eq!(scale["spec"]["replicas"], 3);
    crontab["metadata"]["name"] = json!("b");
    crontab["spec"]["replicas"] = json!(11);
    assert_eq!(client.post(collection, &crontab).await.code, 422);
    let table = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io")];
    let table = client.ask(Method::GET, collection, &table, "").await.expect(200);
    assert_eq!(table["rows"][0]["cells"], json!(["a", "* * * * */5"]));
}

#[tokio::test]
async fn patches_apply_to_the_old_form() {
    let client = Client::new().await;
    client.post(OLD, &crontabs()).await.expect(201);
    let path = OLD.to_owned() + &named(&crontabs());
    let before = client.get(&path).await.expect(200);
    // The patch that `kubectl apply` sends for a file with another maximum.
    let maximum = json!({"properties": {"spec": {"properties": {"replicas": {"maximum": 20}}}}});
    let answer = client.merge(&path, &json!({"spec": {"validation": {"openAPIV3Schema": maximum}}})).await;
    assert_eq!(warnings(&answer), Vec::<String>::new(), "no new warnings");
    let changed = answer.expect(200);
    assert_eq!(changed["metadata"]["generation"], 2);
    let stored = client.get(&(DEFINITIONS.to_owned() + &named(&crontabs()))).await.expect(200);
    let schema = &stored["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"];
    assert_eq!(schema["properties"]["replicas"], json!({"type": "integer", "minimum": 1, "maximum": 20}));
    assert_eq!(schema["x-kubernetes-preserve-unknown-fields"], true);

    let back = json!([{"op": "replace", "path": "/spec/validation", "value": before["spec"]["validation"]}]);
    let json_patch = [("content-type", "application/json-patch+json")];
    let answer = client.ask(Method::PATCH, &path, &json_patch, back.to_string()).await;
    let back = answer.expect(200);
    assert_eq!(back["spec"], before["spec"]);
    let same = client.merge(&path, &crontabs()).await.expect(200);
    assert_eq!(same["metadata"]["resourceVersion"], back["metadata"]["resourceVersion"], "nothing was written");

    let rejected = client.merge(&path, &json!({"spec": {"validation": {"openAPIV3Schema": {"$ref": "x"}}}})).await;
    assert_eq!(rejected.code, 422, "{}", rejected.message());
}

#[tokio::test]
async fn an_old_definition_can_be_applied_replaced_and_deleted() {
    let client = Client::new().await;
    let path = OLD.to_owned() + &named(&autoscalers());
    let apply = async |body: &Value| {
        let query = format!("{path}?fieldManager=test");
        client.ask(Method::PATCH, &query, &[("content-type", "application/apply-patch+yaml")], body.to_string()).await
    };
    let made = apply(&autoscalers()).await.expect(201);
    let again = apply(&autoscalers()).await.expect(200);
    let third = apply(&autoscalers()).await.expect(200);
    assert_eq!(third["metadata"]["resourceVersion"], again["metadata"]["resourceVersion"]);
    assert_eq!(again["metadata"]["uid"], made["metadata"]["uid"]);
    assert_eq!(again["metadata"]["managedFields"][0]["apiVersion"], "apiextensions.k8s.io/v1");
    let mut labelled = autoscalers();
    labelled.as_object_mut().unwrap().remove("spec");
    labelled["metadata"]["labels"] = json!({"a": "b"});
    let query = format!("{path}?fieldManager=other");
    let headers = [("content-type", "application/apply-patch+yaml")];
    let answer = client.ask(Method::PATCH, &query, &headers, labelled.to_string()).await.expect(200);
    assert_eq!(answer["metadata"]["labels"], json!({"a": "b"}), "metadata alone can be applied");

    let mut replacement = autoscalers();
    replacement["metadata"]["resourceVersion"] = answer["metadata"]["resourceVersion"].clone();
    let dry = client.put(&format!("{path}?dryRun=All"), &replacement).await.expect(200);
    assert_eq!(dry["apiVersion"], "apiextensions.k8s.io/v1beta1");
    let replaced = client.put(&path, &replacement).await.expect(200);
    assert_eq!(replaced["metadata"]["labels"], Value::Null);
    let mut events = client.watch(&format!("{OLD}?watch=1")).await;
    let seen = events.next().await.unwrap();
    assert_eq!((&seen["type"], &seen["object"]["apiVersion"]), (&json!("ADDED"), &replaced["apiVersion"]));
    let list = client.get(OLD).await.expect(200);
    assert_eq!(list["apiVersion"], "apiextensions.k8s.io/v1beta1");
    assert_eq!(names(&list), ["verticalpodautoscalers.autoscaling.k8s.io"]);
    client.delete(&path).await.expect(200);
    client.gone(&path).await;
    client.gone("/apis/autoscaling.k8s.io/v1beta2").await;
}

#[tokio::test]
async fn a_definition_that_cannot_be_upgraded_is_rejected_with_a_hint() {
    let client = Client::new().await;
    let mut definition = crontabs();
    definition["spec"]["validation"] =
        json!({"openAPIV3Schema": {"properties": {"spec": {"$ref": "#/definitions/a"}}}});
    let rejected = client.post(OLD, &definition).await;
    assert_eq!(
        rejected.message(),
        "CustomResourceDefinition \"crontabs.stable.example.com\" cannot be stored as apiextensions.k8s.io/v1: \
         spec.versions[0].schema.openAPIV3Schema.properties[spec]: $ref is not supported; hint: replace the reference with the \
         schema it refers to"
    );
    assert_eq!((rejected.code, &rejected.json()["reason"]), (422, &json!("Invalid")));
    let mut definition = crontabs();
    definition["apiVersion"] = json!("apiextensions.k8s.io/v1");
    let rejected = client.post(OLD, &definition).await;
    assert_eq!(
        rejected.message(),
        "the API version in the data (apiextensions.k8s.io/v1) does not match the expected API version \
         (apiextensions.k8s.io/v1beta1)"
    );
    assert_eq!(rejected.code, 400);
    for body in ["", "[]", "7", "{", r#"{"metadata":7,"spec":7}"#] {
        let code = client.ask(Method::POST, OLD, &[("content-type", "application/json")], body).await.code;
        assert!((400..500).contains(&code), "{body}: {code}");
    }
    // An upgraded CRD is validated by the rules of v1.
    let mut definition = crontabs();
    definition["metadata"]["name"] = json!("other.stable.example.com");
    assert_eq!(client.post(OLD, &definition).await.code, 422);
    let mut definition = crontabs();
    definition["spec"]["nonsense"] = json!(1);
    let strict = client.post(&format!("{OLD}?fieldValidation=Strict"), &definition).await;
    assert!(
        strict.message().ends_with("strict decoding error: unknown field \"spec.nonsense\""),
        "{}",
        strict.message()
    );
}

#[tokio::test]
async fn discovery_has_the_old_version_after_the_new_one() {
    let client = Client::new().await;
    let group = client.get("/apis/apiextensions.k8s.io").await.expect(200);
    let versions: Vec<&Value> =
        group["versions"].as_array().unwrap().iter().map(|version| &version["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = client.get("/apis/apiextensions.k8s.io/v1beta1").await.expect(200);
    assert_eq!(resources["resources"].as_array().unwrap().len(), 1);
    assert_eq!(resources["resources"][0]["name"], "customresourcedefinitions");
    let aggregated = [("accept", "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList")];
    let groups = client.ask(Method::GET, "/apis", &aggregated, "").await.expect(200);
    let group =
        groups["items"].as_array().unwrap().iter().find(|item| item["metadata"]["name"] == "apiextensions.k8s.io");
    assert_eq!(group.unwrap()["versions"][1]["resources"][0]["resource"], "customresourcedefinitions");
    let index = client.get("/openapi/v3").await.expect(200);
    let document = index["paths"]["apis/apiextensions.k8s.io/v1beta1"]["serverRelativeURL"].as_str().unwrap();
    let document = client.get(document).await.expect(200);
    assert!(document["paths"].as_object().unwrap().contains_key(&format!("{OLD}/{{name}}")));
}

#[tokio::test]
async fn without_the_option_the_group_is_that_of_kubernetes() {
    let client = Client::without_old_definitions().await;
    let version = "/apis/apiextensions.k8s.io/v1beta1";
    for answer in [client.get(OLD).await, client.post(OLD, &networks()).await, client.get(version).await] {
        let status = answer.expect(404);
        assert_eq!(status["message"], "the server could not find the requested resource");
        assert_eq!(status["details"], json!({}));
    }
    let group = client.get("/apis/apiextensions.k8s.io").await.expect(200);
    assert_eq!(group["versions"].as_array().unwrap().len(), 1);
    let index = client.get("/openapi/v3").await.expect(200);
    assert_eq!(index["paths"].get("apis/apiextensions.k8s.io/v1beta1"), None);
    assert_eq!(client.get("/openapi/v3/apis/apiextensions.k8s.io/v1beta1").await.code, 404);
    let rejected = client.post(DEFINITIONS, &networks()).await;
    assert_eq!(
        rejected.message(),
        "the API version in the data (apiextensions.k8s.io/v1beta1) does not match the expected API version \
         (apiextensions.k8s.io/v1)"
    );
}
