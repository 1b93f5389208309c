//! What a process is doing, for people: `/debug/state`.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::ApiResource;
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::cache::InformerStatus;

/// Named views of what goes on in a process. A cheap handle: clones share them.
#[derive(Clone, Default)]
pub struct DebugState {
    views: Arc<RwLock<BTreeMap<String, View>>>,
}

type View = Arc<dyn Fn() -> Value + Send + Sync>;

impl DebugState {
    /// No views.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a view, in place of one of the same name. It must answer at once, and show no secrets.
    pub fn add(&self, name: impl Into<String>, view: impl Fn() -> Value + Send + Sync + 'static) {
        self.views.write().insert(name.into(), Arc::new(view));
    }

    /// All views, by their names.
    pub fn show(&self) -> Value {
        let views: Vec<(String, View)> =
            self.views.read().iter().map(|(name, view)| (name.clone(), view.clone())).collect();
        Value::Object(views.into_iter().map(|(name, view)| (name, view())).collect())
    }
}

/// What an informer is up to.
pub(super) fn informer(status: &InformerStatus) -> Value {
    json!({
        "resource": resource(&status.resource),
        "version": status.resource.version,
        "namespace": status.scope.namespace,
        "labels": status.scope.labels,
        "fields": status.scope.fields,
        "synced": status.synced,
        "absent": status.absent,
        "failed": status.failed,
        "objects": status.objects,
        "revision": status.revision,
    })
}

/// `deployments.apps`.
pub(super) fn resource(resource: &ApiResource) -> String {
    if resource.group.is_empty() { resource.plural.clone() } else { format!("{}.{}", resource.plural, resource.group) }
}
