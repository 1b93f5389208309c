use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, Node, Pod};
use serde_json::{Value, json};
use tokio::time::Instant;
use windlass::key::ObjectKey;

use super::{
    cluster::Cluster,
    decide::{Decision, decide},
    pending::Pending,
    preempt::preempt,
    requirements::PodRequirements,
    state::{State, Step},
};

fn node(name: &str, extra: Value) -> Node {
    let mut node = json!({
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "10"}},
    });
    for (field, value) in extra.as_object().unwrap() {
        match field.as_str() {
            "labels" => node["metadata"]["labels"].as_object_mut().unwrap().extend(value.as_object().unwrap().clone()),
            "allocatable" => node["status"]["allocatable"] = value.clone(),
            _ => node["spec"][field] = value.clone(),
        }
    }
    serde_json::from_value(node).unwrap()
}

fn pod(name: &str, extra: Value) -> Arc<Pod> {
    let mut pod = json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "generation": 1},
        "spec": {"containers": [{"name": "main"}]},
    });
    for (field, value) in extra.as_object().unwrap() {
        match field.as_str() {
            "labels" | "namespace" => pod["metadata"][field] = value.clone(),
            "cpu" => pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = value.clone(),
            "hostPort" => pod["spec"]["containers"][0]["ports"] = json!([{"containerPort": 1, "hostPort": value}]),
            _ => pod["spec"][field] = value.clone(),
        }
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn cluster(nodes: &[Node], placed: &[(Arc<Pod>, &str)]) -> Cluster {
    let mut cluster = Cluster::default();
    for node in nodes {
        cluster.update_node(node);
    }
    for (pod, node) in placed {
        cluster.place(pod.metadata.uid.as_deref().unwrap(), node, &Arc::new(PodRequirements::of(pod)));
    }
    cluster
}

fn answer(cluster: &Cluster, pod: &Pod) -> String {
    match decide(cluster, &PodRequirements::of(pod)) {
        Decision::Schedule(node) => node,
        Decision::Unschedulable(error) => error.message,
    }
}

fn near(kind: &str, app: &str) -> Value {
    let term = json!({"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": "zone"});
    json!({kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}})
}

#[test]
fn a_pod_is_scheduled_on_a_feasible_node() {
    let nodes = [
        node("a", json!({"unschedulable": true, "labels": {"zone": "1"}})),
        node("b", json!({"taints": [{"key": "k", "value": "v", "effect": "NoSchedule"}], "labels": {"zone": "2"}})),
        node(
            "c",
            json!({"allocatable": {"cpu": "1", "memory": "1Gi", "pods": "10"}, "labels": {"zone": "3", "n": "7"}}),
        ),
    ];
    let cluster = cluster(&nodes, &[]);
    let in_zone = |operator: &str, value: &str| {
        let term = json!({"matchExpressions": [{"key": "n", "operator": operator, "values": [value]}]});
        json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}})
    };
    let none = |reasons: &str, not_helpful: &str| {
        format!("0/3 nodes are available: {reasons}. preemption: 0/3 nodes are available: {not_helpful}.")
    };
    for (spec, expected) in [
        (json!({}), "c".to_owned()),
        (json!({"tolerations": [{"key": "k", "operator": "Exists"}]}), "b".into()),
        (json!({"nodeSelector": {"zone": "3"}}), "c".into()),
        (json!({"affinity": in_zone("Gt", "6")}), "c".into()),
        (
            json!({"tolerations": [{"key": "node.kubernetes.io/unschedulable", "operator": "Exists"}], "cpu": "2"}),
            "a".into(),
        ),
        (
            json!({"cpu": "1500m"}),
            none(
                "1 Insufficient cpu, 1 node(s) had untolerated taint(s), 1 node(s) were unschedulable",
                "3 Preemption is not helpful for scheduling",
            ),
        ),
        (
            json!({"nodeSelector": {"zone": "9"}}),
            none(
                "1 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated taint(s), 1 node(s) were \
                 unschedulable",
                "3 Preemption is not helpful for scheduling",
            ),
        ),
    ] {
        assert_eq!(answer(&cluster, &pod("p", spec.clone())), expected, "{spec}");
    }
    assert_eq!(answer(&Cluster::default(), &pod("p", json!({}))), "no nodes available to schedule pods");
}

#[test]
fn requests_count_until_pods_are_deleted() {
    let big = pod("big", json!({"cpu": "3", "hostPort": 80}));
    let mut cluster = cluster(&[node("a", json!({}))], &[(big.clone(), "a")]);
    let rejected = answer(&cluster, &pod("p", json!({"cpu": "2"})));
    assert_eq!(
        rejected,
        "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims \
         found for incoming pod."
    );
    let rejected = answer(&cluster, &pod("p", json!({"hostPort": 80})));
    assert!(rejected.contains("1 node(s) didn't have free ports for the requested pod ports"), "{rejected}");
    // Placed twice, by the decision and by the watch: it counts once.
    cluster.place("big", "a", &Arc::new(PodRequirements::of(&big)));
    assert!(cluster.displace("big"));
    assert_eq!(answer(&cluster, &pod("p", json!({"cpu": "4", "hostPort": 80}))), "a");
    assert!(!cluster.displace("big"));
    assert!(cluster.groups.is_empty());
}

#[test]
fn pods_spread_over_equal_nodes() {
    let mut cluster = cluster(&["a", "b", "c"].map(|name| node(name, json!({}))), &[]);
    let mut counts = std::collections::BTreeMap::new();
    for number in 0..30 {
        let pod = pod(&format!("p{number}"), json!({}));
        let place = answer(&cluster, &pod);
        cluster.place(pod.metadata.uid.as_deref().unwrap(), &place, &Arc::new(PodRequirements::of(&pod)));
        *counts.entry(place).or_insert(0) += 1;
    }
    assert_eq!(counts.into_values().collect::<Vec<_>>(), [10, 10, 10]);
    assert!(answer(&cluster, &pod("p", json!({}))).contains("3 Too many pods"));
}

#[test]
fn pod_affinity_and_anti_affinity_are_honored() {
    let nodes = [
        node("a", json!({"labels": {"zone": "1"}})),
        node("b", json!({"labels": {"zone": "1"}})),
        node("c", json!({"labels": {"zone": "2"}})),
    ];
    let web = pod("web", json!({"labels": {"app": "web"}}));
    let lone = pod("lone", json!({"labels": {"app": "lone"}, "affinity": near("podAntiAffinity", "db")}));
    let cluster = cluster(&nodes, &[(web, "a"), (lone, "c")]);
    for (spec, expected) in [
        (json!({"affinity": near("podAffinity", "lone")}), "c"),
        (json!({"affinity": near("podAntiAffinity", "web")}), "c"),
        (json!({"affinity": near("podAffinity", "web"), "nodeSelector": {"kubernetes.io/hostname": "b"}}), "b"),
        // Ruled out by the anti-affinity of the placed pod.
        (json!({"labels": {"app": "db"}, "nodeSelector": {"zone": "2"}}), "existing pods anti-affinity rules"),
        (json!({"affinity": near("podAffinity", "nobody")}), "3 node(s) didn't match pod affinity rules"),
        // The first pod of its group.
        (json!({"labels": {"app": "new"}, "affinity": near("podAffinity", "new")}), "b"),
        (json!({"namespace": "other", "affinity": near("podAntiAffinity", "web"), "nodeSelector": {"zone": "1"}}), "b"),
    ] {
        let answer = answer(&cluster, &pod("p", spec.clone()));
        assert!(answer.contains(expected), "{spec}: {answer}");
    }
}

#[test]
fn preferences_and_weights_count() {
    let nodes = [
        node("a", json!({"taints": [{"key": "k", "effect": "PreferNoSchedule"}]})),
        node("b", json!({})),
        node("c", json!({"labels": {"disk": "ssd"}})),
    ];
    let web = pod("web", json!({"labels": {"app": "web"}}));
    let cluster = cluster(&nodes, &[(web, "b")]);
    let preference = json!({"matchExpressions": [{"key": "disk", "operator": "Exists"}]});
    let preferred = json!([{"weight": 10, "preference": preference}]);
    let by_node = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}});
    let term = json!({"labelSelector": {"matchLabels": {"app": "web"}}, "topologyKey": "kubernetes.io/hostname"});
    let by_pod = json!({"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "podAffinityTerm": term},
    ]}});
    assert_eq!(answer(&cluster, &pod("p", json!({"affinity": by_node}))), "c");
    assert_eq!(answer(&cluster, &pod("p", json!({"affinity": by_pod}))), "b");
    assert_eq!(answer(&cluster, &pod("p", json!({}))), "c");
}

#[test]
fn constraints_spread_pods_over_zones() {
    let nodes = [
        node("a", json!({"labels": {"zone": "1"}})),
        node("b", json!({"labels": {"zone": "2"}})),
        node("c", json!({})),
    ];
    let placed = [pod("one", json!({"labels": {"app": "web"}})), pod("two", json!({"labels": {"app": "web"}}))];
    let cluster = cluster(&nodes, &[(placed[0].clone(), "a"), (placed[1].clone(), "a")]);
    let spread = |when: &str, skew: i32| {
        json!([{
            "maxSkew": skew, "topologyKey": "zone", "whenUnsatisfiable": when,
            "labelSelector": {"matchLabels": {"app": "web"}},
        }])
    };
    let web = |constraints: Value, zone: Option<&str>| {
        let mut spec = json!({"labels": {"app": "web"}, "topologySpreadConstraints": constraints});
        if let Some(zone) = zone {
            spec["nodeSelector"] = json!({"kubernetes.io/hostname": zone});
        }
        answer(&cluster, &pod("p", spec))
    };
    assert_eq!(web(spread("DoNotSchedule", 1), None), "b");
    assert_eq!(web(spread("ScheduleAnyway", 1), None), "b");
    let rejected = web(spread("DoNotSchedule", 1), Some("c"));
    assert!(rejected.contains("constraints (missing required label)"), "{rejected}");
    // Only eligible nodes are compared.
    assert_eq!(web(spread("DoNotSchedule", 1), Some("a")), "a");
}

#[test]
fn preemption_removes_the_fewest_pods_of_the_lowest_priority() {
    let with = |name: &str, cpu: &str, priority: i32| pod(name, json!({"cpu": cpu, "priority": priority}));
    let placed = [
        (with("a1", "2", 1), "a"),
        (with("a2", "2", 5), "a"),
        (with("b1", "1", 1), "b"),
        (with("b2", "1", 2), "b"),
        (with("b3", "2", 50), "b"),
        (with("c1", "4", 50), "c"),
    ];
    let cluster = cluster(&["a", "b", "c"].map(|name| node(name, json!({}))), &placed);
    let asked = |cpu: &str, priority: i32, policy: &str| {
        let requirements =
            PodRequirements::of(&pod("p", json!({"cpu": cpu, "priority": priority, "preemptionPolicy": policy})));
        let Decision::Unschedulable(error) = decide(&cluster, &requirements) else {
            panic!("the pod must be unschedulable")
        };
        preempt(&cluster, &requirements, &error.resolvable_nodes).map(|found| (found.node, found.victims))
    };
    let expected = |node: &str, victims: &[&str]| {
        Some((node.to_owned(), victims.iter().map(|&victim| victim.to_owned()).collect::<Vec<_>>()))
    };
    assert_eq!(asked("1", 10, ""), expected("a", &["a1"]));
    assert_eq!(asked("2", 2, ""), expected("a", &["a1"]));
    assert_eq!(asked("2", 10, ""), expected("a", &["a1"]));
    assert_eq!(asked("3", 10, ""), expected("a", &["a2", "a1"]));
    assert_eq!(asked("1", 1, ""), None);
    assert_eq!(asked("1", 10, "Never"), None);
    assert_eq!(asked("9", 100, ""), None);
}

fn taken(state: &mut State, now: Instant) -> Vec<String> {
    let steps = std::iter::from_fn(|| state.next(now));
    let told = steps.map(|step| match step {
        Step::Bind { pod, node } => format!("{} on {node}", pod.metadata.name.as_deref().unwrap()),
        Step::Unschedulable { pod, .. } => format!("{} nowhere", pod.metadata.name.as_deref().unwrap()),
    });
    told.collect()
}

#[test]
fn pods_of_high_priority_come_first_and_unschedulable_ones_wait_for_a_change() {
    let now = Instant::now();
    let mut state = State::default();
    let later = now + std::time::Duration::from_secs(60);
    state.update_namespace(&Namespace::default());
    state.update_pod(None, &pod("low", json!({"cpu": "3"})));
    state.update_pod(None, &pod("high", json!({"cpu": "3", "priority": 10})));
    state.update_pod(None, &pod("gated", json!({"schedulingGates": [{"name": "a"}]})));
    state.update_pod(None, &pod("others", json!({"schedulerName": "other"})));
    assert_eq!(taken(&mut state, now), ["high nowhere", "low nowhere"]);
    assert_eq!(taken(&mut state, later), Vec::<String>::new());
    state.update_node(&node("a", json!({})));
    assert_eq!(taken(&mut state, later), ["high on a", "low nowhere"]);
    // A heartbeat is not a relevant change.
    state.update_node(&node("a", json!({})));
    assert_eq!(taken(&mut state, later), Vec::<String>::new());
    state.remove_pod(&pod("high", json!({})));
    // Its backoff has not ended yet.
    assert_eq!(taken(&mut state, later), Vec::<String>::new());
    let at = state.next_at().unwrap();
    assert_eq!(taken(&mut state, at), ["low on a"]);
}

#[test]
fn the_room_that_a_preemption_frees_is_not_for_pods_of_lower_priority() {
    let now = Instant::now();
    let mut state = State::default();
    state.update_node(&node("a", json!({})));
    let placed = |name: &str, cpu: &str| pod(name, json!({"cpu": cpu, "priority": 1, "nodeName": "a"}));
    let victims = [placed("one", "2"), placed("two", "2")];
    for victim in &victims {
        state.update_pod(None, victim);
    }
    state.update_pod(None, &pod("high", json!({"cpu": "3", "priority": 10})));
    assert_eq!(taken(&mut state, now), ["high nowhere"]);
    // The owners of the victims create others before the last victim is gone.
    state.remove_pod(&victims[0]);
    state.update_pod(None, &pod("again", json!({"cpu": "2", "priority": 1})));
    let later = now + std::time::Duration::from_secs(60);
    assert_eq!(taken(&mut state, later), ["high nowhere", "again nowhere"]);
    state.update_pod(None, &pod("higher", json!({"cpu": "2", "priority": 20})));
    assert_eq!(taken(&mut state, later), ["higher on a"]);
    state.remove_pod(&pod("higher", json!({})));
    state.remove_pod(&victims[1]);
    assert_eq!(taken(&mut state, later + std::time::Duration::from_secs(60)), ["high on a", "again nowhere"]);
}

#[test]
fn a_failed_binding_is_retried_and_frees_its_resources_meanwhile() {
    let now = Instant::now();
    let mut state = State::default();
    state.update_node(&node("a", json!({})));
    let first = pod("first", json!({"cpu": "3"}));
    state.update_pod(None, &first);
    assert_eq!(taken(&mut state, now), ["first on a"]);
    state.binding_failed(&first, now);
    state.update_pod(None, &pod("second", json!({"cpu": "3"})));
    assert_eq!(taken(&mut state, now), ["second on a"]);
    let at = state.next_at().unwrap();
    assert!(at > now);
    assert_eq!(taken(&mut state, at), ["first nowhere"]);
}

#[test]
fn a_pod_is_in_one_queue_only() {
    let now = Instant::now();
    let mut pending = Pending::default();
    let pod = pod("p", json!({}));
    let key = ObjectKey::of(pod.as_ref());
    pending.add(&pod, true);
    pending.add(&pod, true);
    assert!(pending.next(now).is_some());
    assert!(pending.next(now).is_none());
    pending.failed(&key, true, now);
    pending.retry();
    pending.retry();
    let at = pending.next_at().unwrap();
    assert!(pending.next(now).is_none());
    pending.add(&pod, false);
    assert!(pending.next(at).is_some());
    assert!(pending.next(at).is_none());
    pending.remove(&key);
    pending.failed(&key, false, now);
    assert_eq!(pending.next_at(), None);
}
