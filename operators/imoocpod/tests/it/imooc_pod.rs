//! The operator against an API server.

use std::collections::BTreeSet;

use futures_util::{StreamExt as _, TryStreamExt as _};
use imoocpod_operator::{
    api::imooc_pod::{ImoocPod, ImoocPodSpec},
    operator::operator,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams},
};
use serde_json::json;
use windlass_testing::{TestCluster, eventually};

async fn names(pods: &Api<Pod>) -> BTreeSet<String> {
    let list = pods.list(&ListParams::default()).await.unwrap();
    let staying = list.items.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
    staying.filter_map(|pod| pod.metadata.name).collect()
}

async fn settled(cluster: &TestCluster, replicas: usize) -> BTreeSet<String> {
    let (parents, pods): (Api<ImoocPod>, Api<Pod>) = (cluster.api(), cluster.api());
    eventually("the pods match the spec and the status", async || {
        let names = names(&pods).await;
        let status = parents.get("web").await.unwrap().status?;
        let listed: BTreeSet<String> = status.pod_names.into_iter().collect();
        (names.len() == replicas && listed == names && status.replicas as usize == replicas).then_some(names)
    })
    .await
}

async fn scale(cluster: &TestCluster, replicas: i32) {
    let parents: Api<ImoocPod> = cluster.api();
    let patch = json!({"spec": {"replicas": replicas}});
    parents.patch_scale("web", &PatchParams::default(), &Patch::Merge(patch)).await.unwrap();
}

async fn start(replicas: i32) -> TestCluster {
    let cluster = TestCluster::start().await;
    cluster.define::<ImoocPod>().await;
    let parent = ImoocPod::new("web", ImoocPodSpec { replicas });
    cluster.api().create(&PostParams::default(), &parent).await.unwrap();
    cluster
}

#[tokio::test]
async fn there_are_exactly_as_many_pods_as_the_spec_says() {
    let cluster = start(5).await;
    let _operator = cluster.run(operator());
    settled(&cluster, 5).await;
    let parents: Api<ImoocPod> = cluster.api();
    let scale = parents.get_scale("web").await.unwrap();
    assert_eq!(scale.spec.unwrap().replicas, Some(5));
    let status = scale.status.unwrap();
    assert_eq!((status.replicas, status.selector.as_deref()), (5, Some("k8s.example.com/imoocpod=web")));
}

#[tokio::test]
async fn the_scale_subresource_scales() {
    let cluster = start(2).await;
    let _operator = cluster.run(operator());
    let first = settled(&cluster, 2).await;
    scale(&cluster, 30).await;
    let more = settled(&cluster, 30).await;
    assert!(more.is_superset(&first));
    scale(&cluster, 0).await;
    settled(&cluster, 0).await;
}

#[tokio::test]
async fn deleted_and_finished_pods_are_replaced() {
    let cluster = start(3).await;
    let _operator = cluster.run(operator());
    let pods: Api<Pod> = cluster.api();
    let before = settled(&cluster, 3).await;
    let mut names = before.iter();
    pods.delete(names.next().unwrap(), &DeleteParams::default().grace_period(0)).await.unwrap();
    let ended = json!({"status": {"phase": "Failed"}});
    pods.patch_status(names.next().unwrap(), &PatchParams::default(), &Patch::Merge(ended)).await.unwrap();
    eventually("two were replaced", async || {
        let after = self::names(&pods).await;
        (after.len() == 3 && after.intersection(&before).count() == 1).then_some(())
    })
    .await;
    settled(&cluster, 3).await;
}

#[tokio::test]
async fn pods_of_others_are_not_counted() {
    let cluster = start(2).await;
    let pods: Api<Pod> = cluster.api();
    let stranger = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "stranger",
        "labels": {"k8s.example.com/imoocpod": "web"}}, "spec": {"containers": [{"name": "c", "image": "c"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(stranger).unwrap()).await.unwrap();
    let _operator = cluster.run(operator());
    eventually("its own two pods exist", async || (names(&pods).await.len() == 3).then_some(())).await;
    scale(&cluster, 0).await;
    let left =
        eventually("its own pods are deleted", async || Some(names(&pods).await).filter(|names| names.len() == 1))
            .await;
    assert!(left.contains("stranger"));
}

#[tokio::test]
async fn no_unneeded_pod_is_created() {
    let cluster = start(1).await;
    let pods: Api<Pod> = cluster.api();
    let mut events = pods.watch(&WatchParams::default(), "0").await.unwrap().boxed();
    let _operator = cluster.run(operator());
    for replicas in [7, 3, 9, 2, 8, 4] {
        scale(&cluster, replicas).await;
        settled(&cluster, usize::try_from(replicas).unwrap()).await;
    }
    let last = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "last"},
        "spec": {"containers": [{"name": "c", "image": "c"}]}});
    pods.create(&PostParams::default(), &serde_json::from_value(last).unwrap()).await.unwrap();
    let mut created = BTreeSet::new();
    while let Some(event) = events.try_next().await.unwrap() {
        match event {
            WatchEvent::Added(pod) if pod.metadata.name.as_deref() == Some("last") => break,
            WatchEvent::Added(pod) => drop(created.insert(pod.metadata.uid)),
            _ => {}
        }
    }
    // One initially or seven at once, then from three to nine and from two to eight.
    assert_eq!(created.len(), 7 + 6 + 6);
}

#[tokio::test]
async fn a_restart_in_the_middle_loses_and_duplicates_nothing() {
    let cluster = start(20).await;
    let pods: Api<Pod> = cluster.api();
    let first = cluster.run(operator());
    eventually("it has begun", async || (!names(&pods).await.is_empty()).then_some(())).await;
    drop(first);
    let _second = cluster.run(operator());
    settled(&cluster, 20).await;
}

#[tokio::test]
async fn negative_replicas_are_rejected_by_the_server() {
    let cluster = TestCluster::start().await;
    cluster.define::<ImoocPod>().await;
    let parent = ImoocPod::new("web", ImoocPodSpec { replicas: -1 });
    let error = cluster.api().create(&PostParams::default(), &parent).await.unwrap_err();
    assert!(error.to_string().contains("spec.replicas"), "{error}");
}
