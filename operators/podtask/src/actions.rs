//! What can be done to a pod. Each step can be done again without harm.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Pod};
use kube::{ResourceExt, api::ObjectMeta};
use windlass::{Error, Result, context::Context, key::ObjectKey};

use crate::api::pod_task::PodTask;

/// The annotation of a pod that was made anew, with the uid of the one before it.
pub const SUCCESSOR_OF: &str = "ops.windlass.dev/successor-of";

/// How an attempt went.
#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is done; with what to tell.
    Done(String),
    /// It goes on when the pod changes.
    Waiting(String),
    /// It cannot be done, now at least.
    Failed(String),
}

/// The pod that a task is about, if it is there.
pub fn target(task: &PodTask, ctx: &Context) -> Result<Option<Arc<Pod>>> {
    Ok(ctx.get(&ObjectKey::namespaced(&task.namespace().unwrap_or_default(), &task.spec.target))?)
}

/// Ends the pod with the uid. One that nobody controls is made anew: its task keeps it in a ConfigMap meanwhile.
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
            Ok(Outcome::Done(if ours { format!("{name} was made anew") } else { format!("{name} was replaced") }))
        }
        None => {
            let Some(map) = ctx.get::<ConfigMap>(&saved)? else {
                return Ok(Outcome::Done(format!("{name} has ended; its controller replaces it")));
            };
            let text = map.data.as_ref().and_then(|data| data.get("pod.json")).map(String::as_str).unwrap_or_default();
            let pod: Pod = serde_json::from_str(text).map_err(Error::terminal)?;
            match ctx.create(pod).await {
                Err(error) if !error.is_already_exists() => return Ok(Outcome::Failed(error.to_string())),
                _ => ctx.delete(&map).await?,
            }
            Ok(Outcome::Done(format!("{name} was made anew")))
        }
    }
}

/// Writes the pod with the uid down. Answers with the name of the ConfigMap.
pub async fn snapshot(task: &Arc<PodTask>, uid: &str, ctx: &Context) -> Result<(Outcome, Option<String>)> {
    let Some(pod) = target(task, ctx)?.filter(|pod| pod.uid().as_deref() == Some(uid)) else {
        return Ok((Outcome::Failed(format!("{} is not the pod any more that it was", task.spec.target)), None));
    };
    let map = ctx.apply_owned(task, written(task, &snapshot_name(task), &pod)?).await?;
    let name = map.name_any();
    Ok((Outcome::Done(format!("{} is in the ConfigMap {name}", task.spec.target)), Some(name)))
}

/// A pod as a ConfigMap.
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

/// The pod as it was asked for, without what servers and nodes have added.
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
