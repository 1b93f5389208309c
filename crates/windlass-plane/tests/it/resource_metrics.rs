//! Resource metrics of the plane's own nodes, and autoscaling by them.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    autoscaling::v2::HorizontalPodAutoscaler,
    core::v1::{Event, Pod},
};
use kube::{
    Api,
    api::{ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestPlane, eventually, fixtures, fixtures::Fixture as _};

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

async fn get(plane: &TestPlane, path: &str, accept: &str) -> Value {
    let request = http::Request::get(path).header(http::header::ACCEPT, accept).body(Vec::new()).unwrap();
    match plane.client().request_text(request).await {
        Ok(text) => serde_json::from_str(&text).unwrap_or(Value::String(text)),
        Err(kube::Error::Api(status)) => json!({"code": status.code, "message": status.message}),
        Err(error) => panic!("{error}"),
    }
}

/// A pod with two containers, of which one requests resources.
fn pod(name: &str) -> Pod {
    serde_json::from_value(json!({
        "metadata": {"name": name, "labels": {"app": name}},
        "spec": {"containers": [
            {"name": "main", "image": "i", "resources": {"requests": {"cpu": "500m", "memory": "100Mi"}}},
            {"name": "idle", "image": "i"},
        ]},
    }))
    .unwrap()
}

/// Returns the cells of a row without the window, and the window in seconds.
fn cells(table: &Value) -> (Value, f64) {
    let mut cells = table["rows"][0]["cells"].as_array().unwrap().clone();
    let window = cells.pop().unwrap();
    (cells.into(), window.as_str().unwrap().trim_end_matches('s').parse().unwrap())
}

async fn running(plane: &TestPlane, name: &str) {
    let pods = plane.api::<Pod>();
    eventually(&format!("pod {name} runs"), async || {
        let status = pods.get(name).await.unwrap().status?;
        (status.phase.as_deref() == Some("Running")).then_some(())
    })
    .await;
}

#[tokio::test]
async fn simulated_pods_use_half_of_their_requests() {
    let plane = TestPlane::builder().nodes(1).resource_metrics().virtual_time().await;
    plane.create(pod("web")).await;
    plane.create(pod("busy").annotated("windlass.dev/cpu-usage", "main=90%,idle=1m")).await;
    running(&plane, "web").await;
    running(&plane, "busy").await;
    plane.advance(Duration::from_secs(60)).await;
    let namespace = plane.namespace();
    let path = format!("/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods");
    let list = get(&plane, &path, "application/json").await;
    assert_eq!((&list["kind"], &list["metadata"]), (&json!("PodMetricsList"), &json!({})));
    let items = list["items"].as_array().unwrap();
    let names: Vec<&Value> = items.iter().map(|item| &item["metadata"]["name"]).collect();
    assert_eq!(names, ["busy", "web"]);
    let containers = json!([{"name": "idle", "usage": {"cpu": "10m", "memory": "32Mi"}},
        {"name": "main", "usage": {"cpu": "250m", "memory": "50Mi"}}]);
    assert_eq!(items[1]["containers"], containers);
    assert_eq!(items[1]["metadata"]["labels"], json!({"app": "web"}));
    let table = get(&plane, &format!("{path}?labelSelector=app%3Dbusy"), TABLE).await;
    let columns: Vec<&Value> = table["columnDefinitions"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(columns, ["Name", "cpu", "memory", "Window"]);
    let (of_busy, window) = cells(&table);
    assert_eq!(of_busy, json!(["busy", "451m", "82Mi"]));
    // The first request measured twice.
    assert!((1.0..1.5).contains(&window), "{window}");
    assert_eq!(table["rows"].as_array().unwrap().len(), 1);
    let one = get(&plane, &format!("{path}/web"), "application/json").await;
    assert_eq!(one["kind"], "PodMetrics");
    let missing = get(&plane, &format!("{path}/nobody"), "application/json").await;
    let expected = "pods.metrics.k8s.io \"nobody\" not found";
    assert_eq!(missing, json!({"code": 404, "message": expected}));
    let nodes = get(&plane, "/apis/metrics.k8s.io/v1beta1/nodes?fieldSelector=metadata.name%3Dnode-1", TABLE).await;
    assert_eq!(cells(&nodes).0, json!(["node-1", "711m", "164Mi"]));
    // Nothing can be written.
    let deletion = http::Request::delete(format!("{path}/web")).body(Vec::new()).unwrap();
    assert!(plane.client().request_text(deletion).await.is_err());
    plane.advance(Duration::from_secs(20)).await;
    let nodes = get(&plane, "/apis/metrics.k8s.io/v1beta1/nodes", TABLE).await;
    let (of_node, window) = cells(&nodes);
    assert_eq!(of_node, json!(["node-1", "711m", "164Mi"]));
    assert!((20.0..21.5).contains(&window), "{window}");
}

#[tokio::test]
async fn the_group_is_served_by_this_server_and_can_only_be_read() {
    let plane = TestPlane::builder().nodes(1).resource_metrics().await;
    let resources = get(&plane, "/apis/metrics.k8s.io/v1beta1", "application/json").await;
    let resource = |name: &str, kind: &str, namespaced: bool| json!({"name": name, "singularName": "", "namespaced": namespaced, "kind": kind, "verbs": ["get", "list"]});
    let expected = json!([resource("nodes", "NodeMetrics", false), resource("pods", "PodMetrics", true)]);
    assert_eq!(resources["resources"], expected);
    let path = "/apis/apiregistration.k8s.io/v1/apiservices/v1beta1.metrics.k8s.io";
    let service = get(&plane, path, "application/json").await;
    assert_eq!(service["status"]["conditions"][0]["reason"], "Local", "{service}");
    assert!(service["spec"]["service"].is_null());
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(get(&plane, definitions, "application/json").await["items"], json!([]));
    let document = get(&plane, "/openapi/v3/apis/metrics.k8s.io/v1beta1", "application/json").await;
    let operations = &document["paths"]["/apis/metrics.k8s.io/v1beta1/namespaces/{namespace}/pods/{name}"];
    assert!(operations["get"].is_object(), "{operations}");
    assert!(operations["delete"].is_null() && operations["put"].is_null(), "{operations}");
}

#[tokio::test]
async fn a_node_serves_the_metrics_of_its_kubelet() {
    let plane = TestPlane::builder().nodes(1).resource_metrics().await;
    plane.create(fixtures::pod("web")).await;
    running(&plane, "web").await;
    let text = get(&plane, "/api/v1/nodes/node-1/proxy/metrics/resource", "*/*").await;
    let line =
        format!("container_start_time_seconds{{container=\"main\",namespace=\"{}\",pod=\"web\"}}", plane.namespace());
    assert!(text.as_str().is_some_and(|text| text.contains(&line)), "{text}");
    assert_eq!(get(&plane, "/api/v1/nodes/node-1/proxy/healthz", "*/*").await, "ok");
    assert_eq!(get(&plane, "/api/v1/nodes/node-1/proxy/pods", "*/*").await["code"], 404);
    assert_eq!(get(&plane, "/api/v1/nodes/nobody/proxy/healthz", "*/*").await["code"], 404);
}

/// A deployment whose pods request 100m and use this, and an autoscaler for it.
async fn autoscaled(plane: &TestPlane, usage: &str, metric: Value) {
    let template = json!({
        "metadata": {"labels": {"app": "web"}, "annotations": {"windlass.dev/cpu-usage": usage}},
        "spec": {"containers": [
            {"name": "main", "image": "i", "resources": {"requests": {"cpu": "100m", "memory": "100Mi"}}}]},
    });
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"replicas": 1,
        "selector": {"matchLabels": {"app": "web"}}, "template": template}});
    let deployment: Deployment = serde_json::from_value(deployment).unwrap();
    plane.api().create(&PostParams::default(), &deployment).await.unwrap();
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let spec = json!({"minReplicas": 1, "maxReplicas": 6, "scaleTargetRef": target, "metrics": [metric]});
    let autoscaler: HorizontalPodAutoscaler =
        serde_json::from_value(json!({"metadata": {"name": "web"}, "spec": spec})).unwrap();
    plane.api().create(&PostParams::default(), &autoscaler).await.unwrap();
}

/// Waits until this number of replicas is ready.
async fn replicas(plane: &TestPlane, count: i32) {
    let deployments: Api<Deployment> = plane.api();
    let mut waited = Duration::ZERO;
    loop {
        let ready = deployments.get("web").await.unwrap().status.unwrap().ready_replicas.unwrap_or_default();
        if ready == count {
            return;
        }
        assert!(waited < Duration::from_secs(3600), "there are {ready} replicas, not {count}");
        plane.advance(Duration::from_secs(5)).await;
        waited += Duration::from_secs(5);
    }
}

/// Changes what all current pods use.
async fn use_cpu(plane: &TestPlane, usage: &str) {
    let pods: Api<Pod> = plane.api();
    let patch = Patch::Merge(json!({"metadata": {"annotations": {"windlass.dev/cpu-usage": usage}}}));
    for pod in pods.list(&ListParams::default()).await.unwrap() {
        let name = pod.metadata.name.unwrap();
        pods.patch(&name, &PatchParams::default(), &patch).await.unwrap();
    }
}

#[tokio::test]
async fn a_deployment_is_scaled_up_and_down_with_the_usage_of_its_pods() {
    let plane = TestPlane::builder().nodes(1).resource_metrics().virtual_time().await;
    let target = json!({"type": "Utilization", "averageUtilization": 50});
    autoscaled(&plane, "200m", json!({"type": "Resource", "resource": {"name": "cpu", "target": target}})).await;
    replicas(&plane, 6).await;
    let autoscalers: Api<HorizontalPodAutoscaler> = plane.api();
    // It stays there: the limit is reached.
    plane.advance(Duration::from_secs(60)).await;
    let status = autoscalers.get("web").await.unwrap().status.unwrap();
    let current = serde_json::to_value(&status.current_metrics.unwrap()[0]).unwrap();
    assert_eq!(current["resource"]["current"], json!({"averageUtilization": 200, "averageValue": "200m"}));
    let reason = |kind: &str| {
        let conditions = status.conditions.iter().flatten();
        conditions.filter(|condition| condition.type_ == kind).find_map(|condition| condition.reason.clone())
    };
    assert_eq!(reason("ScalingActive").as_deref(), Some("ValidMetricFound"));
    assert_eq!(reason("ScalingLimited").as_deref(), Some("TooManyReplicas"));
    use_cpu(&plane, "10m").await;
    plane.advance(Duration::from_secs(240)).await;
    assert_eq!(plane.api::<Deployment>().get("web").await.unwrap().spec.unwrap().replicas, Some(6), "it is too early");
    replicas(&plane, 2).await;
    replicas(&plane, 1).await;
    let events = plane.api::<Event>().list(&ListParams::default()).await.unwrap();
    let rescaled: Vec<String> = events
        .into_iter()
        .filter(|event| event.reason.as_deref() == Some("SuccessfulRescale"))
        .filter_map(|event| event.message)
        .collect();
    let up = "New size: 4; reason: cpu resource utilization (percentage of request) above target";
    for message in [up, "New size: 2; reason: All metrics below target"] {
        assert!(rescaled.iter().any(|have| have == message), "{rescaled:?}");
    }
}

#[tokio::test]
async fn one_container_can_be_the_measure() {
    let plane = TestPlane::builder().nodes(1).resource_metrics().virtual_time().await;
    let target = json!({"type": "AverageValue", "averageValue": "100m"});
    let metric = json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "main", "target": target}});
    autoscaled(&plane, "300m", metric).await;
    replicas(&plane, 3).await;
    let status = plane.api::<HorizontalPodAutoscaler>().get("web").await.unwrap().status.unwrap();
    let current = serde_json::to_value(&status.current_metrics.unwrap()[0]).unwrap();
    assert_eq!(current["containerResource"]["current"], json!({"averageValue": "300m"}));
}
