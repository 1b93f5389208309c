//! LimitRanges at admission.

use serde_json::{Value, json};

use crate::client::Client;

const RANGES: &str = "/api/v1/namespaces/default/limitranges";
const PODS: &str = "/api/v1/namespaces/default/pods";
const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

async fn limited(limits: Value) -> Client {
    let client = Client::new().await;
    let range = json!({"metadata": {"name": "l"}, "spec": {"limits": limits}});
    client.post(RANGES, &range).await.expect(201);
    client
}

fn pod(metadata: Value, resources: Value) -> Value {
    json!({"metadata": metadata, "spec": {"containers": [{"name": "c", "image": "i", "resources": resources}]}})
}

#[tokio::test]
async fn pods_get_defaults_and_are_rejected_out_of_range() {
    let client = limited(json!([{"type": "Container", "default": {"cpu": "500m"}, "max": {"cpu": "1"}}])).await;
    let made = client.post(PODS, &pod(json!({"name": "d"}), json!({}))).await.expect(201);
    assert_eq!(
        made["spec"]["containers"][0]["resources"],
        json!({"limits": {"cpu": "500m"}, "requests": {"cpu": "500m"}})
    );
    assert_eq!(
        made["metadata"]["annotations"]["kubernetes.io/limit-ranger"],
        "LimitRanger plugin set: cpu request for container c; cpu limit for container c"
    );
    let rejected = client.post(PODS, &pod(json!({"name": "m"}), json!({"limits": {"cpu": "2"}}))).await;
    assert_eq!(rejected.code, 403);
    assert_eq!(rejected.message(), "pods \"m\" is forbidden: maximum cpu usage per Container is 1, but limit is 2");
    client.delete(&format!("{RANGES}/l")).await.expect(200);
    client.post(PODS, &pod(json!({"name": "m"}), json!({"limits": {"cpu": "2"}}))).await.expect(201);
}

#[tokio::test]
async fn a_rejected_pod_with_a_generated_name_is_reported_by_that_name() {
    let client = limited(json!([{"type": "Container", "max": {"cpu": "1"}}])).await;
    let rejected = client.post(PODS, &pod(json!({"generateName": "web-"}), json!({"limits": {"cpu": "2"}}))).await;
    let message = rejected.message();
    // The name is generated before the final form is validated.
    assert!(message.starts_with("pods \"web-") && !message.starts_with("pods \"web-\""), "{message}");
    let mut pod = pod(json!({"generateName": "web-"}), json!({}));
    pod["spec"]["priorityClassName"] = "nope".into();
    let rejected = client.post(PODS, &pod).await;
    assert_eq!(rejected.message(), "pods \"web-\" is forbidden: no PriorityClass with name nope was found");
}

#[tokio::test]
async fn claims_are_limited_in_storage() {
    let client = limited(json!([{"type": "PersistentVolumeClaim", "max": {"storage": "2Gi"}}])).await;
    let claim = |name: &str, storage: &str| {
        json!({"metadata": {"name": name}, "spec": {"accessModes": ["ReadWriteOnce"],
            "resources": {"requests": {"storage": storage}}}})
    };
    client.post(CLAIMS, &claim("small", "1Gi")).await.expect(201);
    let rejected = client.post(CLAIMS, &claim("big", "5Gi")).await;
    assert_eq!(
        rejected.message(),
        "persistentvolumeclaims \"big\" is forbidden: maximum storage usage per PersistentVolumeClaim is 2Gi, but \
         request is 5Gi"
    );
}
