//! Volume attributes classes in use are not removed.

use k8s_openapi::api::{core::v1::PersistentVolumeClaim, storage::v1::VolumeAttributesClass};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

use super::persistentvolumeclaim_protection::claim;

#[tokio::test]
async fn a_class_is_kept_while_a_claim_names_it() {
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
    eventually("the class is deleted", async || classes.get_opt("gold").await.unwrap().is_none().then_some(())).await;
    assert!(claims.get_opt("c").await.unwrap().is_none());
}
