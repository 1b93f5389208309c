//! Watches that come and go.

use k8s_openapi::api::core::v1::{Namespace, Secret, Service};
use kube::{
    Api, CustomResource,
    core::{ApiResource, DynamicObject},
};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use windlass_runtime::{
    context::ContextError,
    controller::{Action, Source, Watch, WatchSet},
    operator::Operator,
    scope::Scope,
};
use windlass_testing::TestPlane;

use super::*;
use crate::{
    cluster::{TestCluster, eventually},
    faults::{Fault, Faults},
};

fn labelled(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "sets".to_owned())].into());
    config
}

fn secret(name: &str) -> Secret {
    Secret { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Secret::default() }
}

/// Secrets, each of which affects the ConfigMap `a`.
fn secrets(cluster: &TestCluster) -> Source {
    let key = ObjectKey::namespaced(cluster.namespace(), "a");
    Watch::<Secret>::new().scope(Scope::namespace(cluster.namespace())).map(move |_, _| vec![key.clone()])
}

/// A controller that records how many Secrets it can read.
fn counting(cluster: &TestCluster, journal: &Journal<String>) -> Controller<ConfigMap> {
    let journal = journal.clone();
    Controller::<ConfigMap>::new("counting", move |_: Arc<ConfigMap>, ctx: Context| {
        journal.write(match ctx.list::<Secret>() {
            Ok(secrets) => secrets.len().to_string(),
            Err(_) => "unreadable".to_owned(),
        });
        async { Ok(Action::done()) }
    })
    .scope(Scope::namespace(cluster.namespace()).labels("test=sets"))
}

/// Returns whether there is an informer of Secrets, and whether it is in the metrics.
fn informer(running: &Running) -> (bool, bool) {
    let status = running.context.caches().status();
    let metrics = running.context.metrics().encode();
    (status.iter().any(|one| one.resource.plural == "secrets"), metrics.contains("secrets"))
}

fn start(cluster: &TestCluster, controller: Controller<ConfigMap>) -> Running {
    let context = context(cluster.client()).build();
    context.caches().register_metrics(context.metrics());
    Running::with(context, controller)
}

#[tokio::test]
async fn a_kind_is_watched_and_readable_while_it_is_in_the_set() {
    let cluster = TestCluster::start().await;
    let (configs, api): (Api<ConfigMap>, Api<Secret>) = (cluster.api(), cluster.api());
    create(&configs, labelled("a")).await;
    let (journal, watches) = (Journal::new(), WatchSet::new());
    let running = start(&cluster, counting(&cluster, &journal).source(&watches));
    journal.has(1).await;
    assert_eq!(journal.read(), ["unreadable"]);
    assert_eq!(informer(&running), (false, false));

    for round in 1..3 {
        assert!(watches.add("secrets", secrets(&cluster)) && !watches.add("secrets", secrets(&cluster)));
        assert_eq!(watches.names(), ["secrets"]);
        watches.synced().await.unwrap();
        create(&api, secret(&format!("s{round}"))).await;
        journal.until("the new Secret is counted", |seen| seen.last() == Some(&round.to_string())).await;
        assert_eq!(informer(&running), (true, true));

        assert!(watches.remove("secrets") && !watches.remove("secrets"));
        assert_eq!(informer(&running), (false, false));
        merge(&configs, "a", json!({"data": {"round": round.to_string()}})).await;
        journal.until("Secrets are unreadable", |seen| seen.last().is_some_and(|last| last == "unreadable")).await;
    }
    running.stop().await;
}

#[tokio::test]
async fn an_informer_that_something_else_uses_keeps_running() {
    let cluster = TestCluster::start().await;
    let (configs, api): (Api<ConfigMap>, Api<Secret>) = (cluster.api(), cluster.api());
    create(&configs, labelled("a")).await;
    let (journal, watches) = (Journal::new(), WatchSet::new());
    let running = start(&cluster, counting(&cluster, &journal).source(&watches));
    journal.has(1).await;
    for name in ["one", "two"] {
        watches.add(name, secrets(&cluster));
    }
    watches.synced().await.unwrap();
    watches.retain(|name| name == "two");
    create(&api, secret("s")).await;
    journal.until("the Secret is counted", |seen| seen.last().is_some_and(|last| last == "1")).await;
    watches.remove("two");
    assert_eq!(informer(&running), (false, false));
    running.stop().await;

    // The controller's own watch is not part of the set.
    let (journal, watches) = (Journal::new(), WatchSet::new());
    let controller = counting(&cluster, &journal).source(secrets(&cluster)).source(&watches);
    let running = start(&cluster, controller);
    journal.has(1).await;
    watches.add("secrets", secrets(&cluster));
    watches.synced().await.unwrap();
    watches.remove("secrets");
    create(&api, secret("t")).await;
    journal.until("the Secret is counted", |seen| seen.last().is_some_and(|last| last == "2")).await;
    running.stop().await;
}

#[tokio::test]
async fn a_set_begins_and_ends_with_its_controller() {
    let cluster = TestCluster::start().await;
    create(&cluster.api::<ConfigMap>(), labelled("a")).await;
    create(&cluster.api::<Secret>(), secret("s")).await;
    let (journal, watches) = (Journal::new(), WatchSet::new());
    watches.add("secrets", secrets(&cluster));
    watches.add("all", windlass_runtime::controller::Every::new(std::time::Duration::from_secs(3600)));
    let running = start(&cluster, counting(&cluster, &journal).source(&watches));
    journal.until("the Secret is counted", |seen| seen.contains(&"1".to_owned())).await;
    let caches = running.context.caches().clone();
    running.stop().await;
    assert_eq!(watches.names(), [""; 0]);
    assert!(caches.status().iter().all(|one| one.resource.plural != "secrets"));
}

/// A kind that the controller learns about.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "sets.windlass.dev", version = "v1", kind = "Gadget", namespaced)]
struct GadgetSpec {}

#[tokio::test]
async fn a_kind_that_is_not_served_yet_is_watched_as_soon_as_it_is() {
    let plane = TestPlane::builder().virtual_time().await;
    create(&plane.api::<ConfigMap>(), labelled("a")).await;
    let (journal, watches) = (Journal::new(), WatchSet::new());
    let resource = ApiResource::erase::<Gadget>(&());
    let (seen, kind) = (journal.clone(), resource.clone());
    let controller = Controller::<ConfigMap>::new("gadgets", move |_: Arc<ConfigMap>, ctx: Context| {
        let gadgets = ctx.kind_with::<DynamicObject>(&kind).list();
        seen.write(gadgets.map_or(0, |gadgets| gadgets.len()));
        async { Ok(Action::done()) }
    })
    .source(&watches)
    .scope(Scope::namespace(plane.namespace()).labels("test=sets"));
    let running = start(&plane, controller);
    journal.has(1).await;
    let key = ObjectKey::namespaced(plane.namespace(), "a");
    watches.add("gadgets", Watch::<DynamicObject>::with(resource.clone()).map(move |_, _| vec![key.clone()]));
    watches.synced().await.unwrap();
    plane.define::<Gadget>().await;
    create(&plane.api::<Gadget>(), Gadget::new("g", GadgetSpec {})).await;
    journal.until("the gadget is seen", |seen| seen.last() == Some(&1)).await;
    watches.remove("gadgets");
    running.stop().await;
}

#[tokio::test]
async fn a_kind_that_the_api_server_rejects_is_an_error_with_its_name_and_the_others_are_synced() {
    let plane = TestPlane::builder().virtual_time().await;
    create(&plane.api::<ConfigMap>(), labelled("a")).await;
    create(&plane.api::<Secret>(), secret("s")).await;
    let faults = Faults::around(plane.client());
    faults.inject(|seen| seen.is_list("services"), 1, Fault::status(403));
    let (journal, watches) = (Journal::new(), WatchSet::new());
    let context = context(faults.client()).build();
    let running = Running::with(context, counting(&plane, &journal).source(&watches));
    journal.has(1).await;
    let services = Watch::<Service>::new().scope(Scope::namespace(plane.namespace())).map(|_, _| Vec::new());
    watches.add("mine", services);
    watches.add("secrets", secrets(&plane));
    let error = watches.synced().await.unwrap_err();
    let [problem] = &*error.problems else { panic!("{error}") };
    assert!(problem.starts_with("services (watch \"mine\"): the server responded with 403 Forbidden"), "{error}");
    assert!(running.context.caches().status().iter().any(|one| one.resource.plural == "secrets" && one.synced));
    // It is permitted later.
    eventually("all are synced", async || watches.synced().await.ok()).await;
    running.stop().await;
}

#[tokio::test]
async fn failures_of_the_api_server_that_pass_are_waited_for() {
    let plane = TestPlane::builder().virtual_time().await;
    create(&plane.api::<ConfigMap>(), labelled("a")).await;
    let faults = Faults::around(plane.client());
    let (journal, watches) = (Journal::new(), WatchSet::new());
    let running = Running::with(context(faults.client()).build(), counting(&plane, &journal).source(&watches));
    journal.has(1).await;
    for fault in [Fault::status(503), Fault::status(500), Fault::status(429).retry_after(3), Fault::Refuse] {
        faults.inject(|seen| seen.is_list("services"), 2, fault.clone());
        let services = Watch::<Service>::new().scope(Scope::namespace(plane.namespace())).map(|_, _| Vec::new());
        watches.add("mine", services);
        assert_eq!(watches.synced().await, Ok(()), "{fault:?}");
        assert!(running.context.caches().status().iter().any(|one| one.resource.plural == "services" && one.synced));
        watches.remove("mine");
    }
    running.stop().await;
}

#[tokio::test]
async fn in_a_restricted_operator_kinds_known_at_run_time_are_watched_in_its_namespaces() {
    let plane = TestPlane::builder().await;
    create(&plane.api::<ConfigMap>(), labelled("a")).await;
    create(&plane.api::<Secret>(), secret("s")).await;
    let (journal, watches) = (Journal::new(), WatchSet::new().allow("", "secrets").allow_cluster("", "namespaces"));
    let kinds = [ApiResource::erase::<Secret>(&()), ApiResource::erase::<Namespace>(&())];
    let (seen, own, known) = (journal.clone(), watches.clone(), kinds.clone());
    let controller = Controller::<ConfigMap>::new("kinds", move |config: Arc<ConfigMap>, ctx: Context| {
        let (seen, own, kinds) = (seen.clone(), own.clone(), known.clone());
        async move {
            for kind in &kinds {
                own.add(&*kind.plural, Watch::<DynamicObject>::with(kind.clone()).map(|_, _| Vec::new()));
            }
            own.synced().await?;
            let names = |kind: &ApiResource| -> Result<Vec<_>, ContextError> {
                let objects = ctx.kind_with::<DynamicObject>(kind).list()?;
                Ok(objects.iter().map(|object| (object.metadata.namespace.clone(), name_of(&**object))).collect())
            };
            seen.write((names(&kinds[0])?, names(&kinds[1])?, config.metadata.namespace.clone()));
            Ok(Action::done())
        }
    })
    .scope(Scope::namespace(plane.namespace()).labels("test=sets"))
    .source(&watches);
    let operator = Operator::new("kinds-operator").controller(controller).namespaces([plane.namespace()]);
    let rules = operator.manifests("system", "").rbac("account").into_iter().flat_map(|manifest| {
        let scope = manifest.object.metadata.namespace.unwrap_or_else(|| "*".to_owned());
        let rules = manifest.object.data["rules"].as_array().cloned().unwrap_or_default();
        rules.into_iter().map(move |rule| (scope.clone(), rule["resources"].to_string()))
    });
    let rules: Vec<_> = rules.collect();
    let granted = |resource: &str| {
        let of: Vec<_> = rules.iter().filter(|(_, resources)| resources.contains(resource)).collect();
        of.iter().map(|(scope, _)| scope.clone()).collect::<Vec<_>>()
    };
    assert_eq!(granted("\"secrets\""), [plane.namespace()], "{rules:?}");
    assert_eq!(granted("\"namespaces\""), ["*"], "{rules:?}");
    // It runs with these roles.
    let running = plane.run(operator);
    journal.has(1).await;
    let (secrets, namespaces, namespace) = journal.read().remove(0);
    assert_eq!(secrets, [(namespace, "s".to_owned())]);
    assert!(namespaces.len() > 1, "{namespaces:?}");
    running.stop().await.unwrap();
}

#[tokio::test]
async fn the_generated_role_allows_what_is_declared() {
    let plane = TestPlane::builder().await;
    create(&plane.api::<ConfigMap>(), labelled("a")).await;
    create(&plane.api::<Secret>(), secret("s")).await;
    let (journal, watches) = (Journal::new(), WatchSet::new().allow("", "secrets"));
    let controller = counting(&plane, &journal).source(&watches);
    let running = plane.run(Operator::new("sets-operator").controller(controller));
    journal.has(1).await;
    watches.add("secrets", secrets(&plane));
    journal.until("the Secret is counted", |seen| seen.last().is_some_and(|last| last == "1")).await;
    running.stop().await.unwrap();
}

#[tokio::test]
async fn a_source_of_a_set_that_panics_ends_the_controller() {
    // Before the controller works, and while it does; directly, and in a set of the set.
    for (is_early, is_nested) in [(true, false), (false, false), (false, true)] {
        let cluster = TestCluster::start().await;
        create(&cluster.api(), labelled("a")).await;
        let (journal, watches) = (Journal::new(), WatchSet::new());
        let bomb = || {
            let bomb = Source::stream(futures_util::stream::poll_fn(|_| panic!("boom")));
            if !is_nested {
                return bomb;
            }
            let inner = WatchSet::new();
            inner.add("inner", bomb);
            inner.into()
        };
        if is_early {
            watches.add("bomb", bomb());
        }
        let mut running = start(&cluster, counting(&cluster, &journal).source(&watches));
        if !is_early {
            journal.has(1).await;
            watches.add("bomb", bomb());
        }
        let ended = tokio::time::timeout(std::time::Duration::from_secs(30), &mut running.task).await;
        let error = ended.expect("the controller must end").unwrap().unwrap_err();
        assert_eq!(error.to_string(), "a source of controller \"counting\" panicked: boom");
    }
}
