//! Caches that have not seen other clients' writes yet, and callers that are dropped.

use kube::api::DeleteParams;
use serde_json::json;
use windlass_runtime::objects::owner::is_controlled_by;

use super::*;
use crate::faults::{Fault, Faults, Seen};

/// Returns a bench whose caches see nothing of what others do.
async fn deaf(faults: &Faults, cluster: TestCluster, prepare: impl AsyncFnOnce(&Bench)) -> Bench {
    let bench = Bench::over(cluster, faults.client()).await;
    prepare(&bench).await;
    faults.inject(Seen::is_watch, usize::MAX, Fault::Hang);
    let before = faults.count(Seen::is_watch);
    faults.drop_watches();
    eventually("the watches hang", async || (faults.count(Seen::is_watch) >= before + 2).then_some(())).await;
    bench
}

async fn started() -> (TestCluster, Faults) {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    (cluster, faults)
}

#[tokio::test]
async fn an_object_of_others_that_is_not_cached_yet_is_left_alone() {
    let (cluster, faults) = started().await;
    let bench = deaf(&faults, cluster, async |bench| drop(bench.parent("parent").await)).await;
    let parent = bench.context.get::<ConfigMap>(&bench.key("parent")).unwrap().unwrap();
    let stranger = bench.api().create(&PostParams::default(), &bench.config("one", &[("a", "0")])).await.unwrap();
    assert!(bench.context.get::<ConfigMap>(&bench.key("one")).unwrap().is_none(), "the cache lags behind");
    let error = bench.context.apply_owned(&parent, bench.config("one", &[("a", "1")])).await.unwrap_err();
    assert!(error.is_not_ours(), "{error}");
    assert_eq!(bench.writes(), 0);
    let live = bench.api::<ConfigMap>().get("one").await.unwrap();
    assert_eq!(live.metadata.resource_version, stranger.metadata.resource_version);
}

#[tokio::test]
async fn an_unrelated_object_with_the_name_of_ours_is_left_alone() {
    let (cluster, faults) = started().await;
    let bench = deaf(&faults, cluster, async |bench| {
        let parent = bench.parent("parent").await;
        for name in ["taken", "gone"] {
            bench.context.apply_owned(&parent, bench.config(name, &[("a", "0")])).await.unwrap();
        }
    })
    .await;
    let (ctx, api) = (&bench.context, bench.api::<ConfigMap>());
    let parent = ctx.get::<ConfigMap>(&bench.key("parent")).unwrap().unwrap();
    for name in ["taken", "gone"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
    }
    let stranger = api.create(&PostParams::default(), &bench.config("taken", &[("a", "0")])).await.unwrap();
    assert_ne!(ctx.get::<ConfigMap>(&bench.key("taken")).unwrap().unwrap().metadata.uid, stranger.metadata.uid);

    let error = ctx.apply_owned(&parent, bench.config("taken", &[("a", "1")])).await.unwrap_err();
    assert!(error.is_not_ours(), "{error}");
    assert_eq!(api.get("taken").await.unwrap().metadata.resource_version, stranger.metadata.resource_version);
    let made = ctx.apply_owned(&parent, bench.config("gone", &[("a", "1")])).await.unwrap();
    assert!(is_controlled_by(made.as_ref(), parent.as_ref()), "it is recreated");
    // Created by an apply, so fields that are no longer set are removed.
    let made = ctx.apply_owned(&parent, bench.config("gone", &[("b", "1")])).await.unwrap();
    assert_eq!(made.data.as_ref().unwrap().keys().collect::<Vec<_>>(), ["b"]);
}

#[tokio::test]
async fn a_write_whose_caller_was_dropped_is_cached() {
    let (cluster, faults) = started().await;
    let bench = deaf(&faults, cluster, async |bench| drop(bench.parent("doomed").await)).await;
    let doomed = bench.context.get::<ConfigMap>(&bench.key("doomed")).unwrap().unwrap();
    faults.inject(Seen::is_write, 3, Fault::Delay(std::time::Duration::from_millis(50)));
    let sent = |count: usize| {
        let faults = faults.clone();
        async move { eventually("it is sent", async || (faults.count(Seen::is_write) == count).then_some(())).await }
    };
    tokio::select! {
        biased;
        _ = bench.context.create(bench.config("created", &[])) => panic!("it must not be answered yet"),
        () = sent(1) => {}
    }
    tokio::select! {
        biased;
        _ = bench.context.apply(bench.config("applied", &[])) => panic!("it must not be answered yet"),
        () = sent(2) => {}
    }
    tokio::select! {
        biased;
        _ = bench.context.delete(&doomed) => panic!("it must not be answered yet"),
        () = sent(3) => {}
    }
    eventually("the cache is complete", async || {
        let has = |name: &str| bench.context.get::<ConfigMap>(&bench.key(name)).unwrap().is_some();
        (has("created") && has("applied") && !has("doomed")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_write_without_an_answer_is_looked_up() {
    let (cluster, faults) = started().await;
    let bench = deaf(&faults, cluster, async |bench| {
        drop(bench.parent("doomed").await);
        drop(bench.parent("patched").await);
    })
    .await;
    let (ctx, cached) = (&bench.context, |name: &str| bench.context.get::<ConfigMap>(&bench.key(name)).unwrap());
    faults.inject(Seen::is_write, 3, Fault::Cut(0));
    // The server does not respond at once either.
    faults.inject(|seen| !seen.is_watch() && !seen.is_write(), 4, Fault::Refuse);
    ctx.create(bench.config("created", &[])).await.unwrap_err();
    ctx.patch(&cached("patched").unwrap(), &Patch::Merge(json!({"data": {"a": "1"}}))).await.unwrap_err();
    ctx.delete(&cached("doomed").unwrap()).await.unwrap_err();
    eventually("the cache is complete", async || {
        let is_patched = cached("patched").is_some_and(|patched| patched.data.is_some());
        (cached("created").is_some() && is_patched && cached("doomed").is_none()).then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_read_misses_an_object_whose_deletion_was_answered_with_its_last_state() {
    let (cluster, faults) = started().await;
    let bench = deaf(&faults, cluster, async |bench| {
        bench.wire::<ServiceAccount>().await;
        let mut account = ServiceAccount::default();
        account.metadata.name = Some("doomed".into());
        account.metadata.namespace = Some(bench.namespace().into());
        bench.context.create(account).await.unwrap();
    })
    .await;
    let (ctx, key) = (&bench.context, bench.key("doomed"));
    let doomed = ctx.get::<ServiceAccount>(&key).unwrap().unwrap();
    ctx.delete(&doomed).await.unwrap();
    assert_eq!(bench.api::<ServiceAccount>().get_opt("doomed").await.unwrap(), None);
    assert_eq!(ctx.get::<ServiceAccount>(&key).unwrap(), None, "the cache has the state of the response");
}

#[tokio::test]
async fn a_deletion_of_many_without_response_is_looked_up() {
    let (cluster, faults) = started().await;
    let bench = deaf(&faults, cluster, async |bench| {
        for (name, app) in [("a", "web"), ("b", "web"), ("held", "web"), ("other", "db")] {
            let mut config = bench.config(name, &[]);
            config.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
            config.metadata.finalizers = (name == "held").then(|| vec!["example.com/held".to_owned()]);
            bench.context.create(config).await.unwrap();
        }
    })
    .await;
    let context = bench.context.to_builder().request_timeout(std::time::Duration::from_secs(2)).build();
    faults.inject(|seen| seen.method == http::Method::DELETE, 1, Fault::Swallow);
    let web = windlass_runtime::cache::parse_selector("app=web").unwrap();
    let error = context.delete_all::<ConfigMap>(bench.namespace(), &web).await.unwrap_err();
    assert!(error.is_timeout(), "{error}");
    let left = eventually("the cache shows what exists", async || {
        let app = windlass_runtime::cache::parse_selector("app").unwrap();
        let left = bench.context.select_in::<ConfigMap>(bench.namespace(), &app).unwrap();
        (left.len() == 2).then_some(left)
    })
    .await;
    let held = left.iter().find(|config| config.metadata.name.as_deref() == Some("held")).unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
}
