//! CRDs that are created and deleted under an informer.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api, Client,
    api::{DeleteParams, PostParams},
    core::{ApiResource, DynamicObject, GroupVersionKind},
};
use windlass_runtime::{cache::Informer, key::ObjectKey};

use super::{Cluster, dies_of_odd, is_told, record};
use crate::{
    cluster::{TestCluster, eventually},
    faults::{Fault, Seen},
};

/// A kind that no other test uses.
struct Definition {
    client: Client,
    resource: ApiResource,
}

impl Definition {
    fn new(client: Client) -> Self {
        let group = format!("{}.example.com", TestCluster::unique("cache"));
        let kind = GroupVersionKind::gvk(&group, "v1", "Thing");
        Self { client, resource: ApiResource::from_gvk_with_plural(&kind, "things") }
    }

    fn definitions(&self) -> Api<CustomResourceDefinition> {
        Api::all(self.client.clone())
    }

    fn name(&self) -> String {
        format!("things.{}", self.resource.group)
    }

    async fn create(&self) {
        let definition = serde_json::json!({
            "metadata": { "name": self.name() },
            "spec": {
                "group": self.resource.group,
                "scope": "Namespaced",
                "names": { "plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList" },
                "versions": [{
                    "name": "v1", "served": true, "storage": true,
                    "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } },
                }],
            },
        });
        let definition = serde_json::from_value(definition).unwrap();
        self.definitions().create(&PostParams::default(), &definition).await.unwrap();
    }

    async fn remove(&self) {
        self.definitions().delete(&self.name(), &DeleteParams::default()).await.unwrap();
        eventually("the CRD is deleted", async || {
            self.definitions().get_opt(&self.name()).await.unwrap().is_none().then_some(())
        })
        .await;
    }

    async fn create_thing(&self, namespace: &str, name: &str) {
        let api = Api::<DynamicObject>::namespaced_with(self.client.clone(), namespace, &self.resource);
        let thing = DynamicObject::new(name, &self.resource);
        eventually("the CRD is served", async || api.create(&PostParams::default(), &thing).await.ok()).await;
    }
}

#[tokio::test]
async fn an_informer_waits_for_its_crd_and_follows_its_deletion_and_return() {
    let cluster = Cluster::start().await;
    let definition = Definition::new(cluster.client());
    let informer: Informer<DynamicObject> = cluster.caches.informer_with(&definition.resource, &cluster.scope());
    let (told, subscription) = record(&informer);
    eventually("its absence is known", async || informer.is_absent().then_some(())).await;
    assert!(cluster.caches.status()[0].absent);
    assert!(!informer.is_synced() && !subscription.is_synced());

    definition.create().await;
    definition.create_thing(cluster.server.namespace(), "a").await;
    informer.synced().await;
    let key = ObjectKey::namespaced(cluster.server.namespace(), "a");
    eventually("it exists", async || informer.get(&key)).await;
    assert!(subscription.is_synced() && !cluster.caches.status()[0].absent);
    let first = informer.get(&key).unwrap().metadata.uid.clone();

    definition.remove().await;
    eventually("it is deleted with its CRD", async || informer.is_empty().then_some(())).await;
    eventually("the informer is not synced", async || (!informer.is_synced()).then_some(())).await;
    assert!(subscription.is_synced() && informer.is_absent());

    definition.create().await;
    definition.create_thing(cluster.server.namespace(), "a").await;
    informer.synced().await;
    let again = eventually("the new one exists", async || informer.get(&key)).await;
    assert_ne!(again.metadata.uid, first);
    let told: Vec<String> = told.lock().iter().map(|it| it.replace('*', "+")).collect();
    assert_eq!(told, ["+a", "-a", "+a"]);
    drop(subscription);
    definition.remove().await;
}

#[tokio::test]
async fn one_response_that_a_kind_is_not_served_removes_no_objects() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let informer = cluster.synced().await;
    let (told, _subscription) = record(&informer);
    cluster.faults.inject(Seen::is_watch, 1, Fault::status(404));
    let watches = cluster.faults.count(Seen::is_watch);
    cluster.faults.drop_watches();
    eventually("the watch is rejected", async || (cluster.faults.count(Seen::is_watch) > watches).then_some(())).await;
    cluster.create("b").await;
    is_told(&told, &["*a", "+b"]).await;
    assert!(informer.is_synced() && !informer.is_absent());
}

#[tokio::test]
async fn an_informer_that_fails_reports_it() {
    let cluster = Cluster::start().await;
    let informer = cluster.synced().await;
    dies_of_odd(&informer);
    cluster.create("a").await;
    eventually("it is alive", async || informer.get(&cluster.key("a"))).await;
    assert!(!cluster.caches.status()[0].failed && cluster.caches.is_synced());
    cluster.create("odd").await;
    eventually("it is dead", async || cluster.caches.status()[0].failed.then_some(())).await;
    assert!(!cluster.caches.is_synced() && !informer.is_synced() && !cluster.caches.status()[0].synced);
}
