//! The operator on a control plane with nodes.

use guestbook_operator::{
    api::guestbook::{EntryKind, Guestbook, GuestbookSpec, GuestbookStatus},
    objects::LABEL,
    operator::operator,
};
use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Pod, Service},
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use windlass_testing::{RunningOperator, TestPlane, eventually, fixtures};

fn guestbook(size: i32) -> Guestbook {
    let spec = GuestbookSpec { size, config_map_name: "settings".to_owned(), kind: EntryKind::Name };
    Guestbook::new("visitors", spec)
}

async fn merge<K>(plane: &TestPlane, name: &str, patch: Value)
where
    K: kube::Resource<DynamicType = (), Scope = k8s_openapi::NamespaceResourceScope>
        + Clone
        + std::fmt::Debug
        + DeserializeOwned,
{
    plane.api::<K>().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

fn status(guestbook: &Guestbook) -> GuestbookStatus {
    guestbook.status.clone().unwrap_or_default()
}

/// A plane with a ready guestbook of two pods.
async fn serving() -> (TestPlane, RunningOperator) {
    let plane = TestPlane::builder().nodes(1).with_crd::<Guestbook>().await;
    let running = plane.run(operator());
    plane.create(fixtures::config_map("settings", "GREETING", "Welcome")).await;
    plane.create(guestbook(2)).await;
    plane.expect::<Guestbook>("visitors").condition("Ready").await;
    (plane, running)
}

/// Returns the names of the pods that are not being deleted.
async fn pods(plane: &TestPlane) -> Vec<String> {
    let list = plane.api::<Pod>().list(&ListParams::default().labels(LABEL)).await.unwrap();
    let staying = list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying.filter_map(|pod| pod.metadata.name).collect()
}

#[tokio::test]
async fn a_guestbook_serves_with_its_settings_and_reports_its_url() {
    let (plane, _operator) = serving().await;
    let served = status(&plane.expect::<Guestbook>("visitors").exists().await);
    assert_eq!(served.url, Some(format!("http://visitors.{}.svc", plane.namespace())));
    assert_eq!((served.replicas, served.ready_replicas, served.observed_generation), (2, 2, Some(1)));
    let pod = plane.api::<Pod>().get(&pods(&plane).await[0]).await.unwrap();
    let container = &pod.spec.unwrap().containers[0];
    let from = container.env_from.as_ref().unwrap()[0].config_map_ref.as_ref().unwrap();
    assert_eq!(from.name, "settings");
    assert_eq!(container.env.as_ref().unwrap()[0].value.as_deref(), Some("Name"));
    let service = plane.expect::<Service>("visitors").exists().await;
    assert_eq!(service.spec.unwrap().ports.unwrap()[0].port, 80);
}

#[tokio::test]
async fn a_guestbook_scales_through_its_scale_subresource() {
    let (plane, _operator) = serving().await;
    let books: Api<Guestbook> = plane.api();
    for size in [5, 1] {
        let scale = Patch::Merge(json!({"spec": {"replicas": size}}));
        books.patch_scale("visitors", &PatchParams::default(), &scale).await.unwrap();
        let is_there = |book: &Guestbook| status(book).ready_replicas == size && status(book).replicas == size;
        plane.expect::<Guestbook>("visitors").to("have the requested number of pods", is_there).await;
        eventually("the number of pods matches", async || (pods(&plane).await.len() == size as usize).then_some(()))
            .await;
    }
}

#[tokio::test]
async fn changed_settings_replace_the_pods() {
    let (plane, _operator) = serving().await;
    let before = pods(&plane).await;
    merge::<ConfigMap>(&plane, "settings", json!({"data": {"GREETING": "Hello"}})).await;
    eventually("all pods are new and ready", async || {
        let now = pods(&plane).await;
        let renewed = now.len() == 2 && now.iter().all(|pod| !before.contains(pod));
        (renewed && status(&plane.api::<Guestbook>().get("visitors").await.unwrap()).ready_replicas == 2).then_some(())
    })
    .await;
}

#[tokio::test]
async fn changed_and_deleted_objects_are_restored() {
    let (plane, _operator) = serving().await;
    merge::<Deployment>(&plane, "visitors", json!({"spec": {"replicas": 7}})).await;
    let has_two = |deployment: &Deployment| deployment.spec.as_ref().is_some_and(|spec| spec.replicas == Some(2));
    plane.expect::<Deployment>("visitors").to("have two replicas again", has_two).await;
    let service = plane.expect::<Service>("visitors").exists().await;
    plane.api::<Service>().delete("visitors", &DeleteParams::default()).await.unwrap();
    let is_new = |found: &Service| found.metadata.uid != service.metadata.uid;
    plane.expect::<Service>("visitors").to("be recreated", is_new).await;
}

#[tokio::test]
async fn children_are_deleted_before_the_guestbook() {
    let (plane, _operator) = serving().await;
    plane.api::<Guestbook>().delete("visitors", &DeleteParams::foreground()).await.unwrap();
    plane.expect::<Guestbook>("visitors").gone().await;
    let deployments = plane.api::<Deployment>().list(&ListParams::default()).await.unwrap();
    assert!(deployments.items.is_empty(), "the deployment must be deleted before its guestbook");
    eventually("the pods are deleted", async || pods(&plane).await.is_empty().then_some(())).await;
}

#[tokio::test]
async fn missing_settings_name_conflicts_and_invalid_sizes_are_reported() {
    let plane = TestPlane::builder().nodes(1).with_crd::<Guestbook>().await;
    let _operator = plane.run(operator());
    let rejected = plane.api::<Guestbook>().create(&Default::default(), &guestbook(11)).await;
    let kube::Error::Api(rejected) = rejected.unwrap_err() else { panic!("the server must reject it") };
    assert!(rejected.message.contains("spec.size"), "{}", rejected.message);

    plane.create(fixtures::service("visitors")).await;
    plane.create(guestbook(1)).await;
    let missing = plane.expect::<Guestbook>("visitors").condition_for("Ready", "False", "ConfigMapMissing").await;
    assert_eq!(missing.message, "ConfigMap settings not found");
    plane.create(fixtures::config_map("settings", "GREETING", "Welcome")).await;
    plane.expect::<Guestbook>("visitors").condition_for("Ready", "False", "NameTaken").await;
    plane.expect::<Guestbook>("visitors").event("NameTaken").await;
    let foreign = plane.expect::<Service>("visitors").exists().await;
    assert!(foreign.metadata.owner_references.is_none(), "an object with another owner must be left alone");
}

#[tokio::test]
async fn changes_while_the_operator_is_down_are_reconciled() {
    let (plane, first) = serving().await;
    first.stop().await.unwrap();
    merge::<Guestbook>(&plane, "visitors", json!({"spec": {"size": 3}})).await;
    plane.api::<Service>().delete("visitors", &DeleteParams::default()).await.unwrap();
    let _second = plane.run(operator());
    plane.expect::<Service>("visitors").exists().await;
    plane.expect::<Guestbook>("visitors").to("have three pods", |book| status(book).ready_replicas == 3).await;
}
