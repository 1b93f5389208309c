//! The objects that every cluster has.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use serde_json::{Value, json};
use windlass_apiserver::Server;
use windlass_store::{Store, memory::MemoryStore};

use crate::client::{Answer, Client};

const CLASSES: &str = "/apis/scheduling.k8s.io/v1/priorityclasses";
const ADDRESSES: &str = "/apis/networking.k8s.io/v1/ipaddresses";
const SERVICES: &str = "/api/v1/namespaces/default/services";

/// Waits until a response is as expected. The test has a paused clock, so this takes no time.
async fn eventually(ask: impl AsyncFn() -> Answer, holds: impl Fn(&Answer) -> bool) -> Value {
    for _ in 0..1000 {
        let answer = ask().await;
        if holds(&answer) {
            return answer.json();
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the last answer was {}", ask().await.json());
}

#[tokio::test]
async fn the_system_priority_classes_exist_and_cannot_be_deleted() {
    let client = Client::new().await;
    for (name, value) in [("system-node-critical", 2_000_001_000), ("system-cluster-critical", 2_000_000_000)] {
        let path = format!("{CLASSES}/{name}");
        let class = client.get(&path).await.expect(200);
        assert_eq!((&class["value"], &class["preemptionPolicy"]), (&json!(value), &json!("PreemptLowerPriority")));
        assert!(class["description"].as_str().unwrap().starts_with("Used for system critical pods that must"));
        let rejected = client.delete(&path).await;
        let message = format!(
            "priorityclasses.scheduling.k8s.io \"{name}\" is forbidden: this is a system priority class and cannot be \
             deleted"
        );
        assert_eq!((rejected.code, rejected.message()), (403, message));
        let again = client.restarted().await.get(&path).await.expect(200);
        assert_eq!(again["metadata"]["uid"], class["metadata"]["uid"]);
    }
    let own = json!({"metadata": {"name": "own"}, "value": 5});
    client.post(CLASSES, &own).await.expect(201);
    client.delete(&format!("{CLASSES}/own")).await.expect(200);
}

#[tokio::test]
async fn only_one_priority_class_is_the_global_default() {
    let client = Client::new().await;
    let class = |name: &str| json!({"metadata": {"name": name}, "value": 5, "globalDefault": true});
    client.post(CLASSES, &class("a")).await.expect(201);
    let second = client.post(CLASSES, &class("b")).await;
    let message = "priorityclasses.scheduling.k8s.io \"b\" is forbidden: PriorityClass a is already marked as default. \
                   Only one default can exist";
    assert_eq!((second.code, second.message().as_str()), (403, message));
    let labels = json!({"metadata": {"labels": {"a": "b"}}});
    client.merge(&format!("{CLASSES}/a"), &labels).await.expect(200);
    client.merge(&format!("{CLASSES}/a"), &json!({"globalDefault": false})).await.expect(200);
    client.post(CLASSES, &class("b")).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn the_network_of_services_and_their_addresses_are_objects() {
    let client = Client::new().await;
    let network = client.get("/apis/networking.k8s.io/v1/servicecidrs/kubernetes").await.expect(200);
    assert_eq!(network["spec"], json!({"cidrs": ["10.0.0.0/24"]}));
    assert_eq!(
        (&network["status"]["conditions"][0]["type"], &network["status"]["conditions"][0]["status"]),
        (&json!("Ready"), &json!("True"))
    );

    let own =
        eventually(async || client.get(&format!("{ADDRESSES}/10.0.0.1")).await, |answer| answer.code == 200).await;
    let parent = |name: &str| json!({"group": "", "resource": "services", "namespace": "default", "name": name});
    let reference = |address: &Value| {
        let mut reference = address["spec"]["parentRef"].clone();
        reference["group"] = reference["group"].as_str().unwrap_or_default().into();
        reference
    };
    assert_eq!(reference(&own), parent("kubernetes"));
    assert_eq!(
        own["metadata"]["labels"],
        json!({"ipaddress.kubernetes.io/ip-family": "IPv4", "ipaddress.kubernetes.io/managed-by": "ipallocator.k8s.io"})
    );

    let service = json!({"metadata": {"name": "web"}, "spec": {"clusterIP": "10.0.0.77", "ports": [{"port": 80}]}});
    client.post(SERVICES, &service).await.expect(201);
    let path = format!("{ADDRESSES}/10.0.0.77");
    let address = eventually(async || client.get(&path).await, |answer| answer.code == 200).await;
    assert_eq!(reference(&address), parent("web"));
    client.delete(&format!("{SERVICES}/web")).await.expect(200);
    eventually(async || client.get(&path).await, |answer| answer.code == 404).await;

    // An address that another client has created is not allocated.
    let taken = json!({"metadata": {"name": "10.0.0.77"},
        "spec": {"parentRef": {"resource": "gateways", "namespace": "default", "name": "g"}}});
    client.post(ADDRESSES, &taken).await.expect(201);
    let rejected = client.post(SERVICES, &service).await;
    assert!(rejected.message().contains("provided IP is already allocated"), "{}", rejected.message());
    client.delete(&path).await.expect(200);
    client.post(SERVICES, &service).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn a_server_that_listens_is_the_endpoint_of_its_service_and_has_a_lease() {
    let store = Arc::new(MemoryStore::new());
    let start = async |address: &str| {
        let address: SocketAddr = address.parse().unwrap();
        Client::of(Server::builder(store.clone()).listening_on(address).build().await.unwrap())
    };
    let client = start("192.0.2.7:6443").await;
    let (endpoints, slice) = (
        "/api/v1/namespaces/default/endpoints/kubernetes",
        "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes",
    );
    let shown = async |client: &Client| {
        let (endpoints, slice) = (client.get(endpoints).await.expect(200), client.get(slice).await.expect(200));
        let subset = &endpoints["subsets"][0];
        assert_eq!(subset["addresses"][0]["ip"], slice["endpoints"][0]["addresses"][0]);
        assert_eq!(subset["ports"][0]["port"], slice["ports"][0]["port"]);
        assert_eq!(endpoints["metadata"]["labels"]["endpointslice.kubernetes.io/skip-mirror"], "true");
        assert_eq!(slice["metadata"]["labels"]["kubernetes.io/service-name"], "kubernetes");
        format!("{}:{}", subset["addresses"][0]["ip"], subset["ports"][0]["port"])
    };
    assert_eq!(shown(&client).await, "\"192.0.2.7\":6443");

    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases?labelSelector=apiserver.kubernetes.io/identity=kube-apiserver";
    let has_one = |answer: &Answer| answer.json()["items"].as_array().is_some_and(|items| items.len() == 1);
    let first = eventually(async || client.get(leases).await, has_one).await;
    let spec = &first["items"][0]["spec"];
    let name = first["items"][0]["metadata"]["name"].as_str().unwrap();
    assert!(spec["holderIdentity"].as_str().unwrap().starts_with(&format!("{name}_")), "{spec}");
    assert_eq!(spec["leaseDurationSeconds"], 3600);
    let renewed = |answer: &Answer| answer.json()["items"][0]["spec"]["renewTime"] != spec["renewTime"];
    tokio::time::sleep(Duration::from_secs(11)).await;
    let renewal = eventually(async || client.get(leases).await, renewed).await;
    let peer = |list: &Value| list["items"][0]["metadata"]["annotations"].clone();
    assert_eq!(peer(&renewal), json!({"kubernetes.io/peer-advertise-address": "192.0.2.7:6443"}));
    drop(client);

    let moved = start("192.0.2.8:7443").await;
    assert_eq!(shown(&moved).await, "\"192.0.2.8\":7443");
    // The lease is another one of the same name.
    let uid = |list: &Value| list["items"][0]["metadata"]["uid"].clone();
    let is_new = |answer: &Answer| has_one(answer) && uid(&answer.json()) != uid(&first);
    let second = eventually(async || moved.get(leases).await, is_new).await;
    assert_eq!(second["items"][0]["metadata"]["name"], name);
    assert_eq!(peer(&second), json!({"kubernetes.io/peer-advertise-address": "192.0.2.8:7443"}));
}

#[tokio::test]
async fn a_server_has_endpoints_at_the_address_that_it_advertises() {
    let listening: SocketAddr = "127.0.0.1:4321".parse().unwrap();
    for (advertised, expected) in [("192.0.2.9", Some("192.0.2.9")), ("127.0.0.1", None)] {
        let builder = Server::builder(Arc::new(MemoryStore::new())).listening_on(listening);
        let client = Client::of(builder.advertise_address(advertised.parse().unwrap()).build().await.unwrap());
        let endpoints = client.get("/api/v1/namespaces/default/endpoints/kubernetes").await;
        let slice = client.get("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes").await;
        assert_eq!(
            (endpoints.code == 200, slice.code == 200),
            (expected.is_some(), expected.is_some()),
            "{advertised}"
        );
        if let Some(expected) = expected {
            assert_eq!(endpoints.json()["subsets"][0]["addresses"][0]["ip"], expected);
        }
        let service = client.get(&format!("{SERVICES}/kubernetes")).await.expect(200);
        assert_eq!(service["spec"]["ports"][0]["targetPort"], 4321);
    }
}

#[tokio::test]
async fn cluster_ips_are_from_the_configured_network() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let start = async |network: &str| {
        Client::of(Server::builder(store.clone()).service_network(network.parse().unwrap()).build().await.unwrap())
    };
    let cidr = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let client = start("172.30.8.0/28").await;
    let stored = client.get(cidr).await.expect(200);
    assert_eq!(stored["spec"]["cidrs"], json!(["172.30.8.0/28"]));
    assert_eq!(stored["status"]["conditions"][0]["status"], "True");
    let own = client.get(&format!("{SERVICES}/kubernetes")).await.expect(200);
    assert_eq!(own["spec"]["clusterIP"], "172.30.8.1");
    let service = |name: &str| json!({"metadata": {"name": name}, "spec": {"ports": [{"port": 80}]}});
    let made = client.post(SERVICES, &service("a")).await.expect(201);
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("172.30.8."), "{made}");
    let mut outside = service("b");
    outside["spec"]["clusterIP"] = "10.0.0.7".into();
    assert_eq!(client.post(SERVICES, &outside).await.code, 422);
    drop(client);
    // The network that a cluster has stays.
    let client = start("10.96.0.0/12").await;
    assert_eq!(client.get(cidr).await.expect(200)["spec"]["cidrs"], json!(["172.30.8.0/28"]));
    let made = client.post(SERVICES, &service("c")).await.expect(201);
    assert!(made["spec"]["clusterIP"].as_str().unwrap().starts_with("172.30.8."), "{made}");
}

#[tokio::test]
async fn node_ports_are_from_the_configured_range() {
    let range = "31000-31000".parse().unwrap();
    let client = Client::of(Server::builder(Arc::new(MemoryStore::new())).node_ports(range).build().await.unwrap());
    let service = |name: &str, port: Option<u16>| json!({"metadata": {"name": name}, "spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": port}]}});
    let outside = client.post(SERVICES, &service("a", Some(30500))).await;
    let message = "Service \"a\" is invalid: spec.ports[0].nodePort: Invalid value: 30500: provided port is not in the valid \
                   range. The range of valid ports is 31000-31000";
    assert_eq!((outside.code, &*outside.message()), (422, message));
    let made = client.post(SERVICES, &service("a", None)).await.expect(201);
    assert_eq!(made["spec"]["ports"][0]["nodePort"], 31000);
    assert_eq!(client.post(SERVICES, &service("b", None)).await.code, 500);
}

#[tokio::test(start_paused = true)]
async fn objects_that_a_cluster_needs_return_when_they_are_deleted() {
    let address: SocketAddr = "192.0.2.7:6443".parse().unwrap();
    let client = Client::of(Server::builder(Arc::new(MemoryStore::new())).listening_on(address).build().await.unwrap());
    let tracking = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    for (path, field) in [
        (&*format!("{SERVICES}/kubernetes"), "/spec/clusterIP"),
        ("/api/v1/namespaces/default/endpoints/kubernetes", "/subsets"),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes", "/endpoints"),
        (tracking, "/data"),
        ("/apis/networking.k8s.io/v1/servicecidrs/kubernetes", "/spec"),
        ("/api/v1/namespaces/kube-node-lease", "/metadata/name"),
    ] {
        let before = client.get(path).await.expect(200);
        client.delete(path).await.expect(200);
        if path.ends_with("kube-node-lease") {
            // The work of the namespace controller.
            let empty = json!({"metadata": {"name": "kube-node-lease"}, "spec": {"finalizers": []}});
            client.put(&format!("{path}/finalize"), &empty).await.expect(200);
        }
        let is_new =
            |answer: &Answer| answer.code == 200 && answer.json()["metadata"]["uid"] != before["metadata"]["uid"];
        let after = eventually(async || client.get(path).await, is_new).await;
        assert!(before.pointer(field).is_some(), "{path}");
        assert_eq!(before.pointer(field), after.pointer(field), "{path}");
    }
    let path = "/apis/networking.k8s.io/v1/servicecidrs/kubernetes";
    let is_ready = |answer: &Answer| answer.json()["status"]["conditions"][0]["status"] == "True";
    eventually(async || client.get(path).await, is_ready).await;
}

#[tokio::test(start_paused = true)]
async fn the_first_day_of_recorded_token_uses_is_kept_and_corrected() {
    let store = Arc::new(MemoryStore::new());
    let start = async || {
        let address: SocketAddr = "192.0.2.7:6443".parse().unwrap();
        Client::of(Server::builder(store.clone()).listening_on(address).build().await.unwrap())
    };
    let path = "/api/v1/namespaces/kube-system/configmaps/kube-apiserver-legacy-service-account-token-tracking";
    let client = start().await;
    client.merge(path, &json!({"data": {"since": "2020-02-29", "other": "x"}})).await.expect(200);
    drop(client);
    let restarted = start().await;
    assert_eq!(restarted.get(path).await.expect(200)["data"], json!({"since": "2020-02-29", "other": "x"}));
    for wrong in ["2021-02-29", "20200229", ""] {
        restarted.merge(path, &json!({"data": {"since": wrong}})).await.expect(200);
        let corrected = |answer: &Answer| answer.json()["data"]["since"] != wrong;
        let data = eventually(async || restarted.get(path).await, corrected).await["data"].clone();
        assert_eq!((data["since"].as_str().map(str::len), &data["other"]), (Some(10), &json!("x")));
    }
}
