//! Own writes are read at once, however late the watch is.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::{
    Api,
    api::{DeleteParams, PostParams},
    core::{ApiResource, DynamicObject},
};
use windlass_runtime::{cache::Informer, key::ObjectKey, object::revision_of, scope::Scope};

use super::{Cluster, is_told, map, record, value};
use crate::{
    cluster::{TestCluster, eventually},
    faults::{Fault, Seen},
};

/// Breaks the watch; the next one gets no response.
async fn stall(cluster: &Cluster) {
    let watches = cluster.faults.count(Seen::is_watch);
    cluster.faults.inject(Seen::is_watch, 1, Fault::Hang);
    cluster.faults.drop_watches();
    eventually("the watch is retried", async || (cluster.faults.count(Seen::is_watch) > watches).then_some(())).await;
}

async fn started(cluster: &Cluster) -> Informer<ConfigMap> {
    let informer = cluster.synced().await;
    eventually("the watch has begun", async || (cluster.faults.count(Seen::is_watch) == 1).then_some(())).await;
    informer
}

#[tokio::test]
async fn a_write_is_visible_although_the_watch_is_stalled() {
    let cluster = Cluster::start().await;
    cluster.create("old").await;
    let informer = started(&cluster).await;
    let (told, _subscription) = record(&informer);
    stall(&cluster).await;

    let created = Arc::new(cluster.create("a").await);
    cluster.caches.wrote(&(), &created);
    let changed = Arc::new(cluster.change("a", "new").await);
    cluster.caches.wrote(&(), &changed);
    // The first response again, late.
    cluster.caches.wrote(&(), &created);
    let held = informer.get(&cluster.key("a")).unwrap();
    assert_eq!((value(&held), revision_of(&*held)), ("new", revision_of(&*changed)));
    assert!(held.metadata.managed_fields.is_none());

    let old = cluster.maps().get("old").await.unwrap();
    cluster.delete("old").await;
    cluster.caches.deleted::<ConfigMap>(&(), &cluster.key("old"), old.metadata.uid.as_deref().unwrap());
    assert!(informer.get(&cluster.key("old")).is_none());
    assert_eq!(*told.lock(), ["*old", "+a", "~a", "-old"]);
    assert!(informer.revision() < revision_of(&*created));
}

#[tokio::test]
async fn a_watch_behind_own_writes_delivers_nothing_twice() {
    let cluster = Cluster::start().await;
    cluster.create("gone").await;
    let informer = started(&cluster).await;
    let (told, _subscription) = record(&informer);
    let gone = informer.get(&cluster.key("gone")).unwrap();
    for number in 0..50 {
        let object = match number {
            0 => cluster.create("a").await,
            _ => cluster.change("a", &number.to_string()).await,
        };
        let object = Arc::new(object);
        cluster.caches.wrote(&(), &object);
        assert_eq!(value(&informer.get(&cluster.key("a")).unwrap()), value(&object));
    }
    cluster.change("gone", "late").await;
    cluster.delete("gone").await;
    cluster.caches.deleted::<ConfigMap>(&(), &cluster.key("gone"), gone.metadata.uid.as_deref().unwrap());
    let last = cluster.create("b").await;
    eventually("the watch has caught up", async || informer.get(&cluster.key("b"))).await;
    assert!(informer.revision() >= revision_of(&last));
    let told = told.lock().clone();
    let count = |what: &str| told.iter().filter(|it| *it == what).count();
    assert_eq!((count("+a"), count("~a"), count("-gone"), count("+gone"), count("+b")), (1, 49, 1, 0, 1));
    assert!(told.last().unwrap() == "+b");
}

#[tokio::test]
async fn a_write_is_delivered_only_to_informers_that_cover_it() {
    let cluster = Cluster::start().await;
    let here = started(&cluster).await;
    let elsewhere = cluster.caches.informer::<ConfigMap>(&cluster.scope().labels("test=other"));
    let except = cluster.caches.informer::<ConfigMap>(&cluster.scope().fields("metadata.name!=a"));
    let metadata = cluster.caches.metadata_with::<ConfigMap>(&(), &cluster.scope());
    let resource = ApiResource::erase::<ConfigMap>(&());
    let dynamic = cluster.caches.informer_with::<DynamicObject>(&resource, &cluster.scope());
    cluster.caches.synced().await;
    let watches = |seen: &Seen| seen.is_watch();
    eventually("all watch", async || (cluster.faults.count(watches) == 5).then_some(())).await;
    cluster.faults.inject(Seen::is_watch, 5, Fault::Hang);
    cluster.faults.drop_watches();
    eventually("all are stalled", async || (cluster.faults.count(watches) == 10).then_some(())).await;

    let created = cluster.maps().create(&PostParams::default(), &map("a", "value")).await.unwrap();
    cluster.caches.wrote(&(), &Arc::new(created));
    let key = cluster.key("a");
    assert!(here.get(&key).is_some() && elsewhere.get(&key).is_none() && except.get(&key).is_none());
    let types = metadata.get(&key).unwrap().types.clone().unwrap();
    assert_eq!((types.api_version.as_str(), types.kind.as_str()), ("v1", "ConfigMap"));
    let held = dynamic.get(&key).unwrap();
    assert_eq!(held.data["data"]["key"], "value");
    assert_eq!(held.types.as_ref().unwrap().kind, "ConfigMap");

    // A write of the dynamic type reaches the typed informer.
    let mut changed = (*held).clone();
    changed.data["data"]["key"] = "dynamic".into();
    let api = kube::Api::<DynamicObject>::namespaced_with(cluster.client(), cluster.server.namespace(), &resource);
    let changed = api.replace("a", &PostParams::default(), &changed).await.unwrap();
    cluster.caches.wrote(&resource, &Arc::new(changed));
    assert_eq!(value(&here.get(&key).unwrap()), "dynamic");
}

#[tokio::test]
async fn a_dry_run_is_not_treated_as_a_write() {
    let cluster = Cluster::start().await;
    let informer = started(&cluster).await;
    stall(&cluster).await;
    let dry = PostParams { dry_run: true, ..PostParams::default() };
    let answer = cluster.maps().create(&dry, &map("a", "")).await.unwrap();
    cluster.caches.wrote(&(), &Arc::new(answer));
    assert_eq!(informer.len(), 0);
}

#[tokio::test]
async fn removing_the_last_finalizer_removes_the_object() {
    let cluster = Cluster::start().await;
    let informer = started(&cluster).await;
    let mut finalized = map("a", "");
    finalized.metadata.finalizers = Some(vec!["example.com/test".into()]);
    let created = cluster.maps().create(&PostParams::default(), &finalized).await.unwrap();
    cluster.caches.wrote(&(), &Arc::new(created));
    stall(&cluster).await;
    let deleting = cluster.maps().delete("a", &DeleteParams::default()).await.unwrap().left().unwrap();
    cluster.caches.wrote(&(), &Arc::new(deleting.clone()));
    assert!(informer.get(&cluster.key("a")).unwrap().metadata.deletion_timestamp.is_some());
    let mut released = deleting;
    released.metadata.finalizers = None;
    let released = cluster.maps().replace("a", &PostParams::default(), &released).await.unwrap();
    cluster.caches.wrote(&(), &Arc::new(released));
    assert!(informer.get(&cluster.key("a")).is_none());
}

#[tokio::test]
async fn a_deleted_namespace_is_visible_until_it_is_removed() {
    let cluster = Cluster::start().await;
    let namespaces: Api<Namespace> = Api::all(cluster.client());
    let mut namespace = Namespace::default();
    namespace.metadata.name = Some(TestCluster::unique("deleted"));
    let name = namespace.metadata.name.clone().unwrap();
    namespaces.create(&PostParams::default(), &namespace).await.unwrap();
    let scope = Scope::all().fields(format!("metadata.name={name}"));
    let informer = cluster.caches.informer::<Namespace>(&scope);
    informer.synced().await;
    eventually("the watch has begun", async || (cluster.faults.count(Seen::is_watch) == 1).then_some(())).await;
    stall(&cluster).await;
    let deleting = namespaces.delete(&name, &DeleteParams::default()).await.unwrap().left().unwrap();
    cluster.caches.wrote(&(), &Arc::new(deleting));
    let held = informer.get(&ObjectKey::cluster(&name)).unwrap();
    assert!(held.metadata.deletion_timestamp.is_some());
}

#[tokio::test]
async fn other_writes_can_be_waited_for() {
    let cluster = Cluster::start().await;
    let informer = started(&cluster).await;
    let (told, _subscription) = record(&informer);
    let created = cluster.create("a").await;
    informer.caught_up(revision_of(&created)).await;
    assert!(informer.get(&cluster.key("a")).is_some());
    is_told(&told, &["+a"]).await;
}
