//! Aggregated cluster roles.

use k8s_openapi::api::rbac::v1::ClusterRole;
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

fn role(value: serde_json::Value) -> ClusterRole {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn a_role_aggregates_the_rules_of_others_as_they_change() {
    let plane = TestPlane::builder().await;
    let roles: Api<ClusterRole> = Api::all(plane.client());
    let gatherer = role(json!({"metadata": {"name": "gatherer"},
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"gather": "yes"}}]}}));
    roles.create(&PostParams::default(), &gatherer).await.unwrap();
    for (name, resource) in [("b", "pods"), ("a", "nodes")] {
        let part = role(json!({"metadata": {"name": name, "labels": {"gather": "yes"}},
            "rules": [{"apiGroups": [""], "resources": [resource], "verbs": ["get"]}]}));
        roles.create(&PostParams::default(), &part).await.unwrap();
    }
    let gathers = async |expected: &[&str]| {
        eventually("the rules are gathered", async || {
            let role = roles.get("gatherer").await.unwrap();
            let rules = role.rules.clone().unwrap_or_default();
            let resources: Vec<_> = rules.iter().flat_map(|rule| rule.resources.clone().unwrap()).collect();
            (resources == expected).then_some(role)
        })
        .await
    };
    let gathered = gathers(&["nodes", "pods"]).await;
    let managers = gathered.metadata.managed_fields.unwrap();
    let applied = managers.iter().find(|entry| entry.operation.as_deref() == Some("Apply")).unwrap();
    assert_eq!(applied.manager.as_deref(), Some("clusterrole-aggregation-controller"));
    let unlabeled = json!({"metadata": {"labels": null}});
    roles.patch("a", &PatchParams::default(), &Patch::Merge(unlabeled)).await.unwrap();
    gathers(&["pods"]).await;
    roles.delete("b", &DeleteParams::default()).await.unwrap();
    gathers(&[]).await;
}
