//! Dry runs, validation of fields, deletion of many, and contexts of one namespace.

use k8s_openapi::api::core::v1::Pod;
use kube::{
    api::{DeleteParams, ValidationDirective},
    core::DynamicObject,
};
use serde_json::json;
use windlass_runtime::{cache::parse_selector, context::Desired};

use super::*;

#[tokio::test]
async fn a_dry_run_changes_neither_the_server_nor_the_cache() {
    let bench = Bench::start().await;
    let (ctx, dry) = (&bench.context, bench.context.dry_run());
    assert!(dry.is_dry_run() && !ctx.is_dry_run());
    let kept = ctx.create(bench.config("kept", &[("a", "1")])).await.unwrap();
    let parent = bench.parent("parent").await;

    let created = dry.create(bench.config("new", &[])).await.unwrap();
    assert!(created.metadata.uid.is_some(), "the server has answered");
    assert!(dry.get::<ConfigMap>(&bench.key("new")).unwrap().is_none());
    let mut changed = kept.as_ref().clone();
    changed.data = Some([("a".to_owned(), "2".to_owned())].into());
    assert_eq!(dry.update(changed.clone()).await.unwrap().data, changed.data);
    dry.patch(&kept, &Patch::Merge(json!({"data": {"a": "3"}}))).await.unwrap();
    dry.apply(bench.config("kept", &[("a", "4")])).await.unwrap();
    dry.delete(&kept).await.unwrap();
    assert!(dry.delete_all::<ConfigMap>(bench.namespace(), &Default::default()).await.unwrap() >= 2);
    let desired = Desired::new().with(bench.config("child", &[]));
    assert_eq!(dry.apply_set(&parent, "all", &desired).await.unwrap().applied(), 1);

    let now = bench.api::<ConfigMap>().get("kept").await.unwrap();
    assert_eq!(now.metadata.resource_version, kept.metadata.resource_version);
    assert_eq!(ctx.get::<ConfigMap>(&bench.key("kept")).unwrap().unwrap().data, kept.data);
    assert!(bench.api::<ConfigMap>().get_opt("child").await.unwrap().is_none());
    // A dry run is not recorded as an apply.
    bench.writes();
    ctx.apply(bench.config("kept", &[("a", "4")])).await.unwrap();
    assert_eq!(bench.writes(), 1);
    assert_eq!(bench.api::<ConfigMap>().get("kept").await.unwrap().data.unwrap()["a"], "4");
}

#[tokio::test]
async fn a_dry_run_rejects_commands_and_records_no_events() {
    let bench = Bench::start().await;
    let dry = bench.context.dry_run();
    let parent = bench.parent("parent").await;
    let pod = Pod { metadata: parent.metadata.clone(), ..Pod::default() };
    bench.writes();
    let error = dry.exec(&pod, ["rm", "-r", "/"]).run().await.unwrap_err();
    let expected = format!("failed to run a command in Pod {}/parent: a dry run cannot do this", bench.namespace());
    assert_eq!(error.to_string(), expected);
    dry.event(&parent).normal("Tried", "It would work.");
    bench.context.recorder().flush().await;
    assert_eq!(bench.writes(), 0);
    // Something that is gone already needs no deletion, in a dry run either.
    let gone = bench.context.create(bench.config("gone", &[])).await.unwrap();
    bench.context.delete(&gone).await.unwrap();
    dry.delete(&gone).await.unwrap();
}

#[tokio::test]
async fn unknown_fields_are_rejected_on_request() {
    let bench = Bench::start().await;
    let strict = bench.context.validating_fields(&ValidationDirective::Strict);
    let resource = kube::core::ApiResource::erase::<ConfigMap>(&());
    let mut typo = DynamicObject::new("typo", &resource).within(bench.namespace());
    typo.data = json!({"data": {"a": "1"}, "dta": {}});
    let error = strict.kind_with::<DynamicObject>(&resource).create(typo.clone()).await.unwrap_err();
    assert!(error.status().is_some_and(|status| status.message.contains("unknown field")), "{error:?}");
    let error = strict.kind_with::<DynamicObject>(&resource).apply(typo.clone()).await.unwrap_err();
    assert!(error.status().is_some_and(|status| status.message.contains("dta")), "{error:?}");
    bench.context.kind_with::<DynamicObject>(&resource).create(typo).await.unwrap();
}

#[tokio::test]
async fn many_objects_are_deleted_by_one_request_and_are_gone_from_the_cache() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    for (name, app) in [("a", "web"), ("b", "web"), ("c", "db"), ("held", "web")] {
        let mut config = bench.config(name, &[]);
        config.metadata.labels = Some([("app".to_owned(), app.to_owned())].into());
        config.metadata.finalizers = (name == "held").then(|| vec!["example.com/held".to_owned()]);
        ctx.create(config).await.unwrap();
    }
    bench.writes();
    let web = parse_selector("app=web").unwrap();
    assert_eq!(ctx.delete_all::<ConfigMap>(bench.namespace(), &web).await.unwrap(), 3);
    assert_eq!(bench.writes(), 1);
    let mut left: Vec<String> = ctx
        .select_in::<ConfigMap>(bench.namespace(), &parse_selector("app").unwrap())
        .unwrap()
        .iter()
        .filter_map(|config| config.metadata.name.clone())
        .collect();
    left.sort();
    assert_eq!(left, ["c", "held"]);
    let held = ctx.get::<ConfigMap>(&bench.key("held")).unwrap().unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
    let error = ctx.kind::<ConfigMap>().delete_all(None, &web, &Default::default()).await.unwrap_err();
    assert_eq!(error.to_string(), "failed to delete all ConfigMap : it has no namespace");
}

#[tokio::test]
async fn objects_that_wait_for_their_dependents_stay_in_the_cache() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let mut config = bench.config("owner", &[]);
    config.metadata.labels = Some([("app".to_owned(), "web".to_owned())].into());
    let owner = ctx.create(config).await.unwrap();
    let mut child = bench.config("child", &[]);
    // The owner waits for it.
    child.metadata.finalizers = Some(vec!["example.com/held".to_owned()]);
    ctx.apply_owned(&owner, child).await.unwrap();
    let web = parse_selector("app=web").unwrap();
    let foreground = DeleteParams::foreground();
    let deleted = ctx.kind::<ConfigMap>().delete_all(Some(bench.namespace()), &web, &foreground).await.unwrap();
    assert_eq!(deleted, 1);
    let live = bench.api::<ConfigMap>().get("owner").await.expect("it has a finalizer now");
    let cached = ctx.get::<ConfigMap>(&bench.key("owner")).unwrap().expect("the cache shows what exists");
    assert!(cached.metadata.deletion_timestamp.is_some());
    assert_eq!(cached.metadata.uid, live.metadata.uid);
}

#[tokio::test]
async fn a_context_of_a_namespace_needs_only_names() {
    let bench = Bench::start().await;
    let mut config = bench.config("one", &[("a", "1")]);
    config.metadata.namespace = None;
    let here = bench.context.in_namespace(bench.namespace());
    here.apply(config.clone()).await.unwrap();
    let one = here.get::<ConfigMap>("one").unwrap().unwrap();
    assert_eq!(one.metadata.namespace.as_deref(), Some(bench.namespace()));
    config.metadata.name = Some("two".into());
    bench.context.in_namespace_of(&one).create(config).await.unwrap();
    assert!(here.live::<ConfigMap>("two").await.unwrap().is_some());
    let names: Vec<String> =
        here.list::<ConfigMap>().unwrap().iter().filter_map(|it| it.metadata.name.clone()).collect();
    assert!(names.contains(&"one".to_owned()) && names.contains(&"two".to_owned()), "{names:?}");
    assert!(bench.context.in_namespace("elsewhere").list::<ConfigMap>().unwrap().is_empty());
    let nothing = parse_selector("none=there").unwrap();
    assert!(here.select::<ConfigMap>(&nothing).unwrap().is_empty());
    assert_eq!(here.delete_all::<ConfigMap>(&nothing).await.unwrap(), 0);
}
