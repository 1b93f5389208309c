//! NodeRestriction, and admission of certificates.

use base64::{Engine as _, engine::general_purpose::STANDARD};
use http::Method;
use rcgen::{CertificateParams, DnType, KeyPair};
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    authorization::{Action, Attributes, Authorization, Authorizer, Decision},
    user::User,
};
use windlass_store::memory::MemoryStore;

use crate::{client::Client, node_authorizer::pod};

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";
const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Sends a request as the node `a`; returns the reason for which it is forbidden, or the code of the response.
async fn try_as(client: &Client, user: &User, method: Method, path: &str, body: &Value) -> String {
    let answer = client.ask_for(user, method, path, body).await;
    match answer.code {
        403 => answer.message().split_once(" is forbidden: ").map(|(_, why)| why.to_owned()).unwrap_or_default(),
        code => code.to_string(),
    }
}

#[tokio::test]
async fn a_node_changes_only_its_own_node_object() {
    let client = Client::new().await;
    let node = User::node("a");
    let own = json!({"metadata": {"name": "a", "labels": {"kubernetes.io/os": "linux"}}});
    for (body, expected) in [
        (json!({"metadata": {"name": "b"}}), "node \"a\" is not allowed to modify node \"b\""),
        (
            json!({"metadata": {"name": "a", "labels": {"node-role.kubernetes.io/x": "", "a.k8s.io/y": ""}}}),
            "node \"a\" is not allowed to set the following labels: a.k8s.io/y, node-role.kubernetes.io/x",
        ),
        (own, "201"),
    ] {
        assert_eq!(try_as(&client, &node, Method::POST, NODES, &body).await, expected);
    }
    client.post(NODES, &json!({"metadata": {"name": "b"}})).await.expect(201);
    for (path, body, expected) in [
        ("b", json!({}), "node \"a\" is not allowed to modify node \"b\""),
        (
            "a",
            json!({"spec": {"taints": [{"key": "x", "effect": "NoSchedule"}]}}),
            "node \"a\" is not allowed to modify taints",
        ),
        (
            "a",
            json!({"metadata": {"labels": {"node-restriction.kubernetes.io/x": "1"}}}),
            "is not allowed to modify labels: node-restriction.kubernetes.io/x",
        ),
        (
            "a",
            json!({"metadata": {"ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"}]}}),
            "node \"a\" is not allowed to modify ownerReferences",
        ),
        ("a", json!({"metadata": {"labels": {"example.com/x": "1"}}}), "200"),
        ("a/status", json!({"status": {"phase": "Running"}}), "200"),
    ] {
        assert_eq!(try_as(&client, &node, Method::PATCH, &format!("{NODES}/{path}"), &body).await, expected, "{body}");
    }
}

#[tokio::test]
async fn a_node_creates_only_mirror_pods() {
    let client = Client::new().await;
    let node = User::node("a");
    let known = client.post(NODES, &json!({"metadata": {"name": "a"}})).await.expect(201);
    let uid = known["metadata"]["uid"].as_str().unwrap();
    let mut mirror = json!({
        "metadata": {"name": "m", "annotations": {"kubernetes.io/config.mirror": "x"}},
        "spec": {"nodeName": "b", "containers": [{"name": "c", "image": "i"}]},
    });
    let plain = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let expected =
        "pod does not have \"kubernetes.io/config.mirror\" annotation, node \"a\" can only create mirror pods";
    assert_eq!(try_as(&client, &node, Method::POST, PODS, &plain).await, expected);
    let owner = |uid: &str, controller: bool| json!([{"apiVersion": "v1", "kind": "Node", "name": "a", "uid": uid, "controller": controller}]);
    let steps = [
        ("/spec/nodeName", json!("b"), "node \"a\" can only create pods with spec.nodeName set to itself".to_owned()),
        (
            "/spec/nodeName",
            json!("a"),
            "node \"a\" can only create pods with an owner reference set to itself".to_owned(),
        ),
        (
            "/metadata/ownerReferences",
            owner(uid, false),
            "node \"a\" can only create pods with a controller owner reference set to itself".to_owned(),
        ),
        ("/metadata/ownerReferences", owner("u", true), format!("node a UID mismatch: expected u got {uid}")),
        ("/metadata/ownerReferences", owner(uid, true), String::new()),
    ];
    for (field, value, expected) in steps {
        let (parent, name) = field.rsplit_once('/').unwrap();
        mirror.pointer_mut(parent).unwrap()[name] = value;
        if !expected.is_empty() {
            assert_eq!(try_as(&client, &node, Method::POST, PODS, &mirror).await, expected);
        }
    }
    mirror["spec"]["volumes"] = json!([{"name": "v", "secret": {"secretName": "s"}}]);
    let expected = "node \"a\" can not create pods that reference secrets";
    assert_eq!(try_as(&client, &node, Method::POST, PODS, &mirror).await, expected);
    mirror["spec"]["volumes"] = json!([{"name": "v", "csi": {"driver": "d"}}]);
    let expected = "node \"a\" can not create pods that reference csidrivers (via CSI volumes)";
    assert_eq!(try_as(&client, &node, Method::POST, PODS, &mirror).await, expected);
    mirror["spec"]["volumes"] = json!([{"name": "v", "hostPath": {"path": "/x"}}]);
    assert_eq!(try_as(&client, &node, Method::POST, PODS, &mirror).await, "201");
    assert_eq!(
        try_as(&client, &node, Method::DELETE, &format!("{PODS}/m?gracePeriodSeconds=0"), &Value::Null).await,
        "200"
    );
}

#[tokio::test]
async fn a_node_reports_and_ends_only_pods_on_it() {
    let client = Client::new().await;
    let node = User::node("a");
    client.post(PODS, &pod("mine", "a")).await.expect(201);
    client.post(PODS, &pod("other", "b")).await.expect(201);
    let status = json!({"status": {"phase": "Running"}});
    let eviction = |name: &str| json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": name}});
    for (method, path, body, expected) in [
        ("PATCH", "mine/status", &status, "200"),
        (
            "PATCH",
            "other/status",
            &status,
            "node \"a\" can only update pod status for pods with spec.nodeName set to itself",
        ),
        (
            "PATCH",
            "mine/status",
            &json!({"metadata": {"labels": {"x": "y"}}}),
            "node \"a\" cannot update labels through pod status",
        ),
        (
            "PATCH",
            "mine/status",
            &json!({"status": {"resourceClaimStatuses": [{"name": "r", "resourceClaimName": "c"}]}}),
            "node \"a\" cannot update resource claim statues",
        ),
        ("POST", "other/eviction", &eviction("other"), "node a can only evict pods with spec.nodeName set to itself"),
        ("DELETE", "other", &Value::Null, "node \"a\" can only delete pods with spec.nodeName set to itself"),
        ("POST", "mine/eviction", &eviction("mine"), "201"),
    ] {
        let path = format!("{PODS}/{path}");
        assert_eq!(try_as(&client, &node, method.parse().unwrap(), &path, body).await, expected, "{method} {path}");
    }
}

#[tokio::test]
async fn a_node_requests_tokens_only_for_pods_on_it() {
    let client = Client::new().await;
    let node = User::node("a");
    client
        .post("/api/v1/namespaces/default/serviceaccounts", &json!({"metadata": {"name": "robot"}}))
        .await
        .expect(201);
    let mut mine = pod("mine", "a");
    mine["spec"]["volumes"].as_array_mut().unwrap().clear();
    let projected = json!({"name": "t", "projected": {"sources": [
        {"serviceAccountToken": {"path": "t", "audience": "vault"}}, {"serviceAccountToken": {"path": "u"}},
    ]}});
    mine["spec"]["volumes"].as_array_mut().unwrap().push(projected);
    let mine = client.post(PODS, &mine).await.expect(201);
    let other = client.post(PODS, &pod("other", "b")).await.expect(201);
    let bound = |name: &str, uid: &Value, audiences: &[&str]| {
        json!({"spec": {
            "audiences": audiences, "boundObjectRef": {"apiVersion": "v1", "kind": "Pod", "name": name, "uid": uid},
        }})
    };
    let (mine, other) = (&mine["metadata"]["uid"], &other["metadata"]["uid"]);
    for (body, expected) in [
        (json!({"spec": {"audiences": []}}), "node requested token not bound to a pod"),
        (bound("mine", &json!(""), &[]), "node requested token with a pod binding without a uid"),
        (bound("other", other, &[]), "node requested token bound to a pod scheduled on a different node"),
        (bound("mine", mine, &["x", "y"]), "node may only request 0 or 1 audiences"),
        (
            bound("mine", mine, &["x"]),
            "audience \"x\" not found in pod spec volume, system:node:a is not authorized to request tokens for this \
             audience",
        ),
        (bound("mine", mine, &["vault"]), "201"),
        (bound("mine", mine, &[]), "201"),
        (bound("none", mine, &[]), "404"),
    ] {
        let path = "/api/v1/namespaces/default/serviceaccounts/robot/token";
        assert_eq!(try_as(&client, &node, Method::POST, path, &body).await, expected, "{body}");
    }
}

#[tokio::test]
async fn a_server_without_the_plugin_restricts_no_node() {
    let node = User::node("a");
    for (disabled, expected) in [
        (
            &[][..],
            ["node requested token not bound to a pod", "node a can only evict pods with spec.nodeName set to itself"],
        ),
        (&["NodeRestriction"], ["201", "201"]),
    ] {
        let builder = Server::builder(std::sync::Arc::new(MemoryStore::new()));
        let builder = builder.disable_admission_plugins(disabled.iter().map(|name| (*name).to_owned()));
        let client = Client::of(builder.build().await.unwrap());
        let accounts = "/api/v1/namespaces/default/serviceaccounts";
        client.post(accounts, &json!({"metadata": {"name": "robot"}})).await.expect(201);
        client.post(PODS, &pod("mine", "a")).await.expect(201);
        client.post(PODS, &pod("other", "b")).await.expect(201);
        let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "other"}});
        let (token, evict) = (format!("{accounts}/robot/token"), format!("{PODS}/other/eviction"));
        let unbound = json!({"spec": {"audiences": []}});
        for ((path, body), expected) in [(&token, &unbound), (&evict, &eviction)].into_iter().zip(expected) {
            assert_eq!(try_as(&client, &node, Method::POST, path, body).await, expected, "{disabled:?} {path}");
        }
    }
}

/// Returns a request for a certificate.
fn request(name: &str, signer: &str, common_name: &str, groups: &[&str]) -> Value {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.distinguished_name.push(DnType::CommonName, common_name);
    groups.iter().for_each(|group| params.distinguished_name.push(DnType::OrganizationName, *group));
    let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
    json!({
        "metadata": {"name": name},
        "spec": {"request": STANDARD.encode(pem), "signerName": signer, "usages": ["client auth"]},
    })
}

#[tokio::test]
async fn a_node_requests_only_its_own_certificate() {
    let client = Client::new().await;
    let node = User::node("a");
    let signer = "kubernetes.io/kube-apiserver-client-kubelet";
    let other = request("x", signer, "system:node:b", &["system:nodes"]);
    let expected = "can only create a node CSR with CN=system:node:a";
    assert_eq!(try_as(&client, &node, Method::POST, REQUESTS, &other).await, expected);
    let own = request("x", signer, "system:node:a", &["system:nodes"]);
    assert_eq!(try_as(&client, &node, Method::POST, REQUESTS, &own).await, "201");
    let masters = request("y", "kubernetes.io/kube-apiserver-client", "eve", &["system:masters"]);
    let expected = "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed";
    assert_eq!(try_as(&client, &User::admin(), Method::POST, REQUESTS, &masters).await, expected);
}

/// Allows everything except acting for signers other than those of `example.com`, whose requests it may approve.
struct Signers;

impl Authorizer for Signers {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        let allowed = match &request.action {
            Action::Resource(action) if action.resource == "signers" => {
                action.verb == "approve" && action.name == "example.com/*"
            }
            _ => true,
        };
        if allowed { Decision::allow("") } else { Decision::no_opinion("") }.into()
    }
}

#[tokio::test]
async fn approving_and_signing_need_permission_for_the_signer() {
    let server = Server::builder(std::sync::Arc::new(MemoryStore::new())).authorizer(Signers).build().await.unwrap();
    let client = Client::of(server);
    for (name, signer) in [("mine", "example.com/x"), ("other", "example.org/x")] {
        client.post(REQUESTS, &request(name, signer, "u", &[])).await.expect(201);
    }
    let user = User::admin();
    let approved = json!({"status": {"conditions": [{"type": "Approved", "status": "True", "reason": "r"}]}});
    let failed = json!({"status": {"conditions": [{"type": "Failed", "status": "True", "reason": "r"}]}});
    for (path, body, expected) in [
        ("mine/approval", &approved, "200"),
        ("other/approval", &approved, "user not permitted to approve requests with signerName \"example.org/x\""),
        ("other/status", &failed, "user not permitted to sign requests with signerName \"example.org/x\""),
        ("other/status", &json!({"metadata": {"labels": {"a": "b"}}}), "200"),
    ] {
        let path = format!("{REQUESTS}/{path}");
        assert_eq!(try_as(&client, &user, Method::PATCH, &path, body).await, expected, "{path}");
    }
}
