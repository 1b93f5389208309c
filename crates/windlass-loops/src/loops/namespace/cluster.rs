//! The requests of the loop: deletes the contents of a namespace, and watches what remains.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use futures_util::{
    FutureExt as _,
    future::{join_all, try_join_all},
};
use kube::{
    Api, Client,
    api::{DeleteParams, DynamicObject, ListParams},
    core::{ApiResource, PartialObjectMeta, Request},
};
use parking_lot::Mutex;
use serde::Deserialize;
use tokio::{sync::mpsc, task::AbortHandle};
use windlass::{
    controller::Trigger,
    key::ObjectKey,
    scope::Scope,
    watch::{self, Change, WatchOptions},
};

use super::contents::{Contents, Found, FoundObject, FoundPods, Rest, incomplete, message};
use crate::discovery::{Served, ServedResource};

/// Number of resources that are processed at the same time.
const MAX_CONCURRENT_RESOURCES: usize = 8;

/// Deletes everything in a namespace that was deleted `age` seconds ago.
pub(super) async fn delete_contents(
    client: &Client,
    namespace: &str,
    served: Result<Arc<Served>, kube::Error>,
    age: i64,
) -> Contents {
    let mut contents = Contents::default();
    let served = match served {
        Ok(served) => served,
        Err(error) => {
            contents.discovery_failure = Some(message(&error));
            return contents;
        }
    };
    if !served.unknown.is_empty() {
        contents.discovery_failure = Some(incomplete(&served.unknown));
    }
    let namespaced = served.preferred(&["delete"]).filter(|one| one.namespaced);
    let (pods, others): (Vec<_>, Vec<_>) =
        namespaced.partition(|one| one.resource.group.is_empty() && one.resource.plural == "pods");
    for pods in pods {
        let rest = delete_all(client, namespace, pods, age).await;
        contents.add(pods, rest);
    }
    if !contents.remaining.is_empty() {
        contents.only_pods = true;
        return contents;
    }
    for some in others.chunks(MAX_CONCURRENT_RESOURCES) {
        let rests = join_all(some.iter().map(|one| delete_all(client, namespace, one, age).boxed())).await;
        for (one, rest) in some.iter().zip(rests) {
            contents.add(one, rest);
        }
    }
    contents
}

async fn delete_all(client: &Client, namespace: &str, one: &ServedResource, age: i64) -> Rest {
    let mut rest = Rest::default();
    if let Err(error) = try_delete_all(client, namespace, one, age, &mut rest).await {
        // A resource that is no longer served or does not support deletion does not keep a namespace.
        let unsupported = matches!(&error, kube::Error::Api(status) if matches!(status.code, 404 | 405));
        if !unsupported {
            rest.failure = Some(message(&error));
        }
    }
    rest
}

async fn try_delete_all(
    client: &Client,
    namespace: &str,
    one: &ServedResource,
    age: i64,
    rest: &mut Rest,
) -> Result<(), kube::Error> {
    let resource = &one.resource;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let (everything, background) = (ListParams::default(), DeleteParams::background());
    let lists = one.has("list");
    let found = if lists { list(client, &api).await? } else { Vec::new() };
    if lists && found.is_empty() {
        return Ok(());
    }
    if resource.group.is_empty() && resource.plural == "pods" {
        let request = Request::new(api.resource_url()).list(&everything).map_err(kube::Error::BuildRequest)?;
        let pods: FoundPods = client.request(request).await?;
        rest.wait_for_pods(&pods.items, age);
    }
    if one.has("deletecollection") {
        let request = Request::new(api.resource_url()).delete_collection(&background, &everything);
        let Skipped {} = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    } else {
        let names = found.iter().filter_map(|object| object.metadata.name.as_deref());
        try_join_all(names.map(|name| delete_one(&api, name, &background).boxed())).await?;
    }
    let left = if lists { list(client, &api).await? } else { Vec::new() };
    if left.is_empty() {
        rest.estimate = 0;
        return Ok(());
    }
    rest.remain(namespace, resource, &left);
    Ok(())
}

/// A response whose contents are not needed.
#[derive(Deserialize)]
struct Skipped {}

async fn list(client: &Client, api: &Api<DynamicObject>) -> Result<Vec<FoundObject>, kube::Error> {
    let request = Request::new(api.resource_url()).list_metadata(&ListParams::default());
    let found: Found = client.request(request.map_err(kube::Error::BuildRequest)?).await?;
    Ok(found.items.unwrap_or_default())
}

async fn delete_one(api: &Api<DynamicObject>, name: &str, params: &DeleteParams) -> Result<(), kube::Error> {
    match api.delete(name, params).await {
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 405) => Ok(()),
        result => result.map(drop),
    }
}

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
            resources.map(|resource| gone(client.clone(), namespace.to_owned(), resource.clone()).boxed()).collect();
        let (trigger, key) = (self.trigger.clone(), ObjectKey::cluster(namespace));
        let task = async move {
            join_all(gone).await;
            trigger.enqueue(key);
        };
        let watching = tokio::spawn(task.boxed());
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
