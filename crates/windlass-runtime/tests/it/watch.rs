//! The reflector against an API server.

mod definitions;
mod desync;
mod states;
mod time;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, Resource, api::PostParams};
use tokio::{
    sync::mpsc::{self, Receiver},
    task::JoinHandle,
};
use windlass_runtime::{
    object::Object,
    scope::Scope,
    watch::{self, Change, WatchOptions},
};

use crate::cluster::TestCluster;

/// Time that a change may take before a test fails.
const CHANGE_TIMEOUT: Duration = Duration::from_secs(60);

/// A reflector whose changes are applied to a map, as a cache does.
struct Reflected<K> {
    changes: Receiver<Change<K>>,
    /// By name.
    objects: BTreeMap<String, Arc<K>>,
    replaces: usize,
    absents: usize,
    task: JoinHandle<()>,
}

impl<K: Object> Reflected<K> {
    fn start(client: Client, options: WatchOptions) -> Self {
        let (sender, changes) = mpsc::channel(16);
        let task = tokio::spawn(watch::run(client, options, sender));
        Self { changes, objects: BTreeMap::new(), replaces: 0, absents: 0, task }
    }

    async fn next(&mut self) -> Change<K> {
        let change = tokio::time::timeout(CHANGE_TIMEOUT, self.changes.recv()).await;
        let change = change.expect("a change must arrive").expect("a reflector must not end");
        match &change {
            Change::Replace { objects, .. } => {
                self.replaces += 1;
                self.objects = objects.iter().map(|object| (name(&**object), object.clone())).collect();
                assert_eq!(self.objects.len(), objects.len(), "each object is listed once");
            }
            Change::Apply(object) => {
                self.objects.insert(name(&**object), object.clone());
            }
            Change::Delete(object) => {
                self.objects.remove(&name(&**object));
            }
            Change::Gone { key, .. } => {
                self.objects.remove(key.name());
            }
            Change::Unreadable(_) | Change::Bookmark(_) => {}
            Change::Absent => {
                self.absents += 1;
                self.objects.clear();
            }
        }
        change
    }

    /// Applies changes until a condition is true.
    async fn until(&mut self, what: &str, holds: impl Fn(&Self) -> bool) {
        let waiting = async {
            while !holds(self) {
                self.next().await;
            }
        };
        tokio::time::timeout(CHANGE_TIMEOUT, waiting).await.unwrap_or_else(|_| panic!("never came true: {what}"));
    }

    fn names(&self) -> Vec<&str> {
        self.objects.keys().map(String::as_str).collect()
    }
}

impl<K> Drop for Reflected<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn name(object: &impl Resource) -> String {
    object.meta().name.clone().unwrap_or_default()
}

/// Lists the test's own ConfigMaps in its namespace: some servers put one of theirs into each namespace.
fn options(cluster: &TestCluster) -> WatchOptions {
    let scope = Scope::namespace(cluster.namespace()).labels("of=test");
    WatchOptions { streaming_list: false, ..WatchOptions::of::<ConfigMap>(&(), scope) }
}

fn config_maps(cluster: &TestCluster) -> Api<ConfigMap> {
    Api::namespaced(cluster.client(), cluster.namespace())
}

async fn create(cluster: &TestCluster, name: &str) -> ConfigMap {
    let mut object = ConfigMap::default();
    object.metadata.name = Some(name.into());
    object.metadata.labels = Some(BTreeMap::from([("of".into(), "test".into())]));
    object.data = Some(BTreeMap::from([("key".into(), "value".into())]));
    config_maps(cluster).create(&PostParams::default(), &object).await.unwrap()
}

async fn delete(cluster: &TestCluster, name: &str) {
    config_maps(cluster).delete(name, &Default::default()).await.unwrap();
}

async fn touch(cluster: &TestCluster, name: &str, value: &str) {
    let patch = serde_json::json!({"data": {"key": value}});
    config_maps(cluster).patch(name, &Default::default(), &kube::api::Patch::Merge(patch)).await.unwrap();
}

fn value(object: &ConfigMap) -> &str {
    object.data.as_ref().map_or("", |data| &data["key"])
}

/// Both ways to fetch a state.
const WAYS: [bool; 2] = [false, true];

#[tokio::test]
async fn a_state_is_followed_by_its_changes() {
    for streaming_list in WAYS {
        let cluster = TestCluster::start().await;
        create(&cluster, "a").await;
        create(&cluster, "b").await;
        let options = WatchOptions { streaming_list, ..options(&cluster) };
        let mut reflected = Reflected::<ConfigMap>::start(cluster.client(), options);
        let Change::Replace { objects, revision, .. } = reflected.next().await else {
            panic!("the state must be sent first")
        };
        assert_eq!(objects.len(), 2);
        assert!(revision >= windlass_runtime::object::revision_of(&*objects[1]));
        create(&cluster, "c").await;
        touch(&cluster, "a", "new").await;
        delete(&cluster, "b").await;
        reflected.until("the delete came", |reflected| reflected.names() == ["a", "c"]).await;
        assert_eq!(value(&reflected.objects["a"]), "new");
        assert_eq!(reflected.replaces, 1);
        assert!(reflected.objects["a"].metadata.managed_fields.is_none());
    }
}

#[tokio::test]
async fn a_watch_ends_when_its_receiver_is_dropped() {
    let cluster = TestCluster::start().await;
    let (sender, mut changes) = mpsc::channel(1);
    let task = tokio::spawn(watch::run::<ConfigMap>(cluster.client(), options(&cluster), sender));
    assert!(matches!(changes.recv().await, Some(Change::Replace { .. })));
    drop(changes);
    tokio::time::timeout(CHANGE_TIMEOUT, task).await.expect("it must end").unwrap();
}
