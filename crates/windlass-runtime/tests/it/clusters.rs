//! Operators of several clusters.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Secret},
};
use kube::{
    Api, Client, ResourceExt as _,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use tokio::{sync::Notify, task::JoinHandle};
use windlass_plane::{Plane, PlaneOptions, StoreKind};
use windlass_runtime::{
    clusters::{Cluster, ClusterState, Clusters},
    controller::{Action, Controller},
    lease::Timing,
    operator::{LeaseOptions, Operator, OperatorError, Options, Replicas},
    scope::Scope,
    shutdown::Shutdown,
    webhook::{Request, Webhook},
};
use windlass_testing::TestPlane;

use crate::cluster::{TestCluster, eventually};

/// What was reconciled where.
type Journal = Arc<Mutex<Vec<String>>>;

/// Returns an operator for a cluster that records what it reconciles.
fn member(journal: &Journal, cluster: &Cluster) -> Operator {
    let (journal, name) = (journal.clone(), cluster.name().to_owned());
    let controller = Controller::<ConfigMap>::new("maps", move |config: Arc<ConfigMap>, _| {
        journal.lock().unwrap().push(format!("{name} {}", config.name_any()));
        async { Ok(Action::done()) }
    });
    Operator::new("member").controller(controller.scope(Scope::all().labels("test=clusters")))
}

async fn seen(journal: &Journal, entry: &str) {
    let has = async || journal.lock().unwrap().iter().any(|one| one == entry).then_some(());
    eventually(&format!("{entry} is reconciled"), has).await;
}

async fn create(client: Client, namespace: &str, name: &str) {
    let map = json!({"metadata": {"name": name, "labels": {"test": "clusters"}}});
    let map: ConfigMap = serde_json::from_value(map).unwrap();
    Api::<ConfigMap>::namespaced(client, namespace).create(&PostParams::default(), &map).await.unwrap();
}

/// A running operator of the home cluster.
struct Running {
    shutdown: Shutdown,
    task: JoinHandle<Result<(), OperatorError>>,
}

impl Running {
    fn start(operator: Operator, home: &TestCluster, options: Options) -> Self {
        let shutdown = Shutdown::new();
        let task = tokio::spawn(operator.run_with(home.client(), options, shutdown.clone()));
        Self { shutdown, task }
    }

    async fn stop(self) {
        self.shutdown.drain();
        self.task.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn clusters_that_come_and_go_are_reconciled_while_they_are_there() {
    let (home, east, west) = (TestCluster::start().await, TestCluster::start().await, TestCluster::start().await);
    let journal = Journal::default();
    let built = journal.clone();
    let clusters = Clusters::new(move |cluster| member(&built, cluster));
    let set = clusters.set();
    let operator = Operator::new("home").clusters(clusters);
    let (metrics, state) = (operator.metrics().clone(), operator.state().clone());
    let running = Running::start(operator, &home, Options { debug_state: true, ..Options::default() });
    create(east.client(), east.namespace(), "a").await;
    set.add("east", east.client());
    seen(&journal, "east a").await;
    set.add("west", west.client());
    create(west.client(), west.namespace(), "b").await;
    seen(&journal, "west b").await;
    assert_eq!(set.state("east"), Some(ClusterState::Running));
    let text = metrics.encode();
    for cluster in ["east", "west"] {
        let sample =
            format!("controller_runtime_reconcile_total{{cluster={cluster:?},controller=\"maps\",result=\"success\"}}");
        assert!(text.contains(&sample), "{sample} in {text}");
    }
    assert_eq!(text.matches("# TYPE controller_runtime_reconcile counter").count(), 1);
    let west_state = state.show()["clusters"][1].take();
    assert_eq!((&west_state["name"], &west_state["state"]), (&json!("west"), &json!("running")));
    let controller = &west_state["operator"]["controllers"][0];
    assert_eq!((&controller["name"], &controller["queue"]["ready"]), (&json!("maps"), &json!(0)), "{west_state}");
    assert!(controller["reconciles"].is_array(), "{west_state}");

    assert!(set.remove("east"));
    eventually("east is left", async || set.state("east").is_none().then_some(())).await;
    assert_eq!(state.show()["clusters"].as_array().unwrap().len(), 1);
    assert!(!metrics.encode().contains("cluster=\"east\""));
    create(east.client(), east.namespace(), "c").await;
    create(west.client(), west.namespace(), "d").await;
    seen(&journal, "west d").await;
    assert!(!journal.lock().unwrap().contains(&"east c".to_owned()));
    // It may come back.
    set.add("east", east.client());
    seen(&journal, "east c").await;
    running.stop().await;
    assert_eq!((set.state("east"), set.state("west")), (None, None));
}

#[tokio::test]
async fn a_cluster_that_cannot_be_reached_does_not_stop_the_others() {
    let (home, west) = (TestCluster::start().await, TestCluster::start().await);
    let journal = Journal::default();
    let built = journal.clone();
    let clusters = Clusters::new(move |cluster| member(&built, cluster));
    let set = clusters.set();
    let broken = tower::service_fn(|_: http::Request<kube::client::Body>| async {
        Err::<http::Response<kube::client::Body>, tower::BoxError>("connection refused".into())
    });
    let hanging = tower::service_fn(|_: http::Request<kube::client::Body>| {
        std::future::pending::<Result<http::Response<kube::client::Body>, tower::BoxError>>()
    });
    set.add("broken", Client::new(broken, "default"));
    set.add("hanging", Client::new(hanging, "default"));
    set.add("west", west.client());
    let running = Running::start(Operator::new("home").clusters(clusters), &home, Options::default());
    create(west.client(), west.namespace(), "a").await;
    seen(&journal, "west a").await;
    for name in ["broken", "hanging"] {
        set.remove(name);
        eventually("it is left", async || set.state(name).is_none().then_some(())).await;
    }
    create(west.client(), west.namespace(), "b").await;
    seen(&journal, "west b").await;
    running.stop().await;
}

#[tokio::test]
async fn an_operator_that_fails_is_started_again() {
    let home = TestPlane::builder().virtual_time().await;
    let east = TestCluster::start().await;
    create(east.client(), east.namespace(), "a").await;
    let (journal, starts) = (Journal::default(), Arc::new(AtomicUsize::new(0)));
    let (built, counted) = (journal.clone(), starts.clone());
    let clusters = Clusters::new(move |cluster| match counted.fetch_add(1, Ordering::SeqCst) {
        0 => panic!("on purpose"),
        1 => Operator::new("member").task("fails", async |_, _| Err(windlass_runtime::Error::new("on purpose"))),
        _ => member(&built, cluster),
    });
    let set = clusters.set();
    let running = Running::start(Operator::new("home").clusters(clusters), &home, Options::default());
    set.add("east", east.client());
    let failed = async || match set.state("east") {
        Some(ClusterState::Failed(error)) => Some(error),
        _ => None,
    };
    assert_eq!(eventually("it fails", failed).await, "panicked: on purpose");
    seen(&journal, "east a").await;
    assert_eq!((starts.load(Ordering::SeqCst), set.state("east")), (3, Some(ClusterState::Running)));
    running.stop().await;
}

#[tokio::test]
async fn webhooks_are_served_at_home_only() {
    let (home, east, west) = (TestCluster::start().await, TestCluster::start().await, TestCluster::start().await);
    let journal = Journal::default();
    let built = journal.clone();
    let states = Arc::new(Mutex::new(Vec::new()));
    let kept = states.clone();
    let clusters = Clusters::new(move |cluster| {
        let operator = member(&built, cluster)
            .webhook(Webhook::<ConfigMap>::new().validate(|_: &Request<ConfigMap>| Ok::<(), std::io::Error>(())));
        kept.lock().unwrap().push(operator.state().clone());
        operator
    });
    let set = clusters.set();
    let running = Running::start(Operator::new("home").clusters(clusters), &home, Options::default());
    for (name, cluster) in [("east", &east), ("west", &west)] {
        set.add(name, cluster.client());
        create(cluster.client(), cluster.namespace(), "a").await;
    }
    for name in ["east", "west"] {
        seen(&journal, &format!("{name} a")).await;
        assert_eq!(set.state(name), Some(ClusterState::Running));
    }
    let states: Vec<_> = states.lock().unwrap().iter().map(|state| state.show()["webhooks"].clone()).collect();
    assert_eq!(states, [json!(null), json!(null)], "each was started once, and serves none");
    running.stop().await;
}

#[tokio::test]
async fn clusters_are_stopped_while_the_home_cluster_is_busy() {
    let (home, east) = (TestCluster::start().await, TestCluster::start().await);
    let (began, finish) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (began.clone(), finish.clone());
    let busy = Controller::<ConfigMap>::new("busy", move |_: Arc<ConfigMap>, _| {
        let (tell, wait) = (tell.clone(), wait.clone());
        async move {
            tell.notify_one();
            wait.notified().await;
            Ok(Action::done())
        }
    });
    let busy = busy.scope(Scope::namespace(home.namespace()).labels("test=clusters"));
    let journal = Journal::default();
    let built = journal.clone();
    let clusters = Clusters::new(move |cluster| member(&built, cluster));
    let set = clusters.set();
    let operator = Operator::new("home").controller(busy).clusters(clusters);
    let running = Running::start(operator, &home, Options::default());
    create(home.client(), home.namespace(), "a").await;
    began.notified().await;
    set.add("east", east.client());
    create(east.client(), east.namespace(), "a").await;
    seen(&journal, "east a").await;
    running.shutdown.drain();
    eventually("the cluster is left", async || set.state("east").is_none().then_some(())).await;
    assert!(!running.task.is_finished(), "the reconcile still runs");
    finish.notify_one();
    running.stop().await;
}

#[tokio::test]
async fn replicas_elect_a_leader_per_cluster_and_none_at_home() {
    let home = TestPlane::builder().virtual_time().await;
    // Each cluster has a lease of its own.
    let east = TestPlane::builder().embedded().await;
    let west = TestPlane::builder().embedded().await;
    let lease = LeaseOptions { namespace: "default".into(), name: "home".into(), timing: Timing::default() };
    let (mut replicas, mut journals) = (Vec::new(), Vec::new());
    for instance in ["one", "two"] {
        let journal = Journal::default();
        let built = journal.clone();
        let clusters = Clusters::new(move |cluster| member(&built, cluster)).lease_namespace("kube-system");
        // Each replica learns about another cluster first, and so leads there.
        let both = [("east", &east), ("west", &west)];
        let [(first, at_first), second] = if instance == "one" { both } else { [both[1], both[0]] };
        let set = clusters.set();
        let options =
            Options { instance: instance.to_owned(), replicas: Replicas::Leader(lease.clone()), ..Options::default() };
        replicas.push(Running::start(Operator::new("home").clusters(clusters), &home, options));
        set.add(first, at_first.client());
        journals.push((journal, first, set, second));
    }
    for plane in [&east, &west] {
        create(plane.client(), plane.namespace(), "a").await;
    }
    for (journal, first, ..) in &journals {
        seen(journal, &format!("{first} a")).await;
    }
    for (_, _, set, (second, plane)) in &journals {
        set.add(second, plane.client());
    }
    for plane in [&east, &west] {
        create(plane.client(), plane.namespace(), "b").await;
    }
    for (journal, first, ..) in &journals {
        seen(journal, &format!("{first} b")).await;
        let elsewhere = journal.lock().unwrap().iter().filter(|entry| !entry.starts_with(first)).count();
        assert_eq!(elsewhere, 0, "the other replica leads there");
    }
    let leases = async |plane: &TestCluster, namespace: &str| {
        Api::<Lease>::namespaced(plane.client(), namespace).get_opt("home").await.unwrap()
    };
    assert!(leases(&east, "kube-system").await.is_some() && leases(&home, "default").await.is_none());
    // The first replica ends, and the second takes over.
    let mut replicas = replicas.into_iter();
    replicas.next().unwrap().stop().await;
    seen(&journals[1].0, "east b").await;
    replicas.next().unwrap().stop().await;
}

/// A plane that is served over TLS, and its kubeconfig.
async fn served(folder: &std::path::Path) -> (String, JoinHandle<()>) {
    let mut options = PlaneOptions::new(folder);
    options.store = StoreKind::Memory;
    let plane = Plane::start(options).await.unwrap();
    let kubeconfig = std::fs::read_to_string(plane.kubeconfig_path()).unwrap();
    (kubeconfig, tokio::spawn(async move { plane.run(std::future::pending()).await.unwrap() }))
}

#[tokio::test]
async fn kubeconfigs_come_from_secrets_and_directories() {
    let (home, data) = (TestCluster::start().await, tempfile::tempdir().unwrap());
    let (kubeconfig, plane) = served(data.path()).await;
    let journal = Journal::default();
    let built = journal.clone();
    let directory = tempfile::tempdir().unwrap();
    std::fs::write(directory.path().join("disk.kubeconfig"), &kubeconfig).unwrap();
    let clusters = Clusters::new(move |cluster| member(&built, cluster))
        .secrets(home.namespace(), "clusters=yes")
        .directory(directory.path());
    let set = clusters.set();
    let running = Running::start(Operator::new("home").clusters(clusters), &home, Options::default());
    eventually("the cluster of the directory runs", async || set.state("disk")).await;
    set.add_kubeconfig("code", &kubeconfig);
    let api: Api<Secret> = home.api();
    let secret = |name: &str, kubeconfig: &str| -> Secret {
        let secret = json!({"metadata": {"name": name, "labels": {"clusters": "yes"}},
            "stringData": {"kubeconfig": kubeconfig}});
        serde_json::from_value(secret).unwrap()
    };
    api.create(&PostParams::default(), &secret("good", &kubeconfig)).await.unwrap();
    api.create(&PostParams::default(), &secret("bad", "clusters: 7")).await.unwrap();
    let exec = "users: [{name: u, user: {exec: {command: touch}}}]";
    api.create(&PostParams::default(), &secret("exec", exec)).await.unwrap();

    let client = kubeconfig_client(&kubeconfig).await;
    create(client, "default", "a").await;
    for name in ["disk", "code", "good"] {
        seen(&journal, &format!("{name} a")).await;
    }
    for (name, expected) in [("bad", "invalid kubeconfig"), ("exec", "must not run commands")] {
        let failed = async || match set.state(name) {
            Some(ClusterState::Failed(error)) => Some(error),
            _ => None,
        };
        let error = eventually("it fails", failed).await;
        assert!(error.contains(expected), "{error}");
    }
    for name in ["good", "bad"] {
        api.delete(name, &DeleteParams::default()).await.unwrap();
        eventually("it is left", async || set.state(name).is_none().then_some(())).await;
    }
    tokio::time::timeout(Duration::from_secs(30), running.stop()).await.unwrap();
    plane.abort();
}

async fn kubeconfig_client(text: &str) -> Client {
    let kubeconfig = kube::config::Kubeconfig::from_yaml(text).unwrap();
    let config = kube::Config::from_custom_kubeconfig(kubeconfig, &Default::default()).await.unwrap();
    windlass_runtime::client::connect(&config, windlass_runtime::client::ClientOptions::new("test")).unwrap()
}

#[tokio::test]
async fn a_bad_file_in_a_directory_does_not_stop_the_clusters_of_the_others() {
    let (home, directory) = (TestCluster::start().await, tempfile::tempdir().unwrap());
    let path = |name: &str| directory.path().join(name);
    std::fs::write(path("good.kubeconfig"), "clusters: 7").unwrap();
    std::fs::create_dir(path("folder.kubeconfig")).unwrap();
    std::fs::write(path("bytes.kubeconfig"), [0xff]).unwrap();
    #[cfg(unix)]
    std::os::unix::fs::symlink(path("nowhere"), path("link.kubeconfig")).unwrap();
    let clusters = Clusters::new(|_| Operator::new("member")).directory(directory.path());
    let set = clusters.set();
    let running = Running::start(Operator::new("home").clusters(clusters), &home, Options::default());
    eventually("the good one is there", async || (set.names() == ["good"]).then_some(())).await;
    running.stop().await;
}

#[tokio::test]
async fn the_metrics_of_the_process_are_there_once() {
    let (home, east) = (TestCluster::start().await, TestCluster::start().await);
    let journal = Journal::default();
    let built = journal.clone();
    let clusters = Clusters::new(move |cluster| member(&built, cluster));
    let set = clusters.set();
    let operator = Operator::new("home").clusters(clusters);
    let metrics = operator.metrics().clone();
    let running = Running::start(operator, &home, Options::default());
    create(east.client(), east.namespace(), "a").await;
    set.add("east", east.client());
    seen(&journal, "east a").await;
    let text = metrics.encode();
    let samples: Vec<&str> = text.lines().filter(|line| line.starts_with("process_start_time_seconds")).collect();
    assert!(matches!(*samples, [sample] if !sample.contains("cluster")), "{samples:?}");
    running.stop().await;
}

#[tokio::test]
async fn several_sets_of_clusters_have_names_of_their_own() {
    // The cluster has a lease of its own.
    let (home, east) = (TestPlane::builder().embedded().await, TestPlane::builder().embedded().await);
    create(east.client(), east.namespace(), "a").await;
    let (journal, mut sets) = (Journal::default(), Vec::new());
    let mut operator = Operator::new("home");
    for name in ["edge", "core"] {
        let built = journal.clone();
        let clusters = Clusters::new(move |cluster| member(&built, cluster)).named(name);
        sets.push(clusters.set());
        operator = operator.clusters(clusters);
    }
    let (metrics, state) = (operator.metrics().clone(), operator.state().clone());
    let lease = LeaseOptions { namespace: east.namespace().into(), name: "home".into(), timing: Timing::default() };
    let options = Options { replicas: Replicas::Leader(lease), ..Options::default() };
    let running = Running::start(operator, &home, options);
    for set in &sets {
        set.add("east", east.client());
    }
    let both = async || (journal.lock().unwrap().iter().filter(|entry| *entry == "east a").count() == 2).then_some(());
    eventually("both lead in the cluster, and reconcile", both).await;
    let samples = |cluster: &str| metrics.encode().matches(&format!("reconcile_total{{cluster={cluster:?},")).count();
    assert!(samples("edge/east") > 0 && samples("core/east") > 0, "{}", metrics.encode());
    let shown = state.show();
    for name in ["clusters/edge", "clusters/core"] {
        assert_eq!((&shown[name][0]["name"], &shown[name][0]["state"]), (&json!("east"), &json!("running")), "{shown}");
    }
    assert!(sets[0].remove("east"));
    eventually("it is left", async || sets[0].state("east").is_none().then_some(())).await;
    assert!(samples("edge/east") == 0 && samples("core/east") > 0);
    running.stop().await;

    let unnamed = || Clusters::new(|_| Operator::new("member"));
    let operator = Operator::new("home").clusters(unnamed()).clusters(unnamed());
    let error = operator.run_with(home.client(), Options::default(), Shutdown::new()).await.unwrap_err();
    assert!(error.to_string().contains("Clusters::named"), "{error}");
}

#[cfg(unix)]
#[tokio::test]
async fn a_credential_plugin_that_hangs_holds_up_only_its_cluster() {
    let (home, east, files) = (TestCluster::start().await, TestCluster::start().await, tempfile::tempdir().unwrap());
    let (release, ended) = (files.path().join("release"), files.path().join("ended"));
    // It ends by itself at some time.
    let script = format!(
        "for _ in $(seq 300); do [ -e {release} ] && break; sleep 0.1; done; touch {ended}",
        release = release.display(),
        ended = ended.display()
    );
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "c",
        "clusters": [{"name": "c", "cluster": {"server": "https://127.0.0.1:1"}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "users": [{"name": "u", "user": {"exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": "sh", "args": ["-c", script],
            "interactiveMode": "Never",
        }}}],
    });
    let journal = Journal::default();
    let built = journal.clone();
    let clusters = Clusters::new(move |cluster| member(&built, cluster));
    let set = clusters.set();
    let running = Running::start(Operator::new("home").clusters(clusters), &home, Options::default());
    set.add_kubeconfig("hanging", &kubeconfig.to_string());
    set.add("east", east.client());
    create(east.client(), east.namespace(), "a").await;
    seen(&journal, "east a").await;
    assert!(!ended.exists(), "the plugin still runs");
    // Not even a cluster that is left waits for it.
    set.remove("hanging");
    eventually("it is left", async || set.state("hanging").is_none().then_some(())).await;
    running.stop().await;
    assert!(!ended.exists(), "the plugin still runs");
    std::fs::write(&release, "").unwrap();
}
