//! Who may write, and under which field manager.

use std::time::Duration;

use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{CustomResource, CustomResourceExt};
use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::json;
use tokio_util::sync::CancellationToken;
use windlass_macros::Conditions;
use windlass_runtime::{
    controller::{Action, Trigger, Watch},
    lease::{LeaderElection, Sharding, Timing},
    objects::conditions::{self, Condition, Conditions as _, condition},
    scope::Scope,
};

use super::*;
use crate::{
    cluster::TestCluster,
    faults::{Fault, Faults, Seen},
};

#[derive(CustomResource, Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[kube(group = "controllers.windlass.dev", version = "v1", kind = "Shared", namespaced, status = "SharedStatus")]
struct SharedSpec {
    size: i64,
}

#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema, Conditions)]
#[conditions(crate = windlass_runtime)]
struct SharedStatus {
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "conditions::schema")]
    conditions: Vec<Condition>,
}

async fn define(cluster: &TestCluster) {
    let definitions: Api<CustomResourceDefinition> = Api::all(cluster.client());
    let definition = Shared::crd();
    let name = definition.metadata.name.clone().unwrap();
    definitions.patch(&name, &PatchParams::apply("tests").force(), &Patch::Apply(&definition)).await.unwrap();
    eventually("the CRD is served", async || {
        let api: Api<Shared> = Api::namespaced(cluster.client(), cluster.namespace());
        api.list(&Default::default()).await.ok()
    })
    .await;
}

/// Sets its own condition on each object.
fn stating(cluster: &TestCluster, name: &'static str, journal: &Journal<String>) -> Controller<Shared> {
    let journal = journal.clone();
    Controller::<Shared>::new(name, move |shared: Arc<Shared>, ctx: windlass_runtime::context::Context| {
        let journal = journal.clone();
        async move {
            let mut status = SharedStatus::default();
            status.set_condition(condition(name, true).reason("Found"));
            ctx.set_status(&shared, status).await?;
            journal.write(name.to_owned());
            Ok(Action::done())
        }
    })
    .scope(Scope::namespace(cluster.namespace()))
}

#[tokio::test]
async fn two_controllers_with_a_condition_each_do_not_conflict() {
    let cluster = TestCluster::start().await;
    define(&cluster).await;
    let api: Api<Shared> = Api::namespaced(cluster.client(), cluster.namespace());
    let context = context(cluster.client()).build();
    let journal = Journal::new();
    let one = Running::with(context.clone(), stating(&cluster, "One", &journal));
    let two = Running::with(context, stating(&cluster, "Two", &journal));
    create(&api, Shared::new("a", SharedSpec { size: 1 })).await;
    let types = |shared: &Shared| {
        let conditions = shared.status.iter().flat_map(|status| &status.conditions);
        let mut types: Vec<String> = conditions.map(|condition| condition.type_.clone()).collect();
        types.sort();
        types
    };
    let settled = eventually("both have reported it", async || {
        let shared = api.get("a").await.unwrap();
        (types(&shared) == ["One", "Two"]).then_some(shared)
    })
    .await;
    // Another round, which begins and ends with both.
    let before = journal.read().len();
    let written = merge(&api, "a", json!({"metadata": {"labels": {"a": "b"}}})).await;
    assert_eq!(types(&written), ["One", "Two"]);
    for name in ["One", "Two"] {
        journal.until(name, |entries| entries[before..].iter().any(|entry| entry == name)).await;
    }
    eventually("all queues are idle", async || {
        let queues = [&one, &two].map(|running| running.metric("workqueue_depth{"));
        queues.iter().all(|depth| *depth == 0.0).then_some(())
    })
    .await;
    let last = api.get("a").await.unwrap();
    assert_eq!(types(&last), ["One", "Two"]);
    assert_eq!(last.metadata.resource_version, written.metadata.resource_version, "nothing was written again");
    let managers = settled.metadata.managed_fields.unwrap_or_default();
    for name in ["test-operator/One", "test-operator/Two"] {
        assert!(managers.iter().any(|entry| entry.manager.as_deref() == Some(name)), "{managers:?}");
    }
    one.stop().await;
    two.stop().await;
}

#[tokio::test]
async fn a_controller_without_leader_election_writes_while_another_process_leads() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, config("a")).await;
    // A candidate that never runs.
    let election = LeaderElection::new(cluster.client(), cluster.namespace(), "test");
    // And a replica without a share.
    let sharding = Sharding::new(cluster.client(), cluster.namespace(), "test");
    let context = context(cluster.client()).leadership(election.leadership()).shard(sharding.shard()).build();
    let labelling = |label: &'static str| {
        Controller::<ConfigMap>::new(
            label,
            move |config: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| async move {
                ctx.patch(&config, &Patch::Merge(json!({"metadata": {"labels": {label: "yes"}}}))).await?;
                Ok(Action::done())
            },
        )
        .scope(Scope::namespace(cluster.namespace()))
    };
    let standby = Running::with(context.clone(), labelling("led"));
    let running = Running::with(context, labelling("free").without_leader());
    let labelled = eventually("the label is set", async || {
        let config = api.get("a").await.unwrap();
        config.metadata.labels.filter(|labels| labels.contains_key("free"))
    })
    .await;
    assert!(!labelled.contains_key("led"));
    running.stop().await;
    tokio::time::timeout(Duration::from_secs(60), standby.stop()).await.unwrap();
}

/// Renews often, and a slow machine never loses it.
const OFTEN: Timing = Timing {
    lease_duration: Duration::from_secs(60),
    renew_deadline: Duration::from_secs(40),
    retry_period: Duration::from_millis(50),
};

#[tokio::test]
async fn a_reconcile_of_a_lost_key_sends_no_more_writes() {
    const OBJECTS: usize = 16;
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    for number in 0..OBJECTS {
        create(&api, config(&format!("object-{number}"))).await;
    }
    let join = || Sharding::new(cluster.client(), cluster.namespace(), "test").timing(OFTEN).unwrap();
    let first = join();
    let context = context(cluster.client()).shard(first.shard()).build();
    let shard = first.shard();
    let stop = CancellationToken::new();
    let (stopped, other_stopped) = (stop.clone(), stop.clone());
    let first = tokio::spawn(async move { first.run(stopped.cancelled()).await });
    let (begun, dropped, answers) = (Journal::new(), Journal::new(), Journal::new());
    let go = CancellationToken::new();
    let controller = {
        let (begun, dropped, answers, go) = (begun.clone(), dropped.clone(), answers.clone(), go.clone());
        Controller::<ConfigMap>::new("slow", move |config: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| {
            let (begun, answers, go) = (begun.clone(), answers.clone(), go.clone());
            let dropped = Dropped { name: name_of(&*config), journal: Some(dropped.clone()) };
            async move {
                let mut dropped = dropped;
                let waiting = go.clone();
                // Continues after the reconcile was dropped, as a task of a reconcile may.
                tokio::spawn(async move {
                    waiting.cancelled().await;
                    let patch = Patch::Merge(json!({"data": {"written": "yes"}}));
                    let answer = ctx.patch(&config, &patch).await.map_err(|error| error.is_key_lost());
                    answers.write((name_of(&*config), answer.map(drop)));
                });
                begun.write(dropped.name.clone());
                go.cancelled().await;
                dropped.journal = None;
                Ok(Action::done())
            }
        })
        .scope(Scope::namespace(cluster.namespace()).fields("metadata.name!=kube-root-ca.crt"))
        .concurrency(OBJECTS)
    };
    let running = Running::with(context, controller);
    begun.has(OBJECTS).await;
    let second = join();
    let second = tokio::spawn(async move { second.run(other_stopped.cancelled()).await });
    // Which keys these are depends on random names; about half are expected.
    let lost = eventually("some keys are lost", async || {
        let keys = begun.read().into_iter();
        let lost: Vec<_> = keys.filter(|name| !shard.owns(&ObjectKey::namespaced(cluster.namespace(), name))).collect();
        (!lost.is_empty()).then_some(lost)
    })
    .await;
    dropped.until("reconciles of lost keys are dropped", |names| lost.iter().all(|name| names.contains(name))).await;
    go.cancel();
    answers.has(OBJECTS).await;
    for (name, answer) in answers.read().into_iter().take(OBJECTS) {
        let written = api.get(&name).await.unwrap().data.is_some();
        let expected = if lost.contains(&name) { (Err(true), false) } else { (Ok(()), true) };
        assert_eq!((answer, written), expected, "{name}");
    }
    let errors = running.metric("controller_runtime_reconcile_errors_total");
    assert_eq!(errors, 0.0, "nothing has failed");
    running.stop().await;
    stop.cancel();
    first.await.unwrap();
    second.await.unwrap();
}

/// Records that it was dropped.
struct Dropped {
    name: String,
    journal: Option<Journal<String>>,
}

impl Drop for Dropped {
    fn drop(&mut self) {
        if let Some(journal) = self.journal.take() {
            journal.write(self.name.clone());
        }
    }
}

/// The server has handled a request of a reconcile, and the reconcile does not know.
#[tokio::test]
async fn an_attempt_waits_for_the_outcome_of_earlier_writes() {
    for fault in [Fault::Delay(Duration::from_millis(400)), Fault::Cut(0)] {
        let cluster = TestCluster::start().await;
        let faults = Faults::around(cluster.client());
        let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
        let (journal, begun, trigger) = (Journal::new(), CancellationToken::new(), Trigger::new());
        let (seen, begins) = (journal.clone(), begun.clone());
        // Desires one child, whose name the server generates.
        let reconcile = move |parent: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| {
            let (seen, begins) = (seen.clone(), begins.clone());
            async move {
                if name_of(&*parent) != "parent" {
                    return Ok(Action::done());
                }
                let children: Vec<Arc<Secret>> = ctx.owned(&parent)?;
                seen.write(children.len());
                if begins.is_cancelled() && children.is_empty() {
                    let mut child = Secret::default();
                    child.metadata.generate_name = Some("child-".into());
                    ctx.create_owned(&parent, child).await?;
                }
                Ok(Action::done())
            }
        };
        let scope = Scope::namespace(cluster.namespace());
        let controller = Controller::<ConfigMap>::new("parents", reconcile)
            .scope(scope.clone())
            .source(Watch::<Secret>::new().scope(scope).owned())
            .source(&trigger)
            .timeout(Duration::from_millis(200));
        create(&api, config("parent")).await;
        let running = Running::start(faults.client(), controller);
        journal.has(1).await;
        // No watch reports it either.
        faults.inject(Seen::is_watch, usize::MAX, Fault::Hang);
        let before = faults.count(Seen::is_watch);
        faults.drop_watches();
        eventually("the watches hang", async || (faults.count(Seen::is_watch) >= before + 2).then_some(())).await;
        faults.inject(|seen| seen.is_write() && seen.path.ends_with("/secrets"), 1, fault.clone());
        begun.cancel();
        trigger.enqueue(ObjectKey::namespaced(cluster.namespace(), "parent"));
        journal.until("the child is seen", |counts| counts.contains(&1)).await;
        assert_eq!(faults.count(|seen| seen.is_write() && seen.path.ends_with("/secrets")), 1, "{fault:?}");
        running.stop().await;
    }
}

/// The first write gets no response, and its outcome cannot be looked up.
async fn look_up_fails(fault: Fault) {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, config("one")).await;
    let faults = Faults::around(cluster.client());
    faults.inject(|seen| seen.method == http::Method::PATCH, 1, Fault::Cut(0));
    faults.inject(|seen| seen.method == http::Method::GET && seen.path.ends_with("/configmaps/one"), usize::MAX, fault);
    let journal = Journal::new();
    let written = journal.clone();
    let controller =
        Controller::<ConfigMap>::new("lost", move |config: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| {
            let written = written.clone();
            async move {
                let answer = ctx.patch(&config, &Patch::Merge(json!({"data": {"written": "yes"}}))).await;
                written.write(answer.is_ok());
                answer?;
                Ok(Action::done())
            }
        })
        .scope(Scope::namespace(cluster.namespace()).fields("metadata.name=one"));
    let running = Running::start(faults.client(), controller);
    journal.until("it is reconciled again", |seen| seen.starts_with(&[false, true])).await;
    running.stop().await;
}

#[tokio::test]
async fn a_lost_response_that_may_not_be_looked_up_does_not_hold_up_the_next_reconcile() {
    look_up_fails(Fault::status(403)).await;
}

#[tokio::test]
async fn a_lost_response_whose_object_is_unreadable_does_not_hold_up_the_next_reconcile() {
    look_up_fails(Fault::Answer(r#"{"kind": "ConfigMap", "apiVersion": "v1", "metadata": 1}"#.into())).await;
}

/// Records that an attempt begins, with what is cached then, and writes until it has succeeded.
fn writing_once(journal: &Journal<bool>, namespace: &str) -> Controller<ConfigMap> {
    let begun = journal.clone();
    let reconcile = move |config: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| {
        let begun = begun.clone();
        async move {
            let written = config.data.is_some();
            begun.write(written);
            if !written {
                ctx.patch(&config, &Patch::Merge(json!({"data": {"written": "yes"}}))).await?;
            }
            Ok(Action::done())
        }
    };
    Controller::<ConfigMap>::new("once", reconcile).scope(Scope::namespace(namespace).fields("metadata.name=one"))
}

#[tokio::test]
async fn a_write_that_is_never_answered_does_not_hold_up_its_object_for_ever() {
    // With and without a reconcile that was dropped before.
    for (fault, timeout) in [(Fault::Hang, None), (Fault::Swallow, None), (Fault::Hang, Some(200))] {
        let cluster = TestCluster::start().await;
        let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
        create(&api, config("one")).await;
        let faults = Faults::around(cluster.client());
        faults.inject(|seen| seen.method == http::Method::PATCH, 1, fault.clone());
        let journal = Journal::new();
        let mut controller = writing_once(&journal, cluster.namespace());
        if let Some(limit) = timeout {
            controller = controller.timeout(Duration::from_millis(limit));
        }
        let context = context(faults.client()).request_timeout(Duration::from_millis(500)).build();
        let running = Running::with(context, controller);
        journal.until("it is reconciled again", |seen| seen.len() > 1).await;
        let written = matches!(fault, Fault::Swallow);
        assert_eq!(journal.read()[1], written, "{fault:?}: the next attempt sees what has become of the write");
        eventually("it is written", async || api.get("one").await.unwrap().data).await;
        running.stop().await;
    }
}

#[tokio::test]
async fn nothing_is_reconciled_while_the_outcome_of_a_write_is_unknown() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, config("one")).await;
    let faults = Faults::around(cluster.client());
    let is_get = |seen: &Seen| seen.method == http::Method::GET && seen.path.ends_with("/configmaps/one");
    let (journal, begins, trigger) = (Journal::new(), CancellationToken::new(), Trigger::new());
    let (begun, begin) = (journal.clone(), begins.clone());
    let reconcile = move |config: Arc<ConfigMap>, ctx: windlass_runtime::context::Context| {
        let (begun, begin) = (begun.clone(), begin.clone());
        async move {
            let written = config.data.is_some();
            begun.write(written);
            if begin.is_cancelled() && !written {
                ctx.patch(&config, &Patch::Merge(json!({"data": {"written": "yes"}}))).await?;
            }
            Ok(Action::done())
        }
    };
    let controller = Controller::<ConfigMap>::new("once", reconcile)
        .scope(Scope::namespace(cluster.namespace()).fields("metadata.name=one"))
        .source(&trigger);
    let context = context(faults.client()).request_timeout(Duration::from_millis(300)).build();
    let running = Running::with(context, controller);
    journal.has(1).await;
    // The write is done, and neither a response nor the watch nor, at first, a look-up tells of it.
    faults.inject(Seen::is_watch, usize::MAX, Fault::Hang);
    let before = faults.count(Seen::is_watch);
    faults.drop_watches();
    eventually("the watch hangs", async || (faults.count(Seen::is_watch) > before).then_some(())).await;
    faults.inject(|seen| seen.method == http::Method::PATCH, 1, Fault::Swallow);
    faults.inject(is_get, 3, Fault::Hang);
    begins.cancel();
    trigger.enqueue(ObjectKey::namespaced(cluster.namespace(), "one"));
    journal.until("it is reconciled again", |seen| seen.len() > 2).await;
    assert_eq!(journal.read()[..3], [false, false, true], "no attempt has seen the state from before the write");
    assert!(faults.count(is_get) >= 4, "it was looked up until there was an answer");
    assert!(running.metric("controller_runtime_reconcile_errors_total") >= 2.0, "it was reported");
    running.stop().await;
}
