//! The history of a test's objects. It is read from watches of the server when the test fails, so that nothing needs to
//! be recorded while the test succeeds.

mod render;

use std::{pin::pin, time::Duration};

use futures_util::{StreamExt, TryStreamExt, future::join_all};
use kube::{
    Client,
    api::{Api, DynamicObject, WatchEvent, WatchParams},
    core::ApiResource,
    discovery::{Discovery, Scope, verbs},
};
use serde_json::Value;

pub(crate) use render::render;

/// A watch that is silent for this long is considered complete.
const QUIET: Duration = Duration::from_millis(60);

/// A state of an object, or its deletion.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    State(Value),
    Deleted,
}

/// All changes to an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObjectHistory {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The changes with their revisions, in order.
    pub(crate) changes: Vec<(u64, Change)>,
}

/// Returns all changes since a revision, ordered by each object's first change.
pub(crate) async fn histories(client: &Client, since: &str) -> Vec<ObjectHistory> {
    let Ok(discovery) = Discovery::new(client.clone()).run_aggregated().await else { return Vec::new() };
    let mut watches = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            // Both API groups serve the same events.
            let twice = resource.kind == "Event" && resource.group.is_empty();
            if capabilities.supports_operation(verbs::WATCH) && !twice {
                let namespaced = capabilities.scope == Scope::Namespaced;
                watches.push(changes(client.clone(), resource, namespaced, since));
            }
        }
    }
    let mut histories: Vec<ObjectHistory> = join_all(watches).await.into_iter().flatten().collect();
    histories.sort_by_key(|history| history.changes.first().map(|(revision, _)| *revision));
    histories
}

async fn changes(client: Client, resource: ApiResource, namespaced: bool, since: &str) -> Vec<ObjectHistory> {
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let params = WatchParams::default().disable_bookmarks();
    let Ok(events) = api.watch(&params, since).await else { return Vec::new() };
    let mut events = pin!(events.into_stream());
    let mut histories: Vec<ObjectHistory> = Vec::new();
    while let Ok(Some(Ok(event))) = tokio::time::timeout(QUIET, events.next()).await {
        let (object, ended) = match event {
            WatchEvent::Added(object) | WatchEvent::Modified(object) => (object, false),
            WatchEvent::Deleted(object) => (object, true),
            WatchEvent::Bookmark(_) => continue,
            WatchEvent::Error(_) => break,
        };
        let meta = &object.metadata;
        let (name, namespace) = (meta.name.clone().unwrap_or_default(), meta.namespace.clone().filter(|_| namespaced));
        let revision = meta.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default();
        let change = match ended {
            true => Change::Deleted,
            false => Change::State(serde_json::to_value(&object).unwrap_or_default()),
        };
        match histories.iter_mut().find(|history| history.name == name && history.namespace == namespace) {
            Some(history) => history.changes.push((revision, change)),
            None => histories.push(ObjectHistory {
                kind: resource.kind.clone(),
                namespace,
                name,
                changes: vec![(revision, change)],
            }),
        }
    }
    histories
}
