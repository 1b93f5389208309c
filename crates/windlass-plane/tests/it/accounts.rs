//! What every namespace has, and roles that gather rules.

use k8s_openapi::api::{
    core::v1::{ConfigMap, Namespace, ServiceAccount},
    rbac::v1::ClusterRole,
};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

#[tokio::test]
async fn every_namespace_has_an_account_which_comes_back_when_deleted() {
    let plane = TestPlane::builder().await;
    let accounts = plane.api::<ServiceAccount>();
    let first = eventually("there is an account", async || accounts.get_opt("default").await.unwrap()).await;
    assert_eq!(first.metadata.managed_fields, None);
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let second = eventually("it is back", async || accounts.get_opt("default").await.unwrap()).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    // Those that were there before the loop have one, too.
    let elsewhere: Api<ServiceAccount> = Api::namespaced(plane.client(), "kube-system");
    eventually("the system has one", async || elsewhere.get_opt("default").await.unwrap()).await;
}

#[tokio::test]
async fn a_namespace_that_goes_gets_no_new_account() {
    let plane = TestPlane::builder().controllers("serviceaccount-controller".parse().unwrap()).await;
    let (accounts, namespaces) = (plane.api::<ServiceAccount>(), Api::<Namespace>::all(plane.client()));
    eventually("there is an account", async || accounts.get_opt("default").await.unwrap()).await;
    namespaces.delete(plane.namespace(), &DeleteParams::default()).await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let other: Namespace = serde_json::from_value(json!({"metadata": {"name": "later"}})).unwrap();
    namespaces.create(&PostParams::default(), &other).await.unwrap();
    let later: Api<ServiceAccount> = Api::namespaced(plane.client(), "later");
    // The loop has dealt with the deletion by then.
    eventually("the next has one", async || later.get_opt("default").await.unwrap()).await;
    assert!(accounts.get_opt("default").await.unwrap().is_none());
}

#[tokio::test]
async fn the_root_certificate_is_in_every_namespace_and_is_repaired() {
    let plane = TestPlane::builder().await;
    let maps = plane.api::<ConfigMap>();
    let certificate = |map: &ConfigMap| map.data.as_ref().unwrap().get("ca.crt").cloned();
    let first = eventually("it is there", async || maps.get_opt("kube-root-ca.crt").await.unwrap()).await;
    assert!(certificate(&first).unwrap().starts_with("-----BEGIN CERTIFICATE-----"));
    let annotations = first.metadata.annotations.as_ref().unwrap();
    assert!(annotations["kubernetes.io/description"].starts_with("Contains a CA bundle"));
    let patch = json!({"data": {"ca.crt": "another", "more": "text"}, "metadata": {"annotations": null}});
    maps.patch("kube-root-ca.crt", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
    eventually("it is repaired", async || {
        let map = maps.get("kube-root-ca.crt").await.unwrap();
        (map.data == first.data && map.metadata.annotations == first.metadata.annotations).then_some(())
    })
    .await;
    maps.delete("kube-root-ca.crt", &DeleteParams::default()).await.unwrap();
    let again = eventually("it is back", async || maps.get_opt("kube-root-ca.crt").await.unwrap()).await;
    assert_eq!(certificate(&again), certificate(&first));
}

fn role(value: serde_json::Value) -> ClusterRole {
    serde_json::from_value(value).unwrap()
}

#[tokio::test]
async fn a_role_gathers_the_rules_of_others_as_they_come_and_go() {
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
