//! The operator against an API server.

use foo_operator::{
    api::foo::{Foo, FooSpec},
    operator::operator,
};
use k8s_openapi::api::{apps::v1::Deployment, events::v1::Event};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestCluster, eventually};

pub(crate) fn foo(name: &str, deployment: &str, replicas: i32) -> Foo {
    Foo::new(name, FooSpec { deployment_name: deployment.to_owned(), replicas })
}

pub(crate) fn replicas(deployment: &Deployment) -> Option<i32> {
    deployment.spec.as_ref()?.replicas
}

pub(crate) async fn merge(
    api: &Api<impl kube::Resource<DynamicType = ()> + Clone + serde::de::DeserializeOwned + std::fmt::Debug>,
    name: &str,
    patch: serde_json::Value,
) {
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn event(cluster: &TestCluster, reason: &str) -> Event {
    let events: Api<Event> = cluster.api();
    eventually(reason, async || {
        let list = events.list(&ListParams::default()).await.unwrap();
        list.items.into_iter().find(|event| event.reason.as_deref() == Some(reason))
    })
    .await
}

#[tokio::test]
async fn a_foo_owns_a_deployment() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let _operator = cluster.run(operator());
    let created = cluster.api().create(&PostParams::default(), &foo("web", "web-servers", 2)).await.unwrap();
    let deployments: Api<Deployment> = cluster.api();
    let deployment =
        eventually("the deployment exists", async || deployments.get_opt("web-servers").await.unwrap()).await;
    assert_eq!(replicas(&deployment), Some(2));
    let owner = &deployment.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.kind.as_str(), owner.controller), ("Foo", Some(true)));
    assert_eq!(Some(&owner.uid), created.metadata.uid.as_ref());
    let event = event(&cluster, "Synced").await;
    assert_eq!(event.note.as_deref(), Some("Foo synced successfully"));
}

#[tokio::test]
async fn the_status_follows_the_deployment() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let _operator = cluster.run(operator());
    let foos: Api<Foo> = cluster.api();
    foos.create(&PostParams::default(), &foo("web", "web", 3)).await.unwrap();
    let deployments: Api<Deployment> = cluster.api();
    eventually("the deployment exists", async || deployments.get_opt("web").await.unwrap()).await;
    let status = json!({"status": {"replicas": 3, "readyReplicas": 3, "availableReplicas": 3, "updatedReplicas": 3}});
    deployments.patch_status("web", &PatchParams::default(), &Patch::Merge(status)).await.unwrap();
    let status = eventually("three replicas are available", async || {
        foos.get("web").await.unwrap().status.filter(|status| status.available_replicas == 3)
    })
    .await;
    assert_eq!(status.observed_generation, Some(1));
    assert_eq!(status.conditions[0].status, "True");
}

#[tokio::test]
async fn changed_replicas_are_restored_and_the_spec_is_followed() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let _operator = cluster.run(operator());
    let foos: Api<Foo> = cluster.api();
    let deployments: Api<Deployment> = cluster.api();
    foos.create(&PostParams::default(), &foo("web", "web", 2)).await.unwrap();
    eventually("the deployment exists", async || deployments.get_opt("web").await.unwrap()).await;
    merge(&deployments, "web", json!({"spec": {"replicas": 7}})).await;
    eventually("two again", async || (replicas(&deployments.get("web").await.unwrap()) == Some(2)).then_some(())).await;
    merge(&foos, "web", json!({"spec": {"replicas": 5}})).await;
    eventually("five", async || (replicas(&deployments.get("web").await.unwrap()) == Some(5)).then_some(())).await;
    // A deleted Deployment is recreated.
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("made again", async || deployments.get_opt("web").await.unwrap()).await;
}

#[tokio::test]
async fn a_foreign_deployment_is_left_alone_until_it_is_deleted() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let deployments: Api<Deployment> = cluster.api();
    let foreign = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"},
        "spec": {"replicas": 9, "selector": {"matchLabels": {"app": "other"}}, "template": {
            "metadata": {"labels": {"app": "other"}}, "spec": {"containers": [{"name": "other", "image": "other:1"}]}}}});
    deployments.create(&PostParams::default(), &serde_json::from_value(foreign).unwrap()).await.unwrap();
    let _operator = cluster.run(operator());
    let foos: Api<Foo> = cluster.api();
    foos.create(&PostParams::default(), &foo("web", "web", 1)).await.unwrap();
    let event = event(&cluster, "ErrResourceExists").await;
    assert_eq!(event.note.as_deref(), Some("Resource \"web\" already exists and is not managed by Foo"));
    assert_eq!(replicas(&deployments.get("web").await.unwrap()), Some(9));
    let status = eventually("the status is updated", async || foos.get("web").await.unwrap().status).await;
    assert_eq!(status.conditions[0].reason, "ErrResourceExists");
    deployments.delete("web", &DeleteParams::default()).await.unwrap();
    eventually("its own is created", async || {
        let deployment = deployments.get_opt("web").await.unwrap()?;
        (replicas(&deployment) == Some(1)).then_some(())
    })
    .await;
}

#[tokio::test]
async fn another_name_means_another_deployment() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let _operator = cluster.run(operator());
    let foos: Api<Foo> = cluster.api();
    let deployments: Api<Deployment> = cluster.api();
    foos.create(&PostParams::default(), &foo("web", "old", 1)).await.unwrap();
    eventually("the old one exists", async || deployments.get_opt("old").await.unwrap()).await;
    merge(&foos, "web", json!({"spec": {"deploymentName": "new"}})).await;
    eventually("the new one exists", async || deployments.get_opt("new").await.unwrap()).await;
    eventually("the old one is deleted", async || deployments.get_opt("old").await.unwrap().is_none().then_some(()))
        .await;
}

#[tokio::test]
async fn replicas_out_of_range_are_rejected_by_the_server() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let foos: Api<Foo> = cluster.api();
    let error = foos.create(&PostParams::default(), &foo("web", "web", 11)).await.unwrap_err();
    assert!(error.to_string().contains("spec.replicas"), "{error}");
}

#[tokio::test]
async fn a_restarted_operator_continues_and_rewrites_nothing() {
    let cluster = TestCluster::start().await;
    cluster.define::<Foo>().await;
    let foos: Api<Foo> = cluster.api();
    let deployments: Api<Deployment> = cluster.api();
    let first = cluster.run(operator());
    foos.create(&PostParams::default(), &foo("web", "web", 2)).await.unwrap();
    eventually("the status is set", async || foos.get("web").await.unwrap().status).await;
    first.stop().await.unwrap();
    let before = deployments.get("web").await.unwrap().metadata.resource_version;
    merge(&foos, "web", json!({"metadata": {"labels": {"touched": "yes"}}})).await;
    foos.create(&PostParams::default(), &foo("other", "other", 1)).await.unwrap();
    let second = cluster.run(operator());
    eventually("the second one works", async || deployments.get_opt("other").await.unwrap()).await;
    eventually("both are done", async || foos.get("other").await.unwrap().status).await;
    second.stop().await.unwrap();
    assert_eq!(deployments.get("web").await.unwrap().metadata.resource_version, before);
}
