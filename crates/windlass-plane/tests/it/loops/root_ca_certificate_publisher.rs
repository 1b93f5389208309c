//! The config map with the root certificate in every namespace.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

#[tokio::test]
async fn every_namespace_has_the_root_certificate_which_is_restored() {
    let plane = TestPlane::builder().await;
    let maps = plane.api::<ConfigMap>();
    let certificate = |map: &ConfigMap| map.data.as_ref().unwrap().get("ca.crt").cloned();
    let first = eventually("it exists", async || maps.get_opt("kube-root-ca.crt").await.unwrap()).await;
    assert!(certificate(&first).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    let annotations = first.metadata.annotations.as_ref().unwrap();
    assert!(annotations["kubernetes.io/description"].starts_with("Contains a CA bundle"));
    let patch = json!({"data": {"ca.crt": "another", "more": "text"}, "metadata": {"annotations": null}});
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    eventually("it is repaired", async || {
        let map = maps.get("kube-root-ca.crt").await.unwrap();
        (map.data == first.data && map.metadata.annotations == first.metadata.annotations).then_some(())
    })
    .await;
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.unwrap();
    let again = eventually("it is back", async || maps.get_opt("kube-root-ca.crt").await.unwrap()).await;
    assert_eq!(certificate(&again), certificate(&first));
}
