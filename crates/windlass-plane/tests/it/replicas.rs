//! Loops and nodes of several API servers over one store.

use std::{sync::Arc, time::Duration};

use async_trait::async_trait;
use bytes::Bytes;
use k8s_openapi::api::{apps::v1::Deployment, coordination::v1::Lease, core::v1::Node};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use tokio::time::Instant;
use windlass_apiserver::Server;
use windlass_plane::{LoopOptions, Loops, NodeOptions};
use windlass_store::{Entry, Error, ListOptions, Page, Revision, Store, Watch, memory::MemoryStore};

/// A connection to a store that others write to as well.
struct Shared(Arc<MemoryStore>);

#[async_trait]
impl Store for Shared {
    async fn revision(&self) -> Result<Revision, Error> {
        self.0.revision().await
    }
    async fn get(&self, key: &str) -> Result<Option<Entry>, Error> {
        self.0.get(key).await
    }
    async fn list(&self, options: ListOptions) -> Result<Page, Error> {
        self.0.list(options).await
    }
    async fn create(&self, key: &str, value: Bytes) -> Result<Revision, Error> {
        self.0.create(key, value).await
    }
    async fn update(&self, key: &str, expected: Revision, value: Bytes) -> Result<Revision, Error> {
        self.0.update(key, expected, value).await
    }
    async fn delete(&self, key: &str, expected: Revision) -> Result<Revision, Error> {
        self.0.delete(key, expected).await
    }
    async fn watch(&self, prefix: &str, after: Revision) -> Result<Box<dyn Watch>, Error> {
        self.0.watch(prefix, after).await
    }
    async fn compact(&self, revision: Revision) -> Result<(), Error> {
        self.0.compact(revision).await
    }
    fn is_shared(&self) -> bool {
        true
    }
}

/// Starts a server with loops and a node.
async fn replica(store: &Arc<MemoryStore>) -> (Server, Loops) {
    let server = Server::builder(Arc::new(Shared(store.clone()))).build().await.unwrap();
    let nodes = NodeOptions { count: 1, ..NodeOptions::default() };
    let loops = Loops::start(&server, &LoopOptions { nodes, elected: true, ..LoopOptions::default() });
    (server, loops)
}

async fn holder(server: &Server, name: &str) -> Option<String> {
    let leases: Api<Lease> = Api::namespaced(server.client(), "kube-system");
    leases.get_opt(name).await.unwrap()?.spec?.holder_identity
}

/// Waits until a deployment has this many ready replicas.
async fn scaled(server: &Server, replicas: i32) {
    let deployments: Api<Deployment> = Api::namespaced(server.client(), "default");
    let patch = Patch::Merge(json!({"spec": {"replicas": replicas}}));
    deployments.patch("web", &PatchParams::default(), &patch).await.unwrap();
    for _ in 0..1200 {
        let status = deployments.get("web").await.unwrap().status.unwrap_or_default();
        if status.ready_replicas == Some(replicas) && status.replicas == Some(replicas) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the deployment does not get {replicas} ready replicas");
}

#[tokio::test(start_paused = true)]
async fn loops_and_nodes_run_on_one_server_and_move_when_it_dies() {
    let store = Arc::new(MemoryStore::new());
    let (first, first_loops) = replica(&store).await;
    let deployments: Api<Deployment> = Api::namespaced(first.client(), "default");
    let web = json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    });
    deployments.create(&PostParams::default(), &serde_json::from_value(web).unwrap()).await.unwrap();
    scaled(&first, 2).await;
    let leaders = [holder(&first, "kube-controller-manager").await, holder(&first, "kube-scheduler").await];
    assert!(leaders.iter().all(Option::is_some), "{leaders:?}");

    let (second, _second_loops) = replica(&store).await;
    scaled(&second, 3).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    let later = [holder(&second, "kube-controller-manager").await, holder(&second, "kube-scheduler").await];
    assert_eq!(leaders, later, "the leader keeps its leases");
    let nodes: Api<Node> = Api::all(second.client());
    assert_eq!(nodes.list(&Default::default()).await.unwrap().items.len(), 1);

    // It dies: nothing is released.
    drop((first_loops, first, deployments));
    let start = Instant::now();
    scaled(&second, 5).await;
    let took = start.elapsed();
    assert!(took > Duration::from_secs(5) && took < Duration::from_secs(17), "{took:?}");
    let taken = [holder(&second, "kube-controller-manager").await, holder(&second, "kube-scheduler").await];
    assert!(taken.iter().zip(&leaders).all(|(now, before)| now != before), "{taken:?}");
}

#[tokio::test(start_paused = true)]
async fn loops_that_are_stopped_hand_over_at_once() {
    let store = Arc::new(MemoryStore::new());
    let (first, first_loops) = replica(&store).await;
    for _ in 0..600 {
        if holder(&first, "kube-scheduler").await.is_some() && holder(&first, "kube-controller-manager").await.is_some()
        {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let leader = holder(&first, "kube-controller-manager").await;
    let (second, _second_loops) = replica(&store).await;
    first_loops.stop().await;
    let start = Instant::now();
    loop {
        let now = holder(&second, "kube-controller-manager").await.filter(|holder| !holder.is_empty());
        if now.is_some() && now != leader {
            break;
        }
        assert!(start.elapsed() < Duration::from_secs(8), "nobody leads");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
