use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_status, check_update, created, template};

const FORBIDDEN: &str = "spec: Forbidden: updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden";

fn valid() -> Value {
    let claim = json!({"metadata": {"name": "data"},
        "spec": {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}});
    json!({"metadata": {"name": "s"}, "spec": {"serviceName": "s", "selector": {"matchLabels": {"app": "x"}},
        "template": template(), "volumeClaimTemplates": [claim]}})
}

#[test]
fn a_stateful_set_and_its_claims_are_defaulted() {
    let made = created(&StatefulSet, &valid());
    let spec = &made["spec"];
    assert_eq!((&spec["podManagementPolicy"], &spec["replicas"]), (&json!("OrderedReady"), &json!(1)));
    assert_eq!(spec["updateStrategy"], json!({"type": "RollingUpdate", "rollingUpdate": {"partition": 0}}));
    assert_eq!(spec["persistentVolumeClaimRetentionPolicy"], json!({"whenDeleted": "Retain", "whenScaled": "Retain"}));
    let claim = &spec["volumeClaimTemplates"][0];
    assert_eq!((&claim["kind"], &claim["apiVersion"]), (&json!("PersistentVolumeClaim"), &json!("v1")));
    assert_eq!((&claim["spec"]["volumeMode"], &claim["status"]["phase"]), (&json!("Filesystem"), &json!("Pending")));
    // A strategy with a type is left unchanged.
    let said = created(&StatefulSet, &changed(&valid(), &json!({"/spec/updateStrategy": {"type": "RollingUpdate"}})));
    assert_eq!(said["spec"]["updateStrategy"], json!({"type": "RollingUpdate"}));
    // The feature gate is off.
    let rolling = json!({"/spec/updateStrategy": {"rollingUpdate": {"maxUnavailable": 2}}});
    let off = created(&StatefulSet, &changed(&valid(), &rolling));
    assert_eq!(off["spec"]["updateStrategy"]["rollingUpdate"], json!({"partition": 0}));
}

#[test]
fn each_field_of_a_stateful_set_is_validated() {
    check_create(
        &StatefulSet,
        &valid(),
        &[
            (json!({"/spec/template/spec/hostname": "A_B", "/spec/podManagementPolicy": "Parallel"}), &[]),
            (
                json!({"/spec/podManagementPolicy": "X"}),
                &["spec.podManagementPolicy: Invalid value: \"X\": must be 'OrderedReady' or 'Parallel'"],
            ),
            (
                json!({"/spec/updateStrategy": {"type": "X"}}),
                &[
                    "spec.updateStrategy: Invalid value: {\"Type\":\"X\",\"RollingUpdate\":null}: must be 'RollingUpdate' or 'OnDelete'",
                ],
            ),
            (
                json!({"/spec/updateStrategy": {"type": "OnDelete", "rollingUpdate": {"partition": 2}}}),
                &[
                    "spec.updateStrategy.rollingUpdate: Invalid value: {\"Partition\":2,\"MaxUnavailable\":null}: only allowed for updateStrategy 'RollingUpdate'",
                ],
            ),
            (
                json!({"/spec/updateStrategy": {"rollingUpdate": {"partition": -1}}}),
                &["spec.updateStrategy.rollingUpdate.partition: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"/spec/persistentVolumeClaimRetentionPolicy": {"whenScaled": "X"}}),
                &[
                    "spec.persistentVolumeClaimRetentionPolicy.whenScaled: Unsupported value: \"X\": supported values: \"Retain\", \"Delete\"",
                ],
            ),
            (
                json!({"/spec/volumeClaimTemplates/0/spec": {}}),
                &[
                    "spec.volumeClaimTemplates[0].spec.accessModes: Required value: at least 1 access mode is required",
                    "spec.volumeClaimTemplates[0].spec.resources[storage]: Required value",
                ],
            ),
            (
                json!({"/spec/replicas": -1, "/spec/minReadySeconds": -1, "/spec/ordinals": {"start": -1}}),
                &[
                    "spec.replicas: Invalid value: -1: must be greater than or equal to 0",
                    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.ordinals.start: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (
                json!({"/spec/selector": {}}),
                &["spec.selector: Invalid value: {}: empty selector is invalid for statefulset"],
            ),
            (
                json!({"/spec/selector": null}),
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                json!({"/spec/template/spec/restartPolicy": "Never", "/spec/template/spec/activeDeadlineSeconds": 5}),
                &[
                    "spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in StatefulSet is not Supported",
                ],
            ),
        ],
    );
    let service = created(&StatefulSet, &changed(&valid(), &json!({"/spec/serviceName": "A"})));
    assert!(StatefulSet.validate(&service)[0].to_string().starts_with("spec.serviceName: Invalid value: \"A\""));
}

#[test]
fn containers_may_mount_the_claims() {
    let mounts = json!([{"name": "data", "mountPath": "/data"}]);
    check_create(&StatefulSet, &valid(), &[(json!({"/spec/template/spec/containers/0/volumeMounts": mounts}), &[])]);
}

#[test]
fn most_of_a_stateful_set_cannot_change() {
    let old = created(&StatefulSet, &valid());
    check_update(
        &StatefulSet,
        &old,
        &[
            (
                json!({"/spec/replicas": 3, "/spec/ordinals": {"start": 1}, "/spec/minReadySeconds": 2,
                    "/spec/updateStrategy": {"type": "OnDelete"}, "/spec/revisionHistoryLimit": 2,
                    "/spec/persistentVolumeClaimRetentionPolicy/whenDeleted": "Delete",
                    "/spec/template/spec/containers/0/image": "j"}),
                &[],
            ),
            (json!({"/spec/serviceName": "other"}), &[FORBIDDEN]),
            (json!({"/spec/podManagementPolicy": "Parallel"}), &[FORBIDDEN]),
            (json!({"/spec/volumeClaimTemplates": []}), &[FORBIDDEN]),
            (
                json!({"/spec/selector/matchLabels": {"app": "y"}, "/spec/template/metadata/labels": {"app": "y"}}),
                &[FORBIDDEN],
            ),
        ],
    );
}

#[test]
fn the_status_counts_some_of_the_replicas() {
    check_status(
        &StatefulSet,
        &json!({"status": {"replicas": 1, "collisionCount": 1}}),
        &[
            (json!({"/status/readyReplicas": 1, "/status/availableReplicas": 1}), &[]),
            (
                json!({"/status/updatedReplicas": 2, "/status/availableReplicas": 1, "/status/collisionCount": null}),
                &[
                    "status.updatedReplicas: Invalid value: 2: cannot be greater than status.replicas",
                    "status.availableReplicas: Invalid value: 1: cannot be greater than status.readyReplicas",
                    "status.collisionCount: Invalid value: 0: cannot be decremented",
                ],
            ),
        ],
    );
}

#[test]
fn unintended_values_cause_warnings() {
    let odd = json!({"/spec/revisionHistoryLimit": -1,
        "/spec/volumeClaimTemplates/0/spec/resources/requests/storage": "500m"});
    let object = created(&StatefulSet, &changed(&valid(), &odd));
    assert_eq!(
        StatefulSet.warnings(&object, None),
        [
            "spec.volumeClaimTemplates[0].resources.requests[storage]: fractional byte value \"500m\" is invalid, must be an integer",
            "spec.revisionHistoryLimit: a negative value retains all historical revisions; a value >= 0 is recommended",
        ]
    );
}
