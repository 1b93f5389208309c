//! Versions of built-in groups that are enabled and disabled.

use std::sync::Arc;

use serde_json::json;
use windlass_apiserver::{RuntimeConfig, Server};
use windlass_store::memory::MemoryStore;

use crate::client::{Client, names};

async fn client(entries: &[&str]) -> Client {
    let config = RuntimeConfig::parse(entries.iter().copied()).unwrap();
    Client::of(Server::builder(Arc::new(MemoryStore::new())).runtime_config(config).build().await.unwrap())
}

#[tokio::test]
async fn an_enabled_beta_version_is_another_view_of_the_same_objects() {
    let client = client(&["resource.k8s.io/v1beta2=true"]).await;
    let class = json!({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceClass", "metadata": {"name": "gpu"},
        "spec": {"selectors": [{"cel": {"expression": "device.driver == 'gpu.example.com'"}}]}});
    let created = client.post("/apis/resource.k8s.io/v1beta2/deviceclasses", &class).await.expect(201);
    assert_eq!(created["apiVersion"], "resource.k8s.io/v1beta2");
    let stable = client.get("/apis/resource.k8s.io/v1/deviceclasses/gpu").await.expect(200);
    assert_eq!((&stable["apiVersion"], &stable["spec"]), (&json!("resource.k8s.io/v1"), &created["spec"]));
    let list = client.get("/apis/resource.k8s.io/v1beta2/deviceclasses").await.expect(200);
    assert_eq!((names(&list), &list["apiVersion"]), (vec!["gpu".to_owned()], &json!("resource.k8s.io/v1beta2")));
    let path = "/apis/resource.k8s.io/v1beta2/deviceclasses/gpu";
    let applied =
        json!({"apiVersion": "resource.k8s.io/v1beta2", "kind": "DeviceClass", "metadata": {"labels": {"a": "b"}}});
    let headers = [("content-type", "application/apply-patch+yaml")];
    let applied =
        client.ask(http::Method::PATCH, &format!("{path}?fieldManager=m"), &headers, applied.to_string()).await;
    assert_eq!(applied.expect(200)["metadata"]["labels"], json!({"a": "b"}));
    client.delete(path).await.expect(200);
    assert_eq!(client.get("/apis/resource.k8s.io/v1/deviceclasses/gpu").await.code, 404);
}

#[tokio::test]
async fn discovery_and_openapi_have_the_enabled_version() {
    let client = client(&["networking.k8s.io/v1beta1=true"]).await;
    let group = client.get("/apis/networking.k8s.io").await.expect(200);
    let versions: Vec<_> = group["versions"].as_array().unwrap().iter().map(|version| &version["version"]).collect();
    assert_eq!(versions, ["v1", "v1beta1"]);
    assert_eq!(group["preferredVersion"]["version"], "v1");
    let resources = client.get("/apis/networking.k8s.io/v1beta1").await.expect(200);
    let found: Vec<_> = resources["resources"].as_array().unwrap().iter().map(|resource| &resource["name"]).collect();
    assert_eq!(found, ["ipaddresses", "servicecidrs", "servicecidrs/status"]);
    let document = client.get("/openapi/v3/apis/networking.k8s.io/v1beta1").await.expect(200);
    assert!(document["paths"]["/apis/networking.k8s.io/v1beta1/servicecidrs"].is_object());
    client.get("/openapi/v2").await.expect(200);
}

#[tokio::test]
async fn a_disabled_version_is_not_found() {
    let client = client(&["batch/v1/cronjobs=false", "discovery.k8s.io/v1=false"]).await;
    client.get("/apis/batch/v1/namespaces/default/jobs").await.expect(200);
    for path in ["/apis/batch/v1/namespaces/default/cronjobs", "/apis/discovery.k8s.io/v1/endpointslices"] {
        assert_eq!(client.get(path).await.code, 404, "{path}");
    }
    let default = Client::new().await;
    default.get("/apis/discovery.k8s.io/v1/endpointslices").await.expect(200);
    assert_eq!(default.get("/apis/networking.k8s.io/v1beta1/ipaddresses").await.code, 404);
}

#[tokio::test]
async fn kinds_without_a_stable_version_can_be_enabled() {
    let client = client(&["certificates.k8s.io/v1beta1=true", "scheduling.k8s.io/v1alpha2=true"]).await;
    let bundles = "/apis/certificates.k8s.io/v1beta1/clustertrustbundles";
    let bundle = json!({"apiVersion": "certificates.k8s.io/v1beta1", "kind": "ClusterTrustBundle",
        "metadata": {"name": "example.com:ca:1"}, "spec": {"signerName": "example.com/ca", "trustBundle": "x"}});
    let created = client.post(bundles, &bundle).await.expect(201);
    assert_eq!(created["spec"], bundle["spec"]);
    let mut wrong = bundle.clone();
    wrong["spec"]["signerName"] = json!(1);
    assert_eq!(client.post(bundles, &wrong).await.code, 400);
    let groups = "/apis/scheduling.k8s.io/v1alpha2/namespaces/default/podgroups";
    let group = json!({"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "metadata": {"name": "g"},
        "spec": {"schedulingPolicy": {"basic": {}}}, "status": {"conditions": []}});
    let created = client.post(groups, &group).await.expect(201);
    assert_eq!(created["spec"]["schedulingPolicy"], group["spec"]["schedulingPolicy"]);
    let document = client.get("/openapi/v3/apis/scheduling.k8s.io/v1alpha2").await.expect(200);
    let schema = &document["components"]["schemas"]["io.k8s.api.scheduling.v1alpha2.PodGroup"];
    assert!(schema["description"].as_str().is_some_and(|text| text.starts_with("PodGroup")));
    client.delete(&format!("{groups}/g")).await.expect(200);
}
