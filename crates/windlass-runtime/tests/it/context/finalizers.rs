use serde_json::json;
use windlass_runtime::objects::finalizer;

use super::*;

const OURS: &str = "example.com/ours";

#[tokio::test]
async fn finalizers_are_added_and_removed_without_touching_others() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let stale = ctx.create(bench.config("one", &[])).await.unwrap();
    // Another client adds its finalizer, which `stale` does not have.
    let theirs = json!({"metadata": {"finalizers": ["example.com/theirs"]}});
    bench.api::<ConfigMap>().patch("one", &PatchParams::default(), &Patch::Merge(theirs)).await.unwrap();
    let added = ctx.add_finalizer(&stale, OURS).await.unwrap();
    assert_eq!(added.metadata.finalizers.as_deref(), Some(&["example.com/theirs".to_owned(), OURS.to_owned()][..]));
    bench.writes();
    ctx.add_finalizer(&added, OURS).await.unwrap();
    assert_eq!(bench.writes(), 0, "it exists");

    ctx.delete(&added).await.unwrap();
    let removed = ctx.remove_finalizer(&added, OURS).await.unwrap().expect("theirs keeps it");
    assert_eq!(removed.metadata.finalizers.as_deref(), Some(&["example.com/theirs".to_owned()][..]));
    assert!(removed.metadata.deletion_timestamp.is_some());
    let error = ctx.add_finalizer(&removed, OURS).await.unwrap_err();
    assert!(error.to_string().contains("it is being deleted"), "{error}");
    let error = ctx.add_finalizer(&stale, OURS).await.unwrap_err();
    assert!(error.to_string().contains("it is being deleted"), "{error}");

    ctx.remove_finalizer(&removed, "example.com/theirs").await.unwrap();
    assert_eq!(ctx.get::<ConfigMap>(&bench.key("one")).unwrap(), None, "gone at once");
    assert!(!finalizer::has(removed.as_ref(), OURS));
    assert_eq!(ctx.remove_finalizer(&removed, "example.com/theirs").await.unwrap(), None, "a deleted object has none");
}

#[tokio::test]
async fn an_object_that_took_the_name_keeps_its_finalizers() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let mut config = bench.config("one", &[]);
    config.metadata.finalizers = Some(vec![OURS.into()]);
    let first = ctx.create(config.clone()).await.unwrap();
    ctx.delete(&first).await.unwrap();
    ctx.remove_finalizer(&first, OURS).await.unwrap();
    let second = ctx.create(config).await.unwrap();
    assert_eq!(ctx.remove_finalizer(&first, OURS).await.unwrap(), None, "the first is deleted");
    let live = bench.api::<ConfigMap>().get("one").await.unwrap();
    assert_eq!((live.metadata.uid.clone(), finalizer::has(&live, OURS)), (second.metadata.uid.clone(), true));
    ctx.delete(&second).await.unwrap();
    ctx.remove_finalizer(&second, OURS).await.unwrap();
}
