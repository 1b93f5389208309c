//! Expiry of events, in virtual time.

use std::time::Duration;

use k8s_openapi::api::core::v1::Event;
use kube::api::{Patch, PatchParams, PostParams};
use serde_json::json;
use windlass_testing::TestPlane;

fn event(name: &str, namespace: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "reason": "Tested", "message": "a", "type": "Normal",
    }))
    .unwrap()
}

#[tokio::test]
async fn events_expire_an_hour_after_their_last_write() {
    let plane = TestPlane::builder().virtual_time().await;
    let events = plane.api::<Event>();
    for name in ["once", "again"] {
        events.create(&PostParams::default(), &event(name, plane.namespace())).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(40 * 60)).await;
    let patch = Patch::Merge(json!({"count": 2}));
    events.patch("again", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert!(events.get_opt("once").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(6 * 60)).await;
    assert!(events.get_opt("once").await.unwrap().is_none());
    assert!(events.get_opt("again").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(40 * 60)).await;
    assert!(events.get_opt("again").await.unwrap().is_none());
}
