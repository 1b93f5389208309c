//! Bound volumes are not removed.

use k8s_openapi::api::core::v1::PersistentVolume;
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

#[tokio::test]
async fn a_volume_is_kept_while_it_is_bound() {
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
    eventually("the volume is deleted", async || volumes.get_opt("v").await.unwrap().is_none().then_some(())).await;
}
