//! Deployments and ReplicaSets through their strategies.

use expect_test::{Expect, expect};
use serde_json::{Value, json};
use windlass_schema::field::FieldError;

use super::Deployment;
use crate::kinds::replica_set::ReplicaSet;
use crate::object::set;
use crate::strategy::{Strategy, WriteContext};

fn changed(object: &Value, changes: Value) -> Value {
    let mut object = object.clone();
    for (pointer, value) in changes.as_object().into_iter().flatten() {
        set(&mut object, pointer, value.clone());
    }
    object
}

fn shown(errors: &[FieldError]) -> String {
    errors.iter().map(|error| format!("{error}\n")).collect()
}

#[test]
fn templates_keep_requests_and_ports_as_written() {
    let spec = json!({"hostNetwork": true, "containers": [
        {"name": "c", "image": "i", "ports": [{"containerPort": 80}], "resources": {"limits": {"cpu": "1"}}}]});
    let mut deployment = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": spec}}});
    Deployment.default(&mut deployment);
    let spec = &deployment["spec"]["template"]["spec"];
    assert_eq!(spec["containers"][0]["resources"], json!({"limits": {"cpu": "1"}}));
    assert_eq!(spec["containers"][0]["ports"], json!([{"containerPort": 80, "protocol": "TCP"}]));
    assert!(spec.get("enableServiceLinks").is_none());
}

#[test]
fn deployments_and_replica_sets_have_defaults_and_rules_of_their_own() {
    let check = |kind: &dyn Strategy, changes: Value, expect: Expect| {
        let mut object = changed(
            &json!({"metadata": {"name": "d"}, "spec": {
                "selector": {"matchLabels": {"app": "x"}},
                "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
            }}),
            changes,
        );
        kind.default(&mut object);
        kind.prepare_for_create(&mut object, &WriteContext::test());
        expect.assert_eq(&shown(&kind.validate(&object)));
        object
    };
    let made = check(&Deployment, json!({}), expect![[""]]);
    assert_eq!(
        made["spec"]["strategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
    );
    assert_eq!(
        (&made["spec"]["revisionHistoryLimit"], &made["spec"]["progressDeadlineSeconds"]),
        (&json!(10), &json!(600))
    );
    assert_eq!((&made["status"], &made["metadata"]["generation"]), (&json!({}), &json!(1)));
    let set_of = check(&ReplicaSet, json!({}), expect![[""]]);
    assert_eq!((&set_of["spec"]["replicas"], &set_of["status"]), (&json!(1), &json!({"replicas": 0})));
    check(
        &Deployment,
        json!({"/spec/strategy": {"rollingUpdate": {"maxUnavailable": "0%", "maxSurge": 0}}, "/spec/minReadySeconds": 600,
            "/spec/template/spec/activeDeadlineSeconds": 5, "/spec/template/metadata/annotations": {"-": "x"}}),
        expect![[r#"
            spec.template.annotations: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicaSet is not Supported
            spec.strategy.rollingUpdate.maxUnavailable: Invalid value: "0%": may not be 0 when `maxSurge` is 0
            spec.progressDeadlineSeconds: Invalid value: 600: must be greater than minReadySeconds
        "#]],
    );
    check(
        &Deployment,
        json!({"/spec/strategy": {"type": "X", "rollingUpdate": {"maxSurge": 1}}, "/spec/selector": {}, "/spec/template/spec/containers": []}),
        expect![[r#"
            spec.selector: Invalid value: {}: empty selector is invalid for deployment
            spec.template.spec.containers: Required value
            spec.strategy: Unsupported value: {"Type":"X","RollingUpdate":{"MaxUnavailable":0,"MaxSurge":1}}: supported values: "Recreate", "RollingUpdate"
        "#]],
    );
    check(
        &ReplicaSet,
        json!({"/spec/selector": {"matchLabels": {"a b": "x"}, "matchExpressions": [{"key": "k", "operator": "Odd"}]}, "/spec/minReadySeconds": -1}),
        expect![[r#"
            spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0
            spec.selector.matchLabels: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.selector.matchExpressions[0].operator: Invalid value: "Odd": not a valid selector operator
            spec.selector: Invalid value: {"matchLabels":{"a b":"x"},"matchExpressions":[{"key":"k","operator":"Odd"}]}: invalid label selector
        "#]],
    );
}

#[test]
fn workloads_keep_their_selector_and_count_their_changes() {
    let mut old = json!({"metadata": {"name": "d", "generation": 4}, "spec": {
        "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x", "v": "2"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    Deployment.default(&mut old);
    let new = changed(&old, json!({"/spec/selector/matchLabels": {"app": "x", "v": "2"}}));
    let expected = "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\",\"v\":\"2\"}}: field is immutable\n";
    assert_eq!(shown(&Deployment.validate_update(&new, &old)), expected);
    assert_eq!(shown(&ReplicaSet.validate_update(&new, &old)), expected);
    let mut annotated = changed(&old, json!({"/metadata/annotations": {"a": "b"}, "/status": {"replicas": 7}}));
    Deployment.prepare_for_update(&mut annotated, &old, &WriteContext::test());
    assert_eq!(annotated["metadata"]["generation"], 5, "annotations are copied to replica sets");
    assert!(annotated.get("status").is_none());
    let status = changed(
        &old,
        json!({"/status": {"replicas": 1, "readyReplicas": 2, "availableReplicas": 3, "collisionCount": 1}}),
    );
    set(&mut old, "/status/collisionCount", 2);
    let mut relabelled = changed(&status, json!({"/metadata/labels": {"a": "b"}, "/spec/replicas": 9}));
    Deployment.prepare_for_subresource_update("status", &mut relabelled, &old, &WriteContext::test());
    assert!(relabelled["metadata"].get("labels").is_none());
    assert_eq!(relabelled["spec"], old["spec"]);
    expect![[r#"
        status.readyReplicas: Invalid value: 2: cannot be greater than status.replicas
        status.availableReplicas: Invalid value: 3: cannot be greater than status.replicas
        status.availableReplicas: Invalid value: 3: cannot be greater than readyReplicas
        status.collisionCount: Invalid value: 1: cannot be decremented
    "#]]
    .assert_eq(&shown(&Deployment.validate_subresource_update("status", &status, &old)));
}
