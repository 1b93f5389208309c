//! Attempts, and the hook for failed ones.

use std::time::Duration;

use k8s_openapi::api::core::v1::{Pod, ServiceAccount};
use kube::Api;
use windlass_runtime::{Error, context::Context, controller::Action, queue::RateLimit, scope::Scope};

use super::*;
use crate::cluster::TestCluster;

fn annotated(name: &str) -> ConfigMap {
    let mut config = config(name);
    config.metadata.labels = Some([("test".to_owned(), "errors".to_owned())].into());
    config
}

/// What the hook has seen: the object, the error, and the failures before.
type Failures = Journal<(String, String, u32)>;

fn reporting(cluster: &TestCluster, controller: Controller<ConfigMap>, failures: &Failures) -> Controller<ConfigMap> {
    let told = failures.clone();
    controller
        .on_error(move |config: Arc<ConfigMap>, error: Arc<Error>, ctx: Context| {
            let told = told.clone();
            async move {
                told.write((name_of(&*config), error.to_string(), ctx.attempts()));
                match config.metadata.annotations {
                    Some(_) => Err(Error::new("nothing to add")),
                    None => {
                        let patch = serde_json::json!({"metadata": {"annotations": {"failed": error.to_string()}}});
                        ctx.patch(&config, &Patch::Merge(patch)).await?;
                        Ok(())
                    }
                }
            }
        })
        .scope(Scope::namespace(cluster.namespace()).labels("test=errors"))
        .rate_limit(RateLimit { base: Duration::from_millis(1), ..RateLimit::default() })
}

#[tokio::test]
async fn an_attempt_knows_the_number_of_failed_attempts() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    create(&api, annotated("a")).await;
    let (attempts, failures) = (Journal::new(), Journal::new());
    let written = attempts.clone();
    let controller = Controller::<ConfigMap>::new("attempts", move |_config: Arc<ConfigMap>, ctx: Context| {
        written.write(ctx.attempts());
        async move { if ctx.attempts() < 3 { Err(Error::new("not yet")) } else { Ok(Action::done()) } }
    });
    let running = Running::start(cluster.client(), reporting(&cluster, controller, &failures));
    attempts.until("it has succeeded", |seen| seen.contains(&3)).await;
    assert_eq!(attempts.read()[..4], [0, 1, 2, 3]);
    let expected: Vec<_> = (0..3).map(|before| ("a".to_owned(), "not yet".to_owned(), before)).collect();
    assert_eq!(failures.read(), expected, "the failure of the hook itself changes nothing");
    let annotations = api.get("a").await.unwrap().metadata.annotations.unwrap();
    assert_eq!(annotations["failed"], "not yet", "the hook can write");
    // The failures are reset after a success.
    let before = attempts.read().len();
    merge(&api, "a", serde_json::json!({"data": {"x": "1"}})).await;
    attempts.until("the change is reconciled", |seen| seen[before..].contains(&0)).await;
    running.stop().await;
}

#[tokio::test]
async fn panics_and_timeouts_are_errors_for_the_hook_and_conflicts_are_not() {
    let cluster = TestCluster::start().await;
    let api: Api<ConfigMap> = Api::namespaced(cluster.client(), cluster.namespace());
    for name in ["conflicts", "hangs", "hopeless", "panics"] {
        create(&api, annotated(name)).await;
    }
    let failures = Journal::new();
    let controller = Controller::<ConfigMap>::new("odd", move |config: Arc<ConfigMap>, ctx: Context| async move {
        match (name_of(&*config).as_str(), ctx.attempts()) {
            ("hopeless", _) => Err(Error::terminal("bad name")),
            ("panics", 0) => panic!("as the test wants"),
            ("hangs", 0) => std::future::pending().await,
            ("conflicts", 0) => {
                let mut old = ConfigMap::clone(&config);
                old.metadata.resource_version = Some("1".into());
                ctx.update(old).await?;
                Ok(Action::done())
            }
            _ => Ok(Action::done()),
        }
    })
    .timeout(Duration::from_secs(3));
    let running = Running::start(cluster.client(), reporting(&cluster, controller, &failures));
    failures
        .until("all failures", |seen| {
            ["hangs", "hopeless", "panics"].iter().all(|name| seen.iter().any(|(failed, ..)| failed == name))
        })
        .await;
    let success = r#"controller_runtime_reconcile_total{controller="odd",result="success"}"#;
    eventually("the others have succeeded", async || (running.metric(success) >= 3.0).then_some(())).await;
    let seen = failures.read();
    let error_of = |name: &str| seen.iter().find(|(failed, ..)| failed == name).map(|(_, error, _)| error.as_str());
    assert_eq!(error_of("conflicts"), None, "{seen:?}");
    assert_eq!(error_of("hangs"), Some("the reconcile took longer than 3s"));
    assert_eq!(error_of("hopeless"), Some("bad name"));
    assert_eq!(error_of("panics"), Some("the reconcile panicked: as the test wants"));
    running.stop().await;
}

#[tokio::test]
async fn a_status_that_is_set_because_of_an_error_does_not_skip_the_backoff() {
    let cluster = TestCluster::start().await;
    let pods: Api<Pod> = Api::namespaced(cluster.client(), cluster.namespace());
    // Pods need it, and a server without control loops does not create it.
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client(), cluster.namespace());
    let mut account = ServiceAccount::default();
    account.metadata.name = Some("default".into());
    let _ = accounts.create(&PostParams::default(), &account).await;
    create(&pods, pod("p")).await;
    let (attempts, failures) = (Journal::new(), Journal::new());
    let written = attempts.clone();
    let told = failures.clone();
    let controller = Controller::<Pod>::new("statuses", move |pod: Arc<Pod>, ctx: Context| {
        written.write((ctx.attempts(), pod.metadata.labels.is_some()));
        async move {
            // Both write a status that is never the same.
            let patch = serde_json::json!({"status": {"message": format!("attempt {}", ctx.attempts())}});
            ctx.kind::<Pod>().patch_status(&ObjectKey::of(&*pod), &Patch::Merge(patch)).await?;
            Err(Error::new("never"))
        }
    })
    .on_error(move |pod: Arc<Pod>, _: Arc<Error>, ctx: Context| {
        let told = told.clone();
        async move {
            let patch = serde_json::json!({"status": {"reason": format!("Failed{}", ctx.attempts())}});
            ctx.kind::<Pod>().patch_status(&ObjectKey::of(&*pod), &Patch::Merge(patch)).await?;
            told.write(ctx.attempts());
            Ok(())
        }
    })
    .scope(Scope::namespace(cluster.namespace()))
    .rate_limit(RateLimit {
        base: Duration::from_secs(3600),
        max: Duration::from_secs(3600),
        ..RateLimit::default()
    });
    let running = Running::start(cluster.client(), controller);
    failures.has(1).await;
    let delayed = || running.metric(r#"workqueue_retries_total{name="statuses",controller="statuses"}"#);
    eventually("the key waits", async || (delayed() == 1.0).then_some(())).await;
    // The watch has delivered both statuses when it delivers this; only a change of something else triggers a
    // reconcile.
    merge(&pods, "p", serde_json::json!({"metadata": {"labels": {"edited": "yes"}}})).await;
    attempts.until("the edit is reconciled", |seen| seen.contains(&(1, true))).await;
    assert_eq!(attempts.read(), [(0, false), (1, true)], "the statuses have triggered nothing");
    running.stop().await;
}

fn pod(name: &str) -> Pod {
    let spec = serde_json::json!({"containers": [{"name": "c", "image": "i"}]});
    serde_json::from_value(serde_json::json!({"metadata": {"name": name}, "spec": spec})).unwrap()
}
