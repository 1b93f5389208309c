//! The subresources status, scale, binding, eviction and log.

use serde_json::{Value, json};

use crate::client::Client;

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";
const PODS: &str = "/api/v1/namespaces/default/pods";

fn deployment() -> Value {
    json!({"metadata": {"name": "d"}, "spec": {
        "replicas": 2, "selector": {"matchLabels": {"app": "x"}},
        "template": {"metadata": {"labels": {"app": "x"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }})
}

fn pod() -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}})
}

#[tokio::test]
async fn status_and_spec_are_kept_apart() {
    let client = Client::new().await;
    let mut object = deployment();
    object["status"] = json!({"replicas": 7});
    let created = client.post(DEPLOYMENTS, &object).await.expect(201);
    assert_eq!(created["status"], json!({}));
    let both = json!({"spec": {"replicas": 9}, "status": {"replicas": 2}});
    let status = client.merge(&format!("{DEPLOYMENTS}/d/status"), &both).await.expect(200);
    assert_eq!((&status["spec"]["replicas"], &status["status"]["replicas"]), (&json!(2), &json!(2)));
    assert_eq!(status["metadata"]["generation"], 1);
    let spec = client
        .merge(&format!("{DEPLOYMENTS}/d"), &json!({"spec": {"replicas": 3}, "status": {"replicas": 8}}))
        .await
        .expect(200);
    assert_eq!((&spec["spec"]["replicas"], &spec["status"]["replicas"]), (&json!(3), &json!(2)));
    assert_eq!(spec["metadata"]["generation"], 2);
}

#[tokio::test]
async fn scale_changes_the_replicas_of_its_deployment() {
    let client = Client::new().await;
    client.post(DEPLOYMENTS, &deployment()).await.expect(201);
    let path = format!("{DEPLOYMENTS}/d/scale");
    let mut scale = client.get(&path).await.expect(200);
    assert_eq!((scale["kind"].as_str(), &scale["spec"]["replicas"]), (Some("Scale"), &json!(2)));
    scale["spec"]["replicas"] = 5.into();
    assert_eq!(client.put(&path, &scale).await.expect(200)["spec"]["replicas"], 5);
    let patched = client.merge(&path, &json!({"spec": {"replicas": 6}})).await.expect(200);
    assert_eq!((patched["kind"].as_str(), &patched["spec"]["replicas"]), (Some("Scale"), &json!(6)));
    assert_eq!(client.get(&format!("{DEPLOYMENTS}/d")).await.expect(200)["spec"]["replicas"], 6);
    assert_eq!(client.put(&path, &scale).await.code, 409);
    assert_eq!(client.merge(&path, &json!({"spec": {"replicas": -1}})).await.code, 422);
}

#[tokio::test]
async fn a_binding_puts_a_pod_on_a_node_once() {
    let client = Client::new().await;
    client.post(PODS, &pod()).await.expect(201);
    let binding = json!({"metadata": {"name": "p"}, "target": {"kind": "Node", "name": "n1"}});
    client.post(&format!("{PODS}/p/binding"), &binding).await.expect(201);
    let bound = client.get(&format!("{PODS}/p")).await.expect(200);
    assert_eq!(bound["spec"]["nodeName"], "n1");
    assert_eq!(bound["status"]["conditions"][0]["type"], "PodScheduled");
    assert_eq!(client.post(&format!("{PODS}/p/binding"), &binding).await.code, 409);
}

#[tokio::test]
async fn a_binding_is_for_the_pod_of_its_path_and_the_uid_that_it_states() {
    let client = Client::new().await;
    client.post(PODS, &pod()).await.expect(201);
    let bind = async |metadata: Value| {
        let binding = json!({"metadata": metadata, "target": {"kind": "Node", "name": "n1"}});
        client.post(&format!("{PODS}/p/binding"), &binding).await
    };
    let other = bind(json!({"name": "q"})).await;
    let expected = "name in URL does not match name in Binding object";
    assert_eq!((other.code, other.message().as_str()), (400, expected));
    let recreated = bind(json!({"name": "p", "uid": "earlier"})).await;
    assert_eq!(recreated.code, 409);
    let expected = "Operation cannot be fulfilled on pods \"p\": StorageError: invalid object, Code: 4, Key: \
                    /registry/pods/default/p, ResourceVersion: 0, AdditionalErrorMsg: Precondition failed: UID in \
                    precondition: earlier, UID in object meta: ";
    assert!(recreated.message().starts_with(expected), "{}", recreated.message());
    bind(json!({"name": "p"})).await.expect(201);
}

#[tokio::test]
async fn a_status_of_a_late_kind_comes_without_metadata() {
    let client = Client::new().await;
    let labels = json!({"metadata": {"labels": {"a": "b"}, "annotations": {"a": "b"}}});
    for (path, object, expected) in [
        (
            "/apis/networking.k8s.io/v1/servicecidrs",
            json!({"metadata": {"name": "o"}, "spec": {"cidrs": ["10.77.0.0/24"]}}),
            Value::Null,
        ),
        (
            "/api/v1/persistentvolumes",
            json!({"metadata": {"name": "o"}, "spec": {
                "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/tmp"},
            }}),
            json!({"a": "b"}),
        ),
    ] {
        client.post(path, &object).await.expect(201);
        let changed = client.merge(&format!("{path}/o/status"), &labels).await.expect(200);
        assert_eq!(changed["metadata"]["labels"], expected, "{path}");
    }
}

#[tokio::test]
async fn connections_to_a_simulated_pod_say_how_to_run_real_ones() {
    let client = Client::new().await;
    let mut pod = pod();
    pod["spec"]["nodeName"] = "node-1".into();
    client.post(PODS, &pod).await.expect(201);
    let missing = client.get(&format!("{PODS}/p/log")).await;
    assert_eq!((missing.code, missing.message().as_str()), (404, "pods \"node-1\" not found"));
    client.post("/api/v1/nodes", &json!({"metadata": {"name": "node-1"}})).await.expect(201);
    for (subresource, expected) in [
        ("log", "cannot get logs of pod p: node node-1 is simulated, "),
        ("exec?command=ls&stdout=true", "cannot execute a command in pod p: node node-1 is simulated, "),
        ("attach?stdout=true", "cannot attach to pod p: node node-1 is simulated, "),
        ("portforward?ports=80", "cannot forward ports to pod p: node node-1 is simulated, "),
    ] {
        let answer = client.get(&format!("{PODS}/p/{subresource}")).await;
        assert_eq!((answer.code, answer.json()["reason"].as_str()), (400, Some("BadRequest")), "{subresource}");
        assert!(answer.message().starts_with(expected), "{}", answer.message());
        assert!(answer.message().contains("windlass up --runtime process"), "{}", answer.message());
    }
}

#[tokio::test]
async fn an_evicted_pod_is_deleted() {
    let client = Client::new().await;
    client.post(PODS, &pod()).await.expect(201);
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    client.post(&format!("{PODS}/p/eviction"), &eviction).await.expect(201);
    assert_eq!(client.get(&format!("{PODS}/p")).await.code, 404);
}
