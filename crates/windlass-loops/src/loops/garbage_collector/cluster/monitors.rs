//! Metadata watches, one for each resource that can have owners or dependents.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use futures_util::FutureExt as _;
use kube::{
    api::DynamicObject,
    core::{ApiResource, PartialObjectMeta},
};
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use windlass::{
    scope::Scope,
    watch::{self, Change, WatchOptions},
};

use super::super::{
    Shared,
    node::{Kind, Source, Uid},
};
use crate::discovery::Served;

/// Events have no dependents, and there are many of them.
const IGNORED: [&str; 2] = ["", "events.k8s.io"];

/// Capacity of a channel to the graph. Small, because there is one per resource.
const WAITING: usize = 16;

/// Running watches, by group and plural name.
#[derive(Default)]
pub(in super::super) struct Monitors {
    running: HashMap<(String, String), Monitor>,
    next_source: Source,
}

struct Monitor {
    version: String,
    source: Source,
    /// Whether the resource is no longer served: the watch ends when it notices that too.
    leaving: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Held by watches that have not completed their first list.
pub(in super::super) type Unsynced = mpsc::Sender<()>;

impl Monitors {
    /// Starts and stops watches to match the served resources.
    pub(in super::super) fn follow(
        &mut self,
        served: &Served,
        shared: &Arc<Shared>,
        tasks: &mut JoinSet<()>,
        unsynced: Option<&Unsynced>,
    ) {
        let mut missing: HashSet<(String, String)> = self.running.keys().cloned().collect();
        for one in served.preferred(&["delete", "list", "watch"]) {
            let resource = &one.resource;
            if resource.plural == "events" && IGNORED.contains(&resource.group.as_str()) {
                continue;
            }
            let key = (resource.group.clone(), resource.plural.clone());
            missing.remove(&key);
            let source = match self.running.get(&key) {
                Some(monitor) if monitor.version == resource.version && !monitor.task.is_finished() => {
                    monitor.leaving.store(false, Ordering::Release);
                    continue;
                }
                // Another version of the same objects: the first list of the new watch determines which still exist.
                Some(monitor) => {
                    monitor.task.abort();
                    monitor.source
                }
                None => {
                    let source = self.next_source;
                    self.next_source = self.next_source.wrapping_add(1);
                    source
                }
            };
            let leaving = Arc::new(AtomicBool::new(false));
            let following = follow(shared.clone(), resource.clone(), source, leaving.clone(), unsynced.cloned());
            let task = tasks.spawn(following.boxed());
            self.running.insert(key, Monitor { version: resource.version.clone(), source, leaving, task });
        }
        for key in missing {
            // A group that does not respond now may still be served.
            let unknown = |api_version: &String| api_version.split('/').next() == Some(&key.0);
            if let Some(monitor) = self.running.get(&key).filter(|_| !served.unknown.iter().any(unknown)) {
                monitor.leaving.store(true, Ordering::Release);
                if monitor.task.is_finished() {
                    self.running.remove(&key);
                }
            }
        }
    }
}

/// Applies changes of a resource to the graph, until it is no longer served.
async fn follow(
    shared: Arc<Shared>,
    resource: ApiResource,
    source: Source,
    leaving: Arc<AtomicBool>,
    unsynced: Option<Unsynced>,
) {
    let (sender, changes) = mpsc::channel(WAITING);
    let kind = shared.graph.lock().names.kind(&resource.api_version, &resource.kind);
    let defines = matches!(
        (&*resource.group, &*resource.plural),
        ("apiextensions.k8s.io", "customresourcedefinitions") | ("apiregistration.k8s.io", "apiservices")
    );
    let options = WatchOptions::new(resource, Scope::all()).metadata();
    let watching = watch::run(shared.watching.clone(), options, sender);
    let applying = Applying { shared, kind, source, defines, leaving, unsynced }.run(changes);
    tokio::select! {
        () = watching => {}
        () = applying => {}
    }
}

struct Applying {
    shared: Arc<Shared>,
    kind: Arc<Kind>,
    source: Source,
    /// Whether its objects determine the served resources.
    defines: bool,
    leaving: Arc<AtomicBool>,
    unsynced: Option<Unsynced>,
}

impl Applying {
    async fn run(mut self, mut changes: mpsc::Receiver<Change<PartialObjectMeta<DynamicObject>>>) {
        while let Some(change) = changes.recv().await {
            let news = !matches!(&change, Change::Bookmark(_));
            let (state, left) = match &change {
                Change::Replace { .. } => (true, false),
                Change::Absent => (true, self.leaving.load(Ordering::Acquire)),
                _ => (false, false),
            };
            self.apply(change);
            if !news {
                continue;
            }
            self.shared.dispatch();
            if self.defines {
                self.shared.definitions.notify_one();
            }
            if state {
                self.unsynced = None;
            }
            if left {
                return;
            }
        }
    }

    fn apply(&self, change: Change<PartialObjectMeta<DynamicObject>>) {
        let graph = &self.shared.graph;
        match change {
            Change::Apply(object) => self.observe(&object),
            Change::Delete(object) => {
                graph.lock().gone(&Uid::new(object.metadata.uid.as_deref().unwrap_or_default()));
            }
            Change::Gone { key, .. } => {
                graph.lock().gone_by_name(self.source, key.namespace().unwrap_or_default(), key.name());
            }
            Change::Replace { objects, unreadable, .. } => {
                let mut listed = HashSet::with_capacity(objects.len());
                listed.extend(unreadable.iter().map(|object| Uid::new(&object.uid)));
                // One at a time, because other watches have changes too.
                for object in objects {
                    self.observe(&object);
                    listed.extend(object.metadata.uid.as_deref().map(Uid::new));
                }
                graph.lock().only(self.source, &listed);
            }
            Change::Absent => graph.lock().unserved(self.source),
            // It exists, and its owners are as last seen.
            Change::Unreadable(_) | Change::Bookmark(_) => {}
        }
    }

    fn observe(&self, object: &PartialObjectMeta<DynamicObject>) {
        let mut graph = self.shared.graph.lock();
        if let Some(observed) = graph.names.observed(&self.kind, &object.metadata) {
            graph.observe(self.source, observed);
        }
    }
}
