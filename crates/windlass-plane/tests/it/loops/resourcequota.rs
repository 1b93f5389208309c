//! Resource quotas: usage that admission charges and the loop recalculates.

use k8s_openapi::{
    api::core::v1::{ConfigMap, Pod, ResourceQuota, Service},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api,
    api::{DeleteParams, DynamicObject, Patch, PatchParams, PostParams},
    core::{ApiResource, GroupVersionKind},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_plane::{LoopOptions, Loops};
use windlass_testing::{TestPlane, eventually};

fn from<K: DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

/// A plane with only this loop, and a quota.
async fn limited(spec: Value) -> TestPlane {
    let plane = TestPlane::builder().controllers("resourcequota-controller".parse().unwrap()).await;
    create(&plane, spec).await;
    plane
}

async fn create(plane: &TestPlane, spec: Value) {
    let quota = from(json!({"metadata": {"name": "q"}, "spec": spec}));
    plane.api::<ResourceQuota>().create(&PostParams::default(), &quota).await.unwrap();
}

async fn used(plane: &TestPlane) -> Value {
    let status = plane.api::<ResourceQuota>().get("q").await.unwrap().status.unwrap_or_default();
    serde_json::to_value(status.used).unwrap()
}

async fn until_used(plane: &TestPlane, expected: Value) {
    eventually(&format!("{expected} is used"), async || (used(plane).await == expected).then_some(())).await;
}

fn pod(name: &str, cpu: &str) -> Pod {
    from(json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}}))
}

fn map(name: &str) -> ConfigMap {
    from(json!({"metadata": {"name": name}}))
}

#[tokio::test]
async fn usage_counts_pods_until_they_end_or_are_deleted() {
    let plane = limited(json!({"hard": {"pods": "2", "requests.cpu": "1", "count/pods": "9"}})).await;
    until_used(&plane, json!({"pods": "0", "requests.cpu": "0", "count/pods": "0"})).await;
    let pods: Api<Pod> = plane.api();
    for name in ["a", "b"] {
        pods.create(&PostParams::default(), &pod(name, "400m")).await.unwrap();
    }
    assert_eq!(used(&plane).await, json!({"pods": "2", "requests.cpu": "800m", "count/pods": "2"}));
    let rejected = pods.create(&PostParams::default(), &pod("c", "100m")).await.unwrap_err();
    assert!(rejected.to_string().contains("exceeded quota: q, requested: pods=1, used: pods=2, limited: pods=2"));
    let ended = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("a", &PatchParams::default(), &ended).await.unwrap();
    until_used(&plane, json!({"pods": "1", "requests.cpu": "400m", "count/pods": "2"})).await;
    for name in ["a", "b"] {
        pods.delete(name, &DeleteParams::default()).await.unwrap();
    }
    until_used(&plane, json!({"pods": "0", "requests.cpu": "0", "count/pods": "0"})).await;
}

#[tokio::test]
async fn objects_older_than_the_quota_are_counted() {
    let plane = TestPlane::builder().controllers("resourcequota-controller".parse().unwrap()).await;
    plane.api::<ConfigMap>().create(&PostParams::default(), &map("a")).await.unwrap();
    let service = json!({"metadata": {"name": "s"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    plane.api::<Service>().create(&PostParams::default(), &from(service)).await.unwrap();
    create(&plane, json!({"hard": {"configmaps": "5", "services.nodeports": "3", "resourcequotas": "1"}})).await;
    until_used(&plane, json!({"configmaps": "1", "services.nodeports": "1", "resourcequotas": "1"})).await;
}

#[tokio::test]
async fn usage_is_recalculated_when_the_loop_starts() {
    // As after a crash between the charge and the object.
    let plane = TestPlane::builder().controllers("garbage-collector-controller".parse().unwrap()).await;
    create(&plane, json!({"hard": {"configmaps": "5", "pods": "5"}})).await;
    let hard = json!({"configmaps": "5", "pods": "5"});
    let status = Patch::Merge(json!({"status": {"hard": hard, "used": {"configmaps": "3", "pods": "2"}}}));
    plane.api::<ResourceQuota>().patch_status("q", &PatchParams::default(), &status).await.unwrap();
    plane.api::<ConfigMap>().create(&PostParams::default(), &map("a")).await.unwrap();
    assert_eq!(used(&plane).await, json!({"configmaps": "4", "pods": "2"}));
    let controllers = "resourcequota-controller".parse().unwrap();
    let server = plane.server().expect("a test of loops must have its own server");
    let _loops = Loops::start(server, &LoopOptions { controllers, ..LoopOptions::default() });
    until_used(&plane, json!({"configmaps": "1", "pods": "0"})).await;
}

#[tokio::test]
async fn a_changed_quota_counts_its_new_resources() {
    let plane = limited(json!({"hard": {"pods": "1"}})).await;
    until_used(&plane, json!({"pods": "0"})).await;
    let hard = Patch::Merge(json!({"spec": {"hard": {"pods": null, "configmaps": "1"}}}));
    plane.api::<ResourceQuota>().patch("q", &PatchParams::default(), &hard).await.unwrap();
    until_used(&plane, json!({"configmaps": "0"})).await;
}

#[tokio::test]
async fn object_counts_decrease_on_deletion() {
    let plane = limited(json!({"hard": {"count/configmaps": "2"}})).await;
    until_used(&plane, json!({"count/configmaps": "0"})).await;
    let maps: Api<ConfigMap> = plane.api();
    for name in ["a", "b"] {
        maps.create(&PostParams::default(), &map(name)).await.unwrap();
    }
    assert!(maps.create(&PostParams::default(), &map("c")).await.is_err());
    maps.delete("a", &DeleteParams::default()).await.unwrap();
    until_used(&plane, json!({"count/configmaps": "1"})).await;
    maps.create(&PostParams::default(), &map("c")).await.unwrap();
}

#[tokio::test]
async fn charges_for_objects_that_are_deleted_at_once_are_released() {
    let plane = limited(json!({"hard": {"count/secrets": "5", "pods": "5"}})).await;
    until_used(&plane, json!({"count/secrets": "0", "pods": "0"})).await;
    let pods: Api<Pod> = plane.api();
    for round in 0..40 {
        pods.create(&PostParams::default(), &pod(&format!("p{round}"), "1m")).await.unwrap();
        pods.delete(&format!("p{round}"), &DeleteParams::default().grace_period(0)).await.unwrap();
        if round % 10 == 0 {
            until_used(&plane, json!({"count/secrets": "0", "pods": "0"})).await;
        }
    }
    until_used(&plane, json!({"count/secrets": "0", "pods": "0"})).await;
}

#[tokio::test]
async fn custom_resources_are_limited_once_their_crd_exists() {
    let plane = limited(json!({"hard": {"count/foos.example.com": "1"}})).await;
    eventually("the quota was reconciled", async || {
        let status = plane.api::<ResourceQuota>().get("q").await.unwrap().status?;
        status.hard.filter(|hard| hard.contains_key("count/foos.example.com"))
    })
    .await;
    let definition: CustomResourceDefinition = from(json!({
        "metadata": {"name": "foos.example.com"},
        "spec": {"group": "example.com", "scope": "Namespaced", "names": {"plural": "foos", "kind": "Foo"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema":
                {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}}]},
    }));
    plane.define_as(&definition).await;
    until_used(&plane, json!({"count/foos.example.com": "0"})).await;
    let kind = GroupVersionKind::gvk("example.com", "v1", "Foo");
    let resource = ApiResource::from_gvk_with_plural(&kind, "foos");
    let foos: Api<DynamicObject> = Api::namespaced_with(plane.client(), plane.namespace(), &resource);
    foos.create(&PostParams::default(), &DynamicObject::new("a", &resource)).await.unwrap();
    let rejected = foos.create(&PostParams::default(), &DynamicObject::new("b", &resource)).await.unwrap_err();
    assert!(
        rejected.to_string().contains("exceeded quota: q, requested: count/foos.example.com=1, used: count/foos"),
        "{rejected}"
    );
    foos.delete("a", &DeleteParams::default()).await.unwrap();
    until_used(&plane, json!({"count/foos.example.com": "0"})).await;
}

#[tokio::test]
async fn scopes_select_the_pods_that_count() {
    let plane = limited(json!({"hard": {"pods": "5"}, "scopes": ["BestEffort"]})).await;
    until_used(&plane, json!({"pods": "0"})).await;
    let pods: Api<Pod> = plane.api();
    pods.create(&PostParams::default(), &pod("a", "1")).await.unwrap();
    let plain = from(json!({"metadata": {"name": "b"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    pods.create(&PostParams::default(), &plain).await.unwrap();
    assert_eq!(used(&plane).await, json!({"pods": "1"}));
}
