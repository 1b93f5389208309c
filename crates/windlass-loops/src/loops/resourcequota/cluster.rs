//! Metadata watches, one for each resource that a quota counts.

use std::collections::HashMap;

use futures_util::FutureExt as _;
use kube::{
    Api,
    api::{DynamicObject, ListParams},
    core::{ApiResource, PartialObjectMeta},
};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::{
    sync::mpsc,
    task::{AbortHandle, JoinSet},
};
use windlass::{
    Result,
    context::Context,
    controller::Trigger,
    scope::Scope,
    watch::{self, Change, WatchOptions},
};

use super::{naming, watched};
use crate::{discovery::Served, json_text};

/// Capacity of a channel for changes.
const WAITING: usize = 16;

/// Group and plural name.
type Key = (String, String);

/// The watches. They end when this is dropped.
pub(super) struct Monitors {
    trigger: Trigger,
    watches: Mutex<Watches>,
}

#[derive(Default)]
struct Watches {
    tasks: JoinSet<()>,
    running: HashMap<Key, (ApiResource, AbortHandle)>,
}

impl Monitors {
    /// Creates no watches yet. The trigger requests recalculation of quotas.
    pub(super) fn new(trigger: Trigger) -> Self {
        Self { trigger, watches: Mutex::default() }
    }

    /// Stops the watches of all other resources.
    pub(super) fn only(&self, named: &[Key]) {
        let mut watches = self.watches.lock();
        watches.running.retain(|key, (_, task)| {
            let stays = named.contains(key) && !task.is_finished();
            if !stays {
                task.abort();
            }
            stays
        });
        while watches.tasks.try_join_next().is_some() {}
    }

    /// Counts the objects of a resource in a namespace, and watches for deletions. Returns `None` if it is not served.
    pub(super) async fn count(&self, ctx: &Context, namespace: &str, group: &str, plural: &str) -> Result<Option<i64>> {
        let key = (group.to_owned(), plural.to_owned());
        let known = self.watches.lock().running.get(&key).map(|(resource, _)| resource.clone());
        if let Some(resource) = known {
            if let Some(number) = number(ctx, namespace, &resource).await? {
                return Ok(Some(number));
            }
            // It may be served in another version.
            if let Some((_, task)) = self.watches.lock().running.remove(&key) {
                task.abort();
            }
        }
        let Some(resource) = served(ctx, group, plural).await? else { return Ok(None) };
        self.watch(ctx, key, &resource);
        number(ctx, namespace, &resource).await
    }

    /// Returns the objects of a resource in a namespace, and watches for deletions. Returns `None` if it is not served.
    pub(super) async fn list(
        &self,
        ctx: &Context,
        namespace: &str,
        group: &str,
        plural: &str,
    ) -> Result<Option<Vec<Value>>> {
        let Some(resource) = served(ctx, group, plural).await? else { return Ok(None) };
        self.watch(ctx, (group.to_owned(), plural.to_owned()), &resource);
        values(&Api::namespaced_with(ctx.client(), namespace, &resource)).await
    }

    fn watch(&self, ctx: &Context, key: Key, resource: &ApiResource) {
        let mut watches = self.watches.lock();
        if watches.running.contains_key(&key) {
            return;
        }
        let task =
            watches.tasks.spawn(follow(ctx.clone(), key.clone(), resource.clone(), self.trigger.clone()).boxed());
        watches.running.insert(key, (resource.clone(), task));
    }
}

/// Returns the objects of a cluster-scoped resource; `None` if it is not served.
pub(super) async fn list_all(ctx: &Context, group: &str, plural: &str) -> Result<Option<Vec<Value>>> {
    let served = Served::fetch(&ctx.client()).await?;
    let mut listed = served.preferred(&["list"]);
    match listed.find(|one| one.resource.group == group && one.resource.plural == plural) {
        Some(found) => values(&Api::all_with(ctx.client(), &found.resource)).await,
        None => Ok(None),
    }
}

async fn values(api: &Api<DynamicObject>) -> Result<Option<Vec<Value>>> {
    match api.list(&ListParams::default()).await {
        Ok(list) => Ok(Some(list.items.iter().map(json_text::to_value).collect::<Result<_, _>>()?)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// The preferred version of a namespaced resource.
async fn served(ctx: &Context, group: &str, plural: &str) -> Result<Option<ApiResource>> {
    let served = Served::fetch(&ctx.client()).await?;
    let mut fitting = served.preferred(&["create", "list", "watch", "delete"]);
    let found = fitting.find(|one| one.namespaced && one.resource.group == group && one.resource.plural == plural);
    Ok(found.map(|one| one.resource.clone()))
}

/// Requests one object and the number of remaining ones.
async fn number(ctx: &Context, namespace: &str, resource: &ApiResource) -> Result<Option<i64>> {
    let api: Api<DynamicObject> = Api::namespaced_with(ctx.client(), namespace, resource);
    match api.list_metadata(&ListParams::default().limit(1)).await {
        Ok(list) => {
            let first = i64::try_from(list.items.len()).unwrap_or(i64::MAX);
            Ok(Some(first.saturating_add(list.metadata.remaining_item_count.unwrap_or_default())))
        }
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Triggers the quotas of a namespace when an object in it is deleted.
async fn follow(ctx: Context, key: Key, resource: ApiResource, trigger: Trigger) {
    let (sender, mut changes) = mpsc::channel::<Change<PartialObjectMeta<DynamicObject>>>(WAITING);
    let options = WatchOptions::new(resource, Scope::all()).metadata();
    let watching = watch::run(ctx.caches().client(), options, sender);
    let tell = |namespace: Option<&str>| {
        let concerned = naming(&ctx, namespace, |name| watched(name).as_ref() == Some(&key));
        concerned.into_iter().for_each(|quota| trigger.enqueue(quota));
    };
    let telling = async {
        while let Some(change) = changes.recv().await {
            match change {
                Change::Delete(object) => tell(object.metadata.namespace.as_deref()),
                Change::Gone { key, .. } => tell(key.namespace()),
                Change::Replace { .. } | Change::Absent => tell(None),
                Change::Apply(_) | Change::Unreadable(_) | Change::Bookmark(_) => {}
            }
        }
    };
    tokio::select! {
        () = watching => {}
        () = telling => {}
    }
}
