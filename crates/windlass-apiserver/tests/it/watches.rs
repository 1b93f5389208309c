//! Watches: initial state, events, end.

use std::sync::Arc;

use serde_json::json;
use windlass_store::{MemoryStore, Retention};

use crate::client::{CONFIG_MAPS, Client, config_map, labelled};

#[tokio::test]
async fn a_watch_sends_the_state_and_then_every_change_in_order() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    assert_eq!(events.brief().await, "ADDED a");
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(200);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    assert_eq!(events.brief().await, "ADDED b");
    assert_eq!(events.brief().await, "MODIFIED a");
    assert_eq!(events.brief().await, "DELETED b");
}

#[tokio::test]
async fn a_watch_from_a_revision_sends_the_events_after_it() {
    let client = Client::new().await;
    let first = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}")).await;
    assert_eq!(events.brief().await, "ADDED b");
}

#[tokio::test]
async fn objects_enter_and_leave_a_selector() {
    let client = Client::new().await;
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=team%3Dred")).await;
    client.post(CONFIG_MAPS, &labelled("a", "team", "blue")).await.expect(201);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"team": "red"}}})).await.expect(200);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"data": {"a": "2"}})).await.expect(200);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"team": "blue"}}})).await.expect(200);
    assert_eq!(events.brief().await, "ADDED a");
    assert_eq!(events.brief().await, "MODIFIED a");
    let left = events.next().await.unwrap();
    assert_eq!(left["type"], "DELETED");
    assert_eq!(left["object"]["metadata"]["labels"]["team"], "red");
    client.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    client.post(CONFIG_MAPS, &labelled("b", "team", "red")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED b");
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let mut events = client.watch(&format!("{CONFIG_MAPS}?{query}")).await;
    assert_eq!(events.brief().await, "ADDED a");
    let end = events.next().await.unwrap();
    assert_eq!(end["type"], "BOOKMARK");
    assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    assert!(end["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse::<u64>().unwrap() > 0);
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED b");
}

#[tokio::test]
async fn bookmarks_announce_the_end_of_initial_events_that_nobody_asked_for() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for query in ["", "&resourceVersion=0"] {
        let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&allowWatchBookmarks=true{query}")).await;
        assert_eq!(events.brief().await, "ADDED a");
        let end = events.next().await.unwrap();
        assert_eq!(end["object"]["metadata"]["annotations"]["k8s.io/initial-events-end"], "true");
    }
}

#[tokio::test(start_paused = true)]
async fn another_bookmark_follows_the_initial_events() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let query = "watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true";
    let table = "application/json;as=Table;g=meta.k8s.io;v=v1";
    for (include, row, end) in [("None", "null", "PartialObjectMetadata"), ("Object", "ConfigMap", "ConfigMap")] {
        let path = format!("{CONFIG_MAPS}?{query}&includeObject={include}");
        let mut events = client.watch_as(&path, table).await;
        assert_eq!(events.next().await.unwrap()["type"], "ADDED");
        for (kind, annotated) in [(end, true), (row, false)] {
            let event = events.next().await.unwrap();
            let object = &event["object"]["rows"][0]["object"];
            assert_eq!((event["type"].as_str(), object["kind"].as_str().unwrap_or("null")), (Some("BOOKMARK"), kind));
            assert_eq!(object["metadata"]["annotations"].is_object(), annotated);
        }
    }
}

#[tokio::test]
async fn a_watch_on_one_namespace_has_no_events_of_others() {
    let client = Client::new().await;
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    client.post("/api/v1/namespaces/kube-public/configmaps", &config_map("x")).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    assert_eq!(events.brief().await, "ADDED a");
}

#[tokio::test]
async fn a_watch_ends_at_its_timeout_and_when_the_server_stops() {
    let client = Client::new().await;
    let mut short = client.watch(&format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1")).await;
    assert_eq!(short.brief().await, "end");
    let mut long = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    client.server.stop();
    assert_eq!(long.brief().await, "end");
}

/// Writes more events than the log of a resource holds.
async fn overrun(client: &Client) {
    let blob = "x".repeat(500_000);
    for turn in 0..40 {
        let patch = json!({"data": {"a": format!("{turn}{blob}")}});
        client.merge(&format!("{CONFIG_MAPS}/a"), &patch).await.expect(200);
    }
}

#[tokio::test]
async fn a_revision_that_is_no_longer_kept_is_answered_with_410_in_the_stream() {
    let retention = Retention { events: 30, bytes: 64 << 20 };
    let client = Client::over(Arc::new(MemoryStore::with_retention(retention))).await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    overrun(&client).await;
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion=1")).await;
    let error = events.next().await.unwrap();
    assert_eq!((error["type"].as_str(), error["object"]["code"].as_i64()), (Some("ERROR"), Some(410)));
    assert_eq!(events.brief().await, "end");
}

#[tokio::test]
async fn a_slow_watcher_reads_the_history_and_misses_nothing() {
    let client = Client::new().await;
    let labelled_now = labelled("a", "shown", "yes");
    client.post(CONFIG_MAPS, &labelled_now).await.expect(201);
    let mut all = client.watch(&format!("{CONFIG_MAPS}?watch=1")).await;
    let mut selected = client.watch(&format!("{CONFIG_MAPS}?watch=1&labelSelector=shown=yes")).await;
    let elsewhere = "/api/v1/namespaces/kube-public/configmaps";
    let mut others = client.watch(&format!("{elsewhere}?watch=1")).await;
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    client.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": null}})).await.expect(200);
    overrun(&client).await;
    client.merge(&format!("{CONFIG_MAPS}/a"), &json!({"metadata": {"labels": {"shown": "yes"}}})).await.expect(200);
    client.post(elsewhere, &config_map("c")).await.expect(201);
    client.delete(&format!("{CONFIG_MAPS}/a")).await.expect(200);
    for expected in ["ADDED a", "ADDED b", "DELETED b", "MODIFIED a"] {
        assert_eq!(all.brief().await, expected);
    }
    let mut last = 0;
    for turn in 0..40 {
        let event = all.next().await.unwrap();
        assert!(event["object"]["data"]["a"].as_str().unwrap().starts_with(&format!("{turn}x")), "{turn}");
        let revision: u64 = event["object"]["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
        assert!(revision > last, "{revision} after {last}");
        last = revision;
    }
    assert_eq!(all.brief().await, "MODIFIED a");
    assert_eq!(all.brief().await, "DELETED a");
    for expected in ["ADDED a", "DELETED a", "ADDED a", "DELETED a"] {
        assert_eq!(selected.brief().await, expected);
    }
    assert_eq!(others.brief().await, "ADDED c");
    // After catching up, they continue with the log.
    client.post(CONFIG_MAPS, &labelled_now).await.expect(201);
    assert_eq!((all.brief().await, selected.brief().await), ("ADDED a".to_owned(), "ADDED a".to_owned()));
}

#[tokio::test]
async fn a_watch_continues_after_a_restart() {
    let client = Client::new().await;
    let first = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    client.post(CONFIG_MAPS, &config_map("b")).await.expect(201);
    let client = client.restarted().await;
    let revision = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut events = client.watch(&format!("{CONFIG_MAPS}?watch=1&resourceVersion={revision}")).await;
    assert_eq!(events.brief().await, "ADDED b");
    client.delete(&format!("{CONFIG_MAPS}/b")).await.expect(200);
    assert_eq!(events.brief().await, "DELETED b");
}

#[tokio::test]
async fn watches_come_as_tables_and_as_metadata() {
    let client = Client::new().await;
    client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    for (form, kind) in [("PartialObjectMetadata", "PartialObjectMetadata"), ("Table", "Table")] {
        let accept = format!("application/json;as={form};g=meta.k8s.io;v=v1");
        let path = format!("{CONFIG_MAPS}?watch=1&timeoutSeconds=1");
        let answer = client.ask(http::Method::GET, &path, &[("accept", &accept)], "").await;
        let first: serde_json::Value =
            serde_json::from_slice(answer.raw.split(|b| *b == b'\n').next().unwrap()).unwrap();
        assert_eq!(first["object"]["kind"], kind);
        if form == "PartialObjectMetadata" {
            assert_eq!((&first["object"]["metadata"]["name"], &first["object"]["data"]), (&json!("a"), &json!(null)));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_last_bookmark_comes_two_seconds_before_the_end() {
    let client = Client::new().await;
    let made = client.post(CONFIG_MAPS, &config_map("a")).await.expect(201);
    let from = made["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
    client.post("/api/v1/namespaces/kube-public/configmaps", &config_map("x")).await.expect(201);
    let watch = |seconds: u32, bookmarks: bool| {
        format!("{CONFIG_MAPS}?watch=1&resourceVersion={from}&timeoutSeconds={seconds}&allowWatchBookmarks={bookmarks}")
    };
    for (seconds, expected) in [(2, None), (3, Some(1)), (5, Some(3)), (11, Some(9))] {
        let mut events = client.watch(&watch(seconds, true)).await;
        let begun = tokio::time::Instant::now();
        let first = events.next().await.map(|event| (event["type"].clone(), begun.elapsed().as_secs()));
        assert_eq!(first, expected.map(|second| (json!("BOOKMARK"), second)), "{seconds}");
        if first.is_some() {
            assert_eq!(events.brief().await, "end");
        }
    }
    assert_eq!(client.watch(&watch(5, false)).await.brief().await, "end");
    // There is nothing to tell a client that has seen everything.
    let newest = client.get(CONFIG_MAPS).await.expect(200)["metadata"]["resourceVersion"].clone();
    let newest = newest.as_str().unwrap();
    let query = format!("watch=1&resourceVersion={newest}&timeoutSeconds=5&allowWatchBookmarks=true");
    assert_eq!(client.watch(&format!("{CONFIG_MAPS}?{query}")).await.brief().await, "end");
}
