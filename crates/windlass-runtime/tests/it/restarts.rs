//! Operators while the API server and its store are killed and started again.
//!
//! These tests need a cluster for themselves, and `WINDLASS_TEST_RESTART`, a shell command that does it.
//! `cargo xtask e2e --only sdk --against kubernetes` runs them after all others.

use std::{
    collections::{BTreeMap, BTreeSet},
    process::Command,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::Request;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, ServiceAccount};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::task::JoinHandle;
use windlass_runtime::{
    Result,
    clusters::{ClusterSet, ClusterState, Clusters},
    context::{Context, Desired},
    controller::{Action, Controller, Daemon, DaemonContext, Watch, WatchSet},
    key::ObjectKey,
    operator::Operator,
    scope::Scope,
};

use crate::{
    cluster::{TestCluster, eventually},
    migration::Widgets,
};

const OURS: &str = "test.windlass.dev/restarts";
const OBJECTS: usize = 8;
const ROUNDS: usize = 3;

/// Kills the API server and its store, and waits until they are back.
async fn restart(client: &Client) {
    let before = started(client).await.expect("the API server must be ready");
    let command = std::env::var("WINDLASS_TEST_RESTART").expect("WINDLASS_TEST_RESTART must be a command");
    assert!(Command::new("sh").args(["-c", &command]).status().unwrap().success(), "{command}");
    eventually("the API server is back", async || {
        let now = started(client).await?;
        let ready = client.request_text(Request::get("/readyz").body(Vec::new()).unwrap()).await;
        (now != before && ready.is_ok()).then_some(())
    })
    .await;
}

/// Returns when the API server was started.
async fn started(client: &Client) -> Option<String> {
    let metrics = client.request_text(Request::get("/metrics").body(Vec::new()).unwrap()).await.ok()?;
    metrics.lines().find(|line| line.starts_with("process_start_time_seconds ")).map(str::to_owned)
}

fn config(name: &str) -> ConfigMap {
    let config = json!({"metadata": {"name": name, "labels": {"test": "restarts"}}, "data": {"value": "0"}});
    serde_json::from_value(config).unwrap()
}

/// Changes a ConfigMap, as often as that fails.
async fn set(api: &Api<ConfigMap>, name: &str, value: &str) {
    let patch = Patch::Merge(json!({"data": {"value": value}}));
    eventually("it can be changed", async || api.patch(name, &PatchParams::default(), &patch).await.ok()).await;
}

/// The daemons of objects, by name: how many were started, and how many run.
#[derive(Clone, Default)]
struct Daemons(Arc<Mutex<BTreeMap<String, (usize, usize)>>>);

/// A running daemon.
struct Alive(Daemons, String);

impl Daemons {
    fn start(&self, name: String) -> Alive {
        let mut all = self.0.lock().unwrap();
        let (started, running) = all.entry(name.clone()).or_default();
        (*started, *running) = (*started + 1, *running + 1);
        Alive(self.clone(), name)
    }

    fn running(&self) -> BTreeMap<String, usize> {
        let all = self.0.lock().unwrap();
        all.iter()
            .filter(|(_, (_, running))| *running > 0)
            .map(|(name, (_, running))| (name.clone(), *running))
            .collect()
    }

    fn most_starts(&self) -> usize {
        self.0.lock().unwrap().values().map(|(started, _)| *started).max().unwrap_or_default()
    }
}

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.0.lock().unwrap().get_mut(&self.1).unwrap().1 -= 1;
    }
}

/// Returns an operator that mirrors ConfigMaps into Secrets, with the number of accounts that it sees, which it learns to
/// watch at run time; and the operator of another cluster, which records what it sees.
fn operator(
    cluster: &TestCluster,
    daemons: &Daemons,
    watches: &WatchSet,
    seen: &Arc<Mutex<BTreeSet<String>>>,
) -> (Operator, ClusterSet) {
    let scope = || Scope::namespace(cluster.namespace()).labels("test=restarts");
    let mirror = async |config: Arc<ConfigMap>, ctx: Context| -> Result<Action> {
        let accounts = ctx.list::<ServiceAccount>().map_or(0, |accounts| accounts.len());
        let value = config.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
        let secret =
            json!({"metadata": {"name": config.name_any()}, "stringData": {"value": format!("{value} {accounts}")}});
        ctx.apply_set(&config, "mirror", &Desired::new().with(serde_json::from_value::<Secret>(secret)?)).await?;
        Ok(Action::done())
    };
    let clean = async |config: Arc<ConfigMap>, ctx: Context| -> Result<Action> {
        let outcome = ctx.delete_set(&config, "mirror").await?;
        Ok(if outcome.is_gone() { Action::done() } else { Action::requeue_after(Duration::from_millis(100)) })
    };
    let alive = daemons.clone();
    let daemon = Daemon::new(move |config: Arc<ConfigMap>, daemon: DaemonContext<ConfigMap>| {
        let alive = alive.start(config.name_any());
        async move {
            daemon.stopping().await;
            drop(alive);
            Ok(())
        }
    });
    let controller = Controller::<ConfigMap>::new("mirror", mirror)
        .owns::<Secret>()
        .finalizer(OURS, clean)
        .daemon(daemon)
        .source(watches)
        .scope(scope());
    let (seen, namespace) = (seen.clone(), cluster.namespace().to_owned());
    let clusters = Clusters::new(move |_| {
        let seen = seen.clone();
        let record = move |config: Arc<ConfigMap>, _ctx| {
            let value = config.data.as_ref().and_then(|data| data.get("value")).cloned().unwrap_or_default();
            seen.lock().unwrap().insert(format!("{} {value}", config.name_any()));
            async { Ok(Action::done()) }
        };
        let scope = Scope::namespace(&namespace).labels("test=restarts");
        Operator::new("member").controller(Controller::<ConfigMap>::new("record", record).scope(scope))
    });
    let set = clusters.set();
    (Operator::new("restarts-operator").controller(controller).clusters(clusters), set)
}

/// A task that changes an object until it must stop, and then returns the last value.
fn keep_changing(api: Api<ConfigMap>, name: &'static str) -> (Arc<AtomicBool>, JoinHandle<String>) {
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = stop.clone();
    let task = tokio::spawn(async move {
        let mut count = 0;
        loop {
            count += 1;
            let patch = Patch::Merge(json!({"data": {"value": format!("c{count}")}}));
            while api.patch(name, &PatchParams::default(), &patch).await.is_err() {
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            if stopped.load(Ordering::SeqCst) {
                return format!("c{count}");
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    (stop, task)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kills the API server: needs a cluster for itself, and WINDLASS_TEST_RESTART"]
async fn controllers_daemons_sets_of_watches_and_clusters_continue() {
    let cluster = TestCluster::start().await;
    let (api, secrets): (Api<ConfigMap>, Api<Secret>) = (cluster.api(), cluster.api());
    let accounts: Api<ServiceAccount> = cluster.api();
    let mut names: BTreeSet<String> = (0..OBJECTS).map(|number| format!("o{number}")).collect();
    for name in names.iter().map(String::as_str).chain(["busy"]) {
        api.create(&PostParams::default(), &config(name)).await.unwrap();
    }
    let (daemons, watches, seen) = (Daemons::default(), WatchSet::new().allow("", "serviceaccounts"), Arc::default());
    let (operator, clusters) = operator(&cluster, &daemons, &watches, &seen);
    // Until it has read its roles, the API server denies requests.
    let running = cluster.run(operator).allow_denials();
    clusters.add("member", cluster.client());
    let mirrored = async |name: &str, value: &str| {
        eventually(&format!("{name} is mirrored as {value}"), async || {
            let secret = secrets.get_opt(name).await.ok()??;
            (secret.data?.get("value")?.0 == value.as_bytes()).then_some(())
        })
        .await;
    };
    for name in &names {
        mirrored(name, "0 0").await;
    }
    // The operator has an account of its own.
    let accounts_of_test = Scope::namespace(cluster.namespace()).labels("test=restarts");
    let client = cluster.client();
    let (namespace, known) = (cluster.namespace().to_owned(), Arc::new(Mutex::new(names.clone())));
    let affected = known.clone();
    let source = Watch::<ServiceAccount>::new()
        .scope(accounts_of_test)
        .map(move |_, _| affected.lock().unwrap().iter().map(|name| ObjectKey::namespaced(&namespace, name)).collect());
    watches.add("accounts", source);
    watches.synced().await.unwrap();

    for round in 1..=ROUNDS {
        let (stop, changing) = keep_changing(api.clone(), "busy");
        restart(&client).await;
        let (added, removed) = (format!("new{round}"), names.pop_first().unwrap());
        let account = json!({"metadata": {"name": format!("account{round}"), "labels": {"test": "restarts"}}});
        let account: ServiceAccount = serde_json::from_value(account).unwrap();
        accounts.create(&PostParams::default(), &account).await.unwrap();
        api.create(&PostParams::default(), &config(&added)).await.unwrap();
        api.delete(&removed, &DeleteParams::default()).await.unwrap();
        names.insert(added);
        known.lock().unwrap().clone_from(&names);
        for name in &names {
            set(&api, name, &round.to_string()).await;
        }
        stop.store(true, Ordering::SeqCst);
        let last = changing.await.unwrap();
        for name in &names {
            mirrored(name, &format!("{round} {round}")).await;
        }
        eventually("the last change is mirrored", async || {
            let secret = secrets.get_opt("busy").await.ok()??;
            secret.data?.get("value")?.0.starts_with(format!("{last} ").as_bytes()).then_some(())
        })
        .await;
        eventually("it is deleted", async || api.get_opt(&removed).await.ok()?.is_none().then_some(())).await;
        let is_gone = async || secrets.get_opt(&removed).await.ok()?.is_none().then_some(());
        eventually("its Secret is deleted", is_gone).await;
        eventually("every object has a daemon, and no other", async || {
            let running = daemons.running();
            let names = names.iter().map(String::as_str).chain(["busy"]);
            (running == names.map(|name| (name.to_owned(), 1)).collect()).then_some(())
        })
        .await;
        assert_eq!(daemons.most_starts(), 1, "a daemon does not depend on the API server");
        for name in &names {
            let entry = format!("{name} {round}");
            eventually("the other cluster sees it", async || seen.lock().unwrap().contains(&entry).then_some(())).await;
        }
        assert_eq!(clusters.state("member"), Some(ClusterState::Running));
    }
    running.stop().await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "kills the API server: needs a cluster for itself, and WINDLASS_TEST_RESTART"]
async fn a_migration_is_completed() {
    const COUNT: usize = 1500;
    let cluster = TestCluster::start().await;
    let widgets = Widgets::stored_as_v1(&cluster, COUNT).await;
    let operator = Operator::new("widget-operator").definition(widgets.definition("v2"));
    let running = cluster.run(operator.migrate_storage_after(Duration::ZERO)).allow_denials();
    eventually("it has begun", async || widgets.position().await.map(drop)).await;
    assert_eq!(widgets.stored().await, ["v1", "v2"], "it has not ended yet");
    restart(&cluster.client()).await;
    eventually("v1 is not stored any more", async || (widgets.stored().await == ["v2"]).then_some(())).await;
    assert_eq!(widgets.position().await, None);
    widgets.remove_v1().await.unwrap();
    running.stop().await.unwrap();
}
