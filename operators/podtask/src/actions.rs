//! The actions on a pod. Each step is idempotent.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{ResourceExt, api::ObjectMeta};
use windlass::{Error, Result, context::Context, key::ObjectKey};

use crate::api::pod_task::PodTask;

/// Annotation of a recreated pod with the UID of its predecessor.
pub const SUCCESSOR_OF: &str = "ops.windlass.dev/successor-of";

/// Result of an attempt.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The action succeeded, with a message.
    Done(String),
    /// The action continues when the pod changes.
    Waiting(String),
    /// The attempt failed.
    Failed(String),
}

/// Returns the key of the target pod of a task.
pub fn pod_of(task: &PodTask) -> ObjectKey {
    ObjectKey::namespaced(&task.namespace().unwrap_or_default(), &task.spec.target)
}

/// Returns the target pod of a task, or `None` if it does not exist.
pub fn target(task: &PodTask, ctx: &Context) -> Result<Option<Arc<Pod>>> {
    Ok(ctx.get(&pod_of(task))?)
}

/// Deletes the pod with the UID. A pod without a controller is recreated: the task keeps it in a ConfigMap in the
/// meantime.
pub async fn restart(task: &Arc<PodTask>, uid: &str, ctx: &Context) -> Result<Outcome> {
    let name = &task.spec.target;
    let saved = ObjectKey::namespaced(&task.namespace().unwrap_or_default(), &saved_name(task));
    match target(task, ctx)? {
        Some(pod) if pod.uid().as_deref() == Some(uid) => {
            if pod.metadata.deletion_timestamp.is_none() {
                if !is_controlled(&pod) {
                    ctx.apply_owned(task, written(task, &saved_name(task), &successor(&pod, uid))?).await?;
                }
                ctx.delete(&pod).await?;
            }
            Ok(Outcome::Waiting(format!("waiting until {name} has ended")))
        }
        Some(pod) => {
            let ours = pod.annotations().get(SUCCESSOR_OF).is_some_and(|before| before == uid);
            if let Some(map) = ctx.get::<ConfigMap>(&saved)? {
                ctx.delete(&map).await?;
            }
            Ok(Outcome::Done(if ours { format!("recreated pod {name}") } else { format!("pod {name} was replaced") }))
        }
        None => {
            let Some(map) = ctx.get::<ConfigMap>(&saved)? else {
                return Ok(Outcome::Done(format!("deleted pod {name}; its controller replaces it")));
            };
            let text = map.data.as_ref().and_then(|data| data.get("pod.json")).map(String::as_str).unwrap_or_default();
            let pod: Pod = serde_json::from_str(text).map_err(Error::terminal)?;
            match ctx.create(pod).await {
                Err(error) if !error.is_already_exists() => return Ok(Outcome::Failed(error.to_string())),
                _ => ctx.delete(&map).await?,
            }
            Ok(Outcome::Done(format!("recreated pod {name}")))
        }
    }
}

/// Saves the pod with the UID, and returns the name of the ConfigMap.
pub async fn snapshot(task: &Arc<PodTask>, uid: &str, ctx: &Context) -> Result<(Outcome, Option<String>)> {
    let Some(pod) = target(task, ctx)?.filter(|pod| pod.uid().as_deref() == Some(uid)) else {
        return Ok((
            Outcome::Failed(format!("pod {} has been replaced since the task started", task.spec.target)),
            None,
        ));
    };
    let map = ctx.apply_owned(task, written(task, &snapshot_name(task), &pod)?).await?;
    let name = map.name_any();
    Ok((Outcome::Done(format!("saved pod {} to ConfigMap {name}", task.spec.target)), Some(name)))
}

/// Returns a ConfigMap that holds a pod.
fn written(task: &PodTask, name: &str, pod: &Pod) -> Result<ConfigMap> {
    let text = serde_json::to_string_pretty(pod).map_err(Error::terminal)?;
    Ok(ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.to_owned()),
            labels: Some([("ops.windlass.dev/podtask".to_owned(), task.name_any())].into()),
            ..ObjectMeta::default()
        },
        data: Some([("pod.json".to_owned(), text)].into()),
        ..ConfigMap::default()
    })
}

/// Returns the pod as it was created, without fields that were set by the server or a node.
fn successor(pod: &Pod, uid: &str) -> Pod {
    let mut spec = pod.spec.clone();
    if let Some(spec) = &mut spec {
        spec.node_name = None;
    }
    let mut annotations = pod.metadata.annotations.clone().unwrap_or_default();
    annotations.insert(SUCCESSOR_OF.to_owned(), uid.to_owned());
    Pod {
        metadata: ObjectMeta {
            name: pod.metadata.name.clone(),
            namespace: pod.metadata.namespace.clone(),
            labels: pod.metadata.labels.clone(),
            annotations: Some(annotations),
            owner_references: pod.metadata.owner_references.clone(),
            ..ObjectMeta::default()
        },
        spec,
        status: None,
    }
}

fn is_controlled(pod: &Pod) -> bool {
    pod.owner_references().iter().any(|owner| owner.controller == Some(true))
}

fn saved_name(task: &PodTask) -> String {
    format!("{}-restart", task.name_any())
}

fn snapshot_name(task: &PodTask) -> String {
    format!("{}-snapshot", task.name_any())
}
