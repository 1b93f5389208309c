//! Broken watches, and missed states.

use futures_util::future::join_all;

use super::*;
use crate::{
    cluster::eventually,
    faults::{Fault, Faults, Seen},
};

const EXPIRED: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Expired","message":"too old resource version","code":410}}
"#;
const INTERNAL: &str = r#"{"type":"ERROR","object":{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"InternalError","message":"oops","code":500}}
"#;

async fn watches(faults: &Faults, at_least: usize) {
    eventually("the watches are open", async || (faults.count(Seen::is_watch) >= at_least).then_some(())).await;
}

/// Returns a reflector with the first state, whose watch has begun.
async fn watching(cluster: &TestCluster, faults: &Faults, streaming_list: bool) -> Reflected<ConfigMap> {
    let options = WatchOptions { streaming_list, ..options(cluster) };
    let mut reflected = Reflected::start(faults.client(), options);
    reflected.until("the state has arrived", |reflected| reflected.replaces == 1).await;
    watches(faults, 1).await;
    reflected
}

#[tokio::test]
async fn a_dropped_watch_continues_from_the_last_revision() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let mut reflected = watching(&cluster, &faults, false).await;
    let last = create(&cluster, "a").await;
    reflected.until("a exists", |reflected| reflected.names() == ["a"]).await;
    faults.drop_watches();
    watches(&faults, 2).await;
    create(&cluster, "b").await;
    reflected.until("b exists", |reflected| reflected.names() == ["a", "b"]).await;
    assert_eq!(reflected.replaces, 1, "nothing was listed again");
    let again = faults.seen().into_iter().filter(Seen::is_watch).nth(1).unwrap();
    assert_eq!(again.parameter("resourceVersion"), last.metadata.resource_version.unwrap());
}

#[tokio::test]
async fn a_watch_cut_at_any_byte_loses_and_repeats_nothing() {
    // Up to the length of three events and more.
    join_all((1..2000).step_by(43).map(|cut| async move {
        let cluster = TestCluster::start().await;
        let faults = Faults::around(cluster.client());
        faults.inject(Seen::is_watch, 1, Fault::Cut(cut));
        let mut reflected = watching(&cluster, &faults, false).await;
        for name in ["a", "b", "c"] {
            create(&cluster, name).await;
        }
        touch(&cluster, "a", "new").await;
        let mut told = Vec::new();
        while told.len() < 4 {
            match reflected.next().await {
                Change::Apply(object) => told.push((name(&*object), value(&object).to_owned())),
                Change::Bookmark(_) => {}
                other => panic!("cut at {cut}: {other:?}"),
            }
        }
        let told: Vec<_> = told.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        assert_eq!(told, [("a", "value"), ("b", "value"), ("c", "value"), ("a", "new")], "cut at {cut}");
    }))
    .await;
}

#[tokio::test]
async fn a_list_cut_at_any_byte_is_never_treated_as_complete() {
    let cluster = TestCluster::start().await;
    for name in ["a", "b", "c"] {
        create(&cluster, name).await;
    }
    let faults = (0..900).step_by(50).flat_map(|cut| [Fault::Cut(cut), Fault::End(cut)]);
    let cluster = &cluster;
    join_all(faults.map(|fault| async move {
        let faults = Faults::around(cluster.client());
        faults.inject(|seen| seen.is_list("configmaps"), 1, fault);
        let reflected = watching(cluster, &faults, false).await;
        assert_eq!(reflected.names(), ["a", "b", "c"]);
        assert_eq!(faults.count(|seen| seen.is_list("configmaps")), 2);
    }))
    .await;
}

#[tokio::test]
async fn objects_deleted_during_an_outage_are_not_in_the_next_state() {
    let by = [Fault::Answer(EXPIRED.into()), Fault::status(410)];
    let cases = WAYS.into_iter().flat_map(|streaming_list| by.clone().map(|expired| (streaming_list, expired)));
    join_all(cases.map(|(streaming_list, expired)| async move {
        let cluster = TestCluster::start().await;
        create(&cluster, "kept").await;
        create(&cluster, "deleted").await;
        let faults = Faults::around(cluster.client());
        let mut reflected = watching(&cluster, &faults, streaming_list).await;
        // The connection breaks and the server is down; objects change in the meantime.
        faults.inject(Seen::is_watch, 1, Fault::Refuse);
        faults.inject(Seen::is_watch, 1, expired);
        faults.drop_watches();
        delete(&cluster, "deleted").await;
        create(&cluster, "created").await;
        touch(&cluster, "kept", "new").await;
        reflected.until("the state was sent again", |reflected| reflected.replaces == 2).await;
        assert_eq!(reflected.names(), ["created", "kept"]);
        assert_eq!(value(&reflected.objects["kept"]), "new");
        create(&cluster, "later").await;
        reflected.until("changes follow", |reflected| reflected.names() == ["created", "kept", "later"]).await;
    }))
    .await;
}

#[tokio::test]
async fn a_relist_asks_for_the_last_revision_and_then_for_the_newest() {
    let cluster = TestCluster::start().await;
    create(&cluster, "a").await;
    let faults = Faults::around(cluster.client());
    let mut reflected = watching(&cluster, &faults, false).await;
    faults.inject(Seen::is_watch, 1, Fault::Answer(EXPIRED.into()));
    faults.inject(|seen| seen.is_list("configmaps"), 1, Fault::status(410));
    faults.drop_watches();
    reflected.until("the state was sent again", |reflected| reflected.replaces == 2).await;
    let lists: Vec<_> = faults.seen().into_iter().filter(|seen| seen.is_list("configmaps")).collect();
    assert_eq!((lists[0].parameter("resourceVersion"), lists[0].parameter("limit")), ("0", "500"));
    assert!(lists[1].parameter("resourceVersion").parse::<u64>().unwrap() > 0);
    assert_eq!(lists[1].parameter("limit"), "");
    assert_eq!((lists[2].parameter("resourceVersion"), lists[2].parameter("limit")), ("", "500"));
    assert_eq!(reflected.names(), ["a"]);
}

#[tokio::test]
async fn an_error_event_ends_the_watch_and_another_continues() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    faults.inject(Seen::is_watch, 1, Fault::Answer(INTERNAL.into()));
    let mut reflected = watching(&cluster, &faults, false).await;
    create(&cluster, "a").await;
    reflected.until("a exists", |reflected| reflected.names() == ["a"]).await;
    assert_eq!(reflected.replaces, 1);
    assert_eq!(faults.count(Seen::is_watch), 2);
}

#[tokio::test]
async fn a_bookmark_moves_the_revision_from_which_a_watch_continues() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let newest = create(&cluster, "a").await.metadata.resource_version.unwrap();
    let bookmark = serde_json::json!({"type": "BOOKMARK", "object": {"kind": "ConfigMap", "apiVersion": "v1",
        "metadata": {"resourceVersion": newest}}});
    // The first state is older than the bookmark.
    let older = newest.parse::<u64>().unwrap() - 1;
    let list = serde_json::json!({"kind": "ConfigMapList", "apiVersion": "v1",
        "metadata": {"resourceVersion": older.to_string()}, "items": []});
    faults.inject(|seen| seen.is_list("configmaps"), 1, Fault::Answer(list.to_string()));
    faults.inject(Seen::is_watch, 1, Fault::Answer(format!("{bookmark}\n")));
    let mut reflected = watching(&cluster, &faults, false).await;
    let told = reflected.next().await;
    assert!(matches!(told, Change::Bookmark(revision) if revision.to_string() == newest), "{told:?}");
    watches(&faults, 2).await;
    let again = faults.seen().into_iter().filter(Seen::is_watch).nth(1).unwrap();
    assert_eq!(again.parameter("resourceVersion"), newest);
    assert_eq!(again.parameter("allowWatchBookmarks"), "true");
    let lasts: u64 = again.parameter("timeoutSeconds").parse().unwrap();
    assert!((300..=600).contains(&lasts));
}
