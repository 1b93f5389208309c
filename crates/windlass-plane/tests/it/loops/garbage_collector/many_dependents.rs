//! Many dependents, and a collector that is stopped midway.

use kube::api::ListParams;
use windlass_plane::{LoopOptions, Loops, Selection};
use windlass_testing::eventually;

use super::*;

/// The server's latest revision, which grows by one with each write.
async fn revision(maps: &Api<ConfigMap>) -> u64 {
    let list = maps.list_metadata(&ListParams::default()).await.unwrap();
    list.metadata.resource_version.unwrap().parse().unwrap()
}

async fn left(maps: &Api<ConfigMap>) -> usize {
    maps.list_metadata(&ListParams::default().labels("of=owner")).await.unwrap().items.len()
}

async fn dependents(maps: &Api<ConfigMap>, owner: &ConfigMap, count: usize) {
    for at in 0..count {
        let metadata = ObjectMeta {
            name: Some(format!("child-{at}")),
            labels: Some([("of".to_owned(), "owner".to_owned())].into()),
            owner_references: Some(vec![blocking(of_map(owner))]),
            ..ObjectMeta::default()
        };
        maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap();
    }
}

#[tokio::test]
async fn ten_thousand_dependents_take_one_write_each() {
    let plane = plane().await;
    let maps = plane.api::<ConfigMap>();
    let owner = map(&maps, "owner", vec![]).await;
    dependents(&maps, &owner, 10_000).await;
    let before = revision(&maps).await;
    maps.delete("owner", &foreground()).await.unwrap();
    gone(&maps, "owner").await;
    eventually("all are deleted", async || (left(&maps).await == 0).then_some(())).await;
    // The deletion timestamp, the finalizer and the removal of the owner, and one write per dependent.
    let writes = revision(&maps).await - before;
    assert!((10_002..=10_010).contains(&writes), "{writes}");
}

#[tokio::test]
async fn a_restarted_collector_continues() {
    let plane = TestPlane::builder().controllers(Selection::none()).await;
    let server = plane.server().expect("a test of loops must have its own server").clone();
    let options =
        LoopOptions { controllers: "garbage-collector-controller".parse().unwrap(), ..LoopOptions::default() };
    let maps = plane.api::<ConfigMap>();
    let owner = map(&maps, "owner", vec![]).await;
    dependents(&maps, &owner, 300).await;
    let orphaned = map(&maps, "orphaned", vec![]).await;
    map(&maps, "orphan", vec![of_map(&orphaned)]).await;

    let first = Loops::start(&server, &options);
    maps.delete("owner", &foreground()).await.unwrap();
    eventually("some of them are deleted", async || (left(&maps).await < 300).then_some(())).await;
    drop(first);
    // Started while no collector runs.
    maps.delete("orphaned", &orphan()).await.unwrap();
    let _second = Loops::start(&server, &options);
    gone(&maps, "owner").await;
    gone(&maps, "orphaned").await;
    eventually("all are deleted", async || (left(&maps).await == 0).then_some(())).await;
    assert!(owners(&maps, "orphan").await.is_empty());
}
