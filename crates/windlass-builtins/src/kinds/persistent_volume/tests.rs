use expect_test::expect;

use super::*;
use crate::kinds::tests::expectations::{check_create, check_status, check_update};

fn volume() -> Value {
    json!({"metadata": {"name": "v", "creationTimestamp": "2026-01-01T00:00:00Z"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}})
}

fn with(pointer: &str, value: Value) -> Value {
    let mut volume = volume();
    set(&mut volume, pointer, value);
    volume
}

#[test]
fn a_new_volume_is_pending_since_its_creation() {
    let mut volume = with("/status", json!({"phase": "Bound", "message": "x"}));
    PersistentVolume.default(&mut volume);
    PersistentVolume.prepare_for_create(&mut volume, &WriteContext::test());
    assert_eq!(volume["status"], json!({"phase": "Pending", "lastPhaseTransitionTime": "2026-01-01T00:00:00Z"}));
    assert_eq!(volume["spec"]["persistentVolumeReclaimPolicy"], "Retain");
    assert_eq!(volume["spec"]["volumeMode"], "Filesystem");
    assert_eq!(volume["spec"]["hostPath"]["type"], "");
    assert_eq!(PersistentVolume.validate(&volume), ErrorList::new());
}

#[test]
fn every_field_of_the_spec_is_checked() {
    check_create(
        &PersistentVolume,
        json!({"spec": {}}),
        expect![[r#"
        spec.accessModes: Required value
        spec.capacity: Required value
        spec.capacity: Unsupported value: null: supported values: "storage"
        spec: Required value: must specify a volume type
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/accessModes", json!(["ReadWriteOncePod", "ReadOnlyMany", "X"])),
        expect![[r#"
            spec.accessModes: Unsupported value: "X": supported values: "ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"
            spec.accessModes: Forbidden: may not use ReadWriteOncePod with other access modes
        "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/capacity", json!({"storage": "-1", "cpu": "1"})),
        expect![[r#"
        spec.capacity: Unsupported value: {"cpu":"1","storage":"-1"}: supported values: "storage"
        spec.capacity[storage]: Invalid value: -1: must be a valid resource quantity
        spec.capacity[storage]: Invalid value: "-1": must be greater than zero
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/persistentVolumeReclaimPolicy", json!("Burn")),
        expect![[r#"
        spec.persistentVolumeReclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Recycle", "Retain"
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/volumeMode", json!("Raw")),
        expect![[r#"
        spec.volumeMode: Unsupported value: "Raw": supported values: "Block", "Filesystem"
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/storageClassName", json!("A_b")),
        expect![[r#"
        spec.storageClassName: Invalid value: "A_b": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/volumeAttributesClassName", json!("")),
        expect![[r#"
        spec.volumeAttributesClassName: Required value: an empty string is disallowed
        spec.csi: Required value: has to be specified when using volumeAttributesClassName
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/nodeAffinity", json!({})),
        expect![[r#"
        spec.nodeAffinity.required: Required value: must specify required node constraints
    "#]],
    );
    check_create(
        &PersistentVolume,
        with("/spec/nodeAffinity", json!({"required": {}})),
        expect![[r#"
        spec.nodeAffinity.required.nodeSelectorTerms: Required value: must have at least one node selector term
    "#]],
    );
    let mut recycled = with("/spec/hostPath/path", json!("/a/.."));
    recycled["spec"]["persistentVolumeReclaimPolicy"] = json!("Recycle");
    check_create(
        &PersistentVolume,
        recycled,
        expect![[r#"
        spec.hostPath.path: Invalid value: "/a/..": must not contain '..'
        spec.persistentVolumeReclaimPolicy: Forbidden: may not be 'recycle' for a hostPath mount of '/'
        warning: spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.
    "#]],
    );
}

#[test]
fn there_is_exactly_one_source_and_it_is_complete() {
    for source in [
        json!({}),
        json!({"nfs": {"server": "s", "path": "rel"}, "local": {"path": "/x"}}),
        json!({"local": {"path": "/a/../b"}}),
        json!({"csi": {"driver": "A_", "nodePublishSecretRef": {"name": "A"}}}),
        json!({"iscsi": {"targetPortal": "p", "iqn": "x", "lun": 999, "chapAuthSession": true, "initiatorName": "iqn"}}),
        json!({"glusterfs": {"endpoints": "e", "path": "p", "endpointsNamespace": ""}}),
        json!({"cinder": {"volumeID": "v", "secretRef": {"name": "s"}}}),
        json!({"azureFile": {"secretName": "s", "shareName": "s", "secretNamespace": ""}}),
    ] {
        let mut volume = volume();
        let spec = volume["spec"].as_object_mut().expect("the spec must be an object");
        spec.remove("hostPath");
        spec.extend(source.as_object().expect("a source must be an object").clone());
        PersistentVolume.default(&mut volume);
        let errors = PersistentVolume.validate(&volume);
        assert!(!errors.is_empty(), "{source}");
    }
    let two = with("/spec/nfs", json!({"server": "s", "path": "/p"}));
    check_create(
        &PersistentVolume,
        two,
        expect![[r#"
        spec.nfs: Forbidden: may not specify more than 1 volume type
    "#]],
    );
}

#[test]
fn the_source_of_a_volume_never_changes() {
    check_update(
        &PersistentVolume,
        with("/spec/hostPath/path", json!("/other")),
        volume(),
        expect![[r#"
            spec.persistentvolumesource: Forbidden: spec.persistentvolumesource is immutable after creation
            @@ -2,7 +2,7 @@
              "GCEPersistentDisk": null,
              "AWSElasticBlockStore": null,
              "HostPath": {
            -  "Path": "/data",
            +  "Path": "/other",
               "Type": ""
              },
              "Glusterfs": null,

        "#]],
    );
    check_update(
        &PersistentVolume,
        with("/spec/volumeMode", json!("Block")),
        volume(),
        expect![[r#"
        volumeMode: Invalid value: "Block": field is immutable
    "#]],
    );
    check_update(&PersistentVolume, with("/spec/capacity/storage", json!("2Gi")), volume(), expect![[""]]);
    let affinity = |key: &str, value: &str| {
        let rule = json!({"key": key, "operator": "In", "values": [value]});
        with("/spec/nodeAffinity", json!({"required": {"nodeSelectorTerms": [{"matchExpressions": [rule]}]}}))
    };
    let old = affinity("failure-domain.beta.kubernetes.io/zone", "a");
    check_update(&PersistentVolume, affinity("topology.kubernetes.io/zone", "a"), old.clone(), expect![[""]]);
    check_update(
        &PersistentVolume,
        affinity("topology.kubernetes.io/zone", "b"),
        old.clone(),
        expect![[r#"
        nodeAffinity: Invalid value: {"Required":{"NodeSelectorTerms":[{"MatchExpressions":[{"Key":"topology.kubernetes.io/zone","Operator":"In","Values":["b"]}],"MatchFields":null}]}}: field is immutable, except for updating from beta label to GA
    "#]],
    );
    check_update(
        &PersistentVolume,
        volume(),
        old,
        expect![[r#"
        nodeAffinity: Invalid value: null: field is immutable, except for updating from beta label to GA
    "#]],
    );
}

#[test]
fn a_phase_transition_records_its_time() {
    let old = json!({"status": {"phase": "Pending", "lastPhaseTransitionTime": "t1"}});
    let mut new = json!({"status": {"phase": "Pending"}});
    PersistentVolume.prepare_for_subresource_update("status", &mut new, &old, &WriteContext::test());
    assert_eq!(new, old);
    let mut new = json!({"status": {"phase": "Available", "lastPhaseTransitionTime": "t1"}});
    PersistentVolume.prepare_for_subresource_update("status", &mut new, &old, &WriteContext::test());
    assert_eq!(new["status"]["lastPhaseTransitionTime"], "2026-01-01T00:00:00Z");
    check_status(&PersistentVolume, volume(), volume(), expect![[""]]);
}

#[test]
fn deprecated_fields_cause_warnings() {
    let mut old = with("/metadata/annotations", json!({OLD_CLASS: "c", OLD_MOUNT_OPTIONS: "o"}));
    old["spec"]["persistentVolumeReclaimPolicy"] = json!("Recycle");
    check_create(
        &PersistentVolume,
        old,
        expect![[r#"
        metadata.annotations.volume.beta.kubernetes.io/mount-options: Forbidden: may not specify mount options for this volume type
        warning: metadata.annotations[volume.beta.kubernetes.io/storage-class]: deprecated since v1.8; use "storageClassName" attribute instead
        warning: metadata.annotations[volume.beta.kubernetes.io/mount-options]: deprecated since v1.31; use "mountOptions" attribute instead
        warning: spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.
    "#]],
    );
}
