//! Who may change which part of the status of a ResourceClaim.

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::user::User;

use crate::client::{Answer, Client};

const API: &str = "/apis/rbac.authorization.k8s.io/v1";
const GROUP: &str = "resource.k8s.io";
const CLAIMS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims";
const STATUS: &str = "/apis/resource.k8s.io/v1/namespaces/default/resourceclaims/a/status";

/// Lets a user do something with resources, in all namespaces.
async fn grant(client: &Client, user: &str, name: &str, resource: &str, verb: &str, names: &[&str]) {
    let rules = json!([{"apiGroups": [GROUP], "resources": [resource], "verbs": [verb], "resourceNames": names}]);
    client.post(&format!("{API}/clusterroles"), &json!({"metadata": {"name": name}, "rules": rules})).await.expect(201);
    let binding = json!({"metadata": {"name": name}, "subjects": [{"kind": "User", "name": user}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}});
    client.post(&format!("{API}/clusterrolebindings"), &binding).await.expect(201);
}

/// Returns a client with a claim that is allocated for the node `n1`, unless it is new.
async fn claim(allocated: bool) -> Client {
    let client = Client::new().await;
    let request = json!({"name": "r", "exactly": {"deviceClassName": "c"}});
    let object = json!({"metadata": {"name": "a"}, "spec": {"devices": {"requests": [request]}}});
    client.post(CLAIMS, &object).await.expect(201);
    if allocated {
        client.merge(STATUS, &allocation()).await.expect(200);
    }
    client
}

fn allocation() -> Value {
    let on_node = json!([{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]);
    json!({"status": {"allocation": {
        "devices": {"results": [
            {"request": "r", "driver": "one.example", "pool": "p", "device": "d"},
            {"request": "r", "driver": "two.example", "pool": "p", "device": "d"},
        ]},
        "nodeSelector": {"nodeSelectorTerms": on_node},
    }}})
}

/// Returns a patch with the state of devices, one of each driver.
fn devices(drivers: &[&str]) -> Value {
    let device = |driver: &&str| json!({"driver": driver, "pool": "p", "device": "d", "data": {"a": 1}});
    json!({"status": {"devices": drivers.iter().map(device).collect::<Vec<_>>()}})
}

async fn merge_as(client: &Client, user: &User, patch: &Value) -> Answer {
    client.ask_for(user, Method::PATCH, STATUS, patch).await
}

#[tokio::test]
async fn binding_a_claim_needs_a_permission_of_its_own() {
    let client = claim(false).await;
    let eve = User::component("eve");
    grant(&client, "eve", "status", "resourceclaims/status", "*", &[]).await;
    // A role in the namespace of the claim is not enough.
    let role = json!({"metadata": {"name": "binding"},
        "rules": [{"apiGroups": [GROUP], "resources": ["resourceclaims/binding"], "verbs": ["*"]}]});
    client.post(&format!("{API}/namespaces/default/roles"), &role).await.expect(201);
    let binding = json!({"metadata": {"name": "binding"}, "subjects": [{"kind": "User", "name": "eve"}],
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "binding"}});
    client.post(&format!("{API}/namespaces/default/rolebindings"), &binding).await.expect(201);
    let denied = merge_as(&client, &eve, &allocation()).await;
    let message = "ResourceClaim.resource.k8s.io \"a\" is invalid: status.allocation: Forbidden: changing status.allocation \
                   or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"patch\" permission: \
                   resourceclaims.resource.k8s.io is forbidden: User \"eve\" cannot patch resource \
                   \"resourceclaims/binding\" in API group \"resource.k8s.io\" at the cluster scope";
    assert_eq!((denied.code, denied.message()), (422, message.to_owned()));
    grant(&client, "eve", "update", "resourceclaims/binding", "update", &[]).await;
    assert_eq!(merge_as(&client, &eve, &allocation()).await.message(), message, "the verb is that of the request");
    let mut whole = client.get(CLAIMS).await.expect(200)["items"][0].take();
    whole["status"] = allocation()["status"].take();
    client.ask_for(&eve, Method::PUT, STATUS, &whole).await.expect(200);
    let reserved = json!({"status": {"reservedFor": [{"resource": "pods", "name": "p", "uid": "u"}]}});
    assert_eq!(merge_as(&client, &eve, &reserved).await.message(), message);
    grant(&client, "eve", "patch", "resourceclaims/binding", "patch", &[]).await;
    merge_as(&client, &eve, &reserved).await.expect(200);
    let bob = User::component("bob");
    grant(&client, "bob", "bob", "resourceclaims/status", "*", &[]).await;
    merge_as(&client, &bob, &reserved).await.expect(200);
    assert_eq!(merge_as(&client, &bob, &json!({"status": {"reservedFor": null}})).await.code, 422);
}

#[tokio::test]
async fn the_state_of_a_device_needs_a_permission_for_its_driver() {
    let client = claim(true).await;
    let eve = User::component("eve");
    grant(&client, "eve", "status", "resourceclaims/status", "*", &[]).await;
    let denied = |driver: &str| {
        format!(
            "status.devices: Forbidden: changing status.devices requires resource=\"resourceclaims/driver\", \
             verb=\"[arbitrary-node:patch]\" permission: resourceclaims.resource.k8s.io \"{driver}\" is forbidden: User \
             \"eve\" cannot arbitrary-node:patch resource \"resourceclaims/driver\" in API group \"resource.k8s.io\" in \
             the namespace \"default\""
        )
    };
    let both = devices(&["two.example", "one.example"]);
    let invalid = |errors: &str| format!("ResourceClaim.resource.k8s.io \"a\" is invalid: {errors}");
    let answer = merge_as(&client, &eve, &both).await;
    let message = invalid(&format!("[{}, {}]", denied("one.example"), denied("two.example")));
    assert_eq!((answer.code, answer.message()), (422, message));
    grant(&client, "eve", "one", "resourceclaims/driver", "arbitrary-node:patch", &["one.example"]).await;
    assert_eq!(merge_as(&client, &eve, &both).await.message(), invalid(&denied("two.example")));
    merge_as(&client, &eve, &devices(&["one.example"])).await.expect(200);
    client.merge(STATUS, &both).await.expect(200);
    merge_as(&client, &eve, &devices(&["two.example"])).await.expect(200);
    assert_eq!(merge_as(&client, &eve, &devices(&[])).await.message(), invalid(&denied("two.example")));
}

#[tokio::test]
async fn a_driver_may_be_restricted_to_the_nodes_of_its_pods() {
    let client = claim(true).await;
    let mut agent = User::service_account("default", "agent");
    grant(&client, &agent.name, "status", "resourceclaims/status", "*", &[]).await;
    grant(&client, &agent.name, "driver", "resourceclaims/driver", "associated-node:patch", &["one.example"]).await;
    let change = devices(&["one.example"]);
    let mut code = async |nodes: &[&str]| {
        let nodes = nodes.iter().map(|node| (*node).to_owned()).collect();
        agent.extra.insert("authentication.kubernetes.io/node-name".to_owned(), nodes);
        merge_as(&client, &agent, &change).await.code
    };
    assert_eq!(code(&[]).await, 422);
    assert_eq!(code(&["n2"]).await, 422);
    assert_eq!(code(&["n1", "n2"]).await, 422);
    assert_eq!(code(&["n1"]).await, 200);
}

#[tokio::test]
async fn an_allocation_grants_access_to_devices_of_others_only_in_labelled_namespaces() {
    let client = claim(false).await;
    let mut granting = allocation();
    granting["status"]["allocation"]["devices"]["results"][1]["adminAccess"] = true.into();
    let message = "ResourceClaim.resource.k8s.io \"a\" is invalid: status.allocation.devices.results[1].adminAccess: \
                   Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on \
                   the containing namespace";
    assert_eq!(client.merge(STATUS, &granting).await.message(), message);
    let labels = |value: Option<&str>| json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": value}}});
    client.merge("/api/v1/namespaces/default", &labels(Some("true"))).await.expect(200);
    client.merge(STATUS, &granting).await.expect(200);
    client.merge("/api/v1/namespaces/default", &labels(None)).await.expect(200);
    client.merge(STATUS, &devices(&["two.example"])).await.expect(200);
}
