//! Watches whose events affect many objects.

use k8s_openapi::api::core::v1::Secret;
use kube::Api;
use serde_json::json;
use tokio::sync::Semaphore;
use windlass_runtime::{
    context::Context,
    controller::{Action, Cause, Controller, Watch},
    key::ObjectKey,
    queue::Priority,
    scope::Scope,
};

use super::*;
use crate::cluster::TestCluster;

const OURS: &str = "test=mapping";

fn labelled(name: &str, secret: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "mapping".to_owned())].into());
    config.data = Some([("secret".to_owned(), secret.to_owned())].into());
    config
}

fn secret(name: &str) -> Secret {
    Secret { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..Secret::default() }
}

/// A controller that records the names of ConfigMaps and why they are reconciled, one per permit.
fn journaling(
    cluster: &TestCluster,
    journal: &Journal<(String, Vec<Cause>)>,
    gate: &Arc<Semaphore>,
) -> Controller<ConfigMap> {
    holding(cluster, journal, gate, &Journal::new())
}

/// Like `journaling`, and records what waits for a permit.
fn holding(
    cluster: &TestCluster,
    journal: &Journal<(String, Vec<Cause>)>,
    gate: &Arc<Semaphore>,
    held: &Journal<String>,
) -> Controller<ConfigMap> {
    let (journal, gate, held) = (journal.clone(), gate.clone(), held.clone());
    Controller::<ConfigMap>::new("mapping", move |config: Arc<ConfigMap>, ctx: Context| {
        let (journal, gate) = (journal.clone(), gate.clone());
        held.write(name_of(&*config));
        async move {
            gate.acquire().await.expect("it is never closed").forget();
            journal.write((name_of(&*config), ctx.causes()));
            Ok(Action::done())
        }
    })
    .scope(Scope::namespace(cluster.namespace()).labels(OURS))
}

fn secrets(cluster: &TestCluster) -> Watch<Secret> {
    Watch::new().scope(Scope::namespace(cluster.namespace()))
}

/// The keys of the Secrets that a ConfigMap names.
fn named(config: &ConfigMap) -> Vec<ObjectKey> {
    let namespace = config.metadata.namespace.as_deref().unwrap_or_default();
    let names = config.data.iter().filter_map(|data| data.get("secret"));
    names.map(|name| ObjectKey::namespaced(namespace, name)).collect()
}

#[tokio::test]
async fn a_change_triggers_the_objects_that_name_it() {
    let cluster = TestCluster::start().await;
    let configs: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let api: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    for (name, secret) in [("a", "x"), ("b", "x"), ("c", "y")] {
        create(&configs, labelled(name, secret)).await;
    }
    let (journal, gate) = (Journal::new(), Arc::new(Semaphore::new(1000)));
    let controller = journaling(&cluster, &journal, &gate)
        .watches_by(secrets(&cluster), named, |secret: &Secret| vec![ObjectKey::of(secret)]);
    let running = Running::start(cluster.client(), controller);
    journal.has(3).await;
    let names = |from: usize| {
        let mut names: Vec<String> = journal.read()[from..].iter().map(|(name, _)| name.clone()).collect();
        names.sort();
        names
    };
    create(&api, secret("x")).await;
    journal.has(5).await;
    assert_eq!(names(3), ["a", "b"]);
    let causes = journal.read()[3].1.clone();
    assert!(
        matches!(&causes[..], [Cause::Watched { kind, key, .. }] if &**kind == "Secret" && key.name() == "x"),
        "{causes:?}"
    );
    // The index follows the objects.
    merge(&configs, "b", json!({"data": {"secret": "y"}})).await;
    journal.has(6).await;
    merge(&api, "x", json!({"metadata": {"labels": {"changed": "yes"}}})).await;
    journal.has(7).await;
    create(&api, secret("y")).await;
    journal.has(9).await;
    assert_eq!((names(5)[0].as_str(), &names(7)[..]), ("a", &["b".to_owned(), "c".to_owned()][..]));
    running.stop().await;
}

#[tokio::test]
async fn a_change_that_affects_all_objects_never_delays_an_edit() {
    const OBJECTS: usize = 40;
    let cluster = TestCluster::start().await;
    let configs: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let api: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, secret("global")).await;
    for number in 0..OBJECTS {
        create(&configs, labelled(&format!("c{number}"), "")).await;
    }
    let (journal, gate, held) = (Journal::new(), Arc::new(Semaphore::new(OBJECTS)), Journal::new());
    let controller = holding(&cluster, &journal, &gate, &held).source(secrets(&cluster).for_all());
    let running = Running::start(cluster.client(), controller);
    journal.has(OBJECTS).await;
    // The initial list of the watched kind has added nothing.
    merge(&api, "global", json!({"metadata": {"labels": {"changed": "yes"}}})).await;
    let queued = r#"workqueue_depth{name="mapping",controller="mapping",priority="-100"}"#;
    // One of them waits for a permit.
    eventually("all are queued", async || (running.metric(queued) >= (OBJECTS - 1) as f64).then_some(())).await;
    held.has(OBJECTS + 1).await;
    let waiting = if held.read()[OBJECTS] == "c7" { "c8" } else { "c7" };
    let edited = merge(&configs, waiting, json!({"data": {"edited": "yes"}})).await;
    let normal = r#"workqueue_depth{name="mapping",controller="mapping",priority="0"}"#;
    eventually("the edit is queued", async || (running.metric(normal) >= 1.0).then_some(())).await;
    gate.add_permits(1000);
    let version = edited.metadata.resource_version.unwrap().parse().ok();
    let is_edit =
        |causes: &[Cause]| causes.iter().any(|cause| matches!(cause, Cause::Object { new, .. } if *new == version));
    journal.until("the edit is reconciled", |seen| seen.iter().any(|(_, causes)| is_edit(causes))).await;
    journal.has(2 * OBJECTS).await;
    let seen = journal.read();
    let place = seen.iter().position(|(_, causes)| is_edit(causes)).unwrap();
    assert!(place <= OBJECTS + 2, "it is at {place} of {}", seen.len());
    let global = |causes: &[Cause]| {
        causes.iter().any(|cause| matches!(cause, Cause::Watched { key, .. } if key.name() == "global"))
    };
    let mut affected: Vec<&str> =
        seen.iter().filter(|(_, causes)| global(causes)).map(|(name, _)| name.as_str()).collect();
    affected.sort_unstable();
    affected.dedup();
    assert_eq!(affected.len(), OBJECTS);
    running.stop().await;
}

#[tokio::test]
async fn mapped_keys_have_the_priority_of_their_watch_or_their_own() {
    let cluster = TestCluster::start().await;
    let configs: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    let api: Api<Secret> = Api::namespaced(cluster.client(), cluster.namespace());
    for name in ["first", "held", "later", "last"] {
        create(&configs, labelled(name, "")).await;
    }
    let (journal, gate) = (Journal::new(), Arc::new(Semaphore::new(4)));
    let namespace = cluster.namespace().to_owned();
    let key = move |name: &str| ObjectKey::namespaced(&namespace, name);
    let of_secret = {
        let key = key.clone();
        move |_: &Secret, _: &Context| vec![(key("last"), Priority(-7)), (key("first"), Priority(7))]
    };
    let controller = journaling(&cluster, &journal, &gate)
        .source(secrets(&cluster).priority(Priority(-5)).map(move |_, _| vec![key("later")]))
        .source(secrets(&cluster).map_prioritized(of_secret));
    let running = Running::start(cluster.client(), controller);
    journal.has(4).await;
    merge(&configs, "held", json!({"data": {"x": "1"}})).await;
    let active = r#"controller_runtime_active_workers{controller="mapping"}"#;
    eventually("it waits for a permit", async || (running.metric(active) == 1.0).then_some(())).await;
    create(&api, secret("any")).await;
    for priority in [7, -5, -7] {
        let depth = format!(r#"workqueue_depth{{name="mapping",controller="mapping",priority="{priority}"}} 1"#);
        eventually(&depth, async || running.context.metrics().encode().contains(&depth).then_some(())).await;
    }
    gate.add_permits(1000);
    journal.has(8).await;
    let names: Vec<String> = journal.read()[4..].iter().map(|(name, _)| name.clone()).collect();
    assert_eq!(names, ["held", "first", "later", "last"]);
    running.stop().await;
}
