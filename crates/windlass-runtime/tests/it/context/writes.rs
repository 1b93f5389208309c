use kube::api::DeleteParams;
use serde_json::json;

use super::*;
use crate::faults::{Fault, Faults, Seen};

#[tokio::test]
async fn reads_see_own_writes_at_once() {
    let bench = Bench::start().await;
    let (ctx, key) = (&bench.context, bench.key("one"));
    let cached = || ctx.get::<ConfigMap>(&key).unwrap();
    for round in 0..20 {
        let created = ctx.create(bench.config("one", &[("a", "1")])).await.unwrap();
        assert_eq!(cached().as_ref(), Some(&created), "round {round}");
        assert!(created.metadata.managed_fields.is_none());
        let patched = ctx.patch(&created, &Patch::Merge(json!({"data": {"a": "2"}}))).await.unwrap();
        assert_eq!(cached().as_ref(), Some(&patched), "round {round}");
        let mut next = patched.as_ref().clone();
        next.data = Some([("a".to_owned(), "3".to_owned())].into());
        let updated = ctx.update(next).await.unwrap();
        assert_eq!(cached().as_ref(), Some(&updated), "round {round}");
        ctx.delete(&updated).await.unwrap();
        assert_eq!(cached(), None, "round {round}");
    }
}

#[tokio::test]
async fn an_update_of_an_old_state_is_a_conflict_and_one_without_version_is_rejected() {
    let bench = Bench::start().await;
    let created = bench.context.create(bench.config("one", &[])).await.unwrap();
    bench.meddle::<ConfigMap>("one", json!({"data": {"a": "1"}})).await;
    let error = bench.context.update(created.as_ref().clone()).await.unwrap_err();
    assert!(error.is_conflict(), "{error}");
    assert!(error.to_string().contains(&format!("failed to update ConfigMap {}/one", bench.namespace())), "{error}");
    let error = bench.context.update(bench.config("one", &[])).await.unwrap_err();
    assert!(error.to_string().ends_with("it has no resourceVersion"), "{error}");
    let error = bench.context.create(bench.config("one", &[])).await.unwrap_err();
    assert!(error.is_already_exists() && !error.is_conflict(), "{error}");
}

#[tokio::test]
async fn a_delete_applies_to_an_object_not_to_its_name() {
    let bench = Bench::start().await;
    let first = bench.context.create(bench.config("one", &[])).await.unwrap();
    bench.api::<ConfigMap>().delete("one", &DeleteParams::default()).await.unwrap();
    bench.context.delete(&first).await.expect("it is already deleted");
    let second = bench.api().create(&PostParams::default(), &bench.config("one", &[])).await.unwrap();
    assert!(bench.context.delete(&first).await.unwrap_err().is_conflict());
    let still = bench.api::<ConfigMap>().get("one").await.unwrap();
    assert_eq!(still.metadata.uid, second.metadata.uid);
}

#[tokio::test]
async fn an_object_with_finalizers_is_visible_until_they_are_removed() {
    let bench = Bench::start().await;
    let mut config = bench.config("one", &[]);
    config.metadata.finalizers = Some(vec!["example.com/guard".into()]);
    let created = bench.context.create(config).await.unwrap();
    bench.context.delete(&created).await.unwrap();
    let cached = bench.context.get::<ConfigMap>(&bench.key("one")).unwrap().expect("it still exists");
    assert!(cached.metadata.deletion_timestamp.is_some());
    bench.context.patch(&cached, &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await.unwrap();
    assert_eq!(bench.context.get::<ConfigMap>(&bench.key("one")).unwrap(), None);
}

#[tokio::test]
async fn kinds_known_at_run_time_are_written_and_read_too() {
    use kube::core::{ApiResource, DynamicObject};
    let bench = Bench::start().await;
    let resource = ApiResource::erase::<Secret>(&());
    let informer = bench.context.caches().informer_with::<DynamicObject>(&resource, &Scope::all());
    informer.synced().await;
    bench.context.add_informer(&resource, &Scope::all(), informer);
    let kind = bench.context.kind_with::<DynamicObject>(&resource);
    let secret = || {
        DynamicObject::new("one", &resource)
            .within(bench.namespace())
            .data(json!({"stringData": {"a": "b"}, "data": null}))
    };
    let created = kind.create(secret()).await.unwrap();
    assert_eq!(created.data["data"], json!({"a": "Yg=="}));
    assert_eq!(kind.get(&bench.key("one")).unwrap().unwrap().metadata.uid, created.metadata.uid);
    kind.delete(&created, &DeleteParams::default()).await.unwrap();
    assert!(kind.get(&bench.key("one")).unwrap().is_none());
    let mut plain = secret();
    plain.data = json!({"data": {"a": "Yg=="}});
    bench.writes();
    for _ in 0..2 {
        kind.apply(plain.clone()).await.unwrap();
    }
    assert_eq!(bench.writes(), 1);
    let mut nowhere = bench.config("one", &[]);
    nowhere.metadata.namespace = None;
    let error = bench.context.create(nowhere).await.unwrap_err();
    assert!(error.to_string().ends_with("it has no namespace"), "{error}");
}

#[tokio::test]
async fn objects_that_the_server_names_are_created_for_their_owner() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let mut config = ConfigMap::default();
    config.metadata.generate_name = Some("child-".into());
    let created = bench.context.create_owned(&parent, config.clone()).await.unwrap();
    bench.context.create_owned(&parent, config).await.unwrap();
    assert!(created.metadata.name.as_deref().unwrap().starts_with("child-"));
    assert_eq!(bench.context.owned::<ConfigMap, _>(&parent).unwrap().len(), 2, "both are read at once");
}

#[tokio::test]
async fn events_are_about_the_object() {
    use k8s_openapi::api::events::v1::Event;
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    bench.context.event(&parent).normal("Synced", "it is up to date");
    bench.context.event(&parent).action("Checking").warning("Odd", "it may need attention");
    let events = eventually("the events exist", async || {
        let events = bench.api::<Event>().list(&Default::default()).await.unwrap().items;
        (events.len() == 2).then_some(events)
    })
    .await;
    let mut seen: Vec<_> = events
        .iter()
        .map(|event| {
            let about = event.regarding.as_ref().unwrap();
            assert_eq!((&about.uid, &about.name), (&parent.metadata.uid, &parent.metadata.name));
            assert_eq!((about.kind.as_deref(), about.api_version.as_deref()), (Some("ConfigMap"), Some("v1")));
            (event.reason.as_deref().unwrap(), event.action.as_deref().unwrap(), event.type_.as_deref().unwrap())
        })
        .collect();
    seen.sort();
    assert_eq!(seen, [("Odd", "Checking", "Warning"), ("Synced", "Reconcile", "Normal")]);
}

#[tokio::test]
async fn an_object_that_was_not_deleted_still_exists() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let bench = Bench::over(cluster, faults.client()).await;
    let created = bench.context.create(bench.config("one", &[])).await.unwrap();
    bench.context.delete_with(&created, &DeleteParams::default().dry_run()).await.unwrap();
    // A 404 that does not name the object: a proxy sent it, or the server does not serve the kind at the moment.
    faults.inject(Seen::is_write, 2, Fault::status(404));
    let error = bench.context.delete(&created).await.unwrap_err();
    assert!(!error.is_not_found(), "{error}");
    bench.context.remove_finalizer(&with_finalizer(&created), "example.com/guard").await.unwrap_err();
    let patched = bench.meddle::<ConfigMap>("one", json!({"data": {"a": "1"}})).await;
    assert_eq!(bench.context.get::<ConfigMap>(&bench.key("one")).unwrap(), Some(patched), "and is followed");
}

fn with_finalizer(config: &ConfigMap) -> ConfigMap {
    let mut config = config.clone();
    config.metadata.finalizers = Some(vec!["example.com/guard".to_owned()]);
    config
}

#[tokio::test]
async fn reads_of_the_api_server_that_are_never_answered_end() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let bench = Bench::over(cluster, faults.client()).await;
    let pod: k8s_openapi::api::core::v1::Pod =
        serde_json::from_value(serde_json::json!({"metadata": {"name": "web", "namespace": bench.namespace()}}))
            .unwrap();
    let context = bench.context.to_builder().request_timeout(std::time::Duration::from_millis(100)).build();
    faults.inject(|seen| !seen.is_watch(), usize::MAX, Fault::Hang);
    let live = context.live();
    let errors = [
        live.get::<ConfigMap>(&bench.key("a")).await.err(),
        live.list::<ConfigMap>(None, &Default::default()).await.err(),
        context.scale(&k8s_openapi::api::apps::v1::Deployment::clone(&deployment(&bench))).await.err(),
        context.logs(&pod, &Default::default()).await.err(),
        context.log_stream(&pod, &Default::default()).await.err(),
        context.create(bench.config("a", &[])).await.err(),
    ];
    for (place, error) in errors.into_iter().enumerate() {
        let error = windlass_runtime::Error::from(error.unwrap_or_else(|| panic!("request {place}"))).to_string();
        assert!(error.contains("no response within 100ms"), "{error}");
    }
}

fn deployment(bench: &Bench) -> k8s_openapi::api::apps::v1::Deployment {
    let mut deployment = k8s_openapi::api::apps::v1::Deployment::default();
    (deployment.metadata.name, deployment.metadata.namespace) = (Some("web".into()), Some(bench.namespace().into()));
    deployment
}
