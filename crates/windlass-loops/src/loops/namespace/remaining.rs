//! Waiting until the remaining objects of a namespace are deleted.

use std::collections::{HashMap, HashSet};

use futures_util::future::join_all;
use kube::{
    Client,
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use parking_lot::Mutex;
use tokio::{sync::mpsc, task::AbortHandle};
use windlass::{
    controller::Trigger,
    key::ObjectKey,
    scope::Scope,
    watch::{self, Change, WatchOptions},
};

/// Namespaces that are being waited for. Dropping this ends the watches.
pub(super) struct Waiting {
    trigger: Trigger,
    namespaces: Mutex<HashMap<String, Watching>>,
}

struct Watching(AbortHandle);

impl Drop for Watching {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl Waiting {
    pub(super) fn new(trigger: Trigger) -> Self {
        Self { trigger, namespaces: Mutex::default() }
    }

    /// Triggers a reconciliation of a namespace when no objects of these resources remain.
    pub(super) fn wait_for<'a>(
        &self,
        client: &Client,
        namespace: &str,
        resources: impl Iterator<Item = &'a ApiResource>,
    ) {
        let gone: Vec<_> =
            resources.map(|resource| gone(client.clone(), namespace.to_owned(), resource.clone())).collect();
        let (trigger, key) = (self.trigger.clone(), ObjectKey::cluster(namespace));
        let watching = tokio::spawn(async move {
            join_all(gone).await;
            trigger.enqueue(key);
        });
        self.namespaces.lock().insert(namespace.to_owned(), Watching(watching.abort_handle()));
    }

    /// Stops waiting for a namespace.
    pub(super) fn remove(&self, namespace: &str) {
        self.namespaces.lock().remove(namespace);
    }
}

/// Resolves when a namespace has no objects of a resource.
async fn gone(client: Client, namespace: String, resource: ApiResource) {
    let (sender, mut changes) = mpsc::channel(16);
    let options = WatchOptions::new(resource, Scope::namespace(namespace)).metadata();
    let watching = watch::run::<PartialObjectMeta<DynamicObject>>(client, options, sender);
    let counting = async {
        let mut left = HashSet::new();
        while let Some(change) = changes.recv().await {
            match change {
                Change::Replace { objects, unreadable, .. } => {
                    left = objects.iter().map(|object| ObjectKey::of(&**object)).collect();
                    left.extend(unreadable.into_iter().map(|object| object.key));
                }
                Change::Unreadable(object) => {
                    left.insert(object.key);
                }
                Change::Apply(object) => {
                    left.insert(ObjectKey::of(&*object));
                }
                Change::Delete(object) => {
                    left.remove(&ObjectKey::of(&*object));
                }
                Change::Gone { key, .. } => {
                    left.remove(&key);
                }
                Change::Absent => left.clear(),
                Change::Bookmark(_) => continue,
            }
            if left.is_empty() {
                return;
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = counting => {}
    }
}
