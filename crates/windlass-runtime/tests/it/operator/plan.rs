//! Plans.

use std::{sync::Arc, time::Duration};

use k8s_openapi::{
    api::core::v1::{ConfigMap, Namespace, Secret},
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use kube::{
    Api, CustomResource, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::time::Instant;
use windlass_runtime::{
    Error, Result,
    clusters::Clusters,
    context::Context,
    controller::{Action, Controller, Watch, WatchSet},
    key::ObjectKey,
    operator::{Operator, Options, Plan, PlannedAction},
    scope::Scope,
};
use windlass_testing::TestPlane;

use crate::{
    cluster::TestCluster,
    faults::{Fault, Faults},
};

mod writes;

/// A kind that no test defines.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(group = "plan.windlass.dev", version = "v1", kind = "Shelf", plural = "shelves", namespaced)]
struct ShelfSpec {
    size: u32,
}

/// A kind of which v1 is defined.
mod v1 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "plan.windlass.dev", version = "v1", kind = "Rack", namespaced)]
    pub(super) struct RackSpec {
        pub(super) size: u32,
    }
}

mod v2 {
    use super::*;

    #[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
    #[kube(group = "plan.windlass.dev", version = "v2", kind = "Rack", namespaced)]
    pub(super) struct RackSpec {
        pub(super) size: u32,
    }
}

const OURS: &str = "test.windlass.dev/plan";

fn config(name: &str, data: serde_json::Value) -> ConfigMap {
    let config = json!({"metadata": {"name": name, "labels": {"test": "plan"}}, "data": data});
    serde_json::from_value(config).unwrap()
}

fn options(cluster: &TestCluster) -> Options {
    Options { namespaces: vec![cluster.namespace().to_owned()], ..Options::default() }
}

/// Mirrors ConfigMaps into Secrets, and counts their keys in an annotation.
async fn mirror(config: Arc<ConfigMap>, ctx: Context) -> Result<Action> {
    assert!(ctx.is_plan() || config.data.as_ref().is_none_or(|data| !data.contains_key("plan-only")));
    if config.name_any() == "broken" {
        return Err(Error::new("no such volume"));
    }
    let data = config.data.clone().unwrap_or_default();
    let secret = json!({"metadata": {"name": config.name_any()}, "stringData": data});
    ctx.apply_owned(&config, serde_json::from_value::<Secret>(secret)?).await?;
    let seen: Option<Arc<Secret>> = ctx.get(&ObjectKey::of(&*config))?;
    let keys = seen.and_then(|secret| secret.data.clone()).unwrap_or_default().len();
    let count = json!({"metadata": {"annotations": {"keys": keys.to_string()}}});
    ctx.patch(&config, &Patch::Merge(count)).await?;
    Ok(Action::done())
}

fn operator(cluster: &TestCluster) -> Operator {
    let controller = Controller::<ConfigMap>::new("mirror", mirror)
        .owns::<Secret>()
        .cleans_up(OURS)
        .scope(Scope::namespace(cluster.namespace()).labels("test=plan"));
    Operator::new("plan-operator").controller(controller)
}

async fn planned(cluster: &TestCluster) -> Plan {
    operator(cluster).plan(cluster.client(), options(cluster)).await.unwrap()
}

/// Returns everything in the namespace of the test.
async fn contents(cluster: &TestCluster) -> serde_json::Value {
    let configs = cluster.api::<ConfigMap>().list(&ListParams::default().labels("test=plan")).await.unwrap().items;
    let secrets = cluster.api::<Secret>().list(&ListParams::default()).await.unwrap().items;
    json!([configs, secrets])
}

#[tokio::test]
async fn a_plan_shows_every_write_and_changes_nothing() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({"color": "red", "size": "1"}))).await;
    cluster.create(config("broken", json!({}))).await;
    let before = contents(&cluster).await;
    let plan = planned(&cluster).await;
    assert_eq!(contents(&cluster).await, before, "nothing was written");
    assert_eq!((plan.exit_code(), plan.reconciled), (1, 2));
    let text = plan.to_text();
    for expected in [
        "~ ConfigMap ",
        "+ metadata.finalizers: [\"test.windlass.dev/plan\"]",
        // The read saw the planned Secret, with the keys that the API server derived.
        "+ metadata.annotations.keys: \"2\"",
        "+ Secret ",
        "(controller mirror)",
        "+ data.color: \"(hidden)\"",
        "no such volume",
        "2 reconciled: 1 to create, 2 to update, 0 to delete, 0 to call, 1 failed",
    ] {
        assert!(text.contains(expected), "{expected} in {text}");
    }
    assert!(!text.contains("cmVk"), "no contents of Secrets: {text}");
    let json = plan.to_json();
    assert_eq!(json["problems"][0]["controller"], "mirror", "{json}");
}

#[tokio::test]
async fn an_operator_that_has_done_its_work_has_nothing_to_plan() {
    let cluster = TestCluster::start().await;
    let created = cluster.create(config("a", json!({"color": "red"}))).await;
    let plan = planned(&cluster).await;
    assert_eq!(plan.exit_code(), 2, "{}", plan.to_text());
    // The same operator does what it has planned.
    let running = cluster.run_as_admin(operator(&cluster));
    cluster.expect::<ConfigMap>("a").to("be counted", |config| config.annotations().contains_key("keys")).await;
    running.stop().await.unwrap();
    let plan = planned(&cluster).await;
    assert_eq!((plan.exit_code(), plan.reconciled), (0, 1), "{}", plan.to_text());

    // Fields that another version of the operator would write.
    let api: Api<ConfigMap> = cluster.api();
    let patch = Patch::Merge(json!({"data": {"color": "blue"}}));
    api.patch(&created.name_any(), &PatchParams::default(), &patch).await.unwrap();
    let plan = planned(&cluster).await;
    let changes: Vec<_> = plan.changes.iter().map(|change| (&change.action, change.kind.as_str())).collect();
    assert_eq!(changes, [(&PlannedAction::Update, "Secret")], "{}", plan.to_text());
    assert_eq!(plan.changes[0].fields[0].path, "data.color");

    // An object that is being deleted is not cleaned up.
    api.delete("a", &DeleteParams::default()).await.unwrap();
    let plan = planned(&cluster).await;
    assert_eq!((plan.exit_code(), plan.reconciled), (0, 0), "{}", plan.to_text());
    assert!(plan.to_text().contains("1 object is being deleted; a plan does not clean up"), "{}", plan.to_text());
    api.patch("a", &PatchParams::default(), &Patch::Merge(json!({"metadata": {"finalizers": null}}))).await.unwrap();
}

#[tokio::test]
async fn later_controllers_see_the_objects_that_earlier_ones_would_create() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({"next": "b"}))).await;
    let chain = async |config: Arc<ConfigMap>, ctx: Context| {
        let next = config.data.as_ref().and_then(|data| data.get("next"));
        if let Some(next) = next {
            let next = json!({"metadata": {"name": next, "namespace": config.namespace(), "labels": {"test": "plan"}}});
            ctx.apply(serde_json::from_value::<ConfigMap>(next)?).await?;
        }
        Ok(Action::done())
    };
    let mark = async |config: Arc<ConfigMap>, ctx: Context| {
        ctx.patch(&config, &Patch::Merge(json!({"data": {"marked": "yes"}}))).await?;
        let live: Option<ConfigMap> = ctx.live().get(&ObjectKey::of(&*config)).await?;
        assert_eq!(live.unwrap().data.unwrap()["marked"], "yes");
        // Gone, and created again.
        if config.name_any() == "a" {
            ctx.delete(&config).await?;
            assert!(ctx.live().get::<ConfigMap>(&ObjectKey::of(&*config)).await?.is_none());
        }
        Ok(Action::done())
    };
    let scope = || Scope::namespace(cluster.namespace()).labels("test=plan");
    let operator = Operator::new("chain-operator")
        .controller(Controller::<ConfigMap>::new("chain", chain).scope(scope()))
        .controller(Controller::<ConfigMap>::new("mark", mark).scope(scope()));
    let before = contents(&cluster).await;
    let plan = operator.plan(cluster.client(), options(&cluster)).await.unwrap();
    assert_eq!(contents(&cluster).await, before);
    let changes: Vec<_> = plan.changes.iter().map(|change| (&change.action, change.name.as_str())).collect();
    assert_eq!(changes, [(&PlannedAction::Create, "b"), (&PlannedAction::Delete, "a")], "{}", plan.to_text());
    assert!(plan.to_text().contains("+ data.marked: \"yes\""), "{}", plan.to_text());
    assert!(plan.problems.is_empty(), "{}", plan.to_text());
}

#[tokio::test]
async fn objects_in_a_planned_namespace_are_planned_too() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let spread = async |config: Arc<ConfigMap>, ctx: Context| {
        let namespace = format!("{}-more", config.namespace().unwrap_or_default());
        ctx.apply(serde_json::from_value::<Namespace>(json!({"metadata": {"name": namespace}}))?).await?;
        let copy = json!({"metadata": {"name": "copy", "namespace": namespace}, "data": {"x": "1"}});
        ctx.apply(serde_json::from_value::<ConfigMap>(copy)?).await?;
        Ok(Action::done())
    };
    let controller =
        Controller::<ConfigMap>::new("spread", spread).scope(Scope::namespace(cluster.namespace()).labels("test=plan"));
    let plan = Operator::new("spread-operator")
        .controller(controller)
        .plan(cluster.client(), options(&cluster))
        .await
        .unwrap();
    let changes: Vec<_> = plan.changes.iter().map(|change| (change.kind.as_str(), change.name.as_str())).collect();
    assert_eq!(changes[0].0, "Namespace", "{}", plan.to_text());
    assert_eq!(changes[1], ("ConfigMap", "copy"), "{}", plan.to_text());
    let left: Api<Namespace> = Api::all(cluster.client());
    assert!(left.get_opt(&format!("{}-more", cluster.namespace())).await.unwrap().is_none());
}

/// A ConfigMap as an older version of an operator knows it.
#[derive(kube::Resource, Clone, Debug, Serialize, Deserialize)]
#[resource(inherit = ConfigMap)]
struct Sizes {
    metadata: kube::core::ObjectMeta,
    #[serde(default)]
    data: std::collections::BTreeMap<String, u32>,
}

#[tokio::test]
async fn objects_that_cannot_be_read_are_problems() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({"size": "large"}))).await;
    cluster.create(config("b", json!({}))).await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"color": "red"}});
    cluster.create(serde_json::from_value::<Secret>(secret).unwrap()).await;
    let scope = || Scope::namespace(cluster.namespace());
    let plan = async |operator: Operator| operator.plan(cluster.client(), options(&cluster)).await.unwrap();
    let operator = || Operator::new("size-operator");
    let primary = Controller::<Sizes>::new("sizes", async |_, _| Ok(Action::done())).scope(scope().labels("test=plan"));
    let plan_of_primary = plan(operator().controller(primary)).await;
    let text = plan_of_primary.to_text();
    assert_eq!((plan_of_primary.exit_code(), plan_of_primary.reconciled), (1, 1), "{text}");
    let [problem] = &*plan_of_primary.problems else { panic!("{text}") };
    let key = format!("{}/a", cluster.namespace());
    assert_eq!((&*problem.controller, problem.object.as_ref()), ("sizes", Some(&key)));
    assert!(problem.message.starts_with(&format!("failed to read ConfigMap {key}: a field is missing")), "{problem:?}");

    // A kind that the controller only watches.
    let watching = Controller::<Secret>::new("secrets", async |_, _| Ok(Action::done())).scope(scope());
    let sizes = Watch::<Sizes>::new().scope(scope().labels("test=plan")).map(|_, _| Vec::new());
    let plan_of_other = plan(operator().controller(watching.source(sizes))).await;
    assert_eq!((plan_of_other.exit_code(), plan_of_other.problems.len()), (1, 1), "{}", plan_of_other.to_text());
}

#[tokio::test]
async fn a_missing_permission_to_list_is_a_problem_at_once() {
    let plane = TestPlane::builder().virtual_time().await;
    plane.create(config("a", json!({}))).await;
    for plural in ["configmaps", "secrets"] {
        let faults = Faults::around(plane.client());
        faults.inject(move |seen| seen.is_list(plural), usize::MAX, Fault::status(403));
        let began = Instant::now();
        let plan = operator(&plane).plan(faults.client(), options(&plane)).await.unwrap();
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        assert_eq!((plan.exit_code(), plan.reconciled), (1, 0), "{}", plan.to_text());
        let expected =
            format!("! all objects (controller mirror): failed to list {plural}: the server responded with 403");
        assert!(plan.to_text().contains(&expected), "{}", plan.to_text());
    }
}

#[tokio::test]
async fn reconciles_of_a_plan_read_the_kinds_that_they_add_to_a_set() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let secret = json!({"metadata": {"name": "s", "labels": {"test": "plan"}}});
    cluster.create(serde_json::from_value::<Secret>(secret).unwrap()).await;
    let (watches, scope) = (WatchSet::new(), Scope::namespace(cluster.namespace()).labels("test=plan"));
    let (own, within) = (watches.clone(), scope.clone());
    let count = move |config: Arc<ConfigMap>, ctx: Context| {
        let (own, within) = (own.clone(), within.clone());
        async move {
            own.add("secrets", Watch::<Secret>::new().scope(within).map(|_, _| Vec::new()));
            own.synced().await?;
            let count = json!({"data": {"secrets": ctx.list::<Secret>()?.len().to_string()}});
            ctx.patch(&config, &Patch::Merge(count)).await?;
            Ok(Action::done())
        }
    };
    let controller = Controller::<ConfigMap>::new("count", count).scope(scope).source(&watches);
    let operator = Operator::new("count-operator").controller(controller);
    let plan = operator.plan(cluster.client(), options(&cluster)).await.unwrap();
    assert_eq!(plan.exit_code(), 2, "{}", plan.to_text());
    assert!(plan.to_text().contains("+ data.secrets: \"1\""), "{}", plan.to_text());
    assert_eq!(watches.names(), [""; 0], "it ends with the plan");
}

#[tokio::test]
async fn generated_names_in_a_planned_namespace_are_different() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let spread = async |config: Arc<ConfigMap>, ctx: Context| {
        let namespace = format!("{}-new", config.namespace().unwrap_or_default());
        ctx.apply(serde_json::from_value::<Namespace>(json!({"metadata": {"name": namespace}}))?).await?;
        let copy = |meta| serde_json::from_value::<ConfigMap>(json!({"metadata": meta}));
        for _ in 0..2 {
            ctx.create(copy(json!({"generateName": "copy-", "namespace": namespace}))?).await?;
        }
        let error = ctx.create(copy(json!({"namespace": namespace}))?).await.unwrap_err();
        assert!(error.status().is_some_and(|status| status.message.contains("name or generateName is required")));
        Ok(Action::done())
    };
    let controller =
        Controller::<ConfigMap>::new("spread", spread).scope(Scope::namespace(cluster.namespace()).labels("test=plan"));
    let operator = Operator::new("spread-operator").controller(controller);
    let plan = operator.plan(cluster.client(), options(&cluster)).await.unwrap();
    assert!(plan.problems.is_empty(), "{}", plan.to_text());
    let names: Vec<_> = plan.changes[1..].iter().map(|change| &*change.name).collect();
    assert_eq!(names, ["copy-planned-1", "copy-planned-2"], "{}", plan.to_text());
}

#[tokio::test]
async fn dry_runs_of_the_program_are_not_part_of_the_plan() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let check = async |config: Arc<ConfigMap>, ctx: Context| {
        // The state that the plan would leave is not stored, so that the API server could not evaluate it.
        ctx.patch(&config, &Patch::Merge(json!({"data": {"marked": "yes"}}))).await?;
        let new = json!({"metadata": {"name": "new", "namespace": config.namespace()}});
        let new = ctx.create(serde_json::from_value::<ConfigMap>(new)?).await?;
        let config = ctx.get::<ConfigMap>(&ObjectKey::of(&*config))?.ok_or_else(|| Error::new("it is gone"))?;
        let dry = ctx.dry_run();
        dry.delete(&config).await?;
        dry.delete(&new).await?;
        let namespace = config.namespace().unwrap_or_default();
        dry.delete_all::<ConfigMap>(&namespace, &Default::default()).await?;
        let mut changed = ConfigMap::clone(&config);
        changed.data = Some([("dry".to_owned(), "run".to_owned())].into());
        assert_eq!(dry.update(changed).await?.data.as_ref().map(|data| &*data["dry"]), Some("run"));
        dry.apply_owned(&config, serde_json::from_value::<Secret>(json!({"metadata": {"name": "s"}}))?).await?;
        for known in [&config, &new] {
            let live = ctx.live().get::<ConfigMap>(&ObjectKey::of(&**known)).await?;
            assert_eq!(live.expect("it is not deleted").data, known.data);
        }
        Ok(Action::done())
    };
    let controller = Controller::<ConfigMap>::new("check", check)
        .owns::<Secret>()
        .scope(Scope::namespace(cluster.namespace()).labels("test=plan"));
    let operator = Operator::new("check-operator").controller(controller);
    let plan = operator.plan(cluster.client(), options(&cluster)).await.unwrap();
    assert!(plan.problems.is_empty(), "{}", plan.to_text());
    let changes: Vec<_> = plan.changes.iter().map(|change| (change.action.name(), &*change.name)).collect();
    assert_eq!(changes, [("update", "a"), ("create", "new")], "{}", plan.to_text());
}

/// Creates a shelf for each ConfigMap, and notes the shelf's size in the ConfigMap of that name.
fn with_shelves(cluster: &TestCluster) -> Operator {
    let build = async |config: Arc<ConfigMap>, ctx: Context| {
        let others = ctx.kind::<Shelf>().list()?.len();
        let mut shelf = Shelf::new(&config.name_any(), ShelfSpec { size: 3 });
        shelf.metadata.namespace = config.namespace();
        ctx.apply_owned(&config, shelf).await?;
        assert!(ctx.live().get::<Shelf>(&ObjectKey::of(&*config)).await?.is_some());
        assert_eq!(ctx.kind::<Shelf>().list()?.len(), others + 1, "caches show planned objects");
        Ok(Action::done())
    };
    let measure = async |shelf: Arc<Shelf>, ctx: Context| {
        let size = json!({"metadata": {"name": shelf.name_any(), "namespace": shelf.namespace()},
            "data": {"size": shelf.spec.size.to_string()}});
        ctx.apply(serde_json::from_value::<ConfigMap>(size)?).await?;
        Ok(Action::done())
    };
    let scope = || Scope::namespace(cluster.namespace());
    let builder = Controller::<ConfigMap>::new("build", build).scope(scope().labels("test=plan")).owns::<Shelf>();
    Operator::new("shelf-operator")
        .define::<Shelf>()
        .controller(builder)
        .controller(Controller::<Shelf>::new("measure", measure).scope(scope()))
}

#[tokio::test]
async fn kinds_whose_crd_is_planned_too_have_the_objects_of_the_plan() {
    let cluster = TestCluster::start().await;
    cluster.create(config("a", json!({}))).await;
    let plan = with_shelves(&cluster).plan(cluster.client(), options(&cluster)).await.unwrap();
    assert_eq!(plan.exit_code(), 1, "without the CRD: {}", plan.to_text());
    assert!(
        plan.to_text().contains("shelves.plan.windlass.dev is not served (hint: --install-crds"),
        "{}",
        plan.to_text()
    );

    let installing = Options { install_crds: true, ..options(&cluster) };
    let plan = with_shelves(&cluster).plan(cluster.client(), installing).await.unwrap();
    let text = plan.to_text();
    assert_eq!(plan.exit_code(), 2, "{text}");
    let changes: Vec<_> = plan.changes.iter().map(|one| (one.action.name(), &*one.kind, &*one.name)).collect();
    let crd = ("create", "CustomResourceDefinition", "shelves.plan.windlass.dev");
    assert_eq!(changes, [crd, ("create", "Shelf", "a"), ("update", "ConfigMap", "a")], "{text}");
    assert!(text.contains("+ data.size: \"3\""), "{text}");
    assert!(text.contains("note: shelves.plan.windlass.dev does not exist yet"), "{text}");
    let definitions = Api::<CustomResourceDefinition>::all(cluster.client());
    assert!(definitions.get_opt("shelves.plan.windlass.dev").await.unwrap().is_none(), "nothing was written");
}

#[tokio::test]
async fn a_version_that_the_plan_adds_to_a_crd_is_not_a_problem() {
    let cluster = TestCluster::start().await;
    cluster.define::<v1::Rack>().await;
    let next = || {
        let controller = Controller::<v2::Rack>::new("next", async |_, _| Ok(Action::done()));
        let operator = Operator::new("rack-operator").define::<v1::Rack>().define::<v2::Rack>();
        operator.controller(controller.scope(Scope::namespace(cluster.namespace())))
    };
    let installing = Options { install_crds: true, ..options(&cluster) };
    let plan = next().plan(cluster.client(), installing).await.unwrap();
    let text = plan.to_text();
    assert_eq!((plan.exit_code(), plan.changes.len()), (2, 1), "{text}");
    let note = "note: controller next: its version of racks.plan.windlass.dev is not served yet";
    assert!(text.contains(note), "{text}");
    assert_eq!(next().plan(cluster.client(), options(&cluster)).await.unwrap().exit_code(), 1, "without the CRD");
}

#[tokio::test]
async fn a_plan_says_that_it_leaves_out_other_clusters() {
    let cluster = TestCluster::start().await;
    let clusters = Clusters::new(|_| Operator::new("member-operator"));
    let plan = operator(&cluster).clusters(clusters).plan(cluster.client(), options(&cluster)).await.unwrap();
    assert_eq!((plan.exit_code(), plan.notes.len()), (0, 1), "{}", plan.to_text());
    assert!(plan.to_text().contains("note: only the home cluster is planned"), "{}", plan.to_text());
}
