//! Who loops, scheduler and nodes act as, and what happens if they lack permissions.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use k8s_openapi::api::{
    apps::v1::{Deployment, ReplicaSet},
    core::v1::{Namespace, Node, Pod, ServiceAccount},
    rbac::v1::ClusterRoleBinding,
};
use kube::{
    Api,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use parking_lot::Mutex;
use serde_json::json;
use windlass_apiserver::{
    Server,
    authorization::{Action, Attributes, Authorization, Authorizer, Decision},
};
use windlass_plane::{AuthorizationOptions, AuthorizerOptions, LoopOptions, Loops, NodeOptions, Stages};
use windlass_store::MemoryStore;
use windlass_testing::{TestPlane, eventually};

use crate::nodes::simulated::{create, is_ready, pod};

/// Allows everything, and records the actions of each user, and the groups and UIDs of all.
#[derive(Clone, Default)]
struct Recording(Arc<Mutex<Recorded>>);

/// By name of the user.
#[derive(Default)]
struct Recorded {
    actions: BTreeMap<String, BTreeSet<String>>,
    groups: BTreeMap<String, Vec<String>>,
    uids: BTreeMap<String, BTreeSet<String>>,
}

impl Authorizer for Recording {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        if let Action::Resource(action) = &request.action {
            let resource = [action.resource, action.subresource].join("/");
            let Recorded { actions, groups, uids } = &mut *self.0.lock();
            uids.entry(request.user.name.clone()).or_default().insert(request.user.uid.clone());
            let done = actions.entry(request.user.name.clone()).or_default();
            done.insert(format!("{} {}", action.verb, resource.trim_end_matches('/')));
            groups.insert(request.user.name.clone(), request.user.groups.clone());
        }
        Decision::allow("").into()
    }
}

fn deployment(replicas: i32) -> Deployment {
    serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap()
}

#[tokio::test]
async fn components_act_as_they_do_in_a_cluster() {
    let recording = Recording::default();
    let server = Server::builder(Arc::new(MemoryStore::new())).authorizer(recording.clone()).build().await.unwrap();
    let nodes = NodeOptions { count: 1, ..NodeOptions::default() };
    let _loops = Loops::start(&server, &LoopOptions { nodes, ..LoopOptions::default() });
    let deployments: Api<Deployment> = Api::namespaced(server.client(), "default");
    deployments.create(&PostParams::default(), &deployment(2)).await.unwrap();
    let all_ready = async || deployments.get("web").await.ok()?.status?.ready_replicas.filter(|ready| *ready == 2);
    eventually("its pods are ready", all_ready).await;
    let expected = [
        ("system:kube-controller-manager", "watch deployments"),
        ("system:serviceaccount:kube-system:deployment-controller", "create replicasets"),
        ("system:serviceaccount:kube-system:deployment-controller", "create events"),
        ("system:serviceaccount:kube-system:replicaset-controller", "create pods"),
        ("system:serviceaccount:kube-system:service-account-controller", "create serviceaccounts"),
        ("system:kube-scheduler", "watch pods"),
        ("system:kube-scheduler", "create pods/binding"),
        ("system:node:node-1", "create nodes"),
        ("system:node:node-1", "create leases"),
        ("system:node:node-1", "patch pods/status"),
    ];
    let done = |(user, action): (&str, &str)| {
        recording.0.lock().actions.get(user).is_some_and(|actions| actions.contains(action))
    };
    eventually("all have acted", async || expected.into_iter().all(done).then_some(())).await;
    let recorded = recording.0.lock();
    for (user, groups) in &recorded.groups {
        let account = ["system:serviceaccounts", "system:serviceaccounts:kube-system", "system:authenticated"];
        let expected: &[&str] = match user.as_str() {
            "admin" => &["system:masters", "system:authenticated"],
            "system:apiserver" => &["system:masters"],
            "system:node:node-1" => &["system:nodes", "system:authenticated"],
            "system:kube-controller-manager" | "system:kube-scheduler" => &["system:authenticated"],
            name if name.starts_with("system:serviceaccount:kube-system:") => &account,
            name => panic!("{name} is not a component"),
        };
        assert_eq!(groups, expected, "{user}");
    }
}

/// Returns the UIDs of the service accounts in kube-system, by name.
async fn accounts(server: &Server) -> BTreeMap<String, String> {
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), "kube-system");
    let accounts = accounts.list(&ListParams::default()).await.unwrap().items.into_iter();
    accounts.map(|account| (account.metadata.name.unwrap(), account.metadata.uid.unwrap())).collect()
}

#[tokio::test]
async fn a_loop_that_acts_has_its_service_account() {
    let recording = Recording::default();
    let server = Server::builder(Arc::new(MemoryStore::new())).authorizer(recording.clone()).build().await.unwrap();
    let options = |controllers: &str| LoopOptions { controllers: controllers.parse().unwrap(), ..Default::default() };
    let loops = Loops::start(&server, &options("replicaset-controller,job-controller"));
    let sets: Api<ReplicaSet> = Api::namespaced(server.client(), "default");
    let Deployment { metadata, spec, .. } = deployment(1);
    let spec = spec.map(|spec| serde_json::from_value(serde_json::to_value(spec).unwrap()).unwrap());
    sets.create(&PostParams::default(), &ReplicaSet { metadata, spec, status: None }).await.unwrap();
    let acted = async || sets.get("web").await.unwrap().status?.observed_generation;
    eventually("the loop has acted", acted).await;
    loops.stop().await;
    let first = accounts(&server).await;
    assert_eq!(first.keys().collect::<Vec<_>>(), ["replicaset-controller"], "the other loop has nothing to do");
    // Every request of the loop, the first one included, has the UID of the account.
    let user = "system:serviceaccount:kube-system:replicaset-controller";
    let uids = || recording.0.lock().uids[user].iter().cloned().collect::<Vec<_>>();
    assert_eq!(uids(), [first["replicaset-controller"].clone()]);
    // The next start finds it.
    let loops = Loops::start(&server, &options("replicaset-controller"));
    sets.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 2}}))).await.unwrap();
    let scaled = async || sets.get("web").await.unwrap().status.filter(|status| status.replicas == 2);
    eventually("the loop has acted again", scaled).await;
    loops.stop().await;
    assert_eq!((accounts(&server).await, uids().len()), (first, 1));
}

#[tokio::test]
async fn a_loop_follows_its_service_account_when_it_is_deleted() {
    let recording = Recording::default();
    let server = Server::builder(Arc::new(MemoryStore::new())).authorizer(recording.clone()).build().await.unwrap();
    let controllers = "replicaset-controller".parse().unwrap();
    let loops = Loops::start(&server, &LoopOptions { controllers, ..Default::default() });
    let sets: Api<ReplicaSet> = Api::namespaced(server.client(), "default");
    let Deployment { metadata, spec, .. } = deployment(1);
    let spec = spec.map(|spec| serde_json::from_value(serde_json::to_value(spec).unwrap()).unwrap());
    sets.create(&PostParams::default(), &ReplicaSet { metadata, spec, status: None }).await.unwrap();
    let scaled = async |replicas| sets.get("web").await.unwrap().status.filter(|status| status.replicas == replicas);
    eventually("the loop has acted", async || scaled(1).await).await;
    let all: Api<ServiceAccount> = Api::namespaced(server.client(), "kube-system");
    let name = "replicaset-controller";
    let first = accounts(&server).await[name].clone();
    all.delete(name, &DeleteParams::default()).await.unwrap();
    recording.0.lock().uids.clear();
    sets.patch("web", &PatchParams::default(), &Patch::Merge(json!({"spec": {"replicas": 2}}))).await.unwrap();
    eventually("the loop has acted again", async || scaled(2).await).await;
    loops.stop().await;
    let second = accounts(&server).await[name].clone();
    assert_ne!(first, second);
    let user = format!("system:serviceaccount:kube-system:{name}");
    assert!(recording.0.lock().uids[&user].contains(&second), "{:?}", recording.0.lock().uids);
}

#[tokio::test]
async fn a_server_without_loops_has_no_service_accounts() {
    let server = Server::builder(Arc::new(MemoryStore::new())).build().await.unwrap();
    let _loops = Loops::start(&server, &LoopOptions { controllers: "".parse().unwrap(), ..Default::default() });
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(accounts(&server).await, BTreeMap::new());
}

#[tokio::test]
async fn a_loop_whose_role_is_taken_away_works_again_when_it_is_back() {
    let controllers = "replicaset-controller".parse().unwrap();
    let plane = TestPlane::builder().controllers(controllers).expect_denied_requests().virtual_time().await;
    let bindings: Api<ClusterRoleBinding> = Api::all(plane.client());
    let name = "system:controller:replicaset-controller";
    let mut binding = bindings.get(name).await.unwrap();
    bindings.delete(name, &DeleteParams::default()).await.unwrap();
    let set: ReplicaSet = serde_json::from_value(json!({
        "metadata": {"name": "web"},
        "spec": {
            "replicas": 1, "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "c", "image": "i"}]},
            },
        },
    }))
    .unwrap();
    plane.create(set).await;
    let denial = format!(
        "pods is forbidden: User \"system:serviceaccount:kube-system:replicaset-controller\" cannot create resource \"pods\" in \
         API group \"\" in the namespace \"{}\"",
        plane.namespace()
    );
    eventually("it is denied", async || plane.denied_requests().contains(&denial).then_some(())).await;
    binding.metadata.resource_version = None;
    binding.metadata.uid = None;
    bindings.create(&PostParams::default(), &binding).await.unwrap();
    let pods = plane.api::<Pod>();
    let there = async || pods.list(&ListParams::default()).await.unwrap().items.pop();
    eventually("there is a pod", there).await;
}

#[tokio::test]
#[should_panic(expected = "control loops or nodes lack permissions")]
async fn a_test_fails_if_a_loop_lacked_a_permission() {
    let plane = TestPlane::builder().controllers("serviceaccount-controller".parse().unwrap()).await;
    let bindings: Api<ClusterRoleBinding> = Api::all(plane.client());
    bindings.delete("system:controller:service-account-controller", &DeleteParams::default()).await.unwrap();
    let namespace: Namespace = serde_json::from_value(json!({"metadata": {"name": "other"}})).unwrap();
    Api::all(plane.client()).create(&PostParams::default(), &namespace).await.unwrap();
    eventually("it is denied", async || (!plane.denied_requests().is_empty()).then_some(())).await;
}

#[tokio::test(start_paused = true)]
async fn loops_and_nodes_without_permissions_keep_trying() {
    let authorization = AuthorizationOptions { authorizers: vec![AuthorizerOptions::AlwaysDeny], file: None };
    let server = Server::builder(Arc::new(MemoryStore::new())).authorization(authorization).build().await.unwrap();
    let nodes = NodeOptions { count: 2, ..NodeOptions::default() };
    let mut loops = Loops::start(&server, &LoopOptions { nodes, ..LoopOptions::default() });
    let failed = tokio::time::timeout(Duration::from_secs(600), loops.failed()).await;
    assert!(failed.is_err(), "{failed:?}");
    let denied = loops.denied_requests();
    for user in ["system:kube-controller-manager", "system:kube-scheduler", "system:node:node-1", "system:node:node-2"]
    {
        let theirs = format!("User {user:?} cannot ");
        assert!(denied.iter().any(|message| message.contains(&theirs)), "{user}: {denied:#?}");
    }
    // Administrators may still do everything.
    assert_eq!(Api::<Node>::all(server.client()).list(&ListParams::default()).await.unwrap().items.len(), 0);
    loops.stop().await;
}

/// An authorizer that fails until it is repaired, like a webhook that does not respond.
struct Failing(Arc<AtomicBool>);

impl Authorizer for Failing {
    fn authorize<'a>(&'a self, request: &'a Attributes<'a>) -> Authorization<'a> {
        if self.0.load(Ordering::Relaxed) || request.user.name == "admin" || request.user.name == "system:apiserver" {
            return Decision::allow("").into();
        }
        Decision { error: Some("no response".to_owned()), ..Decision::no_opinion("") }.into()
    }
}

#[tokio::test(start_paused = true)]
async fn loops_and_nodes_start_to_work_when_the_authorizer_does() {
    let works = Arc::new(AtomicBool::new(false));
    let server = Server::builder(Arc::new(MemoryStore::new())).authorizer(Failing(works.clone()));
    let server = server.build().await.unwrap();
    let nodes = NodeOptions { count: 1, ..NodeOptions::default() };
    let mut loops = Loops::start(&server, &LoopOptions { nodes, ..LoopOptions::default() });
    assert!(tokio::time::timeout(Duration::from_secs(60), loops.failed()).await.is_err());
    works.store(true, Ordering::Relaxed);
    let accounts: Api<ServiceAccount> = Api::namespaced(server.client(), "default");
    eventually("there is an account", async || accounts.get_opt("default").await.unwrap()).await;
    eventually("there is a node", async || Api::<Node>::all(server.client()).get_opt("node-1").await.unwrap()).await;
    loops.stop().await;
}

#[tokio::test]
async fn stages_change_finalizers_and_delete_nodes_with_the_permissions_of_the_control_plane() {
    let stages = "
apiVersion: windlass.dev/v1alpha1
kind: Stage
metadata: {name: pod-hold}
spec:
  selector: {matchLabels: {hold: 'yes'}}
  next:
    finalizers: {add: [{value: example.com/held}]}
---
apiVersion: windlass.dev/v1alpha1
kind: Stage
metadata: {name: node-gone}
spec:
  resourceRef: {kind: Node}
  selector: {matchLabels: {gone: 'yes'}}
  next:
    delete: true
";
    let stages = Stages::default().with(&Stages::parse(stages).unwrap());
    let nodes = NodeOptions { count: 2, stages: Some(stages), ..NodeOptions::default() };
    let plane = TestPlane::builder().node_options(nodes).await;
    create(&plane, &pod("web", json!({"labels": {"hold": "yes"}, "nodeName": "node-1"}))).await;
    let pods = plane.api::<Pod>();
    let held = async || {
        let finalizers = pods.get("web").await.ok()?.metadata.finalizers?;
        finalizers.contains(&"example.com/held".to_owned()).then_some(())
    };
    eventually("it is held", held).await;
    let nodes: Api<Node> = Api::all(plane.client());
    let patch = Patch::Merge(json!({"metadata": {"labels": {"gone": "yes"}}}));
    nodes.patch("node-2", &PatchParams::default(), &patch).await.unwrap();
    eventually("it is gone", async || nodes.get_opt("node-2").await.unwrap().is_none().then_some(())).await;
}

#[tokio::test]
async fn nodes_become_ready_without_the_lifecycle_loop() {
    let plane = TestPlane::builder().controllers("replicaset-controller".parse().unwrap()).nodes(1).await;
    create(&plane, &pod("web", json!({}))).await;
    let pods = plane.api::<Pod>();
    eventually("it is ready", async || pods.get("web").await.ok().filter(is_ready)).await;
}
