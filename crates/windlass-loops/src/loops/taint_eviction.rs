//! Pods leave a node with a taint of the effect `NoExecute` that they do not tolerate: at once, or when the time for
//! which they tolerate it is over.

use std::{collections::HashMap, sync::Arc, time::Duration};

use k8s_openapi::api::core::v1::{Node, ObjectReference, Pod, Taint, Toleration};
use kube::{
    ResourceExt as _,
    api::{DeleteParams, Patch},
};
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;
use windlass::{
    Result,
    context::Context,
    controller::{
        Action, Reconciler, Watch,
        filter::{Change, Filter},
    },
    events::EventType,
    key::ObjectKey,
    operator::Operator,
};

use crate::scheduling::tolerates;
use crate::{
    loops::{ClusterCertificates, controller},
    pods::{by_node, disruption_target, node_of},
};

pub(super) fn add(operator: Operator, _certificates: &ClusterCertificates) -> Operator {
    let evictions = Evictions::default();
    let appointments = evictions.appointments.clone();
    let tainted = Filter::new(|change: &Change<'_, Node>| change.old.map(no_execute) != change.new.map(no_execute));
    let controller = controller::<Pod>("taint-eviction-controller", evictions)
        .filter(Filter::new(concerns))
        .source(Watch::<Node>::new().filter(tainted).map(pods_on))
        .concurrency(8)
        .on_deleted(move |key, ctx| {
            let cancelled = appointments.lock().remove(&key).is_some();
            async move {
                if cancelled {
                    record(&ctx, &key, "Cancelling deletion of");
                }
                Ok(())
            }
        });
    operator.controller(controller)
}

/// Whether an event of a pod matters: where it is, what it tolerates, and its end.
fn concerns(change: &Change<'_, Pod>) -> bool {
    let tolerations = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.tolerations.clone());
    match (change.old, change.new) {
        (Some(old), Some(new)) if !change.resync => {
            node_of(old) != node_of(new) || tolerations(old) != tolerations(new)
        }
        (_, Some(new)) => node_of(new).is_some(),
        (_, None) => true,
    }
}

fn pods_on(node: &Node, ctx: &Context) -> Vec<ObjectKey> {
    let Ok(pods) = ctx.informer::<Pod>() else { return Vec::new() };
    by_node(&pods).get(&node.name_any()).iter().map(|pod| ObjectKey::of(pod.as_ref())).collect()
}

/// The taints of a node that make pods leave.
fn no_execute(node: &Node) -> Vec<Taint> {
    let taints = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    taints.into_iter().flatten().filter(|taint| taint.effect == "NoExecute").cloned().collect()
}

/// How long a pod may stay.
#[derive(Debug, PartialEq, Eq)]
enum Stay {
    /// For as long as it likes.
    Forever,
    /// For so long.
    For(Duration),
    /// No longer: there is a taint that it does not tolerate.
    NoLonger,
}

fn stay(tolerations: &[Toleration], taints: &[Taint]) -> Stay {
    let mut shortest = None;
    for taint in taints {
        let fits = |toleration: &&Toleration| tolerates(std::slice::from_ref(*toleration), taint);
        let Some(toleration) = tolerations.iter().find(fits) else { return Stay::NoLonger };
        if let Some(seconds) = toleration.toleration_seconds {
            let seconds = u64::try_from(seconds).unwrap_or_default();
            shortest = Some(shortest.map_or(seconds, |known: u64| known.min(seconds)));
        }
    }
    shortest.map_or(Stay::Forever, |seconds| Stay::For(Duration::from_secs(seconds)))
}

/// When pods are to go.
#[derive(Default)]
struct Evictions {
    appointments: Arc<Mutex<HashMap<ObjectKey, Appointment>>>,
}

/// When a pod is to go. It holds, whatever becomes of the taints and tolerations, for as long as there is some end to
/// its stay.
#[derive(Clone)]
struct Appointment {
    uid: Option<String>,
    /// None is a time beyond all others.
    at: Option<Instant>,
}

impl Reconciler<Pod> for Evictions {
    async fn reconcile(&self, pod: Arc<Pod>, ctx: Context) -> Result<Action> {
        let Some(node) = node_of(&pod) else { return Ok(Action::done()) };
        // Of a node that is gone nobody knows the taints; what was arranged stays so.
        let Some(node) = ctx.get::<Node>(&ObjectKey::cluster(node))? else { return Ok(self.wait(&pod)) };
        let tolerations = pod.spec.as_ref().and_then(|spec| spec.tolerations.as_deref()).unwrap_or_default();
        let key = ObjectKey::of(pod.as_ref());
        match stay(tolerations, &no_execute(&node)) {
            Stay::Forever => {
                self.cancel(&key, &ctx);
                Ok(Action::done())
            }
            Stay::NoLonger => {
                self.cancel(&key, &ctx);
                evict(&pod, &key, &ctx).await
            }
            Stay::For(time) => match self.appointment(&pod, time).at {
                Some(at) if at <= Instant::now() => {
                    let evicted = evict(&pod, &key, &ctx).await?;
                    self.appointments.lock().remove(&key);
                    Ok(evicted)
                }
                _ => Ok(self.wait(&pod)),
            },
        }
    }
}

impl Evictions {
    /// The pod's appointment, which is made if there is none.
    fn appointment(&self, pod: &Pod, time: Duration) -> Appointment {
        let mut appointments = self.appointments.lock();
        let new = || Appointment { uid: pod.metadata.uid.clone(), at: Instant::now().checked_add(time) };
        let entry = appointments.entry(ObjectKey::of(pod)).or_insert_with(new);
        if entry.uid != pod.metadata.uid {
            *entry = new();
        }
        entry.clone()
    }

    /// Comes back when it is time.
    fn wait(&self, pod: &Pod) -> Action {
        let appointments = self.appointments.lock();
        let at = appointments.get(&ObjectKey::of(pod)).and_then(|appointment| appointment.at);
        at.map_or_else(Action::done, |at| Action::requeue_after(at.saturating_duration_since(Instant::now())))
    }

    fn cancel(&self, key: &ObjectKey, ctx: &Context) {
        if self.appointments.lock().remove(key).is_some() {
            record(ctx, key, "Cancelling deletion of");
        }
    }
}

/// Makes a pod go, and say why.
async fn evict(pod: &Pod, key: &ObjectKey, ctx: &Context) -> Result<Action> {
    record(ctx, key, "Marking for deletion");
    let message = "Taint manager: deleting due to NoExecute taint";
    let now = windlass_clock::now_in_seconds();
    if let Some(condition) = disruption_target(pod, "DeletionByTaintManager", message, now) {
        let patch = json!({"metadata": {"uid": pod.metadata.uid}, "status": {"conditions": [condition]}});
        match ctx.kind::<Pod>().patch_status(key, &Patch::Strategic(patch)).await {
            Err(error) if error.is_not_found() => return Ok(Action::done()),
            written => drop(written?),
        }
    }
    match ctx.delete_with(pod, &DeleteParams::default()).await {
        Err(error) if !error.is_conflict() => Err(error.into()),
        _ => Ok(Action::done()),
    }
}

fn record(ctx: &Context, key: &ObjectKey, what: &str) {
    let about = ObjectReference {
        api_version: Some("v1".to_owned()),
        kind: Some("Pod".to_owned()),
        name: Some(key.name().to_owned()),
        namespace: key.namespace().map(str::to_owned),
        ..ObjectReference::default()
    };
    let note = format!("{what} Pod {}/{}", key.namespace().unwrap_or_default(), key.name());
    ctx.recorder().record(&about, EventType::Normal, "TaintManagerEviction", "", &note);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    #[test]
    fn a_pod_stays_for_as_long_as_it_tolerates_every_taint() {
        let taint = |key: &str| json!({"key": key, "effect": "NoExecute"});
        let forever = |key: &str| json!({"key": key, "operator": "Exists"});
        let briefly = |key: &str, seconds: i64| json!({"key": key, "operator": "Exists", "tolerationSeconds": seconds});
        let seconds = |seconds| Stay::For(Duration::from_secs(seconds));
        for (tolerations, taints, expected) in [
            (json!([]), json!([]), Stay::Forever),
            (json!([]), json!([taint("a")]), Stay::NoLonger),
            (json!([forever("a")]), json!([taint("a")]), Stay::Forever),
            (json!([forever("a")]), json!([taint("a"), taint("b")]), Stay::NoLonger),
            (json!([briefly("a", 9), briefly("b", 5)]), json!([taint("a"), taint("b")]), seconds(5)),
            (json!([briefly("a", 9), forever("b")]), json!([taint("a"), taint("b")]), seconds(9)),
            (json!([briefly("a", -1)]), json!([taint("a")]), seconds(0)),
            // The first that fits counts.
            (json!([forever("a"), briefly("a", 9)]), json!([taint("a")]), Stay::Forever),
        ] {
            let parse = |value: &Value| serde_json::from_value(value.clone()).unwrap();
            let (wants, has): (Vec<Toleration>, Value) = (parse(&tolerations), taints.clone());
            let has: Vec<Taint> = serde_json::from_value(has).unwrap();
            assert_eq!(stay(&wants, &has), expected, "{tolerations} {taints}");
        }
    }

    #[test]
    fn only_the_place_the_tolerations_and_the_end_of_a_pod_matter() {
        let pod = |node: &str, tolerations: Value, phase: &str| -> Pod {
            let spec = json!({"nodeName": node, "containers": [], "tolerations": tolerations});
            serde_json::from_value(json!({"spec": spec, "status": {"phase": phase}})).unwrap()
        };
        let (free, placed) = (pod("", json!([]), "Pending"), pod("n", json!([]), "Pending"));
        let (running, tolerant) = (pod("n", json!([]), "Running"), pod("n", json!([{"key": "a"}]), "Pending"));
        for (old, new, expected) in [
            (None, Some(&free), false),
            (None, Some(&placed), true),
            (Some(&free), Some(&placed), true),
            (Some(&placed), Some(&running), false),
            (Some(&placed), Some(&tolerant), true),
            (Some(&placed), None, true),
        ] {
            assert_eq!(concerns(&Change { old, new, initial: false, resync: false }), expected);
        }
    }
}
