//! Pods through their strategy: defaults and creation; the submodules cover the rest.

mod properties;
mod subresources;
mod update;
mod views;

use serde_json::{Value, json};

use jiff::Timestamp;

use super::Pod;
use crate::object::{set, text};
use crate::strategy::{Strategy, WriteContext};

fn made(spec: Value) -> Value {
    let mut pod = json!({"metadata": {"name": "p", "namespace": "n"}, "spec": spec});
    Pod.default(&mut pod);
    Pod.prepare_for_create(&mut pod, &WriteContext::test());
    pod
}

fn simple() -> Value {
    made(json!({"containers": [{"name": "c", "image": "i:1", "resources": {}}]}))
}

fn changed(pod: &Value, changes: Value) -> Value {
    let mut pod = pod.clone();
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        set(&mut pod, pointer, value.clone());
    }
    pod
}

fn shown(errors: &[windlass_schema::field::FieldError]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

#[test]
fn defaulting_sets_the_defaults_of_the_api() {
    let mut pod = json!({"metadata": {"name": "p"}, "spec": {
        "restartPolicy": "OnFailure", "serviceAccount": "sa", "hostNetwork": true,
        "initContainers": [{"name": "side", "image": "side", "restartPolicy": "Always"}],
        "containers": [{
            "name": "c", "image": "app:1", "ports": [{"containerPort": 80}],
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "livenessProbe": {"httpGet": {"port": 80}}, "startupProbe": {"grpc": {"port": 9}},
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "100u"}},
            "lifecycle": {"preStop": {"httpGet": {"port": 80}}},
        }],
        "volumes": [
            {"name": "none"}, {"name": "cm", "configMap": {"name": "x"}}, {"name": "h", "hostPath": {"path": "/x"}},
            {"name": "p", "projected": {"sources": [
                {"serviceAccountToken": {"path": "t"}}, {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"fieldPath": "metadata.labels"}}]}}]}},
            {"name": "img", "image": {"reference": "x"}},
        ],
    }});
    Pod.default(&mut pod);
    let expected = json!({
        "restartPolicy": "OnFailure", "serviceAccount": "sa", "serviceAccountName": "sa", "hostNetwork": true,
        "dnsPolicy": "ClusterFirst", "schedulerName": "default-scheduler", "securityContext": {},
        "terminationGracePeriodSeconds": 30, "enableServiceLinks": true,
        "initContainers": [{
            "name": "side", "image": "side", "restartPolicy": "Always", "imagePullPolicy": "Always",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
        }],
        "containers": [{
            "name": "c", "image": "app:1", "imagePullPolicy": "IfNotPresent",
            "terminationMessagePath": "/dev/termination-log", "terminationMessagePolicy": "File",
            "ports": [{"containerPort": 80, "hostPort": 80, "protocol": "TCP"}],
            "env": [{"name": "POD", "valueFrom": {"fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.name"}}}],
            "livenessProbe": {
                "httpGet": {"port": 80, "path": "/", "scheme": "HTTP"},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            },
            "startupProbe": {
                "grpc": {"port": 9, "service": ""},
                "timeoutSeconds": 1, "periodSeconds": 10, "successThreshold": 1, "failureThreshold": 3,
            },
            "resources": {"limits": {"cpu": "500m", "memory": "128Mi"}, "requests": {"cpu": "1m", "memory": "128Mi"}},
            "lifecycle": {"preStop": {"httpGet": {"port": 80, "path": "/", "scheme": "HTTP"}}},
        }],
        "volumes": [
            {"name": "none", "emptyDir": {}}, {"name": "cm", "configMap": {"name": "x", "defaultMode": 420}},
            {"name": "h", "hostPath": {"path": "/x", "type": ""}},
            {"name": "p", "projected": {"defaultMode": 420, "sources": [
                {"serviceAccountToken": {"path": "t", "expirationSeconds": 3600}},
                {"downwardAPI": {"items": [{"path": "l", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]}}]}},
            {"name": "img", "image": {"reference": "x", "pullPolicy": "Always"}},
        ],
    });
    assert_eq!(pod["spec"], expected);
}

#[test]
fn a_new_pod_is_pending_with_its_qos_class() {
    let all = json!({"limits": {"cpu": "1", "memory": "1Gi"}});
    for (resources, expected) in [
        (json!({}), "BestEffort"),
        (json!({"requests": {"cpu": "1"}}), "Burstable"),
        (json!({"requests": {"cpu": "0"}}), "BestEffort"),
        (json!({"limits": {"cpu": "1"}}), "Burstable"),
        (all.clone(), "Guaranteed"),
    ] {
        let pod = made(json!({"containers": [{"name": "c", "image": "i", "resources": resources}]}));
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": expected}), "{resources}");
        assert_eq!(pod["metadata"]["generation"], 1);
    }
    let whole = made(json!({"resources": all, "containers": [{"name": "c", "image": "i"}]}));
    assert_eq!(text(&whole, "/status/qosClass"), "Guaranteed");
    assert_eq!(whole["spec"]["resources"]["requests"], json!({"cpu": "1", "memory": "1Gi"}));
}

#[test]
fn match_label_keys_and_scheduling_gates_of_a_new_pod_are_applied() {
    let mut pod = json!({"metadata": {"name": "p", "labels": {"v": "1"}}, "spec": {
        "schedulingGates": [{"name": "g"}], "containers": [],
        "topologySpreadConstraints": [{"matchLabelKeys": ["v", "absent"], "labelSelector": {}}],
        "affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
            {"mismatchLabelKeys": ["v"], "labelSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}]}},
    }});
    Pod.prepare_for_create(&mut pod, &WriteContext::test());
    let spread = &pod["spec"]["topologySpreadConstraints"][0]["labelSelector"];
    assert_eq!(*spread, json!({"matchExpressions": [{"key": "v", "operator": "In", "values": ["1"]}]}));
    let pointer = "/spec/affinity/podAntiAffinity/requiredDuringSchedulingIgnoredDuringExecution/0/labelSelector/matchExpressions/1";
    assert_eq!(pod.pointer(pointer), Some(&json!({"key": "v", "operator": "NotIn", "values": ["1"]})));
    assert_eq!(text(&pod, "/status/conditions/0/reason"), "SchedulingGated");
    assert_eq!(super::printer::cells(&pod, Timestamp::UNIX_EPOCH)[2], "SchedulingGated");
}
