//! The Node authorizer.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::user::User;

use crate::client::Client;

const PODS: &str = "/api/v1/namespaces/default/pods";

/// Returns a pod on a node that refers to some objects.
pub(crate) fn pod(name: &str, node: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "nodeName": node, "serviceAccountName": "robot", "containers": [{
                "name": "c", "image": "i", "envFrom": [{"configMapRef": {"name": "settings"}}],
            }],
            "volumes": [
                {"name": "s", "secret": {"secretName": "key"}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
            ],
        },
    })
}

/// Returns the reason for which a node may not do something; `None` if it may.
async fn reason(client: &Client, node: &str, method: Method, path: &str) -> Option<String> {
    let answer = client.ask_for(&User::node(node), method, path, &Value::Null).await;
    if answer.code != 403 {
        return None;
    }
    let message = answer.message();
    let body = message.split_once("\" cannot ").map(|(_, body)| body.to_owned()).unwrap_or_default();
    let scopes = ["at the cluster scope", "in the namespace \"default\"", "in the namespace \"kube-node-lease\""];
    let rest = scopes.iter().find_map(|scope| body.split_once(scope)).map(|(_, rest)| rest.to_owned());
    Some(rest.unwrap_or(message).trim_start_matches(": ").to_owned())
}

#[tokio::test]
async fn nodes_read_what_their_pods_need() {
    let client = Client::new().await;
    let namespaced = |resource: &str, name: &str| format!("/api/v1/namespaces/default/{resource}/{name}");
    let needed = [
        namespaced("secrets", "key"),
        namespaced("configmaps", "settings"),
        namespaced("serviceaccounts", "robot"),
        namespaced("persistentvolumeclaims", "claim"),
        "/api/v1/persistentvolumes/volume".to_owned(),
        namespaced("pods", "p"),
    ];
    let volume = json!({
        "metadata": {"name": "volume"},
        "spec": {
            "capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], "hostPath": {"path": "/x"},
            "claimRef": {"namespace": "default", "name": "claim"},
        },
    });
    client.post("/api/v1/persistentvolumes", &volume).await.expect(201);
    let unrelated = |node: &str| Some(format!("no relationship found between node '{node}' and this object"));
    for path in &needed {
        assert_eq!(reason(&client, "a", Method::GET, path).await, unrelated("a"), "{path}");
    }
    client.post(PODS, &pod("p", "a")).await.expect(201);
    for path in &needed {
        assert_eq!(reason(&client, "a", Method::GET, path).await, None, "{path}");
        assert_eq!(reason(&client, "b", Method::GET, path).await, unrelated("b"), "{path}");
    }
    client.delete(&format!("{PODS}/p?gracePeriodSeconds=0")).await.expect(200);
    for path in &needed {
        assert_eq!(reason(&client, "a", Method::GET, path).await, unrelated("a"), "{path}");
    }
}

#[tokio::test]
async fn reasons_match_kube_apiserver() {
    let client = Client::new().await;
    let lease = "/apis/coordination.k8s.io/v1/namespaces";
    let slices = "/apis/resource.k8s.io/v1/resourceslices";
    for (method, path, expected) in [
        ("GET", "/api/v1/namespaces/default/secrets", "No Object name found"),
        ("GET", "/api/v1/secrets", "can only read namespaced object of this type"),
        ("POST", "/api/v1/namespaces/default/secrets", "can only read resources of this type"),
        ("GET", "/api/v1/persistentvolumes", "can only get individual resources of this type"),
        ("GET", "/api/v1/namespaces/default/persistentvolumeclaims/c/status", "can only get/update/patch this type"),
        (
            "DELETE",
            "/api/v1/namespaces/default/serviceaccounts/s",
            "can only create tokens for individual service accounts",
        ),
        ("GET", "/api/v1/pods", "can only list/watch pods with spec.nodeName field selector"),
        (
            "GET",
            "/api/v1/pods?fieldSelector=spec.nodeName%3Db",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        (
            "GET",
            "/api/v1/pods?fieldSelector=spec.nodeName!%3Da",
            "can only list/watch pods with spec.nodeName field selector",
        ),
        ("PUT", "/api/v1/namespaces/default/pods/p", ""),
        ("GET", "/api/v1/nodes", "node 'a' cannot read all nodes, only its own Node object"),
        ("GET", "/api/v1/nodes/b", "node 'a' cannot read 'b', only its own Node object"),
        ("DELETE", "/api/v1/nodes/a", ""),
        ("GET", slices, "can only list/watch/deletecollection resourceslices with nodeName field selector"),
        (
            "GET",
            "/apis/storage.k8s.io/v1/csinodes/b",
            "can only access CSINode with the same name as the requesting node",
        ),
        ("GET", "/apis/storage.k8s.io/v1/csinodes", "can only get, create, update, patch, or delete a CSINode"),
        ("GET", "/api/v1/namespaces/default/endpoints", ""),
        ("DELETE", "/api/v1/namespaces/default/services/s", ""),
    ] {
        let found = reason(&client, "a", method.parse().unwrap(), path).await;
        assert_eq!(found.as_deref(), Some(expected), "{method} {path}");
    }
    for (namespace, method, name, expected) in [
        ("default", "GET", "a", "can only access leases in the \"kube-node-lease\" system namespace"),
        ("kube-node-lease", "GET", "b", "can only access node lease with the same name as the requesting node"),
        ("kube-node-lease", "GET", "", "can only get, create, update, patch, or delete a node lease"),
    ] {
        let path = format!("{lease}/{namespace}/leases/{name}");
        let found = reason(&client, "a", method.parse().unwrap(), path.trim_end_matches('/')).await;
        assert_eq!(found.as_deref(), Some(expected), "{path}");
    }
    for path in [
        "/api/v1/nodes/a",
        "/api/v1/nodes?fieldSelector=metadata.name%3Da",
        "/api/v1/pods?fieldSelector=spec.nodeName%3Da",
        "/api/v1/services",
        "/apis/node.k8s.io/v1/runtimeclasses",
        "/apis/resource.k8s.io/v1/resourceslices?fieldSelector=spec.nodeName%3Da",
        "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/a",
    ] {
        assert_eq!(reason(&client, "a", Method::GET, path).await, None, "{path}");
    }
}

#[tokio::test]
async fn only_members_of_the_group_are_nodes() {
    let client = Client::new().await;
    let user = User { groups: vec!["system:authenticated".to_owned()], ..User::node("a") };
    let answer = client.ask_for(&user, Method::GET, "/api/v1/nodes/a", &Value::Null).await;
    let expected = "nodes \"a\" is forbidden: User \"system:node:a\" cannot get resource \"nodes\" in API group \"\" at \
                    the cluster scope";
    assert_eq!((answer.code, answer.message().as_str()), (403, expected));
    let answer = client.ask_for(&User::node(""), Method::GET, "/api/v1/nodes/a", &Value::Null).await;
    assert_eq!(
        answer.message(),
        format!("{}: unknown node for user \"system:node:\"", expected.replace("node:a", "node:"))
    );
}

#[tokio::test]
async fn the_graph_follows_many_changes() {
    let client = Client::new().await;
    let secret = "/api/v1/namespaces/default/secrets/key";
    assert!(reason(&client, "a", Method::GET, secret).await.is_some());
    for index in 0..300 {
        client.post(PODS, &pod(&format!("p{index}"), "a")).await.expect(201);
    }
    assert_eq!(reason(&client, "a", Method::GET, secret).await, None);
    for index in 0..300 {
        assert_eq!(reason(&client, "a", Method::GET, secret).await, None);
        client.delete(&format!("{PODS}/p{index}?gracePeriodSeconds=0")).await.expect(200);
    }
    assert!(reason(&client, "a", Method::GET, secret).await.is_some());
    // A server that starts over the same data knows the same.
    client.post(PODS, &pod("last", "b")).await.expect(201);
    let again = client.restarted().await;
    assert_eq!(reason(&again, "b", Method::GET, secret).await, None);
    assert!(reason(&again, "a", Method::GET, secret).await.is_some());
}
