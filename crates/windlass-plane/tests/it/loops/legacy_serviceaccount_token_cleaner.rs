//! Deletion of unused service account tokens, in virtual time.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, ServiceAccount};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::TestPlane;

const DAY: Duration = Duration::from_secs(24 * 3600);
const INVALID: &str = "kubernetes.io/legacy-token-invalid-since";

/// Lets days pass at once, and then the time that the loop needs for a check.
async fn pass(days: u32) {
    tokio::time::advance(days * DAY).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
}

#[tokio::test]
async fn an_unused_token_becomes_invalid_and_is_deleted_a_year_later() {
    let plane = TestPlane::builder()
        .virtual_time()
        .controllers("legacy-serviceaccount-token-cleaner-controller".parse().unwrap())
        .await;
    let (secrets, accounts, pods) = (plane.api::<Secret>(), plane.api::<ServiceAccount>(), plane.api::<Pod>());
    // An API server that listens writes this at its first start.
    let today = || windlass_clock::now().strftime("%Y-%m-%d").to_string();
    let tracking = json!({"metadata": {"name": "kube-apiserver-legacy-service-account-token-tracking"},
        "data": {"since": today()}});
    let system: Api<ConfigMap> = Api::namespaced(plane.client(), "kube-system");
    system.create(&PostParams::default(), &serde_json::from_value(tracking).unwrap()).await.unwrap();
    let listed = ["unused", "used", "mounted"].map(|name| json!({"name": name}));
    let account = serde_json::from_value(json!({"metadata": {"name": "bot"}, "secrets": listed})).unwrap();
    accounts.create(&PostParams::default(), &account).await.unwrap();
    for name in ["unused", "used", "mounted", "made-by-hand"] {
        let secret = json!({
            "metadata": {"name": name, "annotations": {"kubernetes.io/service-account.name": "bot"}},
            "type": "kubernetes.io/service-account-token",
        });
        secrets.create(&PostParams::default(), &serde_json::from_value(secret).unwrap()).await.unwrap();
    }
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "volumes": [{"name": "v", "secret": {"secretName": "mounted"}}],
        },
    });
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    let invalid = async || {
        let all = secrets.list(&Default::default()).await.unwrap();
        let marked = all
            .iter()
            .filter(|secret| secret.metadata.labels.as_ref().is_some_and(|labels| labels.contains_key(INVALID)));
        marked.map(|secret| secret.metadata.name.clone().unwrap()).collect::<Vec<_>>()
    };

    pass(300).await;
    let use_it = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-last-used": today()}}});
    secrets.patch("used", &PatchParams::default(), &Patch::Merge(use_it)).await.unwrap();
    pass(64).await;
    assert!(invalid().await.is_empty());
    pass(4).await;
    assert_eq!(invalid().await, ["unused"]);
    let keep = json!({"metadata": {"labels": {"kubernetes.io/legacy-token-last-used": "2999-01-01"}}});
    secrets.patch("used", &PatchParams::default(), &Patch::Merge(keep)).await.unwrap();

    pass(360).await;
    assert!(secrets.get_opt("unused").await.unwrap().is_some());
    pass(8).await;
    let left: Vec<_> =
        secrets.list(&Default::default()).await.unwrap().into_iter().filter_map(|s| s.metadata.name).collect();
    assert_eq!(left, ["made-by-hand", "mounted", "used"]);
    assert!(invalid().await.is_empty());
}
