//! Status, ephemeral containers and resize.

use expect_test::expect;
use serde_json::{Value, json};

use super::{changed, made, shown, simple};
use crate::kinds::pod::Pod;
use crate::object::{set, text};
use crate::strategy::{Strategy, WriteContext};

#[test]
fn ephemeral_containers_are_added_and_stay() {
    let pod = simple();
    let subresource = |old: &Value, containers: Value| {
        let mut new = changed(old, json!({"/spec/ephemeralContainers": containers, "/spec/nodeName": "ignored"}));
        Pod.default(&mut new);
        Pod.prepare_for_subresource_update("ephemeralcontainers", &mut new, old, &WriteContext::test());
        let errors = shown(&Pod.validate_subresource_update("ephemeralcontainers", &new, old));
        (new, errors)
    };
    let (with, errors) = subresource(&pod, json!([{"name": "dbg", "image": "busybox"}]));
    assert_eq!(errors, "");
    assert_eq!(text(&with, "/spec/nodeName"), "");
    assert_eq!(with["metadata"]["generation"], 2);
    let (_, errors) = subresource(&with, json!([]));
    assert_eq!(
        errors,
        "spec.ephemeralContainers: Forbidden: existing ephemeral containers \"dbg\" may not be removed\n\n"
    );
    let (_, errors) = subresource(&with, json!([{"name": "dbg", "image": "other"}]));
    assert!(errors.contains("existing ephemeral containers \"dbg\" may not be changed\n@@"), "{errors}");
}

#[test]
fn a_resize_changes_only_cpu_and_memory() {
    let pod = made(json!({"containers": [{"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}));
    let resize = |changes: Value| {
        let mut new = changed(&pod, changes);
        Pod.default(&mut new);
        Pod.prepare_for_subresource_update("resize", &mut new, &pod, &WriteContext::test());
        let errors = shown(&Pod.validate_subresource_update("resize", &new, &pod));
        (new, errors)
    };
    let (new, errors) =
        resize(json!({"/spec/containers/0/resources/requests/cpu": "2", "/spec/containers/0/image": "ignored"}));
    assert_eq!(errors, "");
    assert_eq!(text(&new, "/spec/containers/0/image"), "i");
    assert_eq!(new["metadata"]["generation"], 2);
    let (_, errors) = resize(json!({"/spec/containers/0/resources": {}}));
    let expected = "spec: Invalid value: \"Burstable\": Pod QOS Class may not change as a result of resizing\n\
                    spec.containers[0].resources.requests: Forbidden: resource requests cannot be removed\n";
    assert_eq!(errors, expected);
    let (_, errors) = resize(json!({"/spec/containers/0/resources/requests/ephemeral-storage": "1Gi"}));
    assert_eq!(errors, "spec: Forbidden: only cpu and memory resources are mutable\n");
    let (_, errors) = resize(json!({"/spec/containers": []}));
    assert!(
        errors.ends_with("spec.containers: Forbidden: containers may not be added or removed on resize\n"),
        "{errors}"
    );
}

#[test]
fn a_status_update_changes_the_status_only() {
    let mut pod = simple();
    set(&mut pod, "/status/conditions", json!([{"type": "Ready", "status": "False", "observedGeneration": 3}]));
    let mut new = changed(
        &pod,
        json!({
            "/spec/nodeName": "x", "/metadata/labels": {"a": "b"}, "/metadata/ownerReferences": [{}],
            "/status": {"phase": "Running", "podIP": "10.0.0.1", "conditions": [{"type": "Ready", "status": "True"}]},
        }),
    );
    Pod.default(&mut new);
    Pod.prepare_for_subresource_update("status", &mut new, &pod, &WriteContext::test());
    assert_eq!(shown(&Pod.validate_subresource_update("status", &new, &pod)), "");
    assert_eq!(text(&new, "/spec/nodeName"), "");
    assert_eq!(text(&new, "/metadata/labels/a"), "b");
    assert!(new["metadata"].get("ownerReferences").is_none());
    assert_eq!(new["status"]["podIPs"], json!([{"ip": "10.0.0.1"}]));
    assert_eq!(text(&new, "/status/qosClass"), "BestEffort");
    assert_eq!(new["status"]["conditions"][0]["observedGeneration"], 3);
}

#[test]
fn a_status_update_is_validated() {
    let ended = |name: &str, code| json!({"name": name, "state": {"terminated": {"exitCode": code}}});
    let runs = |name: &str| json!({"name": name, "state": {"running": {}}});
    let mut old = changed(&simple(), json!({"/spec/restartPolicy": "OnFailure", "/spec/nodeName": "n"}));
    set(&mut old, "/status/containerStatuses", json!([ended("c", 0)]));
    let new = changed(
        &old,
        json!({"/status": {
            "qosClass": "Guaranteed", "nominatedNodeName": "m", "containerStatuses": [runs("c")],
            "podIPs": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.2"}], "hostIP": "1.2.3.4", "hostIPs": [{"ip": "x"}],
            "conditions": [{"type": "a b", "status": "True", "observedGeneration": -1}],
            "resourceClaimStatuses": [{"name": "r"}],
        }}),
    );
    expect![[r#"
        status.conditions[0].observedGeneration: Invalid value: -1: must be a non-negative integer
        status.conditions[0].Type: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        status.nominatedNodeName: Forbidden: may not be set on pods that are already bound to a node
        status.qosClass: Invalid value: "Guaranteed": field is immutable
        status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state
        status.resourceClaimStatuses[0].name: Invalid value: "r": must match the name of an entry in `spec.resourceClaims`
        status.podIPs: Invalid value: [{"IP":"10.0.0.1"},{"IP":"10.0.0.2"}]: may specify no more than one IP for each IP family
        status.hostIPs[0].ip: Invalid value: "x": must be equal to `hostIP`
        status.hostIPs[0]: Invalid value: "x": must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)
    "#]]
    .assert_eq(&shown(&Pod.validate_subresource_update("status", &new, &old)));
    set(&mut old, "/status/containerStatuses", json!([ended("c", 1)]));
    let again = changed(&old, json!({"/status/containerStatuses": [runs("c")]}));
    assert_eq!(shown(&Pod.validate_subresource_update("status", &again, &old)), "", "a failure may be retried");
}
