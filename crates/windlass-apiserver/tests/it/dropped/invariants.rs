//! What must hold after every request, completed or dropped.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::requests::{BINDINGS, DEFINITIONS, HOOKS, LIMITED, POLICIES};
use crate::client::{CONFIG_MAPS, Client, labelled, names};

/// Checks everything; `attempts` is the number of attempts so far, after which objects are named.
pub(crate) async fn check(client: &Client, attempts: usize) {
    allocations_match_services(client).await;
    quotas_equal_usage(client).await;
    webhooks_are_called_if_they_are_stored(client, attempts).await;
    policies_deny_if_they_are_stored(client, attempts).await;
    definitions_are_served_if_they_are_stored(client, attempts).await;
    no_deletion_stopped_halfway(client).await;
}

async fn list(client: &Client, path: &str) -> Vec<Value> {
    client.get(path).await.expect(200)["items"].as_array().unwrap().clone()
}

/// Returns the addresses and ports of a service, without duplicates.
fn allocated(service: &Value) -> (Option<String>, BTreeSet<i64>) {
    let spec = &service["spec"];
    let address = spec["clusterIP"].as_str().filter(|address| !matches!(*address, "" | "None"));
    let ports = spec["ports"].as_array().into_iter().flatten().map(|port| &port["nodePort"]);
    let ports = ports.chain([&spec["healthCheckNodePort"]]).filter_map(Value::as_i64).filter(|port| *port != 0);
    (address.map(str::to_owned), ports.collect())
}

/// No address or port is shared, and none is allocated without a service.
pub(crate) async fn allocations_match_services(client: &Client) {
    let services = list(client, "/api/v1/services").await;
    let (mut addresses, mut ports) = (BTreeSet::new(), BTreeSet::new());
    for service in &services {
        let name = &service["metadata"]["name"];
        let (address, own) = allocated(service);
        if let Some(address) = address {
            assert!(addresses.insert(address.clone()), "{address} of {name} is shared");
        }
        for port in own {
            assert!(ports.insert(port), "port {port} of {name} is shared");
        }
    }
    for address in &addresses {
        let thief = json!({"metadata": {"name": "thief"}, "spec": {"clusterIP": address, "ports": [{"port": 1}]}});
        let answer = client.post("/api/v1/namespaces/default/services", &thief).await;
        assert_eq!(answer.code, 422, "{address} is used and can be allocated again");
    }
    let used = (addresses.len(), ports.len());
    assert_eq!(allocations(client).await, used, "addresses and ports allocated, and used by services");
}

/// Returns the numbers of allocated addresses and ports.
pub(crate) async fn allocations(client: &Client) -> (usize, usize) {
    let metrics = client.get("/metrics").await;
    let metrics = String::from_utf8(metrics.raw.to_vec()).unwrap();
    let gauge = |name: &str| {
        let line = metrics.lines().find(|line| line.starts_with(name)).unwrap_or_else(|| panic!("no metric {name}"));
        line.rsplit(' ').next().unwrap().parse().unwrap()
    };
    (
        gauge("kube_apiserver_clusterip_allocator_allocated_ips{"),
        gauge("kube_apiserver_nodeport_allocator_allocated_ports "),
    )
}

/// Creates a quota whose status states the current usage.
pub(crate) async fn create_quota(client: &Client) {
    client.post("/api/v1/namespaces", &json!({"metadata": {"name": LIMITED}})).await.expect(201);
    let path = format!("/api/v1/namespaces/{LIMITED}/resourcequotas");
    let hard: BTreeMap<&str, &str> = usage(&[], &[], &[]).keys().map(|name| (*name, "1000")).collect();
    client.post(&path, &json!({"metadata": {"name": "q"}, "spec": {"hard": hard}})).await.expect(201);
    let status = json!({"status": {"hard": hard, "used": usage(&[], &[], &[])}});
    client.merge(&format!("{path}/q/status"), &status).await.expect(200);
}

fn usage(config_maps: &[Value], services: &[Value], pods: &[Value]) -> BTreeMap<&'static str, String> {
    let node_ports = services.iter().filter(|service| service["spec"]["type"] == "NodePort");
    let node_ports: usize = node_ports.map(|service| service["spec"]["ports"].as_array().unwrap().len()).sum();
    let counts = [
        ("count/configmaps", config_maps.len()),
        ("services", services.len()),
        ("services.nodeports", node_ports),
        ("pods", pods.len()),
        ("requests.cpu", pods.len()),
    ];
    counts.into_iter().map(|(name, count)| (name, count.to_string())).collect()
}

/// The status of the quota is the usage of its namespace.
async fn quotas_equal_usage(client: &Client) {
    let path = |plural: &str| format!("/api/v1/namespaces/{LIMITED}/{plural}");
    let config_maps = list(client, &path("configmaps")).await;
    let services = list(client, &path("services")).await;
    let pods = list(client, &path("pods")).await;
    let quota = client.get(&path("resourcequotas/q")).await.expect(200);
    assert_eq!(quota["status"]["used"], json!(usage(&config_maps, &services, &pods)));
}

/// A webhook configuration takes effect if it is stored, and only then.
async fn webhooks_are_called_if_they_are_stored(client: &Client, attempts: usize) {
    for n in 0..attempts {
        let name = format!("h{n}");
        let stored = client.get(&format!("{HOOKS}/{name}")).await;
        let stored = stored.code == 200 && stored.json()["webhooks"].is_array();
        let probe = labelled("probe", "hook", &name);
        let rejected = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &probe).await.code != 201;
        assert_eq!((stored, rejected), (stored, stored), "{name}: stored, and called");
    }
}

/// A policy takes effect if it and its binding are stored, and only then.
async fn policies_deny_if_they_are_stored(client: &Client, attempts: usize) {
    let policies = names(&client.get(POLICIES).await.expect(200));
    let bindings = names(&client.get(BINDINGS).await.expect(200));
    for n in 0..attempts {
        let name = format!("p{n}");
        let stored = policies.contains(&name) && bindings.contains(&name);
        let probe = labelled("probe", "policy", &name);
        let denied = client.post(&format!("{CONFIG_MAPS}?dryRun=All"), &probe).await.code != 201;
        assert_eq!((stored, denied), (stored, stored), "{name}: stored, and in effect");
    }
}

/// A definition is served if it is stored, and only then.
async fn definitions_are_served_if_they_are_stored(client: &Client, attempts: usize) {
    let stored = names(&client.get(DEFINITIONS).await.expect(200));
    for n in 0..attempts {
        let stored = stored.contains(&format!("w{n}s.example.com"));
        let served = client.get(&format!("/apis/example.com/v1/w{n}s")).await.code == 200;
        assert_eq!((stored, served), (stored, stored), "w{n}s: stored, and served");
    }
}

/// No pod is marked as deleted without a removal to follow, and no budget has been charged for a pod that stays.
async fn no_deletion_stopped_halfway(client: &Client) {
    let pods = list(client, "/api/v1/pods").await;
    let is_terminating = |pod: &Value| pod["metadata"]["deletionTimestamp"].is_string();
    for pod in &pods {
        let left = pod["metadata"]["deletionGracePeriodSeconds"].as_i64();
        let waits = pod["metadata"]["finalizers"].is_array();
        assert!(!is_terminating(pod) || waits || left != Some(0), "{pod}");
    }
    for budget in list(client, "/apis/policy/v1/poddisruptionbudgets").await {
        for name in budget["status"]["disruptedPods"].as_object().into_iter().flat_map(|pods| pods.keys()) {
            let pod = pods.iter().find(|pod| pod["metadata"]["name"] == **name);
            assert!(pod.is_none_or(is_terminating), "{name} was charged to a budget and stays");
        }
    }
}
