//! Services that could not have been stored by this server: reported, and their values are not allocated again.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use serde_json::{Value, json};
use windlass_store::{Store, memory::MemoryStore};

use crate::{client::Client, dropped::invariants::allocations};

const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Returns a copy of a stored service under another name.
async fn copied(store: &MemoryStore, from: &str, to: &str) {
    let entry = store.get(&format!("/core/services/default/{from}")).await.unwrap().unwrap();
    let mut service: Value = serde_json::from_slice(&entry.value).unwrap();
    service["metadata"]["name"] = to.into();
    // As stored: kind, apiVersion and metadata first.
    let head = json!({"kind": service["kind"], "apiVersion": service["apiVersion"]}).to_string();
    let metadata = service["metadata"].to_string();
    let text = format!("{},\"metadata\":{metadata},\"spec\":{}}}", &head[..head.len() - 1], service["spec"]);
    store.create(&format!("/core/services/default/{to}"), Bytes::from(text)).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn services_that_share_an_address_are_reported_and_keep_it() {
    let store = Arc::new(MemoryStore::new());
    let before = Client::over(store.clone()).await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"type": "NodePort", "ports": [{"port": 80}]}});
    let spec = before.post(SERVICES, &service).await.expect(201)["spec"].clone();
    drop(before);
    copied(&store, "a", "b").await;

    let client = Client::over(store.clone()).await;
    // The first check is at the start, the second after three minutes: nothing is reported twice.
    tokio::time::sleep(Duration::from_secs(200)).await;
    let events = client.get("/api/v1/namespaces/default/events").await.expect(200)["items"].clone();
    let address = spec["clusterIP"].as_str().unwrap();
    let port = &spec["ports"][0]["nodePort"];
    let shown: Vec<(&str, &str, &str)> = events
        .as_array()
        .unwrap()
        .iter()
        .map(|event| {
            let text = |pointer: &str| event.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            (text("/involvedObject/name"), text("/reason"), text("/message"))
        })
        .collect();
    let address_message =
        format!("Cluster IP [IPv4]:{address} was assigned to multiple services; please recreate service");
    let port_message = format!("Port {port} was assigned to multiple services; please recreate service");
    let mut expected =
        vec![("b", "ClusterIPAlreadyAllocated", &*address_message), ("b", "PortAlreadyAllocated", &*port_message)];
    let mut shown = shown;
    shown.sort_unstable();
    expected.sort_unstable();
    assert_eq!(shown, expected);

    // The value is free when the last of them is deleted.
    let wanted = json!({"metadata": {"name": "c"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    client.delete(&format!("{SERVICES}/a")).await.expect(200);
    assert_eq!(client.post(SERVICES, &wanted).await.code, 422);
    client.delete(&format!("{SERVICES}/b")).await.expect(200);
    client.post(SERVICES, &wanted).await.expect(201);
    // The service of the server itself, and this one.
    assert_eq!(allocations(&client).await, (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_service_written_by_another_program_is_known_at_once() {
    let store = Arc::new(MemoryStore::new());
    let client = Client::over(store.clone()).await;
    let service = json!({"metadata": {"name": "a"}, "spec": {"ports": [{"port": 80}]}});
    let address = client.post(SERVICES, &service).await.expect(201)["spec"]["clusterIP"].clone();
    copied(&store, "a", "b").await;
    client.delete(&format!("{SERVICES}/a")).await.expect(200);
    let wanted = json!({"metadata": {"name": "c"}, "spec": {"clusterIP": address, "ports": [{"port": 80}]}});
    assert_eq!(client.post(SERVICES, &wanted).await.code, 422);
    client.delete(&format!("{SERVICES}/b")).await.expect(200);
    client.post(SERVICES, &wanted).await.expect(201);
}
