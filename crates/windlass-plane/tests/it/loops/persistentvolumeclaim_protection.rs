//! Claims in use are not removed.

use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Pod};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

pub(crate) fn claim(name: &str) -> PersistentVolumeClaim {
    serde_json::from_value(json!({"metadata": {"name": name}, "spec": {
        "accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}}))
    .unwrap()
}

#[tokio::test]
async fn a_claim_is_kept_until_the_pods_that_use_it_are_deleted() {
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
    eventually("the unused claim is deleted", async || claims.get_opt("unused").await.unwrap().is_none().then_some(()))
        .await;
    assert!(claims.get_opt("used").await.unwrap().is_some());
    pods.delete("p", &DeleteParams::default().grace_period(0)).await.unwrap();
    eventually("the used claim is deleted", async || claims.get_opt("used").await.unwrap().is_none().then_some(()))
        .await;
}
