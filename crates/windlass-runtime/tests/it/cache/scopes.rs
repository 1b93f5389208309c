//! Scopes of a resource, and other forms of it.

use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::{
    Api,
    api::PostParams,
    core::{ApiResource, DynamicObject, ObjectMeta, PartialObjectMeta},
};
use windlass_runtime::{
    cache::{Settings, parse_selector},
    key::ObjectKey,
    scope::Scope,
};

use super::{Cluster, is_told, map, record};
use crate::cluster::eventually;

#[tokio::test]
async fn an_informer_of_some_labels_sees_objects_enter_and_leave() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let informer = cluster.caches.informer::<ConfigMap>(&cluster.scope().labels("test in (a,b),!gone"));
    let (told, _subscription) = record(&informer);
    cluster.create("b").await;
    cluster.create("c").await;
    informer.synced().await;
    eventually("b exists", async || informer.get(&cluster.key("b"))).await;
    let mut changed = cluster.maps().get("a").await.unwrap();
    changed.metadata.labels.as_mut().unwrap().insert("gone".into(), "yes".into());
    cluster.maps().replace("a", &PostParams::default(), &changed).await.unwrap();
    eventually("a is no longer cached", async || informer.get(&cluster.key("a")).is_none().then_some(())).await;
    assert_eq!(informer.list().len(), 1);
    assert_eq!(told.lock().last().unwrap(), "-a");
}

#[tokio::test]
async fn an_informer_of_some_fields_has_those_objects() {
    let cluster = Cluster::start().await;
    let secrets: Api<Secret> = Api::namespaced(cluster.client(), cluster.server.namespace());
    for (name, kind) in [("a", "example.com/one"), ("b", "example.com/other")] {
        let metadata = ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() };
        let secret = Secret { metadata, type_: Some(kind.into()), ..Secret::default() };
        secrets.create(&PostParams::default(), &secret).await.unwrap();
    }
    let informer = cluster.caches.informer::<Secret>(&cluster.scope().fields("type=example.com/one"));
    let (told, subscription) = record(&informer);
    subscription.synced().await;
    assert_eq!(*told.lock(), ["*a"]);
    let by_name = cluster
        .caches
        .informer::<Namespace>(&Scope::all().fields(format!("metadata.name={}", cluster.server.namespace())));
    by_name.synced().await;
    assert!(by_name.get(&ObjectKey::cluster(cluster.server.namespace())).is_some());
    assert_eq!(by_name.len(), 1);
}

#[tokio::test]
async fn an_informer_of_metadata_has_only_metadata() {
    let cluster = Cluster::start().await;
    cluster.maps().create(&PostParams::default(), &map("a", "value")).await.unwrap();
    let informer = cluster.caches.metadata_with::<ConfigMap>(&(), &cluster.scope().labels("test"));
    let (told, _subscription) = record(&informer);
    informer.synced().await;
    let object = informer.get(&cluster.key("a")).unwrap();
    assert_eq!(object.metadata.labels.as_ref().unwrap()["test"], "a");
    assert!(object.metadata.managed_fields.is_none());
    cluster.change("a", "new").await;
    cluster.delete("a").await;
    is_told(&told, &["*a", "~a", "-a"]).await;
    let existing = cluster.caches.existing::<PartialObjectMeta<ConfigMap>>(&(), &cluster.scope().labels("test"));
    assert!(existing.is_some());
    assert!(cluster.caches.existing::<ConfigMap>(&(), &cluster.scope().labels("test")).is_none());
}

#[tokio::test]
async fn a_dynamic_informer_is_separate_from_the_typed_one() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let resource = ApiResource::erase::<ConfigMap>(&());
    let scope = cluster.scope().labels("test");
    let dynamic = cluster.caches.informer_with::<DynamicObject>(&resource, &scope);
    let typed = cluster.synced().await;
    dynamic.synced().await;
    assert_eq!((dynamic.len(), typed.len(), cluster.caches.status().len()), (1, 1, 2));
    let object = dynamic.get(&cluster.key("a")).unwrap();
    assert_eq!(object.types.as_ref().unwrap().kind, "ConfigMap");
    let selected = dynamic.select(&parse_selector("test=a").unwrap());
    assert_eq!(selected.len(), 1);
}

#[tokio::test]
async fn settings_apply_to_informers_that_start_afterwards() {
    let cluster = Cluster::start().await;
    cluster.maps().create(&PostParams::default(), &map("a", "value")).await.unwrap();
    let before = cluster.synced().await;
    cluster.caches.configure(Settings::<ConfigMap>::default().keep_managed_fields().transform(|map| map.data = None));
    let after = cluster.caches.informer::<ConfigMap>(&cluster.scope());
    after.synced().await;
    let (before, after) = (before.get(&cluster.key("a")).unwrap(), after.get(&cluster.key("a")).unwrap());
    assert!(before.data.is_some() && before.metadata.managed_fields.is_none());
    assert!(after.data.is_none() && after.metadata.managed_fields.is_some());
}
