use k8s_openapi::api::batch::v1::Job;
use kube::core::{ApiResource, DynamicObject, GroupVersionKind};
use windlass_runtime::{
    context::{ContextError, Desired, SET_LABEL, SET_ORDER},
    objects::{
        conditions::{Conditions, ready},
        owner::controller_reference,
        readiness::Readiness,
    },
};

use super::*;
use crate::faults::{Fault, Faults};

fn secret(name: &str) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.into());
    secret
}

async fn there(bench: &Bench) -> Vec<String> {
    let configs = bench.api::<ConfigMap>().list(&Default::default()).await.unwrap();
    let secrets = bench.api::<Secret>().list(&Default::default()).await.unwrap();
    let mut names: Vec<String> = configs.iter().filter_map(|config| config.metadata.name.clone()).collect();
    names
        .extend(secrets.iter().filter_map(|secret| secret.metadata.name.as_ref().map(|name| format!("secret {name}"))));
    names.retain(|name| name != "kube-root-ca.crt");
    names.sort();
    names
}

#[tokio::test]
async fn a_set_contains_only_desired_objects() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    let desired = Desired::new().with(bench.config("a", &[])).with(bench.config("b", &[])).with(secret("s"));
    let outcome = ctx.apply_set(&parent, "web", &desired).await.unwrap();
    assert_eq!((outcome.applied(), outcome.pruned.len(), outcome.is_ready()), (3, 0, true));
    assert_eq!(outcome.get::<Secret>().unwrap().metadata.name.as_deref(), Some("s"));
    assert!(outcome.get::<Job>().is_none());
    // Objects of another set, of no set, or of another owner are not touched.
    ctx.apply_set(&parent, "db", &Desired::new().with(bench.config("of-db", &[]))).await.unwrap();
    ctx.apply_owned(&parent, bench.config("single", &[])).await.unwrap();
    let mut stranger = bench.config("stranger", &[]);
    stranger.metadata.labels = Some([(SET_LABEL.to_owned(), "web".to_owned())].into());
    ctx.create(stranger).await.unwrap();

    bench.writes();
    assert_eq!(ctx.apply_set(&parent, "web", &desired).await.unwrap().applied(), 3);
    assert_eq!(bench.writes(), 0, "all is in place");

    let outcome = ctx.apply_set(&parent, "web", &Desired::new().with(bench.config("b", &[]))).await.unwrap();
    let mut pruned: Vec<String> = outcome.pruned.iter().map(|(kind, key)| format!("{kind} {}", key.name())).collect();
    pruned.sort();
    assert_eq!((outcome.applied(), pruned), (1, vec!["ConfigMap a".to_owned(), "Secret s".to_owned()]));
    assert_eq!(there(&bench).await, ["b", "of-db", "parent", "single", "stranger"]);
    ctx.apply_set(&parent, "web", &Desired::new()).await.unwrap();
    assert_eq!(there(&bench).await, ["of-db", "parent", "single", "stranger"]);
}

#[tokio::test]
async fn any_text_names_a_set() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let set = "Meine Übersicht";
    bench.context.apply_set(&parent, set, &Desired::new().with(bench.config("a", &[]))).await.unwrap();
    assert_eq!(there(&bench).await, ["a", "parent"]);
    bench.context.apply_set(&parent, set, &Desired::new()).await.unwrap();
    assert_eq!(there(&bench).await, ["parent"]);
}

#[tokio::test]
async fn nothing_is_pruned_if_something_could_not_be_applied() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    ctx.apply_set(&parent, "web", &Desired::new().with(bench.config("old", &[]))).await.unwrap();
    ctx.create(bench.config("stranger", &[])).await.unwrap();
    let desired = Desired::new()
        .with(bench.config("stranger", &[]))
        .with(bench.config("Not A Name", &[]))
        .with(bench.config("new", &[]));
    let error = ctx.apply_set(&parent, "web", &desired).await.unwrap_err();
    assert!(error.is_not_ours(), "{error}");
    let ContextError::Set { total, failures, .. } = &error else { panic!("{error}") };
    assert_eq!((*total, failures.len()), (3, 2), "{error}");
    assert_eq!(there(&bench).await, ["new", "old", "parent", "stranger"], "the good one is applied, the old one kept");
}

/// Marks a gadget as ready or not, as its controller would.
async fn report(bench: &Bench, name: &str, holds: bool) {
    let mut status = GadgetStatus::default();
    status.set_condition(ready(holds).reason("Tested").message("as the test wants"));
    let patch = Patch::Merge(serde_json::json!({ "status": status }));
    let written = bench.api::<Gadget>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
    bench.seen(name, &written).await;
}

#[tokio::test]
async fn an_object_waits_until_those_before_it_are_ready() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    let desired = || {
        let mut desired = Desired::new().with(bench.config("settings", &[]));
        let database = desired.add(bench.gadget("database", 1));
        let web = desired.add(bench.config("web", &[]));
        desired.after(web, [database]);
        desired.then(secret("last"))
    };
    let outcome = ctx.apply_set(&parent, "all", &desired()).await.unwrap();
    assert_eq!((outcome.applied(), outcome.is_ready()), (2, false));
    let states: Vec<String> = outcome.children.iter().map(|child| child.readiness().to_string()).collect();
    let waits = "waits for Gadget database".to_owned();
    assert_eq!(states, ["ready".to_owned(), "no conditions are reported yet".to_owned(), waits.clone(), waits]);
    assert_eq!(
        outcome.condition(),
        ready(false).reason("InProgress").message(
            "Gadget database: no conditions are reported yet; ConfigMap web: waits for Gadget database; \
         Secret last: waits for Gadget database",
        )
    );
    assert_eq!(there(&bench).await, ["parent", "settings"]);

    report(&bench, "database", false).await;
    let outcome = ctx.apply_set(&parent, "all", &desired()).await.unwrap();
    assert_eq!(outcome.children[1].readiness(), Readiness::InProgress("as the test wants".into()));
    report(&bench, "database", true).await;
    let outcome = ctx.apply_set(&parent, "all", &desired()).await.unwrap();
    assert_eq!((outcome.applied(), outcome.is_ready()), (4, true));
    assert_eq!(outcome.condition(), ready(true).reason("AllReady").message("4 objects are ready"));
    assert_eq!(there(&bench).await, ["parent", "secret last", "settings", "web"]);
    let order = |meta: &kube::core::ObjectMeta| meta.annotations.as_ref().and_then(|all| all.get(SET_ORDER).cloned());
    assert_eq!(order(&ctx.get::<ConfigMap>(&bench.key("web")).unwrap().unwrap().metadata).as_deref(), Some("1"));
    assert_eq!(order(&ctx.get::<Secret>(&bench.key("last")).unwrap().unwrap().metadata).as_deref(), Some("2"));

    // If an object is no longer ready, the others and their possible dependencies are left unchanged.
    report(&bench, "database", false).await;
    bench.writes();
    let fewer = Desired::new().with(bench.gadget("database", 1)).then(bench.config("web", &[("changed", "yes")]));
    let outcome = ctx.apply_set(&parent, "all", &fewer).await.unwrap();
    let names = |objects: &[(String, ObjectKey)]| -> Vec<String> {
        objects.iter().map(|(_, key)| key.name().to_owned()).collect()
    };
    assert_eq!((outcome.applied(), names(&outcome.pruned), bench.writes()), (1, vec!["last".to_owned()], 1));
    assert!(names(&outcome.deleting).contains(&"settings".to_owned()), "{:?}", outcome.deleting);
    assert!(bench.api::<ConfigMap>().get("settings").await.unwrap().metadata.deletion_timestamp.is_none());
    let web = ctx.get::<ConfigMap>(&bench.key("web")).unwrap().unwrap();
    assert!(web.data.as_ref().is_none_or(|data| data.is_empty()), "it is left as it is");
    if let Some(last) = ctx.get::<Secret>(&bench.key("last")).unwrap() {
        // As the garbage collector does, which not every server of this test runs.
        ctx.remove_finalizer(&last, "foregroundDeletion").await.unwrap();
    }
    report(&bench, "database", true).await;
    let outcome = ctx.apply_set(&parent, "all", &fewer).await.unwrap();
    assert_eq!((outcome.applied(), names(&outcome.pruned)), (2, vec!["settings".to_owned()]));
}

#[tokio::test]
async fn a_leftover_that_nothing_needs_is_deleted_while_others_wait() {
    let bench = Bench::with_gadgets().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    // The old database holds a resource that the new one needs to become ready.
    let old = Desired::new().with(bench.gadget("old", 1));
    ctx.apply_set(&parent, "all", &old).await.unwrap();
    let new = || Desired::new().with(bench.gadget("new", 1)).then(bench.config("web", &[]));
    let outcome = ctx.apply_set(&parent, "all", &new()).await.unwrap();
    assert_eq!((outcome.applied(), outcome.pruned.len(), outcome.is_ready()), (1, 1, false));
    assert!(bench.api::<Gadget>().get_opt("old").await.unwrap().is_none());
    report(&bench, "new", true).await;
    assert!(ctx.apply_set(&parent, "all", &new()).await.unwrap().is_ready());
}

#[tokio::test]
async fn a_program_can_decide_when_an_object_is_ready() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let apply = async |done: &str| {
        let mut desired = Desired::new();
        let first = desired.add(bench.config("first", &[("done", done)]));
        desired.ready_when(first, |config: &ConfigMap| config.data.as_ref().is_some_and(|data| data["done"] == "yes"));
        let second = desired.add(secret("second"));
        desired.after(second, [first]);
        let outcome = bench.context.apply_set(&parent, "all", &desired).await.unwrap();
        (outcome.child(first).unwrap().readiness(), outcome.child(second).unwrap().object::<Secret>().is_some())
    };
    assert_eq!(apply("no").await, (Readiness::InProgress("it is not ready yet".into()), false));
    assert_eq!(apply("yes").await, (Readiness::Ready, true));
}

#[tokio::test]
async fn objects_are_deleted_before_those_they_depend_on() {
    let bench = Bench::start().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    let mut last = secret("last");
    last.metadata.finalizers = Some(vec!["example.com/slow".to_owned()]);
    let desired = Desired::new().with(bench.config("first", &[])).then(bench.config("middle", &[])).then(last);
    assert_eq!(ctx.apply_set(&parent, "all", &desired).await.unwrap().applied(), 3);

    let outcome = ctx.delete_set(&parent, "all").await.unwrap();
    let names = |objects: &[(String, ObjectKey)]| {
        let mut names: Vec<String> = objects.iter().map(|(_, key)| key.name().to_owned()).collect();
        names.sort();
        names
    };
    assert_eq!((names(&outcome.pruned), outcome.is_gone()), (vec!["last".to_owned()], false));
    assert_eq!(names(&outcome.deleting), ["first", "last", "middle"]);
    let outcome = ctx.delete_set(&parent, "all").await.unwrap();
    assert!(outcome.pruned.is_empty(), "the last one is still there");

    let gone = ctx.get::<Secret>(&bench.key("last")).unwrap().unwrap();
    let gone = ctx.remove_finalizer(&gone, "example.com/slow").await.unwrap();
    // As the garbage collector does, which not every server of this test runs.
    ctx.remove_finalizer(&gone.unwrap(), "foregroundDeletion").await.unwrap();
    let outcome = ctx.delete_set(&parent, "all").await.unwrap();
    let deleted: Vec<&str> = outcome.pruned.iter().map(|(_, key)| key.name()).collect();
    assert!(deleted == ["middle"] || deleted == ["middle", "first"], "{deleted:?}");
}

/// A ServiceAccount as an older version of an operator knows it.
#[derive(kube::Resource, Clone, Debug, Serialize, Deserialize)]
#[resource(inherit = ServiceAccount)]
struct OldAccount {
    metadata: kube::core::ObjectMeta,
    level: u32,
}

#[tokio::test]
async fn children_that_are_unreadable_are_not_gone() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let bench = Bench::over(cluster, faults.client()).await;
    bench.wire::<OldAccount>().await;
    let ctx = &bench.context;
    let parent = bench.parent("parent").await;
    let account = |name: &str, owner: &ConfigMap, set: &str| {
        let mut account = ServiceAccount::default();
        account.metadata.name = Some(name.into());
        account.metadata.labels = Some([(SET_LABEL.to_owned(), set.to_owned())].into());
        account.metadata.owner_references = Some(vec![controller_reference(owner).unwrap()]);
        account
    };
    let stranger = bench.parent("stranger").await;
    for account in [account("ours", &parent, "web"), account("theirs", &stranger, "web"), account("db", &parent, "db")]
    {
        bench.api().create(&PostParams::default(), &account).await.unwrap();
    }
    let unreadable = || ctx.caches().status().iter().map(|one| one.unreadable.len()).sum::<usize>();
    // The namespace has an account of its own.
    eventually("they have arrived", async || (unreadable() >= 3).then_some(())).await;

    faults.inject(|seen| seen.path.ends_with("/serviceaccounts/ours") && !seen.is_write(), 1, Fault::status(503));
    let outcome = ctx.delete_set(&parent, "web").await.unwrap();
    assert!(outcome.pruned.is_empty() && !outcome.is_gone(), "{outcome:?}");
    let [unknown] = &*outcome.unknown else { panic!("{outcome:?}") };
    assert!(unknown.starts_with(&format!("ServiceAccount {}/ours: ", bench.namespace())), "{unknown}");
    // Their metadata is readable.
    let outcome = ctx.delete_set(&parent, "web").await.unwrap();
    assert_eq!(outcome.pruned, [("ServiceAccount".to_owned(), bench.key("ours"))]);
    assert!(outcome.is_gone(), "{outcome:?}");
    let left = bench.api::<ServiceAccount>().list(&Default::default()).await.unwrap();
    let names: Vec<&str> = left.iter().filter_map(|account| account.metadata.name.as_deref()).collect();
    assert!(names.contains(&"theirs") && names.contains(&"db") && !names.contains(&"ours"), "{names:?}");
}

#[tokio::test]
async fn children_of_a_kind_that_is_not_listed_yet_are_not_gone() {
    let cluster = TestCluster::start().await;
    let faults = Faults::around(cluster.client());
    let bench = Bench::over(cluster, faults.client()).await;
    let parent = bench.parent("parent").await;
    faults.inject(|seen| seen.path.ends_with("/serviceaccounts"), usize::MAX, Fault::Hang);
    let scope = Scope::namespace(bench.namespace());
    let informer = bench.context.caches().informer::<ServiceAccount>(&scope);
    bench.context.add_informer(&(), &scope, informer);
    let outcome = bench.context.delete_set(&parent, "web").await.unwrap();
    assert_eq!(outcome.unknown, ["ServiceAccount: the initial list is not complete"]);
    assert!(!outcome.is_gone());
}

#[tokio::test]
async fn children_of_a_kind_whose_version_is_not_served_are_gone_only_with_the_kind() {
    for other_version in [true, false] {
        let bench = Bench::start().await;
        let parent = bench.parent("parent").await;
        let group = format!("{}.windlass.dev", TestCluster::unique("set"));
        if other_version {
            let mut definition = Gadget::crd();
            definition.metadata.name = Some(format!("gadgets.{group}"));
            definition.spec.group = group.clone();
            definition.spec.versions[0].name = "v2".to_owned();
            bench.cluster.define_own(&definition).await;
        }
        let scope = Scope::namespace(bench.namespace());
        let kind = ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(&group, "v1", "Gadget"), "gadgets");
        let informer = bench.context.caches().informer_with::<DynamicObject>(&kind, &scope);
        bench.context.add_informer(&kind, &scope, informer);
        let absent = || bench.context.caches().status().iter().any(|one| one.absent);
        eventually("it is known that the version is not served", async || absent().then_some(())).await;
        let outcome = bench.context.delete_set(&parent, "web").await.unwrap();
        let unknown: Vec<String> =
            other_version.then(|| "Gadget: its version v1 is not served".to_owned()).into_iter().collect();
        assert_eq!((outcome.unknown.as_slice(), outcome.is_gone()), (&*unknown, !other_version));
    }
}

#[tokio::test]
async fn many_objects_are_applied_concurrently() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    let mut desired = Desired::new().concurrency(3);
    for number in 0..20 {
        desired.add(bench.config(&format!("c{number}"), &[]));
    }
    let outcome = bench.context.apply_set(&parent, "many", &desired).await.unwrap();
    let names: Vec<&str> = outcome.children.iter().map(|child| child.key.name()).collect();
    let expected: Vec<String> = (0..20).map(|number| format!("c{number}")).collect();
    assert_eq!(names, expected, "in the order in which they were added");
    assert_eq!(bench.context.delete_set(&parent, "many").await.unwrap().pruned.len(), 20);
}

#[tokio::test]
async fn an_object_that_is_in_a_set_twice_is_an_error() {
    let bench = Bench::start().await;
    let parent = bench.parent("parent").await;
    bench.writes();
    let mut elsewhere = bench.config("a", &[("x", "2")]);
    // The parent's namespace is the default.
    elsewhere.metadata.namespace = None;
    let twice = Desired::new().with(bench.config("a", &[("x", "1")])).with(secret("a")).with(elsewhere);
    let error = bench.context.apply_set(&parent, "web", &twice).await.unwrap_err();
    let expected = format!("failed to apply the set \"web\": ConfigMap {} is in it twice", bench.key("a"));
    assert_eq!((error.to_string(), bench.writes()), (expected, 0));
}
