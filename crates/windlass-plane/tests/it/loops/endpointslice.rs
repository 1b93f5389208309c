//! Endpoint slices, endpoints, and slices that mirror endpoints written by users.

use k8s_openapi::api::{
    core::v1::{Endpoints, Node, Pod, Service},
    discovery::v1::EndpointSlice,
};
use kube::{
    Api, ResourceExt as _,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::{Value, json};
use windlass_testing::{TestCluster, TestPlane, eventually};

async fn plane() -> TestPlane {
    let loops =
        "endpointslice-controller,endpoints-controller,endpointslice-mirroring-controller,garbage-collector-controller";
    let plane = TestPlane::builder().controllers(loops.parse().unwrap()).await;
    let node: Node = serde_json::from_value(
        json!({ "metadata": { "name": "n", "labels": { "topology.kubernetes.io/zone": "z" } } }),
    )
    .unwrap();
    Api::<Node>::all(plane.client()).create(&PostParams::default(), &node).await.unwrap();
    plane
}

async fn create_service(cluster: &TestCluster, name: &str, spec: Value) -> Service {
    let service = json!({ "metadata": { "name": name, "labels": { "of": "test" } }, "spec": spec });
    let service = serde_json::from_value(service).unwrap();
    cluster.api::<Service>().create(&PostParams::default(), &service).await.unwrap()
}

async fn create_pod(cluster: &TestCluster, name: &str, node: Option<&str>, ip: &str, ready: bool) {
    let pod = json!({ "metadata": { "name": name, "labels": { "app": "web" } },
        "spec": { "nodeName": node, "containers": [{ "name": "c", "image": "x",
            "ports": [{ "name": "http", "containerPort": 8080 }] }] } });
    let pods = cluster.api::<Pod>();
    pods.create(&PostParams::default(), &serde_json::from_value(pod).unwrap()).await.unwrap();
    set_ready(cluster, name, ip, ready).await;
}

async fn set_ready(cluster: &TestCluster, name: &str, ip: &str, ready: bool) {
    let status = json!({ "status": { "phase": "Running", "podIP": ip, "podIPs": [{ "ip": ip }],
        "conditions": [{ "type": "Ready", "status": if ready { "True" } else { "False" } }] } });
    let patch = Patch::Strategic(status);
    cluster.api::<Pod>().patch_status(name, &PatchParams::default(), &patch).await.unwrap();
}

async fn slices(cluster: &TestCluster, service: &str) -> Vec<EndpointSlice> {
    let params = ListParams::default().labels(&format!("kubernetes.io/service-name={service}"));
    cluster.api::<EndpointSlice>().list(&params).await.unwrap().items
}

/// Addresses, with a `+` if ready, and ports.
fn shown(slice: &EndpointSlice) -> String {
    let endpoints = slice.endpoints.iter().flatten().map(|endpoint| {
        let ready = endpoint.conditions.as_ref().and_then(|conditions| conditions.ready).unwrap_or(false);
        format!("{}{}", endpoint.addresses.join(","), if ready { "+" } else { "" })
    });
    let mut endpoints: Vec<String> = endpoints.collect();
    endpoints.sort();
    let ports = slice.ports.iter().flatten().map(|port| port.port.unwrap_or_default().to_string());
    format!("{} :{}", endpoints.join(" "), ports.collect::<Vec<_>>().join(","))
}

async fn expect_slices(cluster: &TestCluster, service: &str, expected: &[&str]) -> Vec<EndpointSlice> {
    eventually(&format!("the slices of {service} are {expected:?}"), async || {
        let slices = slices(cluster, service).await;
        let mut found: Vec<String> = slices.iter().map(shown).collect();
        found.sort();
        (found == expected).then_some(slices)
    })
    .await
}

async fn expect_subsets(cluster: &TestCluster, service: &str, expected: Value) -> Endpoints {
    eventually(&format!("the endpoints of {service} are {expected}"), async || {
        let endpoints = cluster.api::<Endpoints>().get_opt(service).await.unwrap()?;
        let mut subsets = json!(endpoints.subsets);
        for subset in subsets.as_array_mut().into_iter().flatten() {
            for part in ["addresses", "notReadyAddresses"] {
                for address in subset[part].as_array_mut().into_iter().flatten() {
                    *address = address["ip"].clone();
                }
            }
            if let Some(subset) = subset.as_object_mut() {
                subset.retain(|_, value| !value.is_null());
            }
        }
        (subsets == expected).then_some(endpoints)
    })
    .await
}

#[tokio::test]
async fn slices_and_endpoints_follow_pods_and_services() {
    let plane = plane().await;
    create_service(
        &plane,
        "web",
        json!({ "selector": { "app": "web" }, "ports": [{ "port": 80, "targetPort": "http" }] }),
    )
    .await;
    let first = expect_slices(&plane, "web", &[" :"]).await;
    assert_eq!(first[0].labels()["of"], "test");
    assert!(first[0].annotations().contains_key("endpoints.kubernetes.io/last-change-trigger-time"));
    create_pod(&plane, "a", Some("n"), "10.0.0.1", true).await;
    let slices = expect_slices(&plane, "web", &["10.0.0.1+ :8080"]).await;
    assert_eq!(slices[0].name_any(), first[0].name_any());
    let endpoint = &slices[0].endpoints.as_ref().unwrap()[0];
    assert_eq!((endpoint.zone.as_deref(), endpoint.node_name.as_deref()), (Some("z"), Some("n")));
    create_pod(&plane, "b", Some("n"), "10.0.0.2", false).await;
    expect_slices(&plane, "web", &["10.0.0.1+ 10.0.0.2 :8080"]).await;
    let port = json!([{ "port": 8080, "protocol": "TCP" }]);
    let endpoints = expect_subsets(
        &plane,
        "web",
        json!([{ "addresses": ["10.0.0.1"], "notReadyAddresses": ["10.0.0.2"], "ports": port }]),
    )
    .await;
    assert_eq!(endpoints.labels()["endpoints.kubernetes.io/managed-by"], "endpoint-controller");
    set_ready(&plane, "b", "10.0.0.2", true).await;
    expect_slices(&plane, "web", &["10.0.0.1+ 10.0.0.2+ :8080"]).await;
    plane.api::<Pod>().delete("a", &DeleteParams::default().grace_period(0)).await.unwrap();
    expect_slices(&plane, "web", &["10.0.0.2+ :8080"]).await;
    expect_subsets(&plane, "web", json!([{ "addresses": ["10.0.0.2"], "ports": port }])).await;

    // A deleted slice is recreated.
    let name = slices[0].name_any();
    plane.api::<EndpointSlice>().delete(&name, &DeleteParams::default()).await.unwrap();
    expect_slices(&plane, "web", &["10.0.0.2+ :8080"]).await;
    plane.api::<Endpoints>().delete("web", &DeleteParams::default()).await.unwrap();
    expect_subsets(&plane, "web", json!([{ "addresses": ["10.0.0.2"], "ports": port }])).await;

    plane.api::<Service>().delete("web", &DeleteParams::default()).await.unwrap();
    expect_slices(&plane, "web", &[]).await;
    eventually("the endpoints are deleted", async || {
        plane.api::<Endpoints>().get_opt("web").await.unwrap().is_none().then_some(())
    })
    .await;
}

#[tokio::test]
async fn a_pod_is_an_endpoint_once_its_node_exists() {
    let plane = plane().await;
    create_service(&plane, "web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })).await;
    create_service(
        &plane,
        "all",
        json!({ "selector": { "app": "web" }, "clusterIP": "None", "publishNotReadyAddresses": true }),
    )
    .await;
    create_pod(&plane, "a", Some("late"), "10.0.0.1", false).await;
    let slices = expect_slices(&plane, "all", &["10.0.0.1+ :"]).await;
    assert_eq!(slices[0].labels()["service.kubernetes.io/headless"], "");
    expect_subsets(&plane, "all", json!([{ "addresses": ["10.0.0.1"] }])).await;
    expect_slices(&plane, "web", &[" :"]).await;
    let node: Node = serde_json::from_value(json!({ "metadata": { "name": "late" } })).unwrap();
    Api::<Node>::all(plane.client()).create(&PostParams::default(), &node).await.unwrap();
    expect_slices(&plane, "web", &["10.0.0.1 :80"]).await;
}

#[tokio::test]
async fn labels_move_pods_between_services_and_a_service_without_a_selector_is_left_alone() {
    let plane = plane().await;
    create_service(&plane, "web", json!({ "selector": { "app": "web" }, "ports": [{ "port": 80 }] })).await;
    create_service(&plane, "api", json!({ "selector": { "app": "api" }, "ports": [{ "port": 80 }] })).await;
    create_service(&plane, "own", json!({ "ports": [{ "port": 80 }] })).await;
    create_pod(&plane, "a", Some("n"), "10.0.0.1", true).await;
    expect_slices(&plane, "web", &["10.0.0.1+ :80"]).await;
    expect_slices(&plane, "api", &[" :"]).await;
    let patch = Patch::Merge(json!({ "metadata": { "labels": { "app": "api" } } }));
    plane.api::<Pod>().patch("a", &PatchParams::default(), &patch).await.unwrap();
    expect_slices(&plane, "api", &["10.0.0.1+ :80"]).await;
    expect_slices(&plane, "web", &[" :"]).await;
    assert_eq!(slices(&plane, "own").await.len(), 0);
    assert_eq!(plane.api::<Endpoints>().get_opt("own").await.unwrap(), None);
}

#[tokio::test]
async fn user_written_endpoints_are_mirrored_to_slices() {
    let plane = plane().await;
    create_service(&plane, "own", json!({ "ports": [{ "port": 80 }] })).await;
    let endpoints: Endpoints = serde_json::from_value(json!({ "metadata": { "name": "own", "labels": { "x": "y" } },
        "subsets": [{ "addresses": [{ "ip": "10.0.0.1" }], "notReadyAddresses": [{ "ip": "fd00::1" }],
            "ports": [{ "port": 80 }] }] }))
    .unwrap();
    let all = plane.api::<Endpoints>();
    all.create(&PostParams::default(), &endpoints).await.unwrap();
    let slices = expect_slices(&plane, "own", &["10.0.0.1+ :80", "fd00::1 :80"]).await;
    let manager = "endpointslicemirroring-controller.k8s.io";
    assert_eq!(slices[0].labels()["endpointslice.kubernetes.io/managed-by"], manager);
    assert_eq!(slices[0].labels()["x"], "y");
    assert_eq!(slices[0].owner_references()[0].kind, "Endpoints");
    let patch =
        Patch::Merge(json!({ "subsets": [{ "addresses": [{ "ip": "10.0.0.2" }], "ports": [{ "port": 81 }] }] }));
    all.patch("own", &PatchParams::default(), &patch).await.unwrap();
    expect_slices(&plane, "own", &["10.0.0.2+ :81"]).await;
    // A service with a selector has its own endpoints.
    let patch = Patch::Merge(json!({ "spec": { "selector": { "app": "web" } } }));
    plane.api::<Service>().patch("own", &PatchParams::default(), &patch).await.unwrap();
    expect_slices(&plane, "own", &[" :"]).await;
}
