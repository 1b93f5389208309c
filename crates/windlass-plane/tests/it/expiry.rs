//! What goes by itself, in hours that pass at once.

use std::time::Duration;

use k8s_openapi::api::{batch::v1::Job, coordination::v1::Lease, core::v1::Event};
use kube::{
    Api,
    api::{Patch, PatchParams, PostParams},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

fn event(name: &str, namespace: &str) -> Event {
    serde_json::from_value(json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": namespace},
        "reason": "Tested", "message": "a", "type": "Normal",
    }))
    .unwrap()
}

#[tokio::test]
async fn events_are_forgotten_an_hour_after_their_last_write() {
    let plane = TestPlane::builder().virtual_time().await;
    let events = plane.api::<Event>();
    for name in ["once", "again"] {
        events.create(&PostParams::default(), &event(name, plane.namespace())).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(40 * 60)).await;
    let patch = Patch::Merge(json!({"count": 2}));
    events.patch("again", &PatchParams::default(), &patch).await.unwrap();
    tokio::time::sleep(Duration::from_secs(15 * 60)).await;
    assert!(events.get_opt("once").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(6 * 60)).await;
    assert!(events.get_opt("once").await.unwrap().is_none());
    assert!(events.get_opt("again").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(40 * 60)).await;
    assert!(events.get_opt("again").await.unwrap().is_none());
}

#[tokio::test]
async fn a_finished_job_goes_when_its_time_is_up() {
    let plane = TestPlane::builder().virtual_time().controllers("ttl-after-finished-controller".parse().unwrap()).await;
    let jobs = plane.api::<Job>();
    let job: Job = serde_json::from_value(json!({
        "metadata": {"name": "once"},
        "spec": {"ttlSecondsAfterFinished": 100, "template": {"spec": {"restartPolicy": "Never",
            "containers": [{"name": "c", "image": "i"}]}}},
    }))
    .unwrap();
    jobs.create(&PostParams::default(), &job).await.unwrap();
    tokio::time::sleep(Duration::from_secs(1000)).await;
    let now = windlass_clock::now_in_seconds().to_string();
    let finished = json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1, "conditions": [
        {"type": "SuccessCriteriaMet", "status": "True", "lastTransitionTime": now},
        {"type": "Complete", "status": "True", "lastTransitionTime": now},
    ]}});
    jobs.patch_status("once", &PatchParams::default(), &Patch::Merge(finished)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(95)).await;
    // Given more time, it stays for longer.
    let more = json!({"spec": {"ttlSecondsAfterFinished": 200}});
    jobs.patch("once", &PatchParams::default(), &Patch::Merge(more)).await.unwrap();
    tokio::time::sleep(Duration::from_secs(95)).await;
    assert!(jobs.get("once").await.unwrap().metadata.deletion_timestamp.is_none());
    eventually("it goes", async || match jobs.get_opt("once").await.unwrap() {
        None => Some(()),
        Some(job) => job.metadata.deletion_timestamp.map(|_| ()),
    })
    .await;
}

#[tokio::test]
async fn the_lease_of_a_server_that_is_gone_goes() {
    let plane = TestPlane::builder().virtual_time().await;
    let leases: Api<Lease> = Api::namespaced(plane.client(), "kube-system");
    let lease = |name: &str, labels: serde_json::Value, seconds: i32| -> Lease {
        let renewed = windlass_clock::now();
        let spec = json!({"holderIdentity": name, "leaseDurationSeconds": seconds,
            "renewTime": renewed.strftime("%Y-%m-%dT%H:%M:%S.000000Z").to_string()});
        serde_json::from_value(json!({"metadata": {"name": name, "labels": labels}, "spec": spec})).unwrap()
    };
    let server = || json!({"apiserver.kubernetes.io/identity": "kube-apiserver"});
    for lease in
        [lease("gone", server(), 3600), lease("there", server(), 1_000_000), lease("of-somebody-else", json!({}), 3600)]
    {
        leases.create(&PostParams::default(), &lease).await.unwrap();
    }
    tokio::time::sleep(Duration::from_secs(50 * 60)).await;
    assert!(leases.get_opt("gone").await.unwrap().is_some());
    tokio::time::sleep(Duration::from_secs(2 * 3600)).await;
    assert!(leases.get_opt("gone").await.unwrap().is_none());
    assert!(leases.get_opt("there").await.unwrap().is_some());
    assert!(leases.get_opt("of-somebody-else").await.unwrap().is_some());
}
