//! Every built-in resource can be created, read, watched, patched and deleted.

use serde_json::{Value, json};
use windlass_builtins::resource::Resource;

use crate::client::Client;

/// A block of the type that a certificate signing request has.
const REQUEST: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

/// What a kind asks for beyond a name.
fn object(resource: &Resource) -> Value {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "x"}});
    let mut object = match &*resource.kind {
        "Pod" => json!({"spec": template["spec"]}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "Deployment" | "ReplicaSet" => json!({"spec": {"selector": selector, "template": template}}),
        "Event" if resource.group.is_empty() => json!({"involvedObject": {"namespace": "default"}}),
        "Event" => json!({
            "eventTime": "2026-01-02T03:04:05.000000Z", "reportingController": "example.com/c",
            "reportingInstance": "i", "action": "Act", "reason": "Because", "type": "Normal",
            "regarding": {"namespace": "default"},
        }),
        "ControllerRevision" => json!({"data": {"a": 1}, "revision": 1}),
        "EndpointSlice" => json!({"addressType": "IPv4", "endpoints": []}),
        "CertificateSigningRequest" => json!({"spec": {
            "request": REQUEST, "signerName": "example.com/signer", "usages": ["client auth"],
        }}),
        _ => json!({}),
    };
    object["metadata"] = json!({"name": name(resource)});
    object
}

fn name(resource: &Resource) -> &'static str {
    if &*resource.kind == "IPAddress" { "10.9.8.7" } else { "it" }
}

#[tokio::test]
async fn every_stored_resource_goes_through_its_life() {
    let client = Client::new().await;
    let mut stored = 0;
    let mut refused: Vec<String> = Vec::new();
    for resource in &windlass_builtins::table().resources {
        // Definitions have a life of their own: see `definitions`.
        let definition = &*resource.kind == "CustomResourceDefinition";
        if !resource.has_verb("create") || !resource.has_verb("watch") || definition {
            continue;
        }
        stored += 1;
        let root = if resource.group.is_empty() {
            "/api/v1".to_owned()
        } else {
            format!("/apis/{}/{}", resource.group, resource.version)
        };
        let scope = if resource.namespaced { "/namespaces/default" } else { "" };
        let path = format!("{root}{scope}/{}", resource.plural);
        let name = name(resource);
        let label = format!("{} {}", resource.api_version(), resource.kind);
        let mut events = client.watch(&format!("{path}?watch=1&fieldSelector=metadata.name%3D{name}")).await;
        let created = client.post(&path, &object(resource)).await;
        if created.code != 201 {
            refused.push(format!("{label}: {}", created.message()));
            continue;
        }
        let created = created.json();
        assert_eq!(created["kind"], *resource.kind, "{label}");
        assert_eq!(created["apiVersion"], resource.api_version(), "{label}");
        let one = format!("{path}/{name}");
        assert_eq!(client.get(&one).await.expect(200), created, "{label}");
        let patched = client.merge(&one, &json!({"metadata": {"labels": {"a": "b"}}})).await;
        assert_eq!(patched.code, 200, "{label}: {}", patched.message());
        assert_eq!(patched.json()["metadata"]["labels"]["a"], "b", "{label}");
        let list = client.get(&format!("{path}?labelSelector=a%3Db")).await.expect(200);
        assert_eq!(list["items"].as_array().unwrap().len(), 1, "{label}");
        let mut want = vec!["ADDED", "MODIFIED"];
        if &*resource.kind == "Pod" {
            // Its grace period is set, to nothing, before it goes.
            want.push("MODIFIED");
        }
        if &*resource.kind == "Namespace" {
            client.delete(&one).await.expect(200);
            want.push("MODIFIED");
        } else {
            client.delete(&one).await.expect(200);
            assert_eq!(client.get(&one).await.code, 404, "{label}");
            want.push("DELETED");
        }
        for event in want {
            assert_eq!(events.brief().await, format!("{event} {name}"), "{label}");
        }
    }
    assert!(refused.is_empty(), "{refused:#?}");
    assert!(stored >= 50, "{stored}");
}
