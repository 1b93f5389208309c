//! Objects that the nodes of a cluster need: references from pods, and from the volumes that pods claim.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use serde_json::Value;
use windlass_store::Revision;

use super::links::{self, PodLinks, VolumeLinks};
use crate::storage::{ResourceCache, Storage};

/// The number of changed objects above which bringing the graph up to date is heavy work.
const MANY: usize = 200;

/// A kind of object that a node may need.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Kind {
    Pod,
    Secret,
    ConfigMap,
    ServiceAccount,
    Claim,
    ResourceClaim,
    Volume,
    Attachment,
    Slice,
}

/// The relationships of objects to nodes.
pub(super) struct Graph {
    pods: Followed,
    volumes: Followed,
    attachments: Followed,
    slices: Followed,
    relations: Relations,
}

/// A cache, and the revision up to which its changes are part of the graph.
struct Followed {
    cache: Arc<ResourceCache>,
    revision: Option<Revision>,
}

/// A change of a cache since the graph was brought up to date.
enum Changes {
    None,
    /// Everything may have changed; the objects by key.
    All(Vec<(String, Value)>),
    /// These objects have changed; `None` if they were deleted.
    Some(Vec<(String, Option<Value>)>),
}

impl Followed {
    fn new(cache: Arc<ResourceCache>) -> Self {
        Self { cache, revision: None }
    }

    fn is_far_behind(&self) -> bool {
        match self.revision {
            Some(revision) => self.cache.events_after(revision, MANY).is_none_or(|events| events.len() == MANY),
            None => !self.cache.is_empty(),
        }
    }

    /// Returns the changes since the last call.
    fn changes(&mut self) -> Changes {
        let snapshot = self.cache.snapshot();
        let before = self.revision.replace(snapshot.revision);
        if before == Some(snapshot.revision) {
            return Changes::None;
        }
        let changed = before.and_then(|before| self.changed_keys(before, snapshot.revision));
        match changed {
            Some(keys) => Changes::Some(
                keys.into_iter()
                    .map(|key| {
                        let value = snapshot.get(&key).map(|object| object.to_value());
                        (key, value)
                    })
                    .collect(),
            ),
            None => {
                let objects = snapshot.range("", None);
                Changes::All(objects.map(|(key, cached)| (key.to_owned(), cached.object.to_value())).collect())
            }
        }
    }

    /// Returns the keys that have changed after a revision, up to another; `None` if the log does not reach so far.
    fn changed_keys(&self, mut after: Revision, to: Revision) -> Option<HashSet<String>> {
        let mut keys = HashSet::new();
        while after < to {
            let events = self.cache.events_after(after, usize::MAX)?;
            let Some(last) = events.last() else { break };
            after = last.object.revision;
            keys.extend(events.iter().map(|event| {
                let header = &event.object.header;
                key(&header.namespace, &header.name)
            }));
        }
        Some(keys)
    }
}

impl Graph {
    pub(super) fn new(storage: &Storage) -> Self {
        let followed = |prefix| Followed::new(storage.cache(prefix));
        Self {
            pods: followed("/core/pods/"),
            volumes: followed("/core/persistentvolumes/"),
            attachments: followed("/storage.k8s.io/volumeattachments/"),
            slices: followed("/resource.k8s.io/resourceslices/"),
            relations: Relations::default(),
        }
    }

    /// Returns whether bringing the graph up to date is heavy work.
    pub(super) fn is_far_behind(&self) -> bool {
        self.pods.is_far_behind() || self.volumes.is_far_behind()
    }

    /// Applies all changes that the caches have.
    pub(super) fn catch_up(&mut self) {
        let relations = &mut self.relations;
        match self.pods.changes() {
            Changes::None => {}
            Changes::All(objects) => {
                relations.clear_pods();
                objects.iter().for_each(|(key, pod)| relations.set_pod(key, Some(pod)));
            }
            Changes::Some(changes) => {
                changes.iter().for_each(|(key, pod)| relations.set_pod(key, pod.as_ref()));
            }
        }
        match self.volumes.changes() {
            Changes::None => {}
            Changes::All(objects) => {
                relations.clear_volumes();
                objects.iter().for_each(|(key, volume)| relations.set_volume(key, Some(volume)));
            }
            Changes::Some(changes) => {
                changes.iter().for_each(|(key, volume)| relations.set_volume(key, volume.as_ref()));
            }
        }
        for (followed, nodes) in
            [(&mut self.attachments, &mut relations.attachments), (&mut self.slices, &mut relations.slices)]
        {
            let mut set = |key: String, object: Option<&Value>| match links::node(object) {
                Some(node) => nodes.insert(key, node.into()),
                None => nodes.remove(&key),
            };
            match followed.changes() {
                Changes::None => {}
                Changes::All(objects) => {
                    let objects = objects.into_iter();
                    *nodes =
                        objects.filter_map(|(key, object)| Some((key, links::node(Some(&object))?.into()))).collect();
                }
                Changes::Some(changes) => changes.into_iter().for_each(|(key, object)| {
                    set(key, object.as_ref());
                }),
            }
        }
    }

    /// Returns whether an object is related to a node. Applies no changes.
    pub(super) fn relates(&self, node: &str, kind: Kind, namespace: &str, name: &str) -> bool {
        self.relations.relates(node, kind, &key(namespace, name))
    }
}

fn key(namespace: &str, name: &str) -> String {
    if namespace.is_empty() { name.to_owned() } else { format!("{namespace}/{name}") }
}

/// The relationships, indexed for both directions.
#[derive(Default)]
pub(super) struct Relations {
    pods: HashMap<String, PodLinks>,
    /// For every object that pods refer to, the number of those pods by node.
    nodes: HashMap<(Kind, String), HashMap<Arc<str>, usize>>,
    volumes: HashMap<String, VolumeLinks>,
    /// The volumes that refer to a secret.
    volumes_of_secret: HashMap<String, HashSet<String>>,
    attachments: HashMap<String, Arc<str>>,
    slices: HashMap<String, Arc<str>>,
}

impl Relations {
    fn clear_pods(&mut self) {
        self.pods.clear();
        self.nodes.clear();
    }

    fn clear_volumes(&mut self) {
        self.volumes.clear();
        self.volumes_of_secret.clear();
    }

    /// Replaces the links of a pod.
    pub(super) fn set_pod(&mut self, key: &str, pod: Option<&Value>) {
        if let Some(before) = self.pods.remove(key) {
            for link in before.objects {
                if let Some(nodes) = self.nodes.get_mut(&link) {
                    if let Some(count) = nodes.get_mut(&before.node) {
                        *count -= 1;
                        if *count == 0 {
                            nodes.remove(&before.node);
                        }
                    }
                    if nodes.is_empty() {
                        self.nodes.remove(&link);
                    }
                }
            }
        }
        if let Some(links) = pod.and_then(PodLinks::of) {
            for link in &links.objects {
                *self.nodes.entry(link.clone()).or_default().entry(links.node.clone()).or_default() += 1;
            }
            self.pods.insert(key.to_owned(), links);
        }
    }

    /// Replaces the links of a persistent volume.
    pub(super) fn set_volume(&mut self, key: &str, volume: Option<&Value>) {
        if let Some(before) = self.volumes.remove(key) {
            for secret in before.secrets {
                if let Some(volumes) = self.volumes_of_secret.get_mut(&secret) {
                    volumes.remove(key);
                    if volumes.is_empty() {
                        self.volumes_of_secret.remove(&secret);
                    }
                }
            }
        }
        if let Some(links) = volume.and_then(VolumeLinks::of) {
            for secret in &links.secrets {
                self.volumes_of_secret.entry(secret.clone()).or_default().insert(key.to_owned());
            }
            self.volumes.insert(key.to_owned(), links);
        }
    }

    /// Returns whether an object is related to a node.
    pub(super) fn relates(&self, node: &str, kind: Kind, key: &str) -> bool {
        let referred =
            |kind, key: &str| self.nodes.get(&(kind, key.to_owned())).is_some_and(|nodes| nodes.contains_key(node));
        let volume = |name: &str| self.volumes.get(name).is_some_and(|volume| referred(Kind::Claim, &volume.claim));
        match kind {
            Kind::Pod => self.pods.get(key).is_some_and(|pod| &*pod.node == node),
            Kind::ConfigMap | Kind::ServiceAccount | Kind::Claim | Kind::ResourceClaim => referred(kind, key),
            Kind::Volume => volume(key),
            Kind::Secret => {
                let by_volume =
                    || self.volumes_of_secret.get(key).is_some_and(|names| names.iter().any(|name| volume(name)));
                referred(kind, key) || by_volume()
            }
            Kind::Attachment => self.attachments.get(key).is_some_and(|known| &**known == node),
            Kind::Slice => self.slices.get(key).is_some_and(|known| &**known == node),
        }
    }
}
