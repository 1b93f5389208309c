//! Maintains the number of pods of every ImoocPod.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};
use kube::api::ObjectMeta;
use windlass::prelude::*;

use crate::api::imooc_pod::{ImoocPod, ImoocPodStatus};

/// Label with the name of the ImoocPod that a pod belongs to.
const LABEL: &str = "k8s.example.com/imoocpod";
/// Number of pods that are created or deleted concurrently.
const MAX_CONCURRENT_PODS: usize = 50;

/// Watches ImoocPods and their pods.
pub fn controller() -> Controller<ImoocPod> {
    Controller::new("imoocpod", reconcile).owns::<Pod>().concurrency(4)
}

/// Creates missing pods, deletes surplus ones, and lists all in the status.
///
/// Does everything in one reconcile: the next one sees the pods that were created or deleted here, so that no pod is
/// counted twice or missed. If one request fails, the others of its batch are still sent.
pub async fn reconcile(parent: Arc<ImoocPod>, ctx: Context) -> Result<Action> {
    let plan = Plan::new(parent.spec.replicas, ctx.owned(&parent)?);
    for pods in plan.delete.chunks(MAX_CONCURRENT_PODS) {
        for deleted in join_all(pods.iter().map(|pod| ctx.delete(pod))).await {
            deleted?;
        }
    }
    let mut names: Vec<String> = plan.keep.iter().filter_map(|pod| pod.metadata.name.clone()).collect();
    let missing: Vec<Pod> = (0..plan.create).map(|_| pod(&parent)).collect();
    for pods in missing.chunks(MAX_CONCURRENT_PODS) {
        for created in join_all(pods.iter().map(|pod| ctx.create_owned(&parent, pod.clone()))).await {
            names.extend(created?.metadata.name.clone());
        }
    }
    names.sort_unstable();
    let status = ImoocPodStatus {
        replicas: i32::try_from(names.len()).unwrap_or(i32::MAX),
        pod_names: names,
        selector: format!("{LABEL}={}", parent.metadata.name.as_deref().unwrap_or_default()),
        ..ImoocPodStatus::default()
    };
    ctx.set_status(&parent, status).await?;
    Ok(Action::done())
}

/// The pods to create, keep and delete.
struct Plan {
    create: usize,
    keep: Vec<Arc<Pod>>,
    delete: Vec<Arc<Pod>>,
}

impl Plan {
    /// Pods that are being deleted do not count, finished pods are replaced, and the newest pods are deleted first.
    fn new(replicas: i32, pods: Vec<Arc<Pod>>) -> Self {
        let wanted = usize::try_from(replicas).unwrap_or(0);
        let staying = pods.into_iter().filter(|pod| pod.metadata.deletion_timestamp.is_none());
        let (mut delete, mut keep): (Vec<_>, Vec<_>) = staying.partition(|pod| has_ended(pod));
        // Pods of the same second are ordered by name, so that the order is stable.
        keep.sort_by_key(|pod| (pod.metadata.creation_timestamp.clone(), pod.metadata.name.clone()));
        delete.extend(keep.drain(wanted.min(keep.len())..));
        Self { create: wanted - keep.len(), keep, delete }
    }
}

fn has_ended(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    matches!(phase, Some("Succeeded" | "Failed"))
}

fn pod(parent: &ImoocPod) -> Pod {
    let name = parent.metadata.name.as_deref().unwrap_or_default();
    let command = ["sleep", "3600"].map(str::to_owned).to_vec();
    let container = Container {
        name: "busybox".to_owned(),
        image: Some("busybox".to_owned()),
        command: Some(command),
        ..Container::default()
    };
    Pod {
        metadata: ObjectMeta {
            generate_name: Some(format!("{name}-")),
            labels: Some(BTreeMap::from([(LABEL.to_owned(), name.to_owned())])),
            ..ObjectMeta::default()
        },
        spec: Some(PodSpec { containers: vec![container], ..PodSpec::default() }),
        ..Pod::default()
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};

    use super::*;

    fn pod(name: &str, second: i64, phase: &str, leaving: bool) -> Arc<Pod> {
        let time = |second| Time(Timestamp::from_second(second).unwrap());
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.creation_timestamp = Some(time(second));
        pod.metadata.deletion_timestamp = leaving.then(|| time(100));
        pod.status.get_or_insert_default().phase = Some(phase.to_owned());
        Arc::new(pod)
    }

    fn plan(replicas: i32, pods: &[(&str, i64, &str, bool)]) -> (usize, Vec<String>, Vec<String>) {
        let pods = pods.iter().map(|(name, second, phase, leaving)| pod(name, *second, phase, *leaving)).collect();
        let plan = Plan::new(replicas, pods);
        let names = |pods: &[Arc<Pod>]| pods.iter().map(|pod| pod.metadata.name.clone().unwrap()).collect();
        (plan.create, names(&plan.keep), names(&plan.delete))
    }

    #[test]
    fn the_newest_pods_are_deleted_first_and_all_at_once() {
        let pods = [("new", 9, "Running", false), ("old", 1, "Running", false), ("mid", 5, "Pending", false)];
        assert_eq!(plan(1, &pods), (0, vec!["old".into()], vec!["mid".into(), "new".into()]));
        assert_eq!(plan(-3, &pods).2.len(), 3);
    }

    #[test]
    fn terminating_pods_do_not_count_and_finished_ones_are_replaced() {
        let pods = [("gone", 1, "Running", true), ("failed", 2, "Failed", false), ("here", 3, "Running", false)];
        assert_eq!(plan(2, &pods), (1, vec!["here".into()], vec!["failed".into()]));
    }
}
