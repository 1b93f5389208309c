//! The default service account of every namespace.

use k8s_openapi::api::core::v1::{Namespace, Pod, ServiceAccount};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

#[tokio::test]
async fn every_namespace_has_an_account_which_is_recreated_when_deleted() {
    let plane = TestPlane::builder().await;
    let accounts = plane.api::<ServiceAccount>();
    let first = eventually("there is an account", async || accounts.get_opt("default").await.unwrap()).await;
    assert_eq!(first.metadata.managed_fields, None);
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let second = eventually("it is back", async || accounts.get_opt("default").await.unwrap()).await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    // Namespaces that existed before the loop started have one, too.
    let elsewhere: Api<ServiceAccount> = Api::namespaced(plane.client(), "kube-system");
    eventually("kube-system has one", async || elsewhere.get_opt("default").await.unwrap()).await;
}

#[tokio::test]
async fn a_terminating_namespace_gets_no_new_account() {
    let plane = TestPlane::builder().controllers("serviceaccount-controller".parse().unwrap()).await;
    let (accounts, namespaces) = (plane.api::<ServiceAccount>(), Api::<Namespace>::all(plane.client()));
    eventually("there is an account", async || accounts.get_opt("default").await.unwrap()).await;
    namespaces.delete(plane.namespace(), &DeleteParams::default()).await.unwrap();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let other: Namespace = serde_json::from_value(json!({"metadata": {"name": "later"}})).unwrap();
    namespaces.create(&PostParams::default(), &other).await.unwrap();
    let later: Api<ServiceAccount> = Api::namespaced(plane.client(), "later");
    // By then, the loop has handled the deletion.
    eventually("the next has one", async || later.get_opt("default").await.unwrap()).await;
    assert!(accounts.get_opt("default").await.unwrap().is_none());
}

#[tokio::test]
async fn pods_of_a_test_run_as_accounts_on_request() {
    let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let pod: Pod = serde_json::from_value(pod).unwrap();
    let account_of = async |plane: TestPlane| {
        let created = plane.api::<Pod>().create(&PostParams::default(), &pod).await.unwrap();
        let spec = created.spec.unwrap();
        (spec.service_account_name, spec.volumes.unwrap_or_default().len())
    };
    assert_eq!(account_of(TestPlane::builder().await).await, (None, 0));
    let plane = TestPlane::builder().service_accounts().virtual_time().await;
    assert_eq!(account_of(plane).await, (Some("default".to_owned()), 1));
}
