//! Binding, releasing and reclaiming persistent volumes.

use std::time::Duration;

use k8s_openapi::api::{
    core::v1::{Event, PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::StorageClass,
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually};

use crate::nodes::simulated::{create, is_ready, pod};

fn volumes(plane: &TestPlane) -> Api<PersistentVolume> {
    Api::all(plane.client())
}

async fn make_volume(plane: &TestPlane, name: &str, spec: Value) -> PersistentVolume {
    let mut whole = json!({"capacity": {"storage": "5Gi"}, "accessModes": ["ReadWriteOnce"],
        "hostPath": {"path": "/tmp/data"}, "storageClassName": "manual"});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let volume = serde_json::from_value(json!({"metadata": {"name": name}, "spec": whole})).unwrap();
    volumes(plane).create(&PostParams::default(), &volume).await.unwrap()
}

async fn make_claim(plane: &TestPlane, name: &str, spec: Value) -> PersistentVolumeClaim {
    let mut whole = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}},
        "storageClassName": "manual"});
    whole.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    let claim = serde_json::from_value(json!({"metadata": {"name": name}, "spec": whole})).unwrap();
    plane.api().create(&PostParams::default(), &claim).await.unwrap()
}

async fn make_class(plane: &TestPlane, name: &str, provisioner: &str, mode: &str, annotations: Value) {
    let classes: Api<StorageClass> = Api::all(plane.client());
    let class = serde_json::from_value(json!({"metadata": {"name": name, "annotations": annotations},
        "provisioner": provisioner, "volumeBindingMode": mode}))
    .unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
}

async fn bound(plane: &TestPlane, name: &str) -> PersistentVolumeClaim {
    let claims = plane.api::<PersistentVolumeClaim>();
    eventually(&format!("{name} is bound"), async || {
        let claim = claims.get(name).await.unwrap();
        (claim.status.as_ref()?.phase.as_deref() == Some("Bound")).then_some(claim)
    })
    .await
}

async fn phase(plane: &TestPlane, name: &str, phase: &str) -> PersistentVolume {
    eventually(&format!("{name} is {phase}"), async || {
        let volume = volumes(plane).get_opt(name).await.unwrap()?;
        (volume.status.as_ref()?.phase.as_deref() == Some(phase)).then_some(volume)
    })
    .await
}

async fn event(plane: &TestPlane, reason: &str) -> String {
    let events = plane.api::<Event>();
    eventually(reason, async || {
        let all = events.list(&ListParams::default()).await.unwrap().items;
        all.into_iter().find(|event| event.reason.as_deref() == Some(reason))?.message
    })
    .await
}

#[tokio::test]
async fn a_claim_binds_the_smallest_volume_and_releases_it() {
    let plane = TestPlane::builder().await;
    make_volume(&plane, "large", json!({"capacity": {"storage": "50Gi"}})).await;
    make_volume(&plane, "small", json!({"persistentVolumeReclaimPolicy": "Delete"})).await;
    make_volume(&plane, "other", json!({"capacity": {"storage": "1Gi"}, "storageClassName": "other"})).await;
    for name in ["large", "small", "other"] {
        phase(&plane, name, "Available").await;
    }
    make_claim(&plane, "data", json!({})).await;
    let claim = bound(&plane, "data").await;
    assert_eq!(claim.annotations()["pv.kubernetes.io/bind-completed"], "yes");
    assert_eq!(claim.annotations()["pv.kubernetes.io/bound-by-controller"], "yes");
    let uid = claim.metadata.uid.clone();
    let status = serde_json::to_value(claim.status.unwrap()).unwrap();
    assert_eq!(status, json!({"phase": "Bound", "accessModes": ["ReadWriteOnce"], "capacity": {"storage": "5Gi"}}));
    assert_eq!(claim.spec.unwrap().volume_name.as_deref(), Some("small"));
    let volume = phase(&plane, "small", "Bound").await;
    assert_eq!(volume.annotations()["pv.kubernetes.io/bound-by-controller"], "yes");
    assert_eq!(volume.spec.unwrap().claim_ref.unwrap().uid, uid);

    plane.api::<PersistentVolumeClaim>().delete("data", &DeleteParams::default()).await.unwrap();
    eventually("the volume is deleted", async || {
        volumes(&plane).get_opt("small").await.unwrap().is_none().then_some(())
    })
    .await;

    make_claim(&plane, "data", json!({})).await;
    assert_eq!(bound(&plane, "data").await.spec.unwrap().volume_name.as_deref(), Some("large"));
    plane.api::<PersistentVolumeClaim>().delete("data", &DeleteParams::default()).await.unwrap();
    let kept = phase(&plane, "large", "Released").await;
    assert!(kept.spec.unwrap().claim_ref.is_some());
    make_claim(&plane, "data", json!({})).await;
    // A released volume with data is not available again until the claim reference is removed.
    let patch = json!({"spec": {"claimRef": null}});
    volumes(&plane).patch("large", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    assert_eq!(bound(&plane, "data").await.spec.unwrap().volume_name.as_deref(), Some("large"));
}

#[tokio::test]
async fn volumes_and_claims_can_name_each_other() {
    let plane = TestPlane::builder().await;
    let kept = json!({"namespace": plane.namespace(), "name": "one"});
    make_volume(&plane, "kept", json!({"claimRef": kept, "capacity": {"storage": "50Gi"}})).await;
    make_volume(&plane, "free", json!({})).await;
    make_volume(&plane, "small", json!({"capacity": {"storage": "1Mi"}})).await;
    phase(&plane, "kept", "Available").await;
    phase(&plane, "free", "Available").await;
    make_claim(&plane, "one", json!({})).await;
    assert_eq!(bound(&plane, "one").await.spec.unwrap().volume_name.as_deref(), Some("kept"));
    assert!(!phase(&plane, "kept", "Bound").await.annotations().contains_key("pv.kubernetes.io/bound-by-controller"));
    make_claim(&plane, "two", json!({"volumeName": "small"})).await;
    assert_eq!(
        event(&plane, "VolumeMismatch").await,
        "Cannot bind to requested volume \"small\": requested PV is too small"
    );
    make_claim(&plane, "three", json!({"volumeName": "kept"})).await;
    assert_eq!(event(&plane, "FailedBinding").await, "volume \"kept\" already bound to a different claim.");
    make_claim(&plane, "four", json!({"volumeName": "later"})).await;
    make_volume(&plane, "later", json!({})).await;
    let four = bound(&plane, "four").await;
    assert!(!four.annotations().contains_key("pv.kubernetes.io/bound-by-controller"));
    for name in ["two", "three"] {
        let claim = plane.api::<PersistentVolumeClaim>().get(name).await.unwrap();
        assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Pending"), "{name}");
    }
}

#[tokio::test]
async fn a_claim_that_loses_its_volume_reports_it() {
    let plane = TestPlane::builder().await;
    make_volume(&plane, "v", json!({})).await;
    make_claim(&plane, "data", json!({})).await;
    bound(&plane, "data").await;
    volumes(&plane).delete("v", &DeleteParams::default()).await.unwrap();
    let none = json!({"metadata": {"finalizers": null}});
    volumes(&plane).patch("v", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    let note = event(&plane, "ClaimLost").await;
    assert_eq!(note, "Bound claim has lost its PersistentVolume. Data on the volume is lost!");
    let status = plane.api::<PersistentVolumeClaim>().get("data").await.unwrap().status.unwrap();
    assert_eq!((status.phase.as_deref(), status.capacity), (Some("Lost"), None));
}

#[tokio::test]
async fn a_claim_without_a_volume_asks_for_its_provisioner() {
    let plane = TestPlane::builder().await;
    make_class(&plane, "outside", "example.com/disk", "Immediate", json!({})).await;
    make_class(&plane, "late", "example.com/disk", "WaitForFirstConsumer", json!({})).await;
    make_claim(&plane, "none", json!({"storageClassName": ""})).await;
    let note = event(&plane, "FailedBinding").await;
    assert_eq!(note, "no persistent volumes available for this claim and no storage class is set");
    make_claim(&plane, "missing", json!({"storageClassName": "missing"})).await;
    assert_eq!(event(&plane, "ProvisioningFailed").await, "storageclass.storage.k8s.io \"missing\" not found");
    make_claim(&plane, "asks", json!({"storageClassName": "outside"})).await;
    event(&plane, "ExternalProvisioning").await;
    let claims = plane.api::<PersistentVolumeClaim>();
    let asks = claims.get("asks").await.unwrap();
    assert_eq!(asks.annotations()["volume.kubernetes.io/storage-provisioner"], "example.com/disk");
    assert_eq!(asks.annotations()["volume.beta.kubernetes.io/storage-provisioner"], "example.com/disk");
    make_claim(&plane, "waits", json!({"storageClassName": "late"})).await;
    let note = event(&plane, "WaitForFirstConsumer").await;
    assert_eq!(note, "waiting for first consumer to be created before binding");
    make_volume(&plane, "v", json!({"storageClassName": "late"})).await;
    phase(&plane, "v", "Available").await;
    let uses = json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": "waits"}}]});
    create(&plane, &pod("p", uses)).await;
    assert_eq!(event(&plane, "WaitForPodScheduled").await, "waiting for pod p to be scheduled");
    assert_eq!(claims.get("waits").await.unwrap().status.unwrap().phase.as_deref(), Some("Pending"));
    // A default class that is created later applies to claims without a class.
    make_claim(&plane, "any", json!({"storageClassName": null})).await;
    let default = json!({"storageclass.kubernetes.io/is-default-class": "true"});
    make_class(&plane, "default", "example.com/disk", "Immediate", default).await;
    eventually("it gets the class", async || {
        let class = claims.get("any").await.unwrap().spec?.storage_class_name?;
        (class == "default").then_some(())
    })
    .await;
}

#[tokio::test]
async fn simulated_nodes_provision_volumes() {
    let plane = TestPlane::builder().nodes(1).await;
    make_class(&plane, "late", "example.com/disk", "WaitForFirstConsumer", json!({})).await;
    make_class(&plane, "local", "kubernetes.io/no-provisioner", "WaitForFirstConsumer", json!({})).await;
    make_volume(&plane, "disk", json!({"storageClassName": "local"})).await;
    phase(&plane, "disk", "Available").await;
    make_claim(&plane, "late", json!({"storageClassName": "late"})).await;
    make_claim(&plane, "local", json!({"storageClassName": "local"})).await;
    make_claim(&plane, "now", json!({"storageClassName": null})).await;
    bound(&plane, "now").await;
    let claims = plane.api::<PersistentVolumeClaim>();
    for name in ["late", "local"] {
        assert_eq!(claims.get(name).await.unwrap().spec.unwrap().volume_name, None, "{name}");
        let uses = json!({"volumes": [{"name": "d", "persistentVolumeClaim": {"claimName": name}}]});
        create(&plane, &pod(name, uses)).await;
        eventually("it runs", async || plane.api::<Pod>().get(name).await.ok().filter(is_ready)).await;
    }
    assert_eq!(bound(&plane, "local").await.spec.unwrap().volume_name.as_deref(), Some("disk"));
    let made = bound(&plane, "late").await.spec.unwrap().volume_name.unwrap();
    assert!(made.starts_with("pvc-"), "{made}");
    plane.api::<Pod>().delete("late", &DeleteParams::default().grace_period(0)).await.unwrap();
    claims.delete("late", &DeleteParams::default()).await.unwrap();
    eventually("its volume is deleted", async || volumes(&plane).get_opt(&made).await.unwrap().is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn claims_without_a_class_get_the_default_one_and_wait_if_there_is_none() {
    let plane = TestPlane::builder().nodes(1).await;
    make_claim(&plane, "first", json!({"storageClassName": null})).await;
    assert_eq!(bound(&plane, "first").await.spec.unwrap().storage_class_name.as_deref(), Some("standard"));
    let classes = Api::<StorageClass>::all(plane.client());
    classes.delete("standard", &DeleteParams::default()).await.unwrap();
    make_claim(&plane, "second", json!({"storageClassName": null})).await;
    let note = event(&plane, "FailedBinding").await;
    assert_eq!(note, "no persistent volumes available for this claim and no storage class is set");
    // A volume for the class that is created next shows that the provisioner has seen the claim.
    make_class(&plane, "other", "example.com/disk", "Immediate", json!({})).await;
    make_claim(&plane, "third", json!({"storageClassName": "other"})).await;
    bound(&plane, "third").await;
    let second = plane.api::<PersistentVolumeClaim>().get("second").await.unwrap();
    assert_eq!((second.spec.unwrap().volume_name, second.status.unwrap().phase.as_deref()), (None, Some("Pending")));
}

#[tokio::test]
async fn bound_volumes_and_claims_are_not_written_again() {
    let plane = TestPlane::builder().nodes(1).virtual_time().await;
    for number in 0..10 {
        make_claim(&plane, &format!("data-{number}"), json!({"storageClassName": null})).await;
        bound(&plane, &format!("data-{number}")).await;
    }
    let versions = async || {
        let claims = plane.api::<PersistentVolumeClaim>().list(&ListParams::default()).await.unwrap().items;
        let volumes = volumes(&plane).list(&ListParams::default()).await.unwrap().items;
        let claims = claims.iter().map(|claim| claim.metadata.resource_version.clone());
        claims.chain(volumes.iter().map(|volume| volume.metadata.resource_version.clone())).collect::<Vec<_>>()
    };
    plane.advance(Duration::from_secs(5)).await;
    let before = versions().await;
    plane.advance(Duration::from_secs(300)).await;
    assert_eq!(versions().await, before);
}

#[tokio::test]
async fn a_claim_whose_class_does_not_exist_waits_for_it() {
    let plane = TestPlane::builder().nodes(1).await;
    make_claim(&plane, "data", json!({"storageClassName": "fast"})).await;
    let event = plane.expect::<PersistentVolumeClaim>("data").event("ProvisioningFailed").await;
    assert_eq!(event.note.as_deref(), Some("storageclass.storage.k8s.io \"fast\" not found"));
    let claim = plane.api::<PersistentVolumeClaim>().get("data").await.unwrap();
    assert_eq!(claim.status.unwrap().phase.as_deref(), Some("Pending"));
    make_class(&plane, "fast", "example.com/fast", "Immediate", json!({})).await;
    bound(&plane, "data").await;
}
