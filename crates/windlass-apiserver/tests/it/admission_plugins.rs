//! The plugins that are enabled by default, except for plugins with their own file.

use std::sync::Arc;

use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    admission::{AdmissionConfiguration, TolerationSeconds},
};
use windlass_store::memory::MemoryStore;

use crate::client::Client;

const PODS: &str = "/api/v1/namespaces/default/pods";
const NODES: &str = "/api/v1/nodes";

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "i"}],
    }});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

fn node(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": {
        "topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1", "other": "x",
    }}, "status": {"allocatable": {"cpu": "1", "memory": "1Gi"}}})
}

#[tokio::test]
async fn a_pod_has_the_overhead_and_the_constraints_of_its_runtime_class() {
    let client = Client::new().await;
    let missing = client.post(PODS, &pod("a", json!({"runtimeClassName": "kata"}))).await;
    assert_eq!(missing.code, 403);
    assert_eq!(missing.message(), r#"pods "a" is forbidden: pod rejected: RuntimeClass "kata" not found"#);
    let class = json!({"apiVersion": "node.k8s.io/v1", "kind": "RuntimeClass", "metadata": {"name": "kata"},
        "handler": "kata", "overhead": {"podFixed": {"cpu": "250m"}}, "scheduling": {"nodeSelector": {"runtime": "kata"}}});
    client.post("/apis/node.k8s.io/v1/runtimeclasses", &class).await.expect(201);
    let created = client.post(PODS, &pod("a", json!({"runtimeClassName": "kata"}))).await.expect(201);
    assert_eq!(created["spec"]["overhead"], json!({"cpu": "250m"}));
    assert_eq!(created["spec"]["nodeSelector"], json!({"runtime": "kata"}));
    let rejected = client.post(PODS, &pod("b", json!({"overhead": {"cpu": "1"}}))).await;
    assert_eq!(
        rejected.message(),
        "pods \"b\" is forbidden: pod rejected: Pod Overhead set without corresponding RuntimeClass defined Overhead"
    );
}

#[tokio::test]
async fn a_pod_gets_the_zone_of_its_node_when_it_is_bound() {
    let client = Client::new().await;
    client.post(NODES, &node("n")).await.expect(201);
    client.post(PODS, &pod("bound", json!({}))).await.expect(201);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "bound"},
        "target": {"kind": "Node", "name": "n"}});
    client.post(&format!("{PODS}/bound/binding"), &binding).await.expect(201);
    let expected = json!({"topology.kubernetes.io/zone": "z1", "topology.kubernetes.io/region": "r1"});
    let bound = client.get(&format!("{PODS}/bound")).await.expect(200);
    assert_eq!(bound["metadata"]["labels"], expected);
    let created = client.post(PODS, &pod("created", json!({"nodeName": "n"}))).await.expect(201);
    assert_eq!(created["metadata"]["labels"], expected);
    let elsewhere = client.post(PODS, &pod("elsewhere", json!({"nodeName": "unknown"}))).await.expect(201);
    assert_eq!(elsewhere["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn a_pod_is_resized_to_what_its_node_has() {
    let client = Client::new().await;
    client.post(NODES, &node("n")).await.expect(201);
    let requests = |cpu: &str| json!([{"name": "c", "image": "i", "resources": {"requests": {"cpu": cpu}}}]);
    client.post(PODS, &pod("p", json!({"nodeName": "n", "containers": requests("500m")}))).await.expect(201);
    let resize = |cpu: &str| json!({"spec": {"containers": requests(cpu)}}).to_string();
    let strategic = [("content-type", "application/strategic-merge-patch+json")];
    let path = format!("{PODS}/p/resize");
    client.ask(http::Method::PATCH, &path, &strategic, resize("1")).await.expect(200);
    let rejected = client.ask(http::Method::PATCH, &path, &strategic, resize("1001m")).await;
    assert_eq!(rejected.code, 403);
    assert_eq!(
        rejected.message(),
        "pods \"p\" is forbidden: node didn't have enough allocatable resources: cpu, requested: 1001, allocatable: 1000"
    );
    assert_eq!(rejected.json()["details"]["causes"], json!([{"reason": "NodeCapacity"}]));
}

#[tokio::test]
async fn there_is_one_default_priority_class() {
    let client = Client::new().await;
    let path = "/apis/scheduling.k8s.io/v1/priorityclasses";
    let class = |name: &str, default: bool| {
        json!({"apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": name}, "value": 7,
            "globalDefault": default})
    };
    client.post(path, &class("one", true)).await.expect(201);
    client.post(path, &class("two", false)).await.expect(201);
    let expected = |name: &str| {
        format!(
            "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: PriorityClass one is already marked as default. Only \
             one default can exist"
        )
    };
    let second = client.post(path, &class("three", true)).await;
    assert_eq!((second.code, second.message()), (403, expected("three")));
    let changed = client.merge(&format!("{path}/two"), &json!({"globalDefault": true})).await;
    assert_eq!((changed.code, changed.message()), (403, expected("two")));
    client.merge(&format!("{path}/one"), &json!({"description": "d"})).await.expect(200);
    let pod = client.post(PODS, &pod("p", json!({}))).await.expect(201);
    assert_eq!((&pod["spec"]["priorityClassName"], &pod["spec"]["priority"]), (&json!("one"), &json!(7)));
}

#[tokio::test]
async fn each_plugin_can_be_disabled() {
    let plugins =
        ["Priority", "DefaultTolerationSeconds", "TaintNodesByCondition", "PodTopologyLabels", "RuntimeClass"];
    let builder = Server::builder(Arc::new(MemoryStore::new()));
    let server = builder.disable_admission_plugins(plugins.map(str::to_owned)).build().await.unwrap();
    let client = Client::of(server);
    let node = client.post(NODES, &node("n")).await.expect(201);
    assert_eq!(node["spec"]["taints"], Value::Null);
    let spec = json!({"nodeName": "n", "runtimeClassName": "x", "priorityClassName": "y", "overhead": {"cpu": "1"}});
    let pod = client.post(PODS, &pod("p", spec)).await.expect(201);
    assert_eq!((&pod["spec"]["priority"], &pod["spec"]["tolerations"]), (&Value::Null, &Value::Null));
    assert_eq!(pod["metadata"]["labels"], Value::Null);
}

#[tokio::test]
async fn a_dry_run_may_state_a_resource_version() {
    let client = Client::new().await;
    let mut object = crate::client::config_map("a");
    object["metadata"]["resourceVersion"] = json!("7");
    let path = crate::client::CONFIG_MAPS;
    let tried = client.post(&format!("{path}?dryRun=All"), &object).await.expect(201);
    assert_eq!(tried["metadata"]["resourceVersion"], "7");
    let rejected = client.post(path, &object).await;
    assert_eq!(
        (rejected.code, rejected.message().as_str()),
        (500, "resourceVersion should not be set on objects to be created")
    );
    object["metadata"]["resourceVersion"] = json!("0");
    let created = client.post(path, &object).await.expect(201);
    assert_ne!(created["metadata"]["resourceVersion"], "0");
}

#[tokio::test]
async fn resources_that_are_not_stored_have_no_tables() {
    let client = Client::new().await;
    let headers = [("accept", "application/json;as=Table;v=v1;g=meta.k8s.io"), ("content-type", "application/json")];
    let review = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview", "spec": {
        "resourceAttributes": {"verb": "get", "resource": "pods"},
    }});
    let path = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
    let rejected = client.ask(http::Method::POST, path, &headers, review.to_string()).await;
    assert_eq!((rejected.code, rejected.json()["reason"].as_str()), (406, Some("NotAcceptable")));
    let deployment = json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "d"}, "spec": {
        "replicas": 3, "selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}},
    }});
    let path = "/apis/apps/v1/namespaces/default/deployments";
    client.post(path, &deployment).await.expect(201);
    let scale = client.ask(http::Method::GET, &format!("{path}/d/scale"), &headers, "").await.expect(200);
    let columns: Vec<_> = scale["columnDefinitions"].as_array().unwrap().iter().map(|column| &column["name"]).collect();
    assert_eq!(columns, ["Name", "Desired", "Available", "Age"]);
    assert_eq!(scale["rows"][0]["cells"].as_array().unwrap()[..3], [json!("d"), json!(3), json!(0)]);
}

#[tokio::test]
async fn access_to_devices_of_others_needs_a_label_on_the_namespace() {
    let client = Client::new().await;
    let spec =
        json!({"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "c", "adminAccess": true}}]}});
    let claim =
        json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": {"name": "a"}, "spec": spec});
    let template = json!({"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaimTemplate",
        "metadata": {"name": "a"}, "spec": {"spec": spec}});
    let base = "/apis/resource.k8s.io/v1/namespaces/default";
    let why = "Forbidden: admin access to devices requires the `resource.kubernetes.io/admin-access: true` label on the \
               containing namespace";
    for (resource, kind, object, field) in [
        ("resourceclaims", "ResourceClaim", &claim, "spec.devices.requests[0].adminAccess"),
        ("resourceclaimtemplates", "ResourceClaimTemplate", &template, "spec.spec.devices.requests[0].adminAccess"),
    ] {
        let rejected = client.post(&format!("{base}/{resource}"), object).await;
        let message = format!("{kind}.resource.k8s.io \"a\" is invalid: {field}: {why}");
        assert_eq!((rejected.code, rejected.message()), (422, message));
    }
    let labels = json!({"metadata": {"labels": {"resource.kubernetes.io/admin-access": "true"}}});
    client.merge("/api/v1/namespaces/default", &labels).await.expect(200);
    client.post(&format!("{base}/resourceclaims"), &claim).await.expect(201);
    client.post(&format!("{base}/resourceclaimtemplates"), &template).await.expect(201);
}

#[tokio::test]
async fn pods_tolerate_failing_nodes_as_long_as_configured() {
    let tolerations = TolerationSeconds { not_ready: 7, unreachable: 0 };
    let configuration = AdmissionConfiguration { tolerations, ..AdmissionConfiguration::default() };
    let builder = Server::builder(Arc::new(MemoryStore::new())).admission_configuration(configuration);
    let client = Client::of(builder.build().await.unwrap());
    let created = client.post(PODS, &pod("a", json!({}))).await.expect(201);
    let found: Vec<_> = created["spec"]["tolerations"]
        .as_array()
        .unwrap()
        .iter()
        .map(|toleration| (toleration["key"].as_str().unwrap(), toleration["tolerationSeconds"].as_i64().unwrap()))
        .collect();
    assert_eq!(found, [("node.kubernetes.io/not-ready", 7), ("node.kubernetes.io/unreachable", 0)]);
}

#[tokio::test]
async fn nothing_is_created_below_objects_of_a_namespace_that_ends_or_is_missing() {
    let client = Client::new().await;
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": "n"}})).await.expect(201);
    let kept = json!(["example.com/wait"]);
    let pod =
        json!({"metadata": {"name": "p", "finalizers": kept}, "spec": {"containers": [{"name": "c", "image": "i"}]}});
    client.post("/api/v1/namespaces/n/pods", &pod).await.expect(201);
    client.post("/api/v1/namespaces/n/serviceaccounts", &json!({"metadata": {"name": "p"}})).await.expect(201);
    client.delete("/api/v1/namespaces/n").await.expect(200);
    let binding = json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": "p"},
        "target": {"kind": "Node", "name": "n"}});
    let eviction = json!({"apiVersion": "policy/v1", "kind": "Eviction", "metadata": {"name": "p"}});
    for (path, resource, object) in [
        ("pods/p/binding", "pods", &binding),
        ("bindings", "bindings", &binding),
        ("pods/p/eviction", "pods", &eviction),
        ("serviceaccounts/p/token", "serviceaccounts", &json!({"spec": {}})),
    ] {
        let rejected = client.post(&format!("/api/v1/namespaces/n/{path}"), object).await.expect(403);
        assert_eq!(
            rejected["message"],
            format!(
                "{resource} \"p\" is forbidden: unable to create new content in namespace n because it is being \
                 terminated"
            )
        );
        assert_eq!(rejected["details"]["causes"][0]["reason"], "NamespaceTerminating");
        let rejected = client.post(&format!("/api/v1/namespaces/missing/{path}"), object).await.expect(404);
        assert_eq!(rejected["message"], "namespaces \"missing\" not found");
    }
    client.get("/api/v1/namespaces/n/pods/p").await.expect(200);
}
