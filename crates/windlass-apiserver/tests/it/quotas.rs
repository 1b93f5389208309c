//! ResourceQuotas at admission. The tests set the usage, as no control loop runs.

use futures_util::future::join_all;
use serde_json::{Value, json};

use crate::client::{Client, config_map};

const QUOTAS: &str = "/api/v1/namespaces/default/resourcequotas";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

async fn quota(client: &Client, name: &str, spec: Value, used: Value) {
    let quota = json!({"metadata": {"name": name}, "spec": spec});
    let hard = client.post(QUOTAS, &quota).await.expect(201)["spec"]["hard"].clone();
    let status = json!({"status": {"hard": hard, "used": used}});
    client.merge(&format!("{QUOTAS}/{name}/status"), &status).await.expect(200);
}

async fn used(client: &Client, name: &str) -> Value {
    client.get(&format!("{QUOTAS}/{name}")).await.expect(200)["status"]["used"].clone()
}

fn pod(name: &str, cpu: &str) -> Value {
    json!({"metadata": {"name": name}, "spec": {"containers": [
        {"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]}})
}

#[tokio::test]
async fn a_pod_is_charged_or_rejected() {
    let client = Client::new().await;
    let hard = json!({"hard": {"pods": "2", "requests.cpu": "1"}});
    quota(&client, "q", hard, json!({"pods": "0", "requests.cpu": "0"})).await;
    let rejected = client.post(PODS, &pod("p", "1500m")).await;
    assert_eq!(
        rejected.message(),
        "pods \"p\" is forbidden: exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=0, limited: \
         requests.cpu=1"
    );
    client.ask(http::Method::POST, &format!("{PODS}?dryRun=All"), &[], pod("p", "1").to_string()).await.expect(201);
    assert_eq!(used(&client, "q").await, json!({"pods": "0", "requests.cpu": "0"}));
    client.post(PODS, &pod("p", "400m")).await.expect(201);
    assert_eq!(used(&client, "q").await, json!({"pods": "1", "requests.cpu": "400m"}));
    let stored = client.get(&format!("{QUOTAS}/q")).await.expect(200);
    let owners = stored["metadata"]["managedFields"].as_array().unwrap();
    assert!(owners.iter().any(|owner| owner["manager"] == "kube-apiserver" && owner["subresource"] == "status"));
}

#[tokio::test]
async fn a_failed_create_is_not_charged() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    quota(&client, "q", json!({"hard": {"count/configmaps": "5"}}), json!({"count/configmaps": "1"})).await;
    quota(&client, "r", json!({"hard": {"configmaps": "2"}}), json!({"configmaps": "1"})).await;
    assert_eq!(client.post(CONFIG_MAPS, &config_map("a")).await.code, 409);
    assert_eq!(used(&client, "q").await, json!({"count/configmaps": "1"}));
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_eq!(client.post(CONFIG_MAPS, &config_map("c")).await.code, 403);
    assert_eq!(used(&client, "q").await, json!({"count/configmaps": "2"}));
    assert_eq!(used(&client, "r").await, json!({"configmaps": "2"}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_creates_never_exceed_the_quota() {
    let client = Client::new().await;
    let hard = json!({"hard": {"count/configmaps": "17", "secrets": "1"}});
    quota(&client, "q", hard, json!({"count/configmaps": "0", "secrets": "0"})).await;
    let maps: Vec<Value> = (0..60).map(|number| config_map(&format!("m-{number}"))).collect();
    let codes: Vec<u16> =
        join_all(maps.iter().map(async |map| client.post(CONFIG_MAPS, map).await.code)).await.into_iter().collect();
    let made = codes.iter().filter(|code| **code == 201).count();
    assert_eq!((made, codes.iter().filter(|code| **code == 403).count()), (17, 43));
    assert_eq!(used(&client, "q").await["count/configmaps"], "17");
}

#[tokio::test]
async fn a_quota_without_status_rejects_everything() {
    let client = Client::new().await;
    quota(&client, "q", json!({"hard": {"configmaps": "5"}}), json!({})).await;
    let rejected = client.post(CONFIG_MAPS, &config_map("a")).await;
    assert_eq!(rejected.message(), "configmaps \"a\" is forbidden: status unknown for quota: q, resources: configmaps");
}

#[tokio::test]
async fn a_service_that_costs_more_is_charged_the_difference() {
    let client = Client::new().await;
    let services = "/api/v1/namespaces/default/services";
    let hard = json!({"hard": {"services": "5", "services.nodeports": "1"}});
    quota(&client, "q", hard, json!({"services": "0", "services.nodeports": "0"})).await;
    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}]}});
    client.post(services, &service).await.expect(201);
    client.merge(&format!("{services}/s"), &json!({"spec": {"type": "NodePort"}})).await.expect(200);
    assert_eq!(used(&client, "q").await, json!({"services": "1", "services.nodeports": "1"}));
    let more = json!({"spec": {"ports": [{"name": "a", "port": 80}, {"name": "b", "port": 81}]}});
    let rejected = client.merge(&format!("{services}/s"), &more).await;
    assert_eq!(
        rejected.message(),
        "services \"s\" is forbidden: exceeded quota: q, requested: services.nodeports=1, used: services.nodeports=1, \
         limited: services.nodeports=1"
    );
}

#[tokio::test]
async fn claims_are_charged_for_devices_and_for_the_extended_resources_of_their_class() {
    let client = Client::new().await;
    let class = json!({"metadata": {"name": "gold"}, "spec": {"extendedResourceName": "example.com/gold"}});
    client.post("/apis/resource.k8s.io/v1/deviceclasses", &class).await.expect(201);
    let [devices, extended] = ["gold.deviceclass.resource.k8s.io/devices", "requests.example.com/gold"];
    quota(&client, "q", json!({"hard": {devices: "4", extended: "3"}}), json!({devices: "0", extended: "0"})).await;
    let claims = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
    let claim = |name: &str, exactly: Value| json!({"metadata": {"name": name}, "spec": {"devices": {"requests": [{"name": "a", "exactly": exactly}]}}});
    let all = claim("all", json!({"deviceClassName": "gold", "allocationMode": "All"}));
    assert_eq!(
        client.post(claims, &all).await.expect(403)["message"],
        format!(
            "resourceclaims.resource.k8s.io \"all\" is forbidden: exceeded quota: q, requested: {devices}=32,{extended}=32, \
             used: {devices}=0,{extended}=0, limited: {devices}=4,{extended}=3"
        )
    );
    client.post(claims, &claim("two", json!({"deviceClassName": "gold", "count": 2}))).await.expect(201);
    client.post(claims, &claim("other", json!({"deviceClassName": "silver", "count": 9}))).await.expect(201);
    assert_eq!(used(&client, "q").await, json!({devices: "2", extended: "2"}));
    client.post(claims, &claim("more", json!({"deviceClassName": "gold", "count": 2}))).await.expect(403);
    client.merge(&format!("{claims}/two"), &json!({"metadata": {"labels": {"a": "b"}}})).await.expect(200);
    assert_eq!(used(&client, "q").await, json!({devices: "2", extended: "2"}));
}
