//! The metrics of simulated nodes, read through the API server.

use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use metrics_server::Kubelets;
use windlass_resource_metrics::{MeasuredObject, MetricsSource as _};
use windlass_testing::{TestPlane, eventually, fixtures, fixtures::Fixture as _};

#[tokio::test]
async fn what_pods_use_is_read_from_the_kubelets() {
    let plane = TestPlane::builder().nodes(2).resource_metrics().await;
    let pod = fixtures::pod("web").annotated("windlass.dev/cpu-usage", "250m");
    plane.create(pod.annotated("windlass.dev/memory-usage", "64Mi")).await;
    let pods = plane.api::<Pod>();
    eventually("the pod runs", async || {
        let statuses = pods.get("web").await.unwrap().status?.container_statuses?;
        statuses[0].state.as_ref()?.running.as_ref().map(|_| ())
    })
    .await;
    let kubelets = Arc::new(Kubelets::default());
    assert!(kubelets.measure().await.is_err(), "there is no client yet");
    kubelets.connect(plane.client());
    let mut samples = kubelets.measure().await.unwrap();
    samples.sort_by(|one, other| one.name.cmp(&other.name));
    let names: Vec<&str> = samples.iter().map(|sample| sample.name.as_str()).collect();
    assert_eq!(names, ["node-1", "node-2"]);
    let of_pods: Vec<_> = samples.iter().flat_map(|sample| &sample.pods).collect();
    assert_eq!((of_pods.len(), of_pods[0].name.as_str(), of_pods[0].namespace.as_str()), (1, "web", plane.namespace()));
    let point = of_pods[0].containers.values().next().unwrap();
    assert_eq!(point.memory, 64 << 20);
    let age = u64::try_from(point.time.duration_since(point.started.unwrap()).as_millis()).unwrap();
    let used = point.cpu / 1_000_000;
    assert!(used.abs_diff(age / 4) <= 1, "{used} ms of CPU time in {age} ms");
    let listed = kubelets.pods(plane.namespace()).await.unwrap();
    let web = MeasuredObject { namespace: plane.namespace().to_owned(), name: "web".to_owned(), ..listed[0].clone() };
    assert_eq!(listed, [web]);
}
