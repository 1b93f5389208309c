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
    Api, Client, ResourceExt as _,
    api::{ListParams, Patch, PatchParams, PostParams},
    client::Body,
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use serde_json::{Value, json};
use windlass_runtime::{
    migration::{MigrationError, MigrationOutcome, migrate, migrate_settled},
    operator::Operator,
};
use windlass_testing::TestPlane;

use crate::cluster::{TestCluster, eventually};

const POSITION: &str = "windlass.dev/storage-migration";

/// A kind with two versions that no other test uses, and its objects.
pub(crate) struct Widgets {
    name: String,
    group: String,
    definitions: Api<CustomResourceDefinition>,
    objects: Api<DynamicObject>,
}

impl Widgets {
    /// Stores this many widgets as v1, and makes v2 the storage version.
    pub(crate) async fn stored_as_v1(cluster: &TestCluster, count: usize) -> Self {
        let group = format!("{}.windlass.dev", TestCluster::unique("migration"));
        let resource = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Widget"), "widgets");
        let widgets = Self {
            name: format!("widgets.{group}"),
            group,
            definitions: Api::all(cluster.client()),
            objects: Api::namespaced_with(cluster.client(), cluster.namespace(), &resource),
        };
        cluster.define_own(&widgets.definition("v1")).await;
        let create = |number: usize| {
            let widget = DynamicObject::new(&format!("w{number:04}"), &resource).data(json!({"spec": {"size": 1}}));
            let objects = &widgets.objects;
            async move {
                objects.create(&PostParams::default(), &widget).await.unwrap();
            }
        };
        futures_util::stream::iter(0..count).for_each_concurrent(16, create).await;
        widgets.store_as("v2").await;
        eventually("both versions are stored", async || (widgets.stored().await == ["v1", "v2"]).then_some(())).await;
        widgets
    }

    /// Returns the CRD with a storage version.
    pub(crate) fn definition(&self, storage: &str) -> CustomResourceDefinition {
        let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {
            "spec": {"type": "object", "properties": {"size": {"type": "integer"}}},
        }}});
        let version = |name: &str| json!({"name": name, "served": true, "storage": name == storage, "schema": schema});
        let definition = json!({
            "metadata": {"name": self.name},
            "spec": {
                "group": self.group, "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
                "versions": [version("v1"), version("v2")],
            },
        });
        serde_json::from_value(definition).unwrap()
    }

    /// Changes the storage version.
    pub(crate) async fn store_as(&self, version: &str) {
        let (params, changed) = (PatchParams::apply("test").force(), Patch::Apply(self.definition(version)));
        self.definitions.patch(&self.name, &params, &changed).await.unwrap();
    }

    /// Changes the CRD, but not its storage version.
    pub(crate) async fn touch(&self) {
        let names = Patch::Merge(json!({"spec": {"names": {"shortNames": ["wi"]}}}));
        self.definitions.patch(&self.name, &PatchParams::default(), &names).await.unwrap();
    }

    /// Removes v1 from the CRD.
    pub(crate) async fn remove_v1(&self) -> kube::Result<CustomResourceDefinition> {
        let mut without_v1 = self.definitions.get(&self.name).await.unwrap();
        without_v1.spec.versions.retain(|version| version.name != "v1");
        self.definitions.replace(&self.name, &PostParams::default(), &without_v1).await
    }

    pub(crate) async fn stored(&self) -> Vec<String> {
        let definition = self.definitions.get(&self.name).await.unwrap();
        definition.status.and_then(|status| status.stored_versions).unwrap_or_default()
    }

    pub(crate) async fn position(&self) -> Option<String> {
        self.definitions.get(&self.name).await.unwrap().annotations().get(POSITION).cloned()
    }
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
    let widgets = Widgets::stored_as_v1(&cluster, 250).await;
    let rejected = widgets.remove_v1().await.unwrap_err();
    assert!(rejected.to_string().contains("storedVersions"), "{rejected}");

    let mut reports = Vec::new();
    let outcome = migrate(&cluster.client(), &widgets.name, |progress| reports.push(progress.clone())).await.unwrap();
    let MigrationOutcome::Migrated { version, removed, progress } = outcome else { panic!("{outcome:?}") };
    assert_eq!((version.as_str(), removed.as_slice()), ("v2", &["v1".to_owned()][..]));
    assert_eq!((progress.rewritten, progress.skipped, progress.failed), (250, 0, 0));
    assert_eq!(reports.len(), 2);
    assert_eq!(reports[0].to_string(), format!("{}: 200 rewritten, 50 left", widgets.name));
    assert_eq!((widgets.stored().await, widgets.position().await), (vec!["v2".to_owned()], None));
    let again = migrate(&cluster.client(), &widgets.name, |_| panic!("nothing to do")).await.unwrap();
    assert_eq!(again, MigrationOutcome::NotNeeded { version: "v2".to_owned() });

    widgets.remove_v1().await.unwrap();
    let v2 = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&widgets.group, "v2", "Widget"), "widgets");
    let v2: Api<DynamicObject> = Api::namespaced_with(cluster.client(), cluster.namespace(), &v2);
    let left = v2.list(&ListParams::default()).await.unwrap().items;
    assert!(left.len() == 250 && left.iter().all(|widget| widget.data["spec"]["size"] == 1));
}

#[tokio::test]
async fn changes_and_deletions_by_others_win() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 5).await;
    let others = widgets.objects.clone();
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
    let outcome = migrate(&client, &widgets.name, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped, progress.failed), (3, 2, 0));
    let changed = widgets.objects.get("w0001").await.unwrap();
    assert_eq!(changed.data["spec"]["size"], 7, "the change was not overwritten");
    assert_eq!(widgets.stored().await, ["v2"]);
}

#[tokio::test]
async fn only_an_outdated_resource_version_means_that_someone_else_has_written() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 6).await;
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
    let error = migrate(&rejecting, &widgets.name, |_| ()).await.unwrap_err();
    let MigrationError::Objects { failed, .. } = &error else { panic!("{error}") };
    assert_eq!(*failed, 5, "{error}");
    assert_eq!(widgets.stored().await, ["v1", "v2"]);
}

#[tokio::test]
async fn an_expired_position_continues_where_the_api_server_says_and_counts_nothing_twice() {
    for says in [true, false] {
        let cluster = TestCluster::start().await;
        let widgets = Widgets::stored_as_v1(&cluster, 250).await;
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
        let outcome = migrate(&client, &widgets.name, |progress| pages.push(progress.rewritten + progress.skipped))
            .await
            .unwrap();
        let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
        assert_eq!((progress.rewritten, progress.skipped), (250, 0));
        assert_eq!(pages, if says { vec![200, 250] } else { vec![200, 200, 250] });
        assert_eq!((expired.load(Ordering::SeqCst), widgets.stored().await), (2, vec!["v2".to_owned()]));
    }
}

#[tokio::test]
async fn a_position_that_always_expires_is_an_error() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 210).await;
    let client = intercepting_with(cluster.client(), Method::GET, |_, request| {
        let continues = request.uri().query().unwrap_or_default().contains("continue=");
        let status = json!({"kind": "Status", "status": "Failure", "code": 410, "reason": "Expired",
            "message": "on purpose", "metadata": {"continue": "later"}});
        async move { continues.then_some(status) }
    });
    let error = migrate(&client, &widgets.name, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrationError::List { .. }), "{error}");
}

#[tokio::test]
async fn an_interrupted_migration_continues_and_failures_are_not_forgotten() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 450).await;
    // One object of the second page is rejected.
    let rejecting = intercepting(cluster.client(), |_, name| async move {
        (name == "w0210").then_some(StatusCode::UNPROCESSABLE_ENTITY)
    });
    let error = migrate(&rejecting, &widgets.name, |_| ()).await.unwrap_err();
    let MigrationError::Objects { failed, objects, .. } = &error else { panic!("{error}") };
    assert_eq!((*failed, objects.len()), (1, 1));
    assert!(objects[0].contains("w0210") && objects[0].contains("on purpose"), "{objects:?}");
    assert_eq!(widgets.stored().await, ["v1", "v2"], "not while an object may be stored as v1");
    let saved = widgets.position().await.unwrap();
    assert!(saved.starts_with("2 "), "{saved}");

    let outcome = migrate(&cluster.client(), &widgets.name, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped), (1, 0), "only that object");
    assert_eq!((widgets.stored().await, widgets.position().await), (vec!["v2".to_owned()], None));
}

#[tokio::test]
async fn a_position_that_is_not_valid_any_more_starts_again() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 3).await;
    // Of this generation, and not a token of the server.
    let old = Patch::Merge(json!({"metadata": {"annotations": {POSITION: "2 nonsense"}}}));
    let patched = widgets.definitions.patch(&widgets.name, &PatchParams::default(), &old).await.unwrap();
    assert_eq!(patched.metadata.generation, Some(2));
    let outcome = migrate(&cluster.client(), &widgets.name, |_| ()).await.unwrap();
    assert!(matches!(outcome, MigrationOutcome::Migrated { progress, .. } if progress.rewritten == 3));
    assert_eq!(widgets.position().await, None);
}

#[tokio::test]
async fn versions_are_not_removed_if_the_definition_changes_meanwhile() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 3).await;
    let widgets = Arc::new(widgets);
    let changing = widgets.clone();
    let client = intercepting(cluster.client(), move |count, _| {
        let widgets = changing.clone();
        async move {
            if count == 0 {
                for storage in ["v1", "v2"] {
                    widgets.store_as(storage).await;
                }
            }
            None
        }
    });
    let error = migrate(&client, &widgets.name, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrationError::DefinitionChanged { .. }), "{error}");
    assert_eq!(widgets.stored().await, ["v1", "v2"]);
}

#[tokio::test]
async fn an_operator_migrates_its_objects_with_its_own_permissions() {
    let plane = TestPlane::builder().await;
    let widgets = Widgets::stored_as_v1(&plane, 3).await;
    let operator = Operator::new("widget-operator").definition(widgets.definition("v2"));
    let operator = operator.migrate_storage_after(Duration::ZERO);
    let manifests = operator.manifests("system", "").rbac("account");
    let rules = manifests.iter().filter_map(|manifest| manifest.object.data["rules"].as_array()).flatten();
    let mut of_definitions = rules.filter(|rule| rule["apiGroups"].to_string().contains("apiextensions"));
    assert!(of_definitions.all(|rule| rule["resourceNames"] == json!([widgets.name])), "no rights for other CRDs");
    let running = plane.run(operator);
    eventually("v1 is not stored any more", async || (widgets.stored().await == ["v2"]).then_some(())).await;
    let events: Api<Event> = Api::all(plane.client());
    eventually("it is reported", async || {
        let all = events.list(&ListParams::default()).await.unwrap();
        let is_it = |event: &Event| {
            let about = event.involved_object.name.as_ref();
            event.reason.as_deref() == Some("StorageMigrated") && about == Some(&widgets.name)
        };
        all.items.iter().any(is_it).then_some(())
    })
    .await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn an_operator_waits_until_every_api_server_knows_the_storage_version() {
    let plane = TestPlane::builder().virtual_time().await;
    let widgets = Widgets::stored_as_v1(&plane, 3).await;
    let operator = Operator::new("widget-operator").definition(widgets.definition("v2"));
    let running = plane.run(operator.migrate_storage_after(Duration::from_secs(15)));
    plane.advance(Duration::from_secs(12)).await;
    assert_eq!(widgets.stored().await, ["v1", "v2"]);
    widgets.touch().await;
    plane.advance(Duration::from_secs(12)).await;
    assert_eq!(widgets.stored().await, ["v1", "v2"], "the time begins again with each change");
    plane.advance(Duration::from_secs(4)).await;
    eventually("v1 is not stored any more", async || (widgets.stored().await == ["v2"]).then_some(())).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_migration_waits_until_the_definition_has_been_unchanged_for_a_while() {
    const SETTLE: Duration = Duration::from_secs(15);
    let plane = TestPlane::builder().virtual_time().await;
    let widgets = Widgets::stored_as_v1(&plane, 3).await;
    let (client, mut waits) = (plane.client(), Vec::new());
    plane.advance(Duration::from_secs(5)).await;
    let changes = async {
        // With five seconds left.
        tokio::time::sleep(Duration::from_secs(5)).await;
        widgets.touch().await;
    };
    let migration = migrate_settled(&client, &widgets.name, SETTLE, |wait| waits.push(wait.as_secs()), |_| ());
    let (outcome, ()) = tokio::join!(migration, changes);
    assert!(matches!(outcome, Ok(MigrationOutcome::Migrated { .. })), "{outcome:?}");
    let [first, second] = &*waits else { panic!("{waits:?}") };
    assert!((7..=11).contains(first) && (8..=12).contains(second), "{waits:?}");
    // Nothing is left to do, or the last change was long ago.
    migrate_settled(&client, &widgets.name, SETTLE, |_| panic!("no wait"), |_| ()).await.unwrap();
    widgets.store_as("v1").await;
    plane.advance(Duration::from_secs(17)).await;
    let outcome = migrate_settled(&client, &widgets.name, SETTLE, |_| panic!("no wait"), |_| ()).await.unwrap();
    assert!(matches!(outcome, MigrationOutcome::Migrated { version, .. } if version == "v1"));
}

#[tokio::test]
async fn objects_that_cannot_be_written_are_retried_without_all_others() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 450).await;
    let (rejects, writes) = (Arc::new(AtomicUsize::new(1)), Arc::new(AtomicUsize::new(0)));
    let (left, counted) = (rejects.clone(), writes.clone());
    // Objects of the first page.
    let client = intercepting(cluster.client(), move |_, name| {
        counted.fetch_add(1, Ordering::SeqCst);
        let rejected = left.load(Ordering::SeqCst) == 1 && matches!(&*name, "w0010" | "w0020");
        async move { rejected.then_some(StatusCode::UNPROCESSABLE_ENTITY) }
    });
    for expected in [450, 2, 2] {
        let error = migrate(&client, &widgets.name, |_| ()).await.unwrap_err();
        let MigrationError::Objects { failed, objects, .. } = &error else { panic!("{error}") };
        assert_eq!((*failed, objects.len(), writes.swap(0, Ordering::SeqCst)), (2, 2, expected), "{error}");
        assert_eq!(widgets.stored().await, ["v1", "v2"]);
    }
    // One is deleted, and the other can be written again.
    widgets.objects.delete("w0020", &Default::default()).await.unwrap();
    rejects.store(0, Ordering::SeqCst);
    let outcome = migrate(&client, &widgets.name, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped, writes.load(Ordering::SeqCst)), (1, 1, 1));
    assert_eq!((widgets.stored().await, widgets.position().await), (vec!["v2".to_owned()], None));
    assert!(
        widgets
            .definitions
            .get(&widgets.name)
            .await
            .unwrap()
            .annotations()
            .keys()
            .all(|key| !key.starts_with(POSITION))
    );
}

#[tokio::test]
async fn an_interrupted_migration_continues_at_its_page() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 250).await;
    let broken = intercepting_with(cluster.client(), Method::GET, |_, request| {
        let continues = request.uri().query().unwrap_or_default().contains("continue=");
        let status = json!({"kind": "Status", "status": "Failure", "code": 500, "message": "on purpose"});
        async move { continues.then_some(status) }
    });
    let error = migrate(&broken, &widgets.name, |_| ()).await.unwrap_err();
    assert!(matches!(error, MigrationError::List { .. }), "{error}");
    let outcome = migrate(&cluster.client(), &widgets.name, |_| ()).await.unwrap();
    let MigrationOutcome::Migrated { progress, .. } = outcome else { panic!("{outcome:?}") };
    assert_eq!((progress.rewritten, progress.skipped), (50, 0));
    assert_eq!((widgets.stored().await, widgets.position().await), (vec!["v2".to_owned()], None));
}

#[tokio::test]
async fn very_many_objects_that_cannot_be_written_are_not_remembered() {
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, 250).await;
    for (most, expected) in [(100, Some("2 end")), (101, None)] {
        widgets
            .definitions
            .patch(
                &widgets.name,
                &PatchParams::default(),
                &Patch::Merge(json!({"metadata": {"annotations": {POSITION: null}}})),
            )
            .await
            .unwrap();
        let rejecting = intercepting(cluster.client(), move |_, name| async move {
            let number: usize = name[1..].parse().unwrap();
            (number < most).then_some(StatusCode::UNPROCESSABLE_ENTITY)
        });
        let error = migrate(&rejecting, &widgets.name, |_| ()).await.unwrap_err();
        let MigrationError::Objects { failed, objects, .. } = &error else { panic!("{error}") };
        assert_eq!((*failed, objects.len()), (most as u64, 10));
        assert!(objects[9].contains("w0009"), "{objects:?}");
        assert_eq!(widgets.position().await.as_deref(), expected);
    }
    let outcome = migrate(&cluster.client(), &widgets.name, |_| ()).await.unwrap();
    assert!(matches!(outcome, MigrationOutcome::Migrated { progress, .. } if progress.rewritten == 250));
}
