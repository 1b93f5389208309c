use std::{convert::Infallible, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube::{Client, client::Body};
use parking_lot::Mutex;
use serde_json::{Value, json};

use windlass::context::Context;

use super::{super::super::calculate::Tolerances, *};

/// A metrics server: its responses by path, and the received requests.
struct Served {
    ctx: Context,
    asked: Arc<Mutex<Vec<String>>>,
}

fn serve(answers: Vec<(&'static str, Value)>) -> Served {
    let asked = Arc::<Mutex<Vec<String>>>::default();
    let asking = asked.clone();
    let service = tower::service_fn(move |request: http::Request<Body>| {
        let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
        let answer = answers.iter().find(|(known, _)| *known == path).map(|(_, answer)| answer.to_string());
        let status = if answer.is_some() { 200 } else { 404 };
        asking.lock().push(path);
        let missing = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 404,
            "reason": "NotFound", "message": "there is no such thing"});
        let body = answer.unwrap_or_else(|| missing.to_string()).into_bytes();
        let response = http::Response::builder().status(status).body(Body::from(body)).unwrap();
        async move { Ok::<_, Infallible>(response) }
    });
    let client = Client::new(service, "n");
    Served { ctx: Context::builder(client).field_manager("test").build(), asked }
}

fn pods(count: usize) -> Vec<Arc<Pod>> {
    let pod = |number: usize| {
        let ready = json!({"type": "Ready", "status": "True", "lastTransitionTime": "2020-01-01T00:01:00Z"});
        let status = json!({"phase": "Running", "startTime": "2020-01-01T00:00:00Z", "conditions": [ready]});
        let object = json!({"metadata": {"name": format!("web-{number}"), "namespace": "n"}, "status": status});
        Arc::new(serde_json::from_value(object).unwrap())
    };
    (0..count).map(pod).collect()
}

/// Evaluates a metric for two ready replicas.
async fn evaluate(served: &Served, spec: Value) -> Result<(i32, String, Value), (&'static str, String)> {
    let pods = pods(2);
    let situation = Situation {
        current: 2,
        pods: &pods,
        tolerances: Tolerances { down: 0.1, up: 0.1 },
        now: "2026-01-01T00:00:00Z".parse().unwrap(),
    };
    let source = Source { ctx: &served.ctx, namespace: "n", selector: "app=web", present: 2, situation };
    match source.evaluate(&serde_json::from_value(spec).unwrap()).await {
        Ok(found) => Ok((found.replicas, found.name, serde_json::to_value(found.status).unwrap())),
        Err(failure) => Err((failure.reason, failure.cause)),
    }
}

fn group(versions: &[&str]) -> (&'static str, Value) {
    let versions: Vec<Value> = versions.iter().map(|version| json!({"version": version})).collect();
    ("/apis/custom.metrics.k8s.io", json!({"kind": "APIGroup", "versions": versions}))
}

fn value(pod: &str, value: &str) -> Value {
    json!({"describedObject": {"kind": "Pod", "name": pod}, "timestamp": "2026-01-01T00:00:00Z", "value": value})
}

#[tokio::test]
async fn a_metric_of_pods_is_brought_to_an_average() {
    let spec = json!({"type": "Pods", "pods": {"metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": "100"}}});
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/*/requests?labelSelector=app%3Dweb";
    let list = json!({"items": [value("web-0", "300"), value("web-1", "100")]});
    let served = serve(vec![group(&["v1beta1", "v1beta2"]), (path, list.clone())]);
    let (replicas, name, status) = evaluate(&served, spec.clone()).await.unwrap();
    assert_eq!((replicas, name.as_str()), (4, "pods metric requests"));
    let current = json!({"averageValue": "200"});
    assert_eq!(status, json!({"type": "Pods", "pods": {"metric": {"name": "requests"}, "current": current}}));

    // An older version, and only some of the series.
    let old = "/apis/custom.metrics.k8s.io/v1beta1/namespaces/n/pods/*/requests?labelSelector=app%3Dweb&metricLabelSelector=verb%3DGET";
    let mut some = spec;
    some["pods"]["metric"]["selector"] = json!({"matchLabels": {"verb": "GET"}});
    let served = serve(vec![group(&["v1beta1"]), (old, list)]);
    assert_eq!(evaluate(&served, some).await.unwrap().0, 4, "{:?}", served.asked.lock());
}

#[tokio::test]
async fn a_metric_of_an_object_is_brought_to_a_value_or_shared() {
    let ingresses = json!({"resources": [{"name": "ingresses/status", "kind": "Ingress"}, {"name": "ingresses", "kind": "Ingress"}]});
    let path = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/ingresses.networking.k8s.io/main/hits?";
    let served = serve(vec![
        group(&["v1beta2"]),
        ("/apis/networking.k8s.io/v1", ingresses),
        (path, json!({"items": [{"value": "50"}]})),
        ("/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/metrics/hits?", json!({"items": [{"value": "10"}]})),
    ]);
    let object = json!({"apiVersion": "networking.k8s.io/v1", "kind": "Ingress", "name": "main"});
    let spec = |object: &Value, target: Value| json!({"type": "Object", "object": {"metric": {"name": "hits"}, "describedObject": object, "target": target}});
    let (replicas, name, status) =
        evaluate(&served, spec(&object, json!({"type": "Value", "value": "10"}))).await.unwrap();
    assert_eq!((replicas, name.as_str()), (10, "Ingress metric hits"));
    assert_eq!(status["object"]["current"], json!({"value": "50"}));
    let (replicas, name, status) =
        evaluate(&served, spec(&object, json!({"type": "AverageValue", "averageValue": "10"}))).await.unwrap();
    assert_eq!((replicas, name.as_str()), (5, "external metric hits(nil)"));
    assert_eq!(status["object"]["current"], json!({"averageValue": "25"}));
    // Only the autoscaler's own namespace is allowed.
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "name": "another"});
    let found = evaluate(&served, spec(&namespace, json!({"type": "Value", "value": "10"}))).await.unwrap();
    assert_eq!(found.0, 2, "it is within the tolerance");
}

#[tokio::test]
async fn an_external_metric_is_the_sum_of_its_series() {
    let path = "/apis/external.metrics.k8s.io/v1beta1/namespaces/n/queue?labelSelector=topic%3Da";
    let served = serve(vec![(path, json!({"items": [{"value": "30"}, {"value": "1500m"}]}))]);
    let spec = |target: Value| {
        let metric = json!({"name": "queue", "selector": {"matchLabels": {"topic": "a"}}});
        json!({"type": "External", "external": {"metric": metric, "target": target}})
    };
    let (replicas, name, status) = evaluate(&served, spec(json!({"type": "Value", "value": "21"}))).await.unwrap();
    assert_eq!(replicas, 3);
    assert!(
        name.starts_with("external metric queue(&LabelSelector{MatchLabels:map[string]string{topic: a,}"),
        "{name}"
    );
    assert_eq!(status["external"]["current"], json!({"value": "31500m"}));
    let shared = evaluate(&served, spec(json!({"type": "AverageValue", "averageValue": "5"}))).await.unwrap();
    assert_eq!((shared.0, &shared.2["external"]["current"]), (7, &json!({"averageValue": "15750m"})));
}

#[tokio::test]
async fn without_a_metrics_server_the_failure_names_the_missing_api() {
    let served = serve(vec![]);
    let pods = json!({"type": "Pods", "pods": {"metric": {"name": "requests"},
        "target": {"type": "AverageValue", "averageValue": "100"}}});
    let (reason, cause) = evaluate(&served, pods.clone()).await.unwrap_err();
    let expected = "unable to get metric requests: unable to fetch metrics from custom metrics API: no custom metrics API (custom.metrics.k8s.io) registered";
    assert_eq!((reason, cause.as_str()), ("FailedGetPodsMetric", expected));
    let external = json!({"type": "External", "external": {"metric": {"name": "queue"},
        "target": {"type": "Value", "value": "1"}}});
    let (reason, cause) = evaluate(&served, external).await.unwrap_err();
    let expected = "unable to get external metric n/queue/nil: unable to fetch metrics from external metrics API: the server could not find the requested resource (get queue.external.metrics.k8s.io)";
    assert_eq!((reason, cause.as_str()), ("FailedGetExternalMetric", expected));
    let empty = "/apis/custom.metrics.k8s.io/v1beta2/namespaces/n/pods/*/requests?labelSelector=app%3Dweb";
    let served = serve(vec![group(&["v1beta2"]), (empty, json!({"items": []}))]);
    let (_, cause) = evaluate(&served, pods).await.unwrap_err();
    assert_eq!(cause, "unable to get metric requests: no metrics returned from custom metrics API");
}
