//! Storage version migration.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use http::{Method, Request, Response, StatusCode};
use k8s_openapi::{
    api::core::v1::Event, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, Client, CustomResource, CustomResourceExt as _, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    client::Body,
    core::crd::merge_crds,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use windlass_runtime::{
    migration::{MigrationError, MigrationOutcome, SETTLE, migrate, migrate_settled},
    operator::Operator,
};
use windlass_testing::TestPlane;

use crate::cluster::{TestCluster, eventually};

mod v1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "migration.windlass.dev", version = "v1", kind = "Widget", namespaced)]
    pub(super) struct WidgetSpec {
        pub(super) size: u32,
    }
}

mod v2 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "migration.windlass.dev", version = "v2", kind = "Widget", namespaced)]
    pub(super) struct WidgetSpec {
        pub(super) size: u32,
    }
}

const NAME: &str = "widgets.migration.windlass.dev";
const POSITION: &str = "windlass.dev/storage-migration";

fn definition(storage: &str) -> CustomResourceDefinition {
    merge_crds(vec![v1::Widget::crd(), v2::Widget::crd()], storage).unwrap()
}

/// Stores this many widgets as v1, and makes v2 the storage version.
async fn stored_as_v1(cluster: &TestCluster, count: usize) -> Api<CustomResourceDefinition> {
    cluster.define_as(&definition("v1")).await;
    let api: Api<v1::Widget> = cluster.api();
    let create = |number: usize| {
        let api = api.clone();
        async move {
            let widget = v1::Widget::new(&format!("w{number:04}"), v1::WidgetSpec { size: 1 });
            api.create(&PostParams::default(), &widget).await.unwrap();
        }
    };
    futures_util::stream::iter(0..count).for_each_concurrent(16, create).await;
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let params = PatchParams::apply("test").force();
    let mut changed = definition("v2");
    changed.metadata.managed_fields = None;
    definitions.patch(NAME, &params, &Patch::Apply(&changed)).await.unwrap();
    eventually("both versions are stored", async || (stored(&definitions).await == ["v1", "v2"]).then_some(())).await;
    definitions
}

async fn stored(api: &Api<CustomResourceDefinition>) -> Vec<String> {
    api.get(NAME).await.unwrap().status.and_then(|status| status.stored_versions).unwrap_or_default()
}

async fn position(api: &Api<CustomResourceDefinition>) -> Option<String> {
    api.get(NAME).await.unwrap().annotations().get(POSITION).cloned()
}

/// Returns a client that does something before each PUT of a widget, and answers with what that returns.
fn intercepting<F, R>(client: Client, intercept: F) -> Client
where
    F: Fn(usize, String) -> R + Send + Sync + 'static,
    R: Future<Output = Option<StatusCode>> + Send + 'static,
{
    let status = |code: StatusCode| {
        json!({"kind": "Status", "status": "Failure", "code": code.as_u16(), "reason": "Invalid",
            "message": "on purpose"})
    };
    let intercept = Arc::new(intercept);
    intercepting_with(client, Method::PUT, move |count, request| {
        let name = request.uri().path().rsplit('/').next().unwrap_or_default().to_owned();
        let intercept = intercept.clone();
        async move { intercept(count, name).await.map(status) }
    })
}

/// Like `intercepting`, for requests with a method, and with the whole Status of the response.
fn intercepting_with<F, R>(client: Client, method: Method, intercept: F) -> Client
where
    F: Fn(usize, &Request<Body>) -> R + Send + Sync + 'static,
    R: Future<Output = Option<Value>> + Send + 'static,
{
    let (count, intercept) = (Arc::new(AtomicUsize::new(0)), Arc::new(intercept));
    let namespace = client.default_namespace().to_owned();
    let service = tower::service_fn(move |request: Request<Body>| {
        let (client, intercept, count, method) = (client.clone(), intercept.clone(), count.clone(), method.clone());
        async move {
            if request.method() == method {
                let intercepted = intercept(count.fetch_add(1, Ordering::SeqCst), &request);
                if let Some(status) = intercepted.await {
                    let mut response = Response::new(Body::from(status.to_string().into_bytes()));
                    *response.status_mut() =
                        serde_json::from_value::<u16>(status["code"].clone()).unwrap().try_into().unwrap();
                    return Ok(response);
                }
            }
            client.send(request).await
        }
    });
    Client::new(service, namespace)
}

#[tokio::test]
async fn all_objects_are_rewritten_and_the_old_version_can_be_removed() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 250).await;
    let mut without_v1 = definitions.get(NAME).await.unwrap();
    without_v1.spec.versions.retain(|version| version.name != "v1");
    let rejected = definitions.replace(NAME, &PostParams::default(), &without_v1).await.unwrap_err();
    assert!(rejected.to_string().contains("storedVersions"), "{rejected}");

    let mut reports = Vec::new();
    let outcome = migrate(&cluster.client(), NAME, |progress| reports.push(progress.clone())).await.unwrap();
    let MigrationOutcome::Migrated { version, removed, progress } = outcome else { panic!("{outcome:?}") };
    assert_eq!((version.as_str(), removed.as_slice()), ("v2", &["v1".to_owned()][..]));
    assert_eq!((progress.rewritten, progress.skipped, progress.failed), (250, 0, 0));
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0].to_string(), format!("{NAME}: 200 rewritten, 50 left"));
    assert_eq!((stored(&definitions).await, position(&definitions).await), (vec!["v2".to_owned()], None));
    let again = migrate(&cluster.client(), NAME, |_| panic!("nothing to do")).await.unwrap();
    assert_eq!(again, MigrationOutcome::NotNeeded { version: "v2".to_owned() });

    let mut without_v1 = definitions.get(NAME).await.unwrap();
    without_v1.spec.versions.retain(|version| version.name != "v1");
    definitions.replace(NAME, &PostParams::default(), &without_v1).await.unwrap();
    let left = cluster.api::<v2::Widget>().list(&ListParams::default()).await.unwrap().items;
    assert!(left.len() == 250 && left.iter().all(|widget| widget.spec.size == 1));
}

#[tokio::test]
async fn changes_and_deletions_by_others_win() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 5).await;
    let api: Api<v1::Widget> = cluster.api();
    let others = api.clone();
    let client = intercepting(cluster.client(), move |_, name| {
        let others = others.clone();
        async move {
            let change = Patch::Merge(json!({"spec": {"size": 7}}));
            match name.as_str() {
                "w0001" => drop(others.patch(&name, &PatchParams::default(), &change).await.unwrap()),
                "w0002" => drop(others.delete(&name, &Default::default()).await.unwrap()),
                _ => {}
            }
            None
        }
    });
    let outcome = migrate(&client, NAME, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped, progress.failed), (3, 2, 0));
    assert_eq!(api.get("w0001").await.unwrap().spec.size, 7, "the change was not overwritten");
    assert_eq!(stored(&definitions).await, ["v2"]);
}

#[tokio::test]
async fn only_an_outdated_resource_version_means_that_someone_else_has_written() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 6).await;
    let rejecting = intercepting_with(cluster.client(), Method::PUT, |_, request| {
        let name = request.uri().path().rsplit('/').next().unwrap_or_default();
        let status = |reason: &str, details: Value| {
            Some(json!({"kind": "Status", "status": "Failure", "code": 409, "reason": reason, "message": "on purpose",
                "details": details}))
        };
        let answer = match name {
            "w0000" => status("AlreadyExists", json!({"kind": "widgets", "name": name})),
            // The verdict of a webhook.
            "w0001" => status("Conflict", Value::Null),
            "w0003" => Some(json!({"kind": "Status", "status": "Failure", "code": 404, "reason": "NotFound",
                "message": "on purpose", "details": {"kind": "configmaps", "name": "policy"}})),
            "w0004" => Some(json!({"kind": "Status", "status": "Failure", "code": 404, "message": "on purpose"})),
            "w0002" => status("Conflict", json!({"kind": "resourcequotas", "name": "quota"})),
            _ => None,
        };
        async move { answer }
    });
    let error = migrate(&rejecting, NAME, |_| ()).await.unwrap_err();
    let MigrationError::Objects { failed, .. } = &error else { panic!("{error}") };
    assert_eq!(*failed, 5, "{error}");
    assert_eq!(stored(&definitions).await, ["v1", "v2"]);
}

#[tokio::test]
async fn an_expired_position_continues_where_the_api_server_says_and_counts_nothing_twice() {
    for says in [true, false] {
        let cluster = TestCluster::start().await;
        let definitions = stored_as_v1(&cluster, 250).await;
        let expired = Arc::new(AtomicUsize::new(0));
        let counted = expired.clone();
        let client = intercepting_with(cluster.client(), Method::GET, move |_, request| {
            let query = request.uri().query().unwrap_or_default();
            let token = query.split('&').find_map(|pair| pair.strip_prefix("continue=")).unwrap_or_default();
            let token = token.replace("%3D", "=").replace("%2B", "+").replace("%2F", "/");
            let is_first = !token.is_empty() && counted.fetch_add(1, Ordering::SeqCst) == 0;
            let meta = if says { json!({ "continue": token }) } else { json!({}) };
            let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
                "message": "on purpose", "metadata": meta});
            async move { is_first.then_some(status) }
        });
        let mut pages = Vec::new();
        let outcome =
            migrate(&client, NAME, |progress| pages.push(progress.rewritten + progress.skipped)).await.unwrap();
        let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!((progress.rewritten, progress.skipped), (250, 0));
        assert_eq!(pages, if says { vec![200, 250] } else { vec![200, 200, 250] });
        assert_eq!((expired.load(Ordering::SeqCst), stored(&definitions).await), (2, vec!["v2".to_owned()]));
    }
}

#[tokio::test]
async fn a_position_that_always_expires_is_an_error() {
    let cluster = TestCluster::start().await;
    stored_as_v1(&cluster, 210).await;
    let client = intercepting_with(cluster.client(), Method::GET, |_, request| {
        let continues = request.uri().query().unwrap_or_default().contains("continue=");
        let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
            "message": "on purpose", "metadata": {"continue": "later"}});
        async move { continues.then_some(status) }
    });
    let error = migrate(&client, NAME, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrationError::List { .. }), "{error}");
}

#[tokio::test]
async fn an_interrupted_migration_continues_and_failures_are_not_forgotten() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 450).await;
    // One object of the second page is rejected.
    let rejecting = intercepting(cluster.client(), |_, name| async move {
        (name == "w0210").then_some(StatusCode::UNPROCESSABLE_ENTITY)
    });
    let error = migrate(&rejecting, NAME, |_| ()).await.unwrap_err();
    let MigrationError::Objects { failed, objects, .. } = &error else { panic!("{error}") };
    assert_eq!((*failed, objects.len()), (1, 1));
    assert!(objects[0].contains("w0210") && objects[0].contains("on purpose"), "{objects:?}");
    assert_eq!(stored(&definitions).await, ["v1", "v2"], "not while an object may be stored as v1");
    let saved = position(&definitions).await.unwrap();
    assert!(saved.starts_with("2 "), "{saved}");

    let outcome = migrate(&cluster.client(), NAME, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped), (1, 0), "only that object");
    assert_eq!((stored(&definitions).await, position(&definitions).await), (vec!["v2".to_owned()], None));
}

#[tokio::test]
async fn a_position_that_is_not_valid_any_more_starts_again() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 3).await;
    // Of this generation, and not a token of the server.
    let old = Patch::Merge(json!({"metadata": {"annotations": {POSITION: "2 nonsense"}}}));
    let patched = definitions.patch(NAME, &PatchParams::default(), &old).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(2));
    let outcome = migrate(&cluster.client(), NAME, |_| ()).await.unwrap();
    assert!(matches!(outcome, MigrationOutcome::Migrated { progress, .. } if progress.rewritten == 3));
    assert_eq!(position(&definitions).await, None);
}

#[tokio::test]
async fn versions_are_not_removed_if_the_definition_changes_meanwhile() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 3).await;
    let api = definitions.clone();
    let client = intercepting(cluster.client(), move |count, _| {
        let api = api.clone();
        async move {
            if count == 0 {
                for storage in ["v1", "v2"] {
                    api.patch(NAME, &PatchParams::apply("test").force(), &Patch::Apply(&definition(storage)))
                        .await
                        .unwrap();
                }
            }
            None
        }
    });
    let error = migrate(&client, NAME, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrationError::DefinitionChanged { .. }), "{error}");
    assert_eq!(stored(&definitions).await, ["v1", "v2"]);
}

#[tokio::test]
async fn an_operator_migrates_its_objects_with_its_own_permissions() {
    let plane = TestPlane::builder().await;
    let definitions = stored_as_v1(&plane, 3).await;
    let operator = Operator::new("widget-operator").define::<v1::Widget>().define::<v2::Widget>();
    let operator = operator.migrate_storage_after(Duration::ZERO);
    let manifests = operator.manifests("system", "").rbac("account");
    let rules = manifests.iter().filter_map(|manifest| manifest.object.data["rules"].as_array()).flatten();
    let mut of_definitions = rules.filter(|rule| rule["apiGroups"].to_string().contains("apiextensions"));
    assert!(of_definitions.all(|rule| rule["resourceNames"] == json!([NAME])), "no rights for other CRDs");
    let running = plane.run(operator);
    eventually("v1 is not stored any more", async || (stored(&definitions).await == ["v2"]).then_some(())).await;
    let events: Api<Event> = Api::all(plane.client());
    eventually("it is reported", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        all.items.iter().any(|event| event.reason.as_deref() == Some("StorageMigrated")).then_some(())
    })
    .await;
    running.stop().await.unwrap();
}

/// Changes the CRD, but not its storage version.
async fn touch(definitions: &Api<CustomResourceDefinition>) {
    let mut definition = definitions.get(NAME).await.unwrap();
    definition.spec.names.short_names.get_or_insert_default().push("wi".to_owned());
    definitions.replace(NAME, &PostParams::default(), &definition).await.unwrap();
}

#[tokio::test]
async fn an_operator_waits_until_every_api_server_knows_the_storage_version() {
    let plane = TestPlane::builder().virtual_time().await;
    let definitions = stored_as_v1(&plane, 3).await;
    let operator = Operator::new("widget-operator").define::<v1::Widget>().define::<v2::Widget>().migrate_storage();
    let running = plane.run(operator);
    plane.advance(Duration::from_secs(50)).await;
    assert_eq!(stored(&definitions).await, ["v1", "v2"]);
    touch(&definitions).await;
    plane.advance(Duration::from_secs(50)).await;
    assert_eq!(stored(&definitions).await, ["v1", "v2"], "the time begins again with each change");
    plane.advance(Duration::from_secs(20)).await;
    eventually("v1 is not stored any more", async || (stored(&definitions).await == ["v2"]).then_some(())).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_migration_waits_until_the_definition_has_been_unchanged_for_a_while() {
    let plane = TestPlane::builder().virtual_time().await;
    let definitions = stored_as_v1(&plane, 3).await;
    let (client, changing, mut waits) = (plane.client(), definitions.clone(), Vec::new());
    plane.advance(Duration::from_secs(20)).await;
    let changes = async {
        // With ten seconds left.
        tokio::time::sleep(Duration::from_secs(30)).await;
        touch(&changing).await;
    };
    let migration = migrate_settled(&client, NAME, SETTLE, |wait| waits.push(wait.as_secs()), |_| ());
    let (outcome, ()) = tokio::join!(migration, changes);
    assert!(matches!(outcome, Ok(MigrationOutcome::Migrated { .. })), "{outcome:?}");
    let [first, second] = &*waits else { panic!("{waits:?}") };
    assert!((35..=41).contains(first) && (45..=51).contains(second), "{waits:?}");
    // Nothing is left to do, or the last change was long ago.
    migrate_settled(&client, NAME, SETTLE, |_| panic!("no wait"), |_| ()).await.unwrap();
    let storage = Patch::Apply(definition("v1"));
    definitions.patch(NAME, &PatchParams::apply("test").force(), &storage).await.unwrap();
    plane.advance(Duration::from_secs(70)).await;
    let outcome = migrate_settled(&client, NAME, SETTLE, |_| panic!("no wait"), |_| ()).await.unwrap();
    assert!(matches!(outcome, MigrationOutcome::Migrated { version, .. } if version == "v1"));
}

#[tokio::test]
async fn objects_that_cannot_be_written_are_retried_without_all_others() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 450).await;
    let (rejects, writes) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
    let (left, counted) = (rejects.clone(), writes.clone());
    // Objects of the first page.
    let client = intercepting(cluster.client(), move |_, name| {
        counted.fetch_add(1, Ordering::SeqCst);
        let rejected = left.load(Ordering::SeqCst) == 1 && matches!(&*name, "w0010" | "w0020");
        async move { rejected.then_some(StatusCode::UNPROCESSABLE_ENTITY) }
    });
    for expected in [450, 2, 2] {
        let error = migrate(&client, NAME, |_| ()).await.unwrap_err();
        let MigrationError::Objects { failed, objects, .. } = &error else { panic!("{error}") };
        assert_eq!((*failed, objects.len(), writes.swap(0, Ordering::SeqCst)), (2, 2, expected), "{error}");
        assert_eq!(stored(&definitions).await, ["v1", "v2"]);
    }
    // One is deleted, and the other can be written again.
    cluster.api::<v1::Widget>().delete("w0020", &Default::default()).await.unwrap();
    rejects.store(0, Ordering::SeqCst);
    let outcome = migrate(&client, NAME, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped, writes.load(Ordering::SeqCst)), (1, 1, 1));
    assert_eq!((stored(&definitions).await, position(&definitions).await), (vec!["v2".to_owned()], None));
    assert!(definitions.get(NAME).await.unwrap().annotations().keys().all(|key| !key.starts_with(POSITION)));
}

#[tokio::test]
async fn an_interrupted_migration_continues_at_its_page() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 250).await;
    let broken = intercepting_with(cluster.client(), Method::GET, |_, request| {
        let continues = request.uri().query().unwrap_or_default().contains("continue=");
        let status = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "on purpose"});
        async move { continues.then_some(status) }
    });
    let error = migrate(&broken, NAME, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrationError::List { .. }), "{error}");
    let outcome = migrate(&cluster.client(), NAME, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped), (50, 0));
    assert_eq!((stored(&definitions).await, position(&definitions).await), (vec!["v2".to_owned()], None));
}

#[tokio::test]
async fn very_many_objects_that_cannot_be_written_are_not_remembered() {
    let cluster = TestCluster::start().await;
    let definitions = stored_as_v1(&cluster, 250).await;
    for (most, expected) in [(100, Some("2 end")), (101, None)] {
        definitions
            .patch(NAME, &PatchParams::default(), &Patch::Merge(json!({"metadata": {"annotations": {POSITION: null}}})))
            .await
            .unwrap();
        let rejecting = intercepting(cluster.client(), move |_, name| async move {
            let number: usize = name[1..].parse().unwrap();
            (number < most).then_some(StatusCode::UNPROCESSABLE_ENTITY)
        });
        let error = migrate(&rejecting, NAME, |_| ()).await.unwrap_err();
        let MigrationError::Objects { failed, objects, .. } = &error else { panic!("{error}") };
        assert_eq!((*failed, objects.len()), (most as u64, 10));
        assert!(objects[9].contains("w0009"), "{objects:?}");
        assert_eq!(position(&definitions).await.as_deref(), expected);
    }
    let outcome = migrate(&cluster.client(), NAME, |_| ()).await.unwrap();
    assert!(matches!(outcome, MigrationOutcome::Migrated { progress, .. } if progress.rewritten == 250));
}
