//! State of a process for debugging: `/debug/state`.

use std::{collections::BTreeMap, sync::Arc};

use kube::core::ApiResource;
use parking_lot::RwLock;
use serde_json::{Value, json};

use crate::{cache::InformerStatus, controller::ControllerView};

/// Named views of the state of a process. A cheap handle: clones share the views.
#[derive(Clone, Default)]
pub struct DebugState {
    views: Arc<RwLock<BTreeMap<String, View>>>,
}

type View = Arc<dyn Fn() -> Value + Send + Sync>;

impl DebugState {
    /// Creates an empty set of views.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a view, replacing one of the same name. It must return at once and must not reveal secrets.
    pub fn add(&self, name: impl Into<String>, view: impl Fn() -> Value + Send + Sync + 'static) {
        self.views.write().insert(name.into(), Arc::new(view));
    }

    /// Returns all views by name.
    pub fn show(&self) -> Value {
        let views: Vec<(String, View)> =
            self.views.read().iter().map(|(name, view)| (name.clone(), view.clone())).collect();
        Value::Object(views.into_iter().map(|(name, view)| (name, view())).collect())
    }
}

/// Returns the state of an informer.
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
        "unreadable": status.unreadable.iter().map(|object| json!({
            "object": object.key.to_string(),
            "resourceVersion": object.revision.to_string(),
            "problem": object.problem,
        })).collect::<Vec<_>>(),
    })
}

/// Returns the state of a controller.
pub(super) fn controller(controller: &ControllerView) -> Value {
    let (ControllerView { queue, .. }, (running, ended)) = (controller, controller.streams.counts());
    let mut state = json!({
        "name": &*controller.name,
        "resource": resource(&controller.resource),
        "workers": controller.workers,
        "queue": { "ready": queue.len(), "delayed": queue.delayed(), "held": queue.held() },
        "streams": { "running": running, "ended": ended },
    });
    if let Some(recent) = &controller.recent {
        state["reconciles"] = recent.view();
    }
    if let Some(daemons) = controller.daemons() {
        state["daemons"] = json!({ "running": daemons.running, "finished": daemons.finished });
    }
    state
}

/// `deployments.apps`.
pub(super) fn resource(resource: &ApiResource) -> String {
    if resource.group.is_empty() { resource.plural.clone() } else { format!("{}.{}", resource.plural, resource.group) }
}
