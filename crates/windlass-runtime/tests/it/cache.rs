//! Informers against an API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
    core::ObjectMeta,
};
use parking_lot::Mutex;
use windlass_runtime::{
    cache::{Caches, Event, Informer, Subscription},
    key::ObjectKey,
    object::Object,
    scope::Scope,
};

use crate::{
    cluster::{TestCluster, eventually},
    faults::{Faults, Seen},
};

mod definitions;
mod scopes;
mod writes;

/// An API server, a client of it that can fail, and informers.
struct Cluster {
    server: TestCluster,
    faults: Faults,
    caches: Caches,
}

impl Cluster {
    async fn start() -> Self {
        let server = TestCluster::start().await;
        let faults = Faults::around(server.client());
        let caches = Caches::new(faults.client());
        Self { server, faults, caches }
    }

    /// Returns a client without faults.
    fn client(&self) -> Client {
        self.server.client()
    }

    fn maps(&self) -> Api<ConfigMap> {
        Api::namespaced(self.client(), self.server.namespace())
    }

    fn scope(&self) -> Scope {
        Scope::namespace(self.server.namespace())
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(self.server.namespace(), name)
    }

    async fn create(&self, name: &str) -> ConfigMap {
        self.maps().create(&PostParams::default(), &map(name, "")).await.unwrap()
    }

    async fn change(&self, name: &str, value: &str) -> ConfigMap {
        let patch = serde_json::json!({ "data": { "key": value } });
        self.maps().patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
    }

    async fn delete(&self, name: &str) {
        self.maps().delete(name, &DeleteParams::default()).await.unwrap();
    }

    /// Returns an informer of the test's own namespace that has the current state. Some clusters put a ConfigMap into
    /// each namespace.
    async fn synced(&self) -> Informer<ConfigMap> {
        let informer = self.caches.informer::<ConfigMap>(&self.scope().labels("test"));
        informer.synced().await;
        // The first list of a server may be a little old.
        let there = self.maps().list(&ListParams::default().labels("test")).await.unwrap().items.len();
        eventually("the informer is in sync", async || (informer.len() == there).then_some(())).await;
        informer
    }
}

/// Makes an informer panic when it meets a ConfigMap with the name `odd`.
pub(crate) fn dies_of_odd(informer: &Informer<ConfigMap>) {
    #[derive(PartialEq, Eq)]
    struct Odd(String);
    impl std::hash::Hash for Odd {
        fn hash<H: std::hash::Hasher>(&self, hasher: &mut H) {
            assert!(self.0 != "odd", "of a test");
            self.0.hash(hasher);
        }
    }
    informer.index("odd", |map: &ConfigMap| vec![Odd(map.metadata.name.clone().unwrap_or_default())]).unwrap();
}

fn map(name: &str, value: &str) -> ConfigMap {
    let labels = [("test".to_owned(), name.to_owned())].into();
    let metadata = ObjectMeta { name: Some(name.into()), labels: Some(labels), ..ObjectMeta::default() };
    ConfigMap { metadata, data: Some([("key".to_owned(), value.to_owned())].into()), ..ConfigMap::default() }
}

fn value(map: &ConfigMap) -> &str {
    map.data.as_ref().and_then(|data| data.get("key")).map_or("", String::as_str)
}

type Told = Arc<Mutex<Vec<String>>>;

/// Records the events of an informer, as `+a`, `~a` and `-a`; `*a` for initial ones.
fn record<K: Object>(informer: &Informer<K>) -> (Told, Subscription) {
    let told = Told::default();
    let into = told.clone();
    let subscription = informer.subscribe(move |event| {
        let sign = match &event {
            Event::Added { initial: true, .. } => '*',
            Event::Added { .. } => '+',
            Event::Updated { .. } => '~',
            Event::Deleted { .. } => '-',
        };
        into.lock().push(format!("{sign}{}", event.object().meta().name.as_deref().unwrap_or_default()));
    });
    (told, subscription)
}

async fn is_told(told: &Told, what: &[&str]) {
    eventually(&format!("{what:?} is delivered"), async || {
        let mut told = told.lock().clone();
        told.sort();
        let mut what = what.to_vec();
        what.sort_unstable();
        (told == what).then_some(())
    })
    .await;
}

#[tokio::test]
async fn informers_of_the_same_scope_share_one_watch() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let first = cluster.synced().await;
    let second = cluster.synced().await;
    let (told, _first) = record(&first);
    let (told_too, _second) = record(&second);
    cluster.create("b").await;
    is_told(&told, &["*a", "+b"]).await;
    is_told(&told_too, &["*a", "+b"]).await;
    assert_eq!(cluster.faults.count(|seen| seen.is_list("configmaps")), 1);
    assert_eq!(cluster.faults.count(Seen::is_watch), 1);
    assert_eq!(cluster.caches.status().len(), 1);
}

#[tokio::test]
async fn a_late_subscriber_gets_the_present_state_and_then_events() {
    let cluster = Cluster::start().await;
    let informer = cluster.synced().await;
    cluster.create("a").await;
    eventually("the informer has it", async || informer.get(&cluster.key("a"))).await;
    let (told, subscription) = record(&informer);
    subscription.synced().await;
    assert_eq!(*told.lock(), ["*a"]);
    cluster.change("a", "new").await;
    cluster.delete("a").await;
    is_told(&told, &["*a", "~a", "-a"]).await;
    drop(subscription);
    cluster.create("b").await;
    eventually("the informer has it", async || informer.get(&cluster.key("b"))).await;
    assert_eq!(told.lock().len(), 3);
}

#[tokio::test]
async fn an_index_finds_objects_of_the_server() {
    let cluster = Cluster::start().await;
    cluster.maps().create(&PostParams::default(), &map("a", "red")).await.unwrap();
    let informer = cluster.synced().await;
    let by_value = informer.index("value", |map: &ConfigMap| vec![value(map).to_owned()]).unwrap();
    assert_eq!(by_value.count("red"), 1);
    cluster.change("a", "blue").await;
    eventually("the index follows", async || by_value.get("blue").pop()).await;
    assert_eq!(by_value.count("red"), 0);
}

#[tokio::test]
async fn changes_during_an_outage_are_delivered_including_deletes() {
    let cluster = Cluster::start().await;
    for name in ["a", "b", "c"] {
        cluster.create(name).await;
    }
    let informer = cluster.synced().await;
    let (told, _subscription) = record(&informer);
    is_told(&told, &["*a", "*b", "*c"]).await;
    // The watch cannot continue: a new list is needed.
    cluster.faults.inject(Seen::is_watch, 1, crate::faults::Fault::status(410));
    cluster.faults.drop_watches();
    cluster.delete("a").await;
    cluster.change("b", "new").await;
    cluster.create("d").await;
    is_told(&told, &["*a", "*b", "*c", "-a", "~b", "+d"]).await;
    assert_eq!(informer.len(), 3);
}

#[tokio::test]
async fn a_removed_informer_ends_and_can_be_started_again() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let scope = cluster.scope().labels("test");
    assert!(cluster.caches.existing::<ConfigMap>(&(), &scope).is_none());
    assert_eq!(cluster.faults.count(Seen::is_watch), 0);
    let informer = cluster.synced().await;
    let (told, subscription) = record(&informer);
    assert!(cluster.caches.existing::<ConfigMap>(&(), &scope).is_some());
    cluster.caches.remove::<ConfigMap>(&(), &scope);
    assert!(subscription.is_ended() && cluster.caches.existing::<ConfigMap>(&(), &scope).is_none());
    cluster.create("b").await;
    let again = cluster.synced().await;
    assert_eq!((again.len(), informer.len()), (2, 1));
    assert_eq!(*told.lock(), ["*a"]);
}

#[tokio::test]
async fn all_informers_are_synced_together_and_report_their_status() {
    let cluster = Cluster::start().await;
    cluster.create("a").await;
    let metrics = windlass_runtime::metrics::Metrics::new();
    cluster.caches.register_metrics(&metrics);
    let maps = cluster.caches.informer::<ConfigMap>(&cluster.scope().labels("test"));
    let pods = cluster.caches.informer::<k8s_openapi::api::core::v1::Pod>(&cluster.scope());
    cluster.caches.synced().await;
    assert!(maps.is_synced() && pods.is_synced() && cluster.caches.is_synced());
    let status = cluster.caches.status();
    let status: Vec<_> = status.iter().map(|it| (it.resource.plural.as_str(), it.synced, it.objects)).collect();
    assert_eq!(status, [("configmaps", true, 1), ("pods", true, 0)]);
    let text = metrics.encode();
    let line = |name: &str| text.lines().find(|line| line.starts_with(name) && line.contains("configmaps")).unwrap();
    assert!(line("informer_objects").ends_with(" 1"), "{text}");
    assert!(line("informer_store_resource_version").ends_with(&format!(" {}", maps.revision())), "{text}");
    assert!(line("informer_events_added_total").ends_with(" 1"), "{text}");
}

#[tokio::test]
async fn watches_end_with_the_last_handle() {
    let cluster = Cluster::start().await;
    let informer = cluster.synced().await;
    let (told, subscription) = record(&informer);
    let Cluster { caches, .. } = cluster;
    drop(caches);
    assert!(subscription.is_ended());
    assert_eq!(Arc::strong_count(&told), 1);
}
