//! Volumes and claims stay while they are used.

use k8s_openapi::api::{
    core::v1::{PersistentVolume, PersistentVolumeClaim, Pod},
    storage::v1::{StorageClass, VolumeAttributesClass},
};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

fn claim(name: &str) -> PersistentVolumeClaim {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
    .unwrap()
}

#[tokio::test]
async fn a_claim_stays_until_the_pods_that_use_it_are_gone() {
    let plane = TestPlane::builder().await;
    let (claims, pods) = (plane.api::<PersistentVolumeClaim>(), plane.api::<Pod>());
    for name in ["used", "unused"] {
        let made = claims.create(&PostParams::default(), &claim(name)).await.unwrap();
        assert_eq!(made.finalizers(), ["kubernetes.io/pvc-protection"]);
    }
    let pod: Pod = serde_json::from_value(json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n",
        "containers": [{"name": "c", "image": "i"}],
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "used"}}]}}))
    .unwrap();
    pods.create(&PostParams::default(), &pod).await.unwrap();
    for name in ["used", "unused"] {
        claims.delete(name, &DeleteParams::default()).await.unwrap();
    }
    eventually("the unused claim goes", async || claims.get_opt("unused").await.unwrap().is_none().then_some(())).await;
    assert!(claims.get_opt("used").await.unwrap().is_some());
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    eventually("the used claim goes", async || claims.get_opt("used").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_volume_stays_while_it_is_bound() {
    let plane = TestPlane::builder().controllers("persistentvolume-protection-controller".parse().unwrap()).await;
    let volumes: Api<PersistentVolume> = Api::all(plane.client());
    let volume: PersistentVolume = serde_json::from_value(json!({"metadata": {"name": "v"}, "spec": {
        "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/data"}}}))
    .unwrap();
    let made = volumes.create(&PostParams::default(), &volume).await.unwrap();
    assert_eq!(made.finalizers(), ["kubernetes.io/pv-protection"]);
    let phase = |phase: &str| Patch::Merge(json!({"status": {"phase": phase}}));
    volumes.patch_status("v", &PatchParams::default(), &phase("Bound")).await.unwrap();
    volumes.delete("v", &DeleteParams::default()).await.unwrap();
    let kept = volumes.patch_status("v", &PatchParams::default(), &phase("Released")).await.unwrap();
    assert_eq!(kept.finalizers(), ["kubernetes.io/pv-protection"]);
    eventually("the volume goes", async || volumes.get_opt("v").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn a_class_of_volumes_stays_while_a_claim_names_it() {
    let plane = TestPlane::builder().await;
    let classes: Api<VolumeAttributesClass> = Api::all(plane.client());
    let class: VolumeAttributesClass = serde_json::from_value(
        json!({"metadata": {"name": "gold"}, "driverName": "example.com", "parameters": {"speed": "high"}}),
    )
    .unwrap();
    classes.create(&PostParams::default(), &class).await.unwrap();
    let claims = plane.api::<PersistentVolumeClaim>();
    let mut wanting = claim("c");
    wanting.spec.as_mut().unwrap().volume_attributes_class_name = Some("gold".to_owned());
    claims.create(&PostParams::default(), &wanting).await.unwrap();
    classes.delete("gold", &DeleteParams::default()).await.unwrap();
    claims.delete("c", &DeleteParams::default()).await.unwrap();
    eventually("the class goes", async || classes.get_opt("gold").await.unwrap().is_none().then_some(())).await;
    assert!(claims.get_opt("c").await.unwrap().is_none());
}

#[tokio::test]
async fn a_claim_gets_the_newest_default_class_and_grows_only_with_its_leave() {
    // The binder would not believe that the claim is bound.
    let plane = TestPlane::builder().controllers("*,-persistentvolume-binder-controller".parse().unwrap()).await;
    let classes: Api<StorageClass> = Api::all(plane.client());
    let class = |name: &str, default: &str| -> StorageClass {
        let note = json!({"storageclass.kubernetes.io/is-default-class": default});
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": note}, "provisioner": "example.com/p"}))
            .unwrap()
    };
    for (name, default) in [("b", "true"), ("a", "true"), ("c", "false")] {
        classes.create(&PostParams::default(), &class(name, default)).await.unwrap();
    }
    let claims = plane.api::<PersistentVolumeClaim>();
    let made = claims.create(&PostParams::default(), &claim("c")).await.unwrap();
    let class = made.spec.unwrap().storage_class_name.unwrap();
    assert!(class == "a" || class == "b", "{class}");
    let mut none = claim("none");
    none.spec.as_mut().unwrap().storage_class_name = Some(String::new());
    let made = claims.create(&PostParams::default(), &none).await.unwrap();
    assert_eq!(made.spec.unwrap().storage_class_name.as_deref(), Some(""));

    let more = Patch::Merge(json!({"spec": {"resources": {"requests": {"storage": "2Gi"}}}}));
    let refused = async || claims.patch("c", &PatchParams::default(), &more).await.unwrap_err().to_string();
    let unbound = refused().await;
    assert!(unbound.contains("spec is immutable after creation"), "{unbound}");
    let bound = Patch::Merge(json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}));
    claims.patch_status("c", &PatchParams::default(), &bound).await.unwrap();
    let fixed = refused().await;
    assert!(fixed.contains("must support resize"), "{fixed}");
    let allow = Patch::Merge(json!({"allowVolumeExpansion": true}));
    classes.patch(&class, &PatchParams::default(), &allow).await.unwrap();
    claims.patch("c", &PatchParams::default(), &more).await.unwrap();
}
