use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{check_create, check_status, check_update, created, template};

fn valid() -> Value {
    json!({"metadata": {"name": "r"}, "spec": {"template": template()}})
}

#[test]
fn labels_and_selector_default_to_the_labels_of_the_template() {
    let made = created(&ReplicationController, &valid());
    assert_eq!(made["metadata"]["labels"], json!({"app": "x"}));
    assert_eq!((&made["spec"]["selector"], &made["spec"]["replicas"]), (&json!({"app": "x"}), &json!(1)));
    assert!(crate::kinds::facts("", "replicationcontrollers").orphans_by_default);
}

#[test]
fn a_controller_selects_its_own_pods_which_always_restart() {
    check_create(
        &ReplicationController,
        &valid(),
        &[
            (
                json!({"/spec/replicas": -1, "/spec/minReadySeconds": -2}),
                &[
                    "spec.minReadySeconds: Invalid value: -2: must be greater than or equal to 0",
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (json!({"/spec/template": null}), &["spec.selector: Required value", "spec.template: Required value"]),
            (
                json!({"/spec/selector": {"app": "y"}}),
                &[
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                json!({"/spec/template/spec/restartPolicy": "Never", "/spec/template/spec/activeDeadlineSeconds": 5}),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in ReplicationController is not Supported",
                ],
            ),
        ],
    );
    let old = created(&ReplicationController, &valid());
    let both = json!({"/spec/selector": {"app": "z"}, "/spec/template/metadata/labels": {"app": "z"}});
    check_update(&ReplicationController, &old, &[(both, &[])]);
}

#[test]
fn the_status_counts_some_of_the_replicas() {
    check_status(
        &ReplicationController,
        &json!({"status": {"replicas": 1}}),
        &[
            (json!({"/status/readyReplicas": 1}), &[]),
            (
                json!({"/status/observedGeneration": -1}),
                &["status.observedGeneration: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"/status/availableReplicas": 2}),
                &[
                    "status.availableReplicas: Invalid value: 2: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 2: cannot be greater than readyReplicas",
                ],
            ),
        ],
    );
}
