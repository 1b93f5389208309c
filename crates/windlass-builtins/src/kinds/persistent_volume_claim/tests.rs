use expect_test::expect;

use super::*;
use crate::kinds::tests::expectations::{check_create, check_status, check_update};
use crate::object::copy;

fn claim() -> Value {
    json!({"metadata": {"name": "c"}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}})
}

fn with(pointer: &str, value: Value) -> Value {
    let mut claim = claim();
    set(&mut claim, pointer, value);
    claim
}

#[test]
fn a_new_claim_is_pending_with_filesystem_mode() {
    let mut claim = with("/status", json!({"phase": "Bound"}));
    PersistentVolumeClaim.default(&mut claim);
    PersistentVolumeClaim.prepare_for_create(&mut claim, &WriteContext::test());
    assert_eq!(claim["status"], json!({"phase": "Pending"}));
    assert_eq!(claim["spec"]["volumeMode"], "Filesystem");
    assert_eq!(PersistentVolumeClaim.validate(&claim), ErrorList::new());
}

#[test]
fn every_field_of_the_spec_is_checked() {
    check_create(
        &PersistentVolumeClaim,
        json!({"spec": {}}),
        expect![[r#"
        spec.accessModes: Required value: at least 1 access mode is required
        spec.resources[storage]: Required value
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/accessModes", json!(["Never", "ReadWriteOncePod", "ReadOnlyMany"])),
        expect![[r#"
            spec.accessModes: Unsupported value: "Never": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
            spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
        "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/resources/requests/storage", json!("0")),
        expect![[r#"
        spec.resources[storage]: Invalid value: "0": must be greater than zero
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/resources/requests/storage", json!("1.5")),
        expect![[r#"
        warning: spec.resources.requests[storage]: fractional byte value "1500m" is invalid, must be an integer
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/storageClassName", json!("A_b")),
        expect![[r#"
        spec.storageClassName: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/volumeAttributesClassName", json!("A_b")),
        expect![[r#"
        spec.volumeAttributesClassName: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/volumeMode", json!("Raw")),
        expect![[r#"
        spec.volumeMode: Unsupported value: "Raw": supported values: "Block", "Filesystem"
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/selector", json!({"matchLabels": {"-": "x"}})),
        expect![[r#"
        spec.selector.matchLabels: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
    "#]],
    );
    check_create(
        &PersistentVolumeClaim,
        with("/spec/dataSourceRef", json!({"kind": "Thing", "name": ""})),
        expect![[r#"
            spec.dataSource.name: Required value
            spec.dataSource: Invalid value: "Thing": must be 'PersistentVolumeClaim' when referencing the default apiGroup
            spec.dataSourceRef.name: Required value
            spec.dataSourceRef: Invalid value: "Thing": must be 'PersistentVolumeClaim' when referencing the default apiGroup
        "#]],
    );
    let mut both = with("/spec/dataSource", json!({"kind": "PersistentVolumeClaim", "name": "a"}));
    both["spec"]["dataSourceRef"] = json!({"kind": "PersistentVolumeClaim", "name": "b"});
    check_create(
        &PersistentVolumeClaim,
        both,
        expect![[r#"
        spec: Invalid value: {}: must match dataSourceRef
    "#]],
    );
}

#[test]
fn a_data_source_of_the_core_group_is_valid_however_its_group_is_absent() {
    let mut claim = with("/spec/dataSource", json!({"apiGroup": null, "kind": "PersistentVolumeClaim", "name": "a"}));
    claim["spec"]["dataSourceRef"] = json!({"kind": "PersistentVolumeClaim", "name": "a"});
    check_create(&PersistentVolumeClaim, claim, expect![[""]]);
}

#[test]
fn both_data_source_fields_are_kept_equal() {
    let settled = |pointer: &str, value: Value| {
        let mut claim = with(pointer, value);
        PersistentVolumeClaim.prepare_for_create(&mut claim, &WriteContext::test());
        (copy(&claim, "/spec/dataSource"), copy(&claim, "/spec/dataSourceRef"))
    };
    let own = json!({"kind": "PersistentVolumeClaim", "name": "x"});
    assert_eq!(settled("/spec/dataSource", own.clone()), (own.clone(), own.clone()));
    assert_eq!(settled("/spec/dataSourceRef", own.clone()), (own.clone(), own.clone()));
    let other = json!({"apiGroup": "g.io", "kind": "Thing", "name": "x"});
    assert_eq!(settled("/spec/dataSource", other.clone()), (Value::Null, Value::Null));
    assert_eq!(settled("/spec/dataSourceRef", other.clone()), (other.clone(), other));
    let elsewhere = json!({"kind": "PersistentVolumeClaim", "name": "x", "namespace": "n"});
    assert_eq!(settled("/spec/dataSourceRef", elsewhere), (Value::Null, Value::Null));
    check_update(
        &PersistentVolumeClaim,
        with("/spec/dataSource", own.clone()),
        with("/spec/dataSource", own),
        expect![[""]],
    );
}

#[test]
fn the_spec_never_changes_except_for_the_volume_and_the_first_class() {
    check_update(
        &PersistentVolumeClaim,
        with("/spec/accessModes", json!(["ReadOnlyMany"])),
        claim(),
        expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
            @@ -1,6 +1,6 @@
             {
              "AccessModes": [
            -  "ReadWriteOnce"
            +  "ReadOnlyMany"
              ],
              "Selector": null,
              "Resources": {

        "#]],
    );
    check_update(
        &PersistentVolumeClaim,
        with("/spec/volumeMode", json!("Block")),
        claim(),
        expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
            @@ -11,7 +11,7 @@
              },
              "VolumeName": "",
              "StorageClassName": null,
            - "VolumeMode": "Filesystem",
            + "VolumeMode": "Block",
              "DataSource": null,
              "DataSourceRef": null,
              "VolumeAttributesClassName": null

            volumeMode: Invalid value: "Block": field is immutable
        "#]],
    );
    check_update(&PersistentVolumeClaim, with("/spec/volumeName", json!("v")), claim(), expect![[""]]);
    check_update(
        &PersistentVolumeClaim,
        claim(),
        with("/spec/volumeName", json!("v")),
        expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
            @@ -9,7 +9,7 @@
                "storage": "1Gi"
               }
              },
            - "VolumeName": "v",
            + "VolumeName": "",
              "StorageClassName": null,
              "VolumeMode": "Filesystem",
              "DataSource": null,

        "#]],
    );
    check_update(&PersistentVolumeClaim, with("/spec/storageClassName", json!("c")), claim(), expect![[""]]);
    let classed = with("/spec/storageClassName", json!("c"));
    check_update(
        &PersistentVolumeClaim,
        with("/spec/storageClassName", json!("d")),
        classed,
        expect![[r#"
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
            @@ -10,7 +10,7 @@
               }
              },
              "VolumeName": "",
            - "StorageClassName": "c",
            + "StorageClassName": "d",
              "VolumeMode": "Filesystem",
              "DataSource": null,
              "DataSourceRef": null,

        "#]],
    );
    let noted = with("/metadata/annotations", json!({OLD_CLASS: "c"}));
    check_update(&PersistentVolumeClaim, with("/spec/storageClassName", json!("c")), noted.clone(), expect![[""]]);
    check_update(
        &PersistentVolumeClaim,
        with("/spec/storageClassName", json!("d")),
        noted,
        expect![[r#"
            metadata.annotations.volume.beta.kubernetes.io/storage-class: Invalid value: "": field is immutable
            spec: Forbidden: spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims
            @@ -10,7 +10,7 @@
               }
              },
              "VolumeName": "",
            - "StorageClassName": null,
            + "StorageClassName": "d",
              "VolumeMode": "Filesystem",
              "DataSource": null,
              "DataSourceRef": null,

        "#]],
    );
}

#[test]
fn a_bound_claim_may_grow_and_shrink_back_to_what_is_there() {
    let bound = |storage: &str| {
        let mut claim = with("/spec/resources/requests/storage", json!(storage));
        claim["status"] = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
        claim
    };
    check_update(&PersistentVolumeClaim, bound("3Gi"), bound("2Gi"), expect![[""]]);
    check_update(&PersistentVolumeClaim, bound("2Gi"), bound("3Gi"), expect![[""]]);
    check_update(
        &PersistentVolumeClaim,
        bound("1Gi"),
        bound("3Gi"),
        expect![[r#"
        spec.resources.requests.storage: Forbidden: field can not be less than status.capacity
    "#]],
    );
    let mut with_class = bound("2Gi");
    with_class["spec"]["volumeAttributesClassName"] = json!("fast");
    check_update(&PersistentVolumeClaim, with_class.clone(), bound("2Gi"), expect![[""]]);
    with_class["status"]["currentVolumeAttributesClassName"] = json!("fast");
    let mut without = bound("2Gi");
    without["status"] = with_class["status"].clone();
    check_update(
        &PersistentVolumeClaim,
        without.clone(),
        with_class.clone(),
        expect![[r#"
        spec.volumeAttributesClassName: Forbidden: update to nil is forbidden when status.currentVolumeAttributesClassName is not nil
    "#]],
    );
    without["spec"]["volumeAttributesClassName"] = json!("");
    check_update(
        &PersistentVolumeClaim,
        without,
        with_class,
        expect![[r#"
        spec.volumeAttributesClassName: Forbidden: update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil
    "#]],
    );
}

#[test]
fn the_status_is_checked() {
    let status = json!({"capacity": {"storage": "-1"}, "allocatedResources": {"cpu": "1", "storage": "-1", "a/b/c": "1"},
        "allocatedResourceStatuses": {"storage": "Odd"}});
    check_status(
        &PersistentVolumeClaim,
        with("/status", status),
        claim(),
        expect![[r#"
        status.capacity[storage]: Invalid value: -1: must be a valid resource quantity
        status.allocatedResourceStatuses: Unsupported value: "storage": supported values: "ControllerResizeInProgress", "ControllerResizeInfeasible", "NodeResizeInProgress", "NodeResizeInfeasible", "NodeResizePending"
        status.allocatedResources: Invalid value: "a/b/c": a valid label key must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]') with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyName')
        status.allocatedResources: Unsupported value: "cpu": supported values: "storage"
        status.allocatedResources[storage]: Invalid value: -1: must be a valid resource quantity
    "#]],
    );
    check_status(
        &PersistentVolumeClaim,
        json!({}),
        json!({}),
        expect![[r#"
        Spec.accessModes: Required value
    "#]],
    );
}

#[test]
fn deprecated_and_fractional_values_cause_warnings() {
    let mut old = with("/metadata/annotations", json!({OLD_CLASS: "c"}));
    old["spec"]["resources"]["requests"]["storage"] = json!("100m");
    check_create(
        &PersistentVolumeClaim,
        old,
        expect![[r#"
        warning: metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead
        warning: spec.resources.requests[storage]: fractional byte value "100m" is invalid, must be an integer
    "#]],
    );
}
