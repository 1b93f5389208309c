//! Updates of pods.

use expect_test::{Expect, expect};
use serde_json::{Value, json};

use super::{changed, shown, simple};
use crate::kinds::pod::Pod;
use crate::strategy::{Strategy, WriteContext};

fn check_update(old: &Value, changes: Value, expect: Expect) {
    let mut new = changed(old, changes);
    Pod.default(&mut new);
    Pod.prepare_for_update(&mut new, old, &WriteContext::test());
    expect.assert_eq(&shown(&Pod.validate_update(&new, old)));
}

#[test]
fn an_update_may_change_images_and_deadlines_and_add_tolerations() {
    let pod = simple();
    check_update(&pod, json!({"/spec/containers/0/image": "i:2", "/spec/activeDeadlineSeconds": 5}), expect![[""]]);
    check_update(&pod, json!({"/spec/tolerations": [{"operator": "Exists"}]}), expect![[""]]);
    check_update(&pod, json!({"/status": {"phase": "Failed"}, "/metadata/labels": {"a": "b"}}), expect![[""]]);
    let tolerant = changed(
        &pod,
        json!({"/spec/tolerations": [{"key": "a", "operator": "Exists"}], "/spec/activeDeadlineSeconds": 5}),
    );
    check_update(
        &tolerant,
        json!({"/spec/tolerations": [], "/spec/activeDeadlineSeconds": 6}),
        expect![[r#"
            spec.activeDeadlineSeconds: Invalid value: 6: must be less than or equal to previous value
        "#]],
    );
    check_update(
        &tolerant,
        json!({"/spec/tolerations": [], "/spec/activeDeadlineSeconds": null}),
        expect![[r#"
            spec.activeDeadlineSeconds: Invalid value: null: must not update from a positive integer to nil value
            spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds
        "#]],
    );
}

#[test]
fn an_update_may_not_change_anything_else() {
    let pod = simple();
    check_update(
        &pod,
        json!({"/spec/containers/0/command": ["x"]}),
        expect![[r#"
            spec: Forbidden: pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)
            @@ -5,7 +5,9 @@
               {
                "Name": "c",
                "Image": "i:1",
            -   "Command": null,
            +   "Command": [
            +    "x"
            +   ],
                "Args": null,
                "WorkingDir": "",
                "Ports": null,

        "#]],
    );
    check_update(
        &pod,
        json!({"/spec/containers": [{"name": "c", "image": "i:1"}, {"name": "d", "image": "i"}]}),
        expect![[r#"
            spec.containers: Forbidden: pod updates may not add or remove containers
        "#]],
    );
    check_update(
        &pod,
        json!({"/metadata/annotations": {"kubernetes.io/config.mirror": "x"}, "/spec/schedulingGates": [{"name": "g"}]}),
        expect![[r#"
            metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set
            metadata.annotations[kubernetes.io/config.mirror]: Forbidden: may not add mirror pod annotation
            metadata.annotations[kubernetes.io/config.mirror]: Invalid value: "x": must set spec.nodeName if mirror pod annotation is set
            spec.schedulingGates[0].name: Forbidden: only deletion is allowed, but found new scheduling gate 'g'
        "#]],
    );
}

#[test]
fn the_scheduling_of_a_gated_pod_can_be_narrowed() {
    let pod = changed(&simple(), json!({"/spec/schedulingGates": [{"name": "g"}], "/spec/nodeSelector": {"a": "b"}}));
    let affinity = json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "k", "operator": "Exists"}]}]}});
    check_update(
        &pod,
        json!({"/spec/nodeSelector/c": "d", "/spec/affinity/nodeAffinity": affinity, "/spec/schedulingGates": []}),
        expect![[""]],
    );
    check_update(
        &pod,
        json!({"/spec/nodeSelector": {"c": "d"}}),
        expect![[r#"
            spec.nodeSelector: Invalid value: {"c":"d"}: only additions to spec.nodeSelector are allowed (no mutations or deletions)
        "#]],
    );
    let bound = changed(&pod, json!({"/spec/affinity/nodeAffinity": affinity}));
    let terms = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution/nodeSelectorTerms";
    check_update(
        &bound,
        json!({terms: [{"matchExpressions": [{"key": "other", "operator": "Exists"}]}]}),
        expect![[r#"
            spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]: Invalid value: {"MatchExpressions":[{"Key":"other","Operator":"Exists","Values":null}],"MatchFields":null}: only additions are allowed (no mutations or deletions)
        "#]],
    );
}
