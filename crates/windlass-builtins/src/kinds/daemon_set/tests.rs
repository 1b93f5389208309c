use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_status, check_update, created, template};

fn valid() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"app": "x"}}, "template": template()}})
}

#[test]
fn the_generation_of_the_template_counts_its_changes_only() {
    let made = created(&DaemonSet, &valid());
    assert_eq!(made["metadata"]["annotations"][TEMPLATE_GENERATION], "1");
    assert_eq!(
        made["spec"]["updateStrategy"],
        json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
    );
    let update = |changes| {
        let mut object = changed(&made, &changes);
        DaemonSet.prepare_for_update(&mut object, &made, &WriteContext::test());
        template_generation(&object)
    };
    assert_eq!(update(json!({"/spec/minReadySeconds": 3, "/metadata/annotations": {TEMPLATE_GENERATION: "7"}})), 1);
    assert_eq!(update(json!({"/spec/template/spec/hostname": "h"})), 2);
    let mut status = changed(&made, &json!({"/metadata/annotations": {}}));
    DaemonSet.prepare_for_subresource_update("status", &mut status, &made, &WriteContext::test());
    assert_eq!(template_generation(&status), 1);
}

#[test]
fn a_rolling_update_that_is_not_used_has_zeros() {
    let mut set = valid();
    set["spec"]["updateStrategy"] = json!({"type": "OnDelete", "rollingUpdate": {"maxSurge": 1}});
    DaemonSet.default(&mut set);
    assert_eq!(set["spec"]["updateStrategy"]["rollingUpdate"], json!({"maxSurge": 1, "maxUnavailable": 0}));
}

#[test]
fn a_daemon_set_has_two_update_strategies() {
    let update = |value| json!({"/spec/updateStrategy": value});
    check_create(
        &DaemonSet,
        &valid(),
        &[
            (update(json!({"type": "OnDelete"})), &[]),
            (
                update(json!({"rollingUpdate": {"maxUnavailable": 0}})),
                &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
            ),
            (
                update(json!({"rollingUpdate": {"maxSurge": "10%"}})),
                &[
                    "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: \"10%\": may not be set when maxUnavailable is non-zero",
                ],
            ),
            (
                update(json!({"rollingUpdate": {"maxUnavailable": "200%"}})),
                &[
                    "spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: \"200%\": must not be greater than 100%",
                ],
            ),
            (
                update(json!({"type": "X"})),
                &[
                    "spec.updateStrategy: Unsupported value: {\"Type\":\"X\",\"RollingUpdate\":null}: supported values: \"RollingUpdate\", \"OnDelete\"",
                ],
            ),
            (
                json!({"/spec/minReadySeconds": -1}),
                &["spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"/spec/revisionHistoryLimit": -1}),
                &["spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0"],
            ),
        ],
    );
}

#[test]
fn a_daemon_set_selects_its_own_pods_which_always_restart() {
    check_create(
        &DaemonSet,
        &valid(),
        &[
            (
                json!({"/spec/selector": null}),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                json!({"/spec/selector": {}}),
                &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
            ),
            (
                json!({"/spec/template/spec/restartPolicy": "Never", "/spec/template/spec/activeDeadlineSeconds": 5}),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
                ],
            ),
        ],
    );
    let wider = json!({"/spec/selector/matchLabels": {"app": "y"}, "/spec/template/metadata/labels": {"app": "y"}});
    check_update(
        &DaemonSet,
        &created(&DaemonSet, &valid()),
        &[(wider, &["spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"y\"}}: field is immutable"])],
    );
}

#[test]
fn the_status_of_a_daemon_set_counts_upwards() {
    check_status(
        &DaemonSet,
        &json!({"status": {"collisionCount": 2}}),
        &[
            (json!({"/status/numberReady": 1}), &[]),
            (
                json!({"/status/numberReady": -1, "/status/collisionCount": 1}),
                &[
                    "status.numberReady: Invalid value: -1: must be greater than or equal to 0",
                    "status.collisionCount: Invalid value: 1: cannot be decremented",
                ],
            ),
        ],
    );
}
