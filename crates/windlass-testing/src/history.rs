//! What has happened to the objects of a test: read from the server's watches when the test fails, so that nothing has
//! to be recorded while it goes well.

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

/// How long nothing must come before a watch is taken to have told everything.
const QUIET: Duration = Duration::from_millis(60);

/// A state of an object, or its end.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Change {
    State(Value),
    End,
}

/// All that is known of an object.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Story {
    pub(crate) kind: String,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// With the revision of each.
    pub(crate) changes: Vec<(u64, Change)>,
}

/// What has happened since a revision, in the order in which objects came.
pub(crate) async fn stories(client: &Client, since: &str) -> Vec<Story> {
    let Ok(discovery) = Discovery::new(client.clone()).run_aggregated().await else { return Vec::new() };
    let mut watches = Vec::new();
    for group in discovery.groups() {
        for (resource, capabilities) in group.recommended_resources() {
            // The same events are in both groups.
            let twice = resource.kind == "Event" && resource.group.is_empty();
            if capabilities.supports_operation(verbs::WATCH) && !twice {
                let namespaced = capabilities.scope == Scope::Namespaced;
                watches.push(changes(client.clone(), resource, namespaced, since));
            }
        }
    }
    let mut stories: Vec<Story> = join_all(watches).await.into_iter().flatten().collect();
    stories.sort_by_key(|story| story.changes.first().map(|(revision, _)| *revision));
    stories
}

async fn changes(client: Client, resource: ApiResource, namespaced: bool, since: &str) -> Vec<Story> {
    let api: Api<DynamicObject> = Api::all_with(client, &resource);
    let params = WatchParams::default().disable_bookmarks();
    let Ok(events) = api.watch(&params, since).await else { return Vec::new() };
    let mut events = pin!(events.into_stream());
    let mut stories: Vec<Story> = Vec::new();
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
            true => Change::End,
            false => Change::State(serde_json::to_value(&object).unwrap_or_default()),
        };
        match stories.iter_mut().find(|story| story.name == name && story.namespace == namespace) {
            Some(story) => story.changes.push((revision, change)),
            None => {
                stories.push(Story { kind: resource.kind.clone(), namespace, name, changes: vec![(revision, change)] })
            }
        }
    }
    stories
}
