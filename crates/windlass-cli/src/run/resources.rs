//! Objects of the project's kinds, as they change.

use std::time::Duration;

use futures_util::{FutureExt as _, TryStreamExt as _};
use kube::{
    Api, Client,
    api::{ListParams, WatchEvent, WatchParams},
    core::{ApiResource, DynamicObject},
};
use serde_json::Value;
use tokio::task::JoinSet;

use super::event::{Condition, Event, Reporter, Resource};

/// Delay after a failed list or watch.
const PAUSE: Duration = Duration::from_secs(1);
/// Timeout of a watch in seconds, as Kubernetes clients use.
const WATCH: u32 = 290;

/// Watches the objects of kinds until dropped.
pub(crate) struct Resources {
    client: Client,
    reporter: Reporter,
    kinds: Vec<ApiResource>,
    tasks: JoinSet<()>,
}

impl Resources {
    /// Watches nothing yet.
    pub(crate) fn new(client: Client, reporter: Reporter) -> Self {
        Self { client, reporter, kinds: Vec::new(), tasks: JoinSet::new() }
    }

    /// Watches the kinds of these CRDs, and no others.
    pub(crate) async fn follow(&mut self, definitions: &[Value]) {
        let kinds: Vec<ApiResource> = definitions.iter().filter_map(kind).collect();
        if kinds == self.kinds {
            return;
        }
        self.tasks.shutdown().await;
        self.reporter.send(Event::Kinds(kinds.iter().map(|kind| kind.kind.clone()).collect())).await;
        for kind in &kinds {
            self.tasks.spawn(follow(self.client.clone(), kind.clone(), self.reporter.clone()).boxed());
        }
        self.kinds = kinds;
    }
}

/// The kind of a CRD in its storage version: reading it needs no conversion.
fn kind(definition: &Value) -> Option<ApiResource> {
    let text = |path: &str| definition.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let versions = definition.pointer("/spec/versions")?.as_array()?;
    let stored = versions.iter().find(|version| version["storage"] == true).or(versions.first())?;
    let (group, version) = (text("/spec/group")?, stored["name"].as_str()?.to_owned());
    Some(ApiResource {
        api_version: format!("{group}/{version}"),
        group,
        version,
        kind: text("/spec/names/kind")?,
        plural: text("/spec/names/plural")?,
    })
}

async fn follow(client: Client, kind: ApiResource, reporter: Reporter) {
    let api: Api<DynamicObject> = Api::all_with(client, &kind);
    loop {
        if let Err(error) = list_and_watch(&api, &kind.kind, &reporter).await {
            tracing::debug!(kind = kind.kind, %error, "failed to watch objects");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Reports all objects, then their changes. Returns when the resource version has expired.
async fn list_and_watch(api: &Api<DynamicObject>, kind: &str, reporter: &Reporter) -> Result<(), kube::Error> {
    let list = api.list(&ListParams::default()).await?;
    let mut version = list.metadata.resource_version.unwrap_or_default();
    let objects = list.items.iter().map(|object| summary(kind, object)).collect();
    reporter.send(Event::Resources { kind: kind.to_owned(), objects }).await;
    loop {
        let events = api.watch(&WatchParams::default().timeout(WATCH), &version).await?;
        futures_util::pin_mut!(events);
        while let Some(event) = events.try_next().await? {
            match event {
                WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                    version = object.metadata.resource_version.clone().unwrap_or(version);
                    reporter.send(Event::Resource(summary(kind, &object))).await;
                }
                WatchEvent::Deleted(object) => {
                    version = object.metadata.resource_version.clone().unwrap_or(version);
                    let Resource { kind, namespace, name, .. } = summary(kind, &object);
                    reporter.send(Event::Gone { kind, namespace, name }).await;
                }
                WatchEvent::Bookmark(mark) => version = mark.metadata.resource_version,
                WatchEvent::Error(_) => return Ok(()),
            }
        }
    }
}

/// The part of an object that is shown.
fn summary(kind: &str, object: &DynamicObject) -> Resource {
    let metadata = &object.metadata;
    let status = &object.data["status"];
    let condition = |condition: &Value| {
        let text = |name: &str| condition[name].as_str().unwrap_or_default().to_owned();
        Condition { kind: text("type"), status: text("status"), reason: text("reason"), message: text("message") }
    };
    let conditions: Vec<Condition> = status["conditions"].as_array().into_iter().flatten().map(condition).collect();
    let of_conditions = || {
        let observed = status["conditions"].as_array().into_iter().flatten();
        observed.filter_map(|condition| condition["observedGeneration"].as_i64()).max()
    };
    Resource {
        kind: kind.to_owned(),
        namespace: metadata.namespace.clone(),
        name: metadata.name.clone().unwrap_or_default(),
        generation: metadata.generation,
        observed: status["observedGeneration"].as_i64().or_else(of_conditions),
        created: metadata.creation_timestamp.as_ref().map(|time| time.0),
        deleting: metadata.deletion_timestamp.is_some(),
        conditions,
        phase: status["phase"].as_str().map(str::to_owned),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_storage_version_is_watched() {
        let definition = json!({ "spec": {
            "group": "example.com", "names": { "kind": "Book", "plural": "books" },
            "versions": [{ "name": "v2", "storage": false }, { "name": "v1", "storage": true }],
        }});
        let found = kind(&definition).unwrap();
        assert_eq!((found.api_version.as_str(), found.plural.as_str()), ("example.com/v1", "books"));
        assert_eq!(kind(&json!({ "spec": { "versions": [] } })), None);
    }

    #[test]
    fn objects_are_summarized() {
        let object: DynamicObject = serde_json::from_value(json!({
            "apiVersion": "example.com/v1", "kind": "Book",
            "metadata": { "name": "one", "namespace": "default", "generation": 2 },
            "status": { "conditions": [
                { "type": "Ready", "status": "True", "reason": "Done", "message": "all is well", "observedGeneration": 1 },
            ]},
        }))
        .unwrap();
        let Resource { namespace, name, generation, observed, conditions, phase, .. } = summary("Book", &object);
        assert_eq!((namespace.as_deref(), name.as_str()), (Some("default"), "one"));
        assert_eq!((generation, observed, phase), (Some(2), Some(1), None));
        let ready = Condition {
            kind: "Ready".into(),
            status: "True".into(),
            reason: "Done".into(),
            message: "all is well".into(),
        };
        assert_eq!(conditions, [ready]);
        let empty: DynamicObject = serde_json::from_value(json!({ "metadata": { "name": "x" } })).unwrap();
        assert_eq!(summary("Book", &empty).conditions, []);
    }
}
