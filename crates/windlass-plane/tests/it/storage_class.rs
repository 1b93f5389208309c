//! Default storage classes and the growth of claims, which admission plugins of the server handle.

use k8s_openapi::api::{core::v1::PersistentVolumeClaim, storage::v1::StorageClass};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::TestPlane;

use crate::loops::persistentvolumeclaim_protection::claim;

#[tokio::test]
async fn a_claim_gets_the_newest_default_class_and_grows_only_if_the_class_allows_it() {
    // The binder would reset the phase of the claim.
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
    let rejected = async || claims.patch("c", &PatchParams::default(), &more).await.unwrap_err().to_string();
    let unbound = rejected().await;
    assert!(unbound.contains("spec is immutable after creation"), "{unbound}");
    let bound = Patch::Merge(json!({"status": {"phase": "Bound", "capacity": {"storage": "1Gi"}}}));
    claims.patch_status("c", &PatchParams::default(), &bound).await.unwrap();
    let fixed = rejected().await;
    assert!(fixed.contains("must support resize"), "{fixed}");
    let allow = Patch::Merge(json!({"allowVolumeExpansion": true}));
    classes.patch(&class, &PatchParams::default(), &allow).await.unwrap();
    claims.patch("c", &PatchParams::default(), &more).await.unwrap();
}
