//! Every built-in resource can be created, read, watched, patched and deleted.

use serde_json::{Value, json};
use windlass_builtins::{resource::Resource, verb::Verb};

use crate::client::Client;

/// A PEM block of the type that a CertificateSigningRequest has.
const REQUEST: &str =
    "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlJQgotLS0tLUVORCBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K";

/// Returns an object with the fields that its kind requires.
pub(crate) fn object(resource: &Resource) -> Value {
    let template = json!({"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let selector = json!({"matchLabels": {"app": "x"}});
    let nothing = json!({"resourceRules": [
        {"apiGroups": ["example.com"], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["things"]},
    ]});
    let mut object = match &*resource.kind {
        "Pod" => json!({"spec": template["spec"]}),
        "Service" => json!({"spec": {"ports": [{"port": 80}]}}),
        "Deployment" | "ReplicaSet" | "StatefulSet" | "DaemonSet" => {
            json!({"spec": {"selector": selector, "template": template}})
        }
        "ReplicationController" => json!({"spec": {"template": template}}),
        "PodTemplate" => json!({"template": template}),
        "Job" => json!({"spec": job(&template)}),
        "CronJob" => json!({"spec": {"schedule": "@daily", "jobTemplate": {"spec": job(&template)}}}),
        "HorizontalPodAutoscaler" => json!({"spec": {
            "maxReplicas": 2, "scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"},
        }}),
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
        "RoleBinding" | "ClusterRoleBinding" => json!({"roleRef": {"kind": "ClusterRole", "name": "view"}}),
        "PersistentVolume" => json!({"spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"},
        }}),
        "PersistentVolumeClaim" => json!({"spec": {
            "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        }}),
        "StorageClass" => json!({"provisioner": "example.com/p"}),
        "VolumeAttributesClass" => json!({"driverName": "example.com", "parameters": {"a": "b"}}),
        "VolumeAttachment" => json!({"spec": {
            "attacher": "example.com", "nodeName": "n", "source": {"persistentVolumeName": "v"},
        }}),
        "CSIStorageCapacity" => json!({"storageClassName": "c"}),
        "Ingress" => json!({"spec": {"rules": [{"host": "example.com"}]}}),
        "IngressClass" => json!({"spec": {"controller": "example.com/c"}}),
        "IPAddress" => json!({"spec": {"parentRef": {"resource": "services", "name": "s"}}}),
        "ServiceCIDR" => json!({"spec": {"cidrs": ["10.9.0.0/16"]}}),
        "RuntimeClass" => json!({"handler": "h"}),
        "ResourceSlice" => json!({"spec": {
            "driver": "example.com", "pool": {"name": "p", "resourceSliceCount": 1}, "nodeName": "n",
        }}),
        "APIService" => json!({"spec": {
            "group": "it.example.com", "version": "v1", "groupPriorityMinimum": 1, "versionPriority": 1,
        }}),
        "ValidatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": nothing, "validations": [{"expression": "true"}],
        }}),
        "MutatingAdmissionPolicy" => json!({"spec": {
            "matchConstraints": nothing, "reinvocationPolicy": "Never",
            "mutations": [{"patchType": "ApplyConfiguration", "applyConfiguration": {"expression": "Object{}"}}],
        }}),
        "ValidatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p", "validationActions": ["Deny"]}}),
        "MutatingAdmissionPolicyBinding" => json!({"spec": {"policyName": "p"}}),
        "FlowSchema" => json!({"spec": {"priorityLevelConfiguration": {"name": "p"}}}),
        "PriorityLevelConfiguration" => json!({"spec": {
            "type": "Limited", "limited": {"limitResponse": {"type": "Reject"}},
        }}),
        _ => json!({}),
    };
    object["metadata"] = json!({"name": name(resource)});
    object
}

fn job(template: &Value) -> Value {
    let mut template = template.clone();
    template["spec"]["restartPolicy"] = "Never".into();
    json!({"template": template})
}

fn name(resource: &Resource) -> &'static str {
    match &*resource.kind {
        "IPAddress" => "10.9.8.7",
        "APIService" => "v1.it.example.com",
        _ => "it",
    }
}

/// Returns whether objects of the kind are created with a finalizer.
fn is_protected(resource: &Resource) -> bool {
    matches!(&*resource.kind, "PersistentVolume" | "PersistentVolumeClaim" | "VolumeAttributesClass")
}

#[tokio::test]
async fn every_stored_resource_can_be_created_changed_and_deleted() {
    let client = Client::new().await;
    let mut stored = 0;
    let mut rejected: Vec<String> = Vec::new();
    for resource in &windlass_builtins::table().resources {
        // The server writes the conditions of these, which have tests of their own in `definitions` and `flow_control`.
        let has_conditions = matches!(&*resource.kind, "CustomResourceDefinition" | "FlowSchema");
        if !resource.has_verb(Verb::Create) || !resource.has_verb(Verb::Watch) || has_conditions {
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
            rejected.push(format!("{label}: {}", created.message()));
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
            // Its grace period is set to zero before it is removed.
            want.push("MODIFIED");
        }
        if &*resource.kind == "Namespace" {
            client.delete(&one).await.expect(200);
            want.push("MODIFIED");
        } else {
            // Some kinds would wait for the garbage collector to orphan their dependents.
            client.delete(&format!("{one}?propagationPolicy=Background")).await.expect(200);
            if is_protected(resource) {
                // It stays until a controller finds that it is not in use.
                client.merge(&one, &json!({"metadata": {"finalizers": null}})).await.expect(200);
                want.push("MODIFIED");
            }
            assert_eq!(client.get(&one).await.code, 404, "{label}");
            want.push("DELETED");
        }
        for event in want {
            assert_eq!(events.brief().await, format!("{event} {name}"), "{label}");
        }
    }
    assert!(rejected.is_empty(), "{rejected:#?}");
    assert!(stored >= 50, "{stored}");
}
