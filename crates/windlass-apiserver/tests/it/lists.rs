//! Lists: selectors, pages, revisions.

use std::sync::Arc;

use serde_json::json;
use windlass_store::Store as _;

use crate::{
    client::{CONFIG_MAPS, Client, config_map, labelled, names},
    test_store::TestStore,
};

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
    let only = "\"x\" is not a known field selector: only \"metadata.name\", \"metadata.namespace\"";
    for (path, why) in [
        ("/api/v1/persistentvolumeclaims", only),
        ("/api/v1/pods", "field label not supported: x"),
        ("/apis/batch/v1/jobs", "field label \"x\" not supported for Job"),
        (
            "/apis/resource.k8s.io/v1/resourceslices",
            "field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: x",
        ),
    ] {
        let rejected = client.get(&format!("{path}?fieldSelector=x%3D1")).await;
        assert_eq!(rejected.expect(400)["message"], why);
    }
    let empty = client.get(&format!("{CONFIG_MAPS}?limit=")).await;
    assert_eq!(empty.expect(400)["message"], "strconv.ParseInt: parsing \"\": invalid syntax");
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

/// Walks through a list in pages and returns the names and `remainingItemCount` of each.
async fn walk(client: &Client, path: &str, between: impl AsyncFn(usize)) -> Vec<(Vec<String>, Option<u64>)> {
    let mut pages: Vec<(Vec<String>, Option<u64>)> = Vec::new();
    let mut page = client.get(path).await.expect(200);
    let revision = page["metadata"]["resourceVersion"].clone();
    loop {
        let metadata = &page["metadata"];
        assert_eq!(metadata["resourceVersion"], revision);
        pages.push((names(&page), metadata["remainingItemCount"].as_u64()));
        let Some(token) = metadata["continue"].as_str() else { return pages };
        between(pages.len()).await;
        page = client.get(&format!("{path}&continue={token}")).await.expect(200);
    }
}

#[tokio::test]
async fn a_page_reads_and_counts_only_its_own_objects() {
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    for number in 0..25 {
        client.post(CONFIG_MAPS, &config_map(&format!("c{number:02}"))).await.expect(201);
        client.post("/api/v1/namespaces/other/configmaps", &config_map(&format!("c{number:02}"))).await;
    }
    let expected: Vec<(Vec<String>, Option<u64>)> = [(0..10, Some(15)), (10..20, Some(5)), (20..25, None)]
        .map(|(numbers, rest)| (numbers.map(|number| format!("c{number:02}")).collect(), rest))
        .into();
    let path = format!("{CONFIG_MAPS}?limit=10");
    store.lists.lock().clear();
    assert_eq!(walk(&client, &path, async |_| ()).await, expected);
    assert_eq!(store.lists.lock().len(), 0, "nothing has changed, so the cache has the state of the list");

    let change = async |page: usize| {
        let path = format!("{CONFIG_MAPS}/c{:02}", 5 * page);
        client.merge(&path, &json!({"data": {"page": page.to_string()}})).await.expect(200);
        client.delete(&format!("{CONFIG_MAPS}/c{:02}", 10 * page + 3)).await.expect(200);
    };
    assert_eq!(walk(&client, &path, change).await, expected);
    let lists = std::mem::take(&mut *store.lists.lock());
    assert_eq!(lists.len(), 2);
    assert!(lists.iter().all(|list| list.limit == Some(10) && !list.count), "{lists:?}");
}

#[tokio::test]
async fn the_remaining_objects_are_counted_per_namespace() {
    let client = five().await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "other"}})).await.expect(201);
    for name in ["x", "y", "z"] {
        client.post("/api/v1/namespaces/other/configmaps", &config_map(name)).await.expect(201);
    }
    client.delete("/api/v1/namespaces/other/configmaps/y").await.expect(200);
    let restarted = client.restarted().await;
    for client in [client, restarted] {
        let counts = ["/api/v1/namespaces/other/configmaps", CONFIG_MAPS, "/api/v1/configmaps"].map(async |path| {
            let page = client.get(&format!("{path}?limit=1")).await.expect(200);
            page["metadata"]["remainingItemCount"].as_u64()
        });
        let mut found = Vec::new();
        for count in counts {
            found.push(count.await);
        }
        let all = client.get("/api/v1/configmaps").await.expect(200);
        assert_eq!(found, [Some(1), Some(4), Some(names(&all).len() as u64 - 1)]);
    }
}

#[tokio::test]
async fn a_page_of_damaged_objects_does_not_end_a_list() {
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    for name in ["a", "b", "e"] {
        client.post(CONFIG_MAPS, &config_map(name)).await.expect(201);
    }
    for name in ["c", "d"] {
        store.inner.create(&format!("/core/configmaps/default/{name}"), "damaged".into()).await.unwrap();
    }
    let all = client.get(&format!("{CONFIG_MAPS}?limit=2")).await.expect(200);
    let revision = all["metadata"]["resourceVersion"].as_str().unwrap();
    client.post(CONFIG_MAPS, &config_map("f")).await.expect(201);
    let past = format!("{CONFIG_MAPS}?limit=2&resourceVersion={revision}&resourceVersionMatch=Exact");
    let mut page = client.get(&past).await.expect(200);
    let mut found: Vec<String> = Vec::new();
    loop {
        found.extend(names(&page));
        let Some(token) = page["metadata"]["continue"].as_str() else { break };
        page = client.get(&format!("{CONFIG_MAPS}?limit=2&continue={token}")).await.expect(200);
    }
    assert_eq!(found, ["a", "b", "e"]);
}

#[tokio::test]
async fn a_selection_in_the_past_is_found_in_chunks() {
    let store = Arc::new(TestStore::default());
    let client = Client::over(store.clone()).await;
    for number in 0..1_205 {
        let parity = if number % 600 == 599 { "rare" } else { "common" };
        client.post(CONFIG_MAPS, &labelled(&format!("c{number:04}"), "kind", parity)).await.expect(201);
    }
    let path = format!("{CONFIG_MAPS}?labelSelector=kind%3Drare&limit=1");
    let change = async |_| {
        client.post("/api/v1/namespaces/default/configmaps", &json!({"metadata": {"generateName": "z"}})).await;
    };
    store.lists.lock().clear();
    let pages = walk(&client, &path, change).await;
    let rare = ["c0599", "c1199"].map(|name| (vec![name.to_owned()], None));
    // Others follow the last one, so there is another page.
    assert_eq!(pages, [&rare[..], &[(Vec::new(), None)]].concat());
    let lists = std::mem::take(&mut *store.lists.lock());
    assert!(lists.len() == 3 && lists.iter().all(|list| list.limit == Some(500) && !list.count), "{lists:?}");
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
async fn a_full_page_continues_if_any_objects_follow_selected_or_not() {
    let client = five().await;
    client.post(CONFIG_MAPS, &labelled("f", "parity", "odd")).await.expect(201);
    let path = format!("{CONFIG_MAPS}?labelSelector=parity%3Deven&limit=3");
    let full = client.get(&path).await.expect(200);
    assert_eq!(names(&full), ["a", "c", "e"]);
    let token = full["metadata"]["continue"].as_str().expect("f follows");
    let next = format!("{path}&continue={token}");
    assert_eq!(names(&client.get(&next).await.expect(200)), [""; 0]);
    // The same from the history of the store.
    client.delete(&format!("{CONFIG_MAPS}/f")).await.expect(200);
    let revision = full["metadata"]["resourceVersion"].as_str().unwrap();
    let past = format!("{path}&resourceVersion={revision}&resourceVersionMatch=Exact");
    let past = client.get(&past).await.expect(200);
    assert_eq!((names(&past), past["metadata"]["continue"].is_string()), (names(&full), true));
    assert_eq!(client.get(&path).await.expect(200)["metadata"]["continue"], json!(null));
    // A name selects one object, which is read alone.
    let named = client.get(&format!("{CONFIG_MAPS}?fieldSelector=metadata.name%3Da&limit=1")).await.expect(200);
    assert_eq!((names(&named), &named["metadata"]["continue"]), (vec!["a".to_owned()], &json!(null)));
}

#[tokio::test]
async fn the_rest_of_a_list_from_any_state_has_no_pages() {
    let client = five().await;
    let first = client.get(&format!("{CONFIG_MAPS}?limit=1")).await.expect(200);
    let token = first["metadata"]["continue"].as_str().unwrap();
    let rest = client.get(&format!("{CONFIG_MAPS}?limit=1&continue={token}&resourceVersion=0")).await.expect(200);
    assert_eq!(names(&rest), ["b", "c", "d", "e"]);
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
