//! Lists: selectors, pages, revisions.

use serde_json::json;

use crate::client::{CONFIG_MAPS, Client, config_map, labelled, names};

async fn five() -> Client {
    let client = Client::new().await;
    for (index, name) in ["a", "b", "c", "d", "e"].into_iter().enumerate() {
        let parity = if index % 2 == 0 { "even" } else { "odd" };
        client.post(CONFIG_MAPS, &labelled(name, "parity", parity)).await.expect(201);
    }
    client
}

#[tokio::test]
async fn a_list_has_the_items_in_order_without_their_kind() {
    let list = five().await.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(list["kind"], "ConfigMapList");
    assert_eq!(names(&list), ["a", "b", "c", "d", "e"]);
    assert_eq!(list["items"][0]["kind"], json!(null));
}

#[tokio::test]
async fn label_and_field_selectors_narrow_a_list() {
    let client = five().await;
    let odd = client.get(&format!("{CONFIG_MAPS}?labelSelector=parity%3Dodd")).await.expect(200);
    assert_eq!(names(&odd), ["b", "d"]);
    let rest = client
        .get(&format!("{CONFIG_MAPS}?labelSelector=parity%20notin%20(odd),!x&fieldSelector=metadata.name!%3Dc"))
        .await;
    assert_eq!(names(&rest.expect(200)), ["a", "e"]);
    let rejected = client.get(&format!("{CONFIG_MAPS}?fieldSelector=data.a%3D1")).await;
    assert_eq!(rejected.code, 400);
}

#[tokio::test]
async fn pages_are_of_one_revision() {
    let client = five().await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    assert_eq!(names(&first), ["a", "b"]);
    assert_eq!(first["metadata"]["remainingItemCount"], 3);
    client.delete(&format!("{CONFIG_MAPS}/c")).await.expect(200);
    client.post(CONFIG_MAPS, &config_map("f")).await.expect(201);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let second = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    assert_eq!(names(&second), ["c", "d"]);
    assert_eq!(second["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
    let token = second["metadata"]["continue"].as_str().unwrap();
    let last = client.get(&format!("{CONFIG_MAPS}?continue={token}")).await.expect(200);
    assert_eq!(names(&last), ["e"]);
    assert_eq!(last["metadata"]["continue"], json!(null));
}

#[tokio::test]
async fn pages_of_a_selection_skip_what_is_not_selected() {
    let client = five().await;
    let path = format!("{CONFIG_MAPS}?labelSelector=parity%3Deven&limit=2");
    let first = client.get(&path).await.expect(200);
    assert_eq!(names(&first), ["a", "c"]);
    assert_eq!(first["metadata"]["remainingItemCount"], json!(null));
    let token = first["metadata"]["continue"].as_str().unwrap();
    let last = client.get(&format!("{path}&continue={token}")).await.expect(200);
    assert_eq!(names(&last), ["e"]);
    assert_eq!(last["metadata"]["continue"], json!(null));
}

#[tokio::test]
async fn a_list_at_an_exact_revision_returns_the_past_state() {
    let client = five().await;
    let list = client.get(CONFIG_MAPS).await.expect(200);
    let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(200);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    let path = format!("{CONFIG_MAPS}?resourceVersion={revision}&resourceVersionMatch=Exact");
    let past = client.get(&path).await.expect(200);
    assert_eq!(past["items"], list["items"]);
}

#[tokio::test]
async fn lists_of_all_namespaces_are_ordered_by_namespace() {
    let client = five().await;
    client.post("/api/v1/namespaces/kube-public/configmaps", &config_map("a")).await.expect(201);
    let list = client.get("/api/v1/configmaps").await.expect(200);
    assert_eq!(names(&list), ["a", "b", "c", "d", "e", "a"]);
    assert_eq!(list["items"][5]["metadata"]["namespace"], "kube-public");
}

#[tokio::test]
async fn a_long_list_is_the_same_for_all_until_something_changes() {
    let client = Client::new().await;
    for name in ["a", "b", "c"] {
        let mut object = config_map(name);
        object["data"]["a"] = "x".repeat(100_000).into();
        client.post(CONFIG_MAPS, &object).await.expect(201);
    }
    let first = client.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&first), ["a", "b", "c"]);
    assert_eq!(client.get(CONFIG_MAPS).await.expect(200), first);
    let everywhere = client.get("/api/v1/configmaps").await.expect(200);
    assert_eq!(everywhere["items"], first["items"]);
    client.post("/api/v1/namespaces/kube-public/configmaps", &config_map("d")).await.expect(201);
    assert_eq!(names(&client.get(CONFIG_MAPS).await.expect(200)), ["a", "b", "c"]);
    assert_eq!(names(&client.get("/api/v1/configmaps").await.expect(200)), ["a", "b", "c", "d"]);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    let last = client.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(names(&last), ["a", "c"]);
    assert_ne!(last["metadata"]["resourceVersion"], first["metadata"]["resourceVersion"]);
}
