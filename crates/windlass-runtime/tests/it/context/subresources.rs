//! Scale, eviction, logs and commands.

use std::time::Duration;

use futures_util::{AsyncBufReadExt as _, TryStreamExt as _};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod, policy::v1::PodDisruptionBudget};
use kube::{
    Config,
    api::LogParams,
    config::{KubeConfigOptions, Kubeconfig},
};
use serde_json::{Value, json};
use windlass_plane::{NodeOptions, Plane, PlaneOptions, ProcessOptions, Processes, Runtime, Selection};
use windlass_runtime::lease::LeaderElection;

use super::*;

fn of<K: serde::de::DeserializeOwned>(value: Value) -> K {
    serde_json::from_value(value).unwrap()
}

fn pod(name: &str, script: &str) -> Pod {
    of(json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {"terminationGracePeriodSeconds": 5, "restartPolicy": "Never", "containers": [
            {"name": "main", "image": "busybox", "command": ["sh", "-c", script]}]},
    }))
}

#[tokio::test]
async fn a_scale_is_read_and_set_and_the_cache_has_the_new_state() {
    let bench = Bench::start().await;
    bench.wire::<Deployment>().await;
    let ctx = &bench.context;
    let labels = json!({"app": "web"});
    let web: Deployment = of(json!({
        "metadata": {"name": "web", "namespace": bench.namespace()},
        "spec": {"replicas": 2, "selector": {"matchLabels": labels}, "template": {
            "metadata": {"labels": labels}, "spec": {"containers": [{"name": "c", "image": "i"}]}}},
    }));
    let web = ctx.create(web).await.unwrap();
    assert_eq!(ctx.scale(&web).await.unwrap().spec.unwrap().replicas, Some(2));
    let dry = ctx.dry_run().set_scale(&web, 9).await.unwrap();
    assert_eq!(dry.spec.unwrap().replicas, Some(9));
    assert_eq!(ctx.set_scale(&web, 5).await.unwrap().spec.unwrap().replicas, Some(5));
    let cached = ctx.get::<Deployment>(&bench.key("web")).unwrap().unwrap();
    assert_eq!(cached.spec.as_ref().unwrap().replicas, Some(5), "a read sees the operator's own write");
    let error = ctx.kind::<Deployment>().set_scale(&bench.key("none"), 1).await.unwrap_err();
    assert!(error.is_not_found() && error.to_string().starts_with("failed to scale Deployment"), "{error}");
}

#[tokio::test]
async fn an_eviction_deletes_a_pod_unless_a_budget_forbids_it() {
    let bench = Bench::start().await;
    bench.wire::<Pod>().await;
    let ctx = &bench.context;
    let here = ctx.in_namespace(bench.namespace());
    // Pods need it, and a server without control loops does not create it.
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("default".into());
    let _ = bench.api::<ServiceAccount>().create(&PostParams::default(), &account).await;
    let (one, two) = (here.create(pod("one", "true")).await.unwrap(), here.create(pod("two", "true")).await.unwrap());
    ctx.evict(&one).await.unwrap();
    assert!(ctx.get::<Pod>(&bench.key("one")).unwrap().is_none_or(|pod| pod.metadata.deletion_timestamp.is_some()));

    let running = Patch::Merge(json!({"status": {
        "phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]}}));
    bench.api::<Pod>().patch_status("two", &PatchParams::default(), &running).await.unwrap();
    let budget: PodDisruptionBudget = of(json!({
        "metadata": {"name": "web"},
        "spec": {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}},
    }));
    let budgets = bench.api::<PodDisruptionBudget>();
    budgets.create(&PostParams::default(), &budget).await.unwrap();
    let observed = Patch::Merge(json!({"status": {
        "observedGeneration": 1, "disruptionsAllowed": 0, "currentHealthy": 1, "desiredHealthy": 1, "expectedPods": 1}}));
    budgets.patch_status("web", &PatchParams::default(), &observed).await.unwrap();
    let error = ctx.evict(&two).await.unwrap_err();
    assert!(error.is_disruption_budget(), "{error:?}");
    assert!(bench.api::<Pod>().get("two").await.unwrap().metadata.deletion_timestamp.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_are_read_and_commands_are_run() {
    let folder = tempfile::tempdir().unwrap();
    let options = ProcessOptions::new(folder.path().join("runtime"));
    let plane = Plane::start(PlaneOptions {
        controllers: Selection::none(),
        nodes: NodeOptions {
            count: 1,
            runtime: Runtime::Processes(Processes::new(options).unwrap()),
            ..NodeOptions::default()
        },
        ..PlaneOptions::new(folder.path())
    });
    let plane = plane.await.unwrap();
    let kubeconfig = Kubeconfig::read_from(plane.kubeconfig_path()).unwrap();
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap();
    let client = Client::try_from(config).unwrap();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(plane.run(async {
        let _ = stopped.await;
    }));

    let ctx = Context::builder(client.clone()).build();
    let candidate = LeaderElection::new(client.clone(), "default", "never-held");
    let script = "echo one; echo two; trap 'exit 0' TERM; while :; do sleep 0.05; done";
    ctx.in_namespace("default").create(pod("p", script)).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client, "default");
    let pod = eventually("the pod logs", async || {
        let pod = pods.get("p").await.unwrap();
        (ctx.logs(&pod, &LogParams::default()).await.ok()? == "one\ntwo\n").then_some(pod)
    })
    .await;
    let last = LogParams { tail_lines: Some(1), ..LogParams::default() };
    let lines: Vec<String> = ctx.log_stream(&pod, &last).await.unwrap().lines().try_collect().await.unwrap();
    assert_eq!(lines, ["two"]);

    let output = ctx.exec(&pod, ["sh", "-c", "cat; echo problem >&2; exit 3"]).input("typed").run().await.unwrap();
    assert_eq!((&output.stdout[..], &output.stderr[..], output.exit_code), (&b"typed"[..], &b"problem\n"[..], Some(3)));
    let output = ctx.exec(&pod, ["sh", "-c", "echo 123456789"]).container("main").limit_bytes(4).run().await.unwrap();
    assert_eq!((&output.stdout[..], output.is_success()), (&b"1234"[..], true));
    let endless = ctx.exec(&pod, ["sleep", "600"]).timeout(Duration::from_millis(300)).run().await.unwrap_err();
    assert_eq!(endless.to_string(), "failed to run a command in Pod default/p");
    let follower = ctx.to_builder().leadership(candidate.leadership()).build();
    let error = follower.exec(&pod, ["true"]).run().await.unwrap_err();
    assert!(error.is_not_leading(), "{error}");
    drop(stop);
    running.await.unwrap().unwrap();
}
