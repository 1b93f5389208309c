//! Controllers against an API server.

use std::{
    fmt::Debug,
    sync::{Arc, Mutex},
};

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api, Client, Resource,
    api::{Patch, PatchParams, PostParams},
};
use serde::{Serialize, de::DeserializeOwned};
use windlass_runtime::{
    context::{Context, ContextBuilder},
    controller::{Controller, ControllerError},
    events::Recorder,
    key::ObjectKey,
    object::Object,
    shutdown::Shutdown,
};

use crate::cluster::eventually;

mod attempts;
mod causes;
mod daemons;
mod definitions;
mod errors;
mod finalizers;
mod kinds;
mod life;
mod mapping;
mod sources;
mod sync;
mod terminating;
mod unreadable;
mod watch_sets;
mod watches;
mod writes;

/// Returns a context like the one that an operator passes to its controllers.
fn context(client: Client) -> ContextBuilder {
    let recorder = Recorder::new(client.clone(), "test-controller", "test");
    Context::builder(client).recorder(recorder).field_manager("test-operator")
}

/// A running controller. Ends, at the latest, when it is dropped.
struct Running {
    context: Context,
    shutdown: Shutdown,
    task: tokio::task::JoinHandle<Result<(), ControllerError>>,
}

impl Running {
    fn start<K: Object>(client: Client, controller: Controller<K>) -> Self {
        Self::with(context(client).build(), controller)
    }

    fn with<K: Object>(context: Context, controller: Controller<K>) -> Self {
        let shutdown = Shutdown::new();
        let task = tokio::spawn(controller.run(&context, shutdown.clone()));
        Self { context, shutdown, task }
    }

    async fn stop(mut self) {
        self.shutdown.drain();
        (&mut self.task).await.unwrap().unwrap();
    }

    /// Returns the value of a metric.
    fn metric(&self, name: &str) -> f64 {
        let text = self.context.metrics().encode();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("{name} in {text}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Journal of what reconciles have seen. Clones share it.
struct Journal<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Journal<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T: Clone + Debug> Journal<T> {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn write(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    fn read(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }

    fn count(&self, holds: impl Fn(&T) -> bool) -> usize {
        self.read().iter().filter(|entry| holds(entry)).count()
    }

    /// Waits until there are this many entries.
    async fn has(&self, entries: usize) {
        eventually(&format!("{entries} entries"), async || (self.read().len() >= entries).then_some(())).await;
    }

    async fn until(&self, what: &str, holds: impl Fn(&[T]) -> bool) {
        eventually(what, async || holds(&self.read()).then_some(())).await;
    }
}

fn config(name: &str) -> ConfigMap {
    ConfigMap { metadata: ObjectMeta { name: Some(name.into()), ..ObjectMeta::default() }, ..ConfigMap::default() }
}

async fn create<K>(api: &Api<K>, object: K) -> K
where
    K: Clone + DeserializeOwned + Serialize + Debug,
{
    api.create(&PostParams::default(), &object).await.unwrap()
}

async fn merge<K>(api: &Api<K>, name: &str, patch: serde_json::Value) -> K
where
    K: Clone + DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await.unwrap()
}

/// Returns a controlling owner reference.
fn controlled_by<K: Resource<DynamicType = ()>>(owner: &K) -> OwnerReference {
    owner.controller_owner_ref(&()).unwrap()
}

fn name_of(object: &impl Resource) -> String {
    ObjectKey::of(object).name().to_owned()
}
