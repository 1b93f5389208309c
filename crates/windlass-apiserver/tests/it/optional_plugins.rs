//! The plugins that run only if they are enabled.

use std::{collections::BTreeMap, sync::Arc};

use http::Method;
use serde_json::{Value, json};
use windlass_apiserver::{
    Server,
    admission::{AdmissionConfiguration, EventLimit, EventLimitType, Tolerations},
};
use windlass_store::memory::MemoryStore;

use crate::client::{Client, config_map};

const NAMESPACES: &str = "/api/v1/namespaces";
const PODS: &str = "/api/v1/namespaces/default/pods";
const SERVICES: &str = "/api/v1/namespaces/default/services";
const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default";

async fn start(plugins: &[&str], configuration: AdmissionConfiguration) -> Client {
    let plugins = plugins.iter().map(|name| (*name).to_owned());
    let builder = Server::builder(Arc::new(MemoryStore::new()));
    let builder = builder.enable_admission_plugins(plugins).admission_configuration(configuration);
    Client::of(builder.build().await.unwrap())
}

fn pod(name: &str, spec: Value) -> Value {
    let mut pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {
        "containers": [{"name": "c", "image": "i:1"}],
    }});
    for (field, value) in spec.as_object().unwrap() {
        pod["spec"][field] = value.clone();
    }
    pod
}

#[tokio::test]
async fn images_are_always_pulled() {
    let client = start(&["AlwaysPullImages"], AdmissionConfiguration::default()).await;
    let containers = json!({"containers": [{"name": "c", "image": "i:1", "imagePullPolicy": "Never"}]});
    let created = client.post(PODS, &pod("a", containers)).await.expect(201);
    assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "Always");
    let plain = start(&[], AdmissionConfiguration::default()).await;
    let created = plain.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert_eq!(created["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
}

#[tokio::test]
async fn pods_keep_others_away_from_a_node_but_not_from_a_zone() {
    let client = start(&["LimitPodHardAntiAffinityTopology"], AdmissionConfiguration::default()).await;
    let affinity = |key: &str| {
        let term = json!({"topologyKey": key, "labelSelector": {"matchLabels": {"a": "b"}}});
        json!({"affinity": {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}})
    };
    client.post(PODS, &pod("host", affinity("kubernetes.io/hostname"))).await.expect(201);
    let zone = client.post(PODS, &pod("zone", affinity("zone"))).await;
    let expected = "pods \"zone\" is forbidden: affinity.PodAntiAffinity.RequiredDuringScheduling has TopologyKey zone \
                    but only key kubernetes.io/hostname is allowed";
    assert_eq!((zone.code, zone.message().as_str()), (403, expected));
}

#[tokio::test]
async fn extended_resources_are_tolerated() {
    let client = start(&["ExtendedResourceToleration"], AdmissionConfiguration::default()).await;
    let resources = json!({"requests": {"example.com/gpu": "1"}, "limits": {"example.com/gpu": "1"}});
    let containers = json!({"containers": [{"name": "c", "image": "i", "resources": resources}]});
    let created = client.post(PODS, &pod("a", containers)).await.expect(201);
    let tolerations = created["spec"]["tolerations"].as_array().unwrap();
    let expected = json!({"key": "example.com/gpu", "operator": "Exists", "effect": "NoSchedule"});
    assert!(tolerations.contains(&expected), "{tolerations:?}");
}

#[tokio::test]
async fn services_take_no_new_external_addresses() {
    let client = start(&["DenyServiceExternalIPs"], AdmissionConfiguration::default()).await;
    let service = |addresses: Value| json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": addresses}});
    let denied = client.post(SERVICES, &service(json!(["192.0.2.1"]))).await;
    let expected = "services \"s\" is forbidden: Use of external IPs is denied by admission control";
    assert_eq!((denied.code, denied.message().as_str()), (403, expected));
    client.post(SERVICES, &service(json!([]))).await.expect(201);
    let patch = json!({"spec": {"externalIPs": ["192.0.2.1"]}});
    assert_eq!(client.merge(&format!("{SERVICES}/s"), &patch).await.code, 403);
}

#[tokio::test]
async fn namespaces_select_nodes_for_their_pods() {
    let selectors = [("clusterDefaultNodeSelector", "zone=a"), ("default", "zone=a,disk=ssd")];
    let node_selectors: BTreeMap<_, _> =
        selectors.map(|(name, selector)| (name.to_owned(), selector.to_owned())).into();
    let configuration = AdmissionConfiguration { node_selectors, ..AdmissionConfiguration::default() };
    let client = start(&["PodNodeSelector"], configuration).await;
    let created = client.post(PODS, &pod("a", json!({"nodeSelector": {"disk": "ssd"}}))).await.expect(201);
    assert_eq!(created["spec"]["nodeSelector"], json!({"disk": "ssd", "zone": "a"}));
    for (selector, why) in [
        (json!({"zone": "b"}), "pod node label selector conflicts with its namespace node label selector"),
        (json!({"other": "x"}), "pod node label selector labels conflict with its namespace whitelist"),
    ] {
        let refused = client.post(PODS, &pod("b", json!({"nodeSelector": selector}))).await;
        assert_eq!((refused.code, refused.message()), (403, format!("pods \"b\" is forbidden: {why}")));
    }
    let annotations = json!({"scheduler.alpha.kubernetes.io/node-selector": "team=blue"});
    let team = json!({"metadata": {"name": "blue", "annotations": annotations}});
    client.post(NAMESPACES, &team).await.expect(201);
    let created = client.post("/api/v1/namespaces/blue/pods", &pod("a", json!({}))).await.expect(201);
    assert_eq!(created["spec"]["nodeSelector"], json!({"team": "blue"}));
}

#[tokio::test]
async fn namespaces_restrict_tolerations() {
    let tolerates = |key: &str| json!({"key": key, "operator": "Exists"});
    let pod_tolerations = Tolerations { default: vec![tolerates("cluster")], allowed: Vec::new() };
    let configuration = AdmissionConfiguration { pod_tolerations, ..AdmissionConfiguration::default() };
    let client = start(&["PodTolerationRestriction"], configuration).await;
    let created = client.post(PODS, &pod("a", json!({}))).await.expect(201);
    assert_eq!(created["spec"]["tolerations"].as_array().unwrap().last(), Some(&tolerates("cluster")));
    let allowed = json!([tolerates("a"), {"key": "node.kubernetes.io/not-ready", "operator": "Exists"},
        {"key": "node.kubernetes.io/unreachable", "operator": "Exists"}]);
    let annotations = json!({
        "scheduler.alpha.kubernetes.io/defaultTolerations": "",
        "scheduler.alpha.kubernetes.io/tolerationsWhitelist": allowed.to_string(),
    });
    client.post(NAMESPACES, &json!({"metadata": {"name": "team", "annotations": annotations}})).await.expect(201);
    let pods = "/api/v1/namespaces/team/pods";
    client.post(pods, &pod("a", json!({"tolerations": [tolerates("a")]}))).await.expect(201);
    let refused = client.post(pods, &pod("b", json!({"tolerations": [tolerates("b")]}))).await;
    let expected = "pod tolerations (possibly merged with namespace default tolerations) conflict with its namespace \
                    whitelist";
    assert_eq!((refused.code, refused.message().as_str()), (500, expected));
}

#[tokio::test]
async fn missing_namespaces_are_created() {
    let client = start(&["NamespaceAutoProvision", "NamespaceExists"], AdmissionConfiguration::default()).await;
    let path = "/api/v1/namespaces/team/configmaps";
    assert_eq!(client.post(&format!("{path}?dryRun=All"), &config_map("a")).await.code, 404);
    assert_eq!(client.get("/api/v1/namespaces/team").await.code, 404, "a dry run creates nothing");
    client.post(path, &config_map("a")).await.expect(201);
    let namespace = client.get("/api/v1/namespaces/team").await.expect(200);
    assert_eq!(namespace["metadata"]["labels"]["kubernetes.io/metadata.name"], "team");
    assert_eq!(namespace["status"]["phase"], "Active");
    let wrong = client.post("/api/v1/namespaces/Wrong_/configmaps", &config_map("a")).await;
    assert_eq!(wrong.code, 403, "{}", wrong.message());
}

#[tokio::test]
async fn owners_are_blocked_only_by_users_who_may_finalize_them() {
    let client = start(&["OwnerReferencesPermissionEnforcement"], AdmissionConfiguration::default()).await;
    let rules =
        json!([{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create", "update", "get", "patch"]}]);
    client.post(&format!("{RBAC}/roles"), &json!({"metadata": {"name": "writer"}, "rules": rules})).await.expect(201);
    let reference = json!({"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "writer"});
    let subjects = json!([{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "alice"}]);
    let binding = json!({"metadata": {"name": "writer"}, "roleRef": reference, "subjects": subjects});
    client.post(&format!("{RBAC}/rolebindings"), &binding).await.expect(201);
    let path = "/api/v1/namespaces/default/configmaps";
    let owner = client.post(path, &config_map("owner")).await.expect(201);
    let owned = |name: &str, kind: &str, blocks: bool| {
        let uid = &owner["metadata"]["uid"];
        let owner =
            json!({"apiVersion": "v1", "kind": kind, "name": "owner", "uid": uid, "blockOwnerDeletion": blocks});
        let mut object = config_map(name);
        object["metadata"]["ownerReferences"] = json!([owner]);
        object
    };
    let post = async |object: Value| client.send_as("alice", Method::POST, path, &object).await;
    post(owned("free", "ConfigMap", false)).await.expect(201);
    let blocks = post(owned("blocks", "ConfigMap", true)).await;
    let expected = "configmaps \"blocks\" is forbidden: cannot set blockOwnerDeletion if an ownerReference refers to a \
                    resource you can't set finalizers on: , <nil>";
    assert_eq!((blocks.code, blocks.message().as_str()), (403, expected));
    let unknown = post(owned("blocks", "Nothing", true)).await;
    assert!(unknown.message().ends_with("no matches for kind \"Nothing\" in version \"v1\""), "{}", unknown.message());
    // A user who cannot delete an object cannot have it deleted with another one.
    let mut free = owned("free", "ConfigMap", false);
    free["metadata"]["ownerReferences"] = json!([]);
    let changed = client.send_as("alice", Method::PUT, &format!("{path}/free"), &free).await;
    let expected = "configmaps \"free\" is forbidden: cannot set an ownerRef on a resource you can't delete: , <nil>";
    assert_eq!((changed.code, changed.message().as_str()), (403, expected));
    client.post(path, &owned("blocks", "ConfigMap", true)).await.expect(201);
}

#[tokio::test(start_paused = true)]
async fn events_are_limited() {
    let limit = EventLimit { kind: EventLimitType::Namespace, qps: 1, burst: 2, cache_size: 10 };
    let configuration = AdmissionConfiguration { event_limits: vec![limit], ..AdmissionConfiguration::default() };
    let client = start(&["EventRateLimit"], configuration).await;
    let event = |name: &str| {
        let about = json!({"kind": "Pod", "name": "p", "namespace": "default"});
        json!({"metadata": {"name": name}, "involvedObject": about, "type": "Normal", "reason": "R"})
    };
    let post = async |name: &str| client.post("/api/v1/namespaces/default/events", &event(name)).await;
    post("a").await.expect(201);
    post("b").await.expect(201);
    let limited = post("c").await;
    assert_eq!((limited.code, limited.json()["reason"].as_str()), (429, Some("TooManyRequests")));
    assert_eq!(limited.message(), "Too many requests: limit reached on type Namespace for key default");
    tokio::time::advance(std::time::Duration::from_secs(1)).await;
    post("c").await.expect(201);
}
