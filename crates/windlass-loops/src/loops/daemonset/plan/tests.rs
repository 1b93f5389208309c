use serde_json::{Value, json};

use super::*;

/// A pod from a word: its node, its revision, and `ready`, `starting`, `failed`, `done` or `going`.
fn pod(place: usize, word: &str) -> Arc<Pod> {
    let parts: Vec<&str> = word.split(':').collect();
    let [node, revision, state] = parts[..] else { panic!("{word}") };
    let phase = match state {
        "failed" => "Failed",
        "done" => "Succeeded",
        _ => "Running",
    };
    let mut pod = json!({
        "metadata": { "name": format!("{place}"), "labels": { HASH_LABEL: revision } },
        "spec": { "nodeName": node, "containers": [] },
        "status": { "phase": phase, "conditions": [{ "type": "Ready", "status": if state == "ready" { "True" } else { "False" } }] },
    });
    if state == "going" {
        pod["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z".into();
    }
    Arc::new(serde_json::from_value(pod).unwrap())
}

fn shown(plan: &Plan) -> String {
    let creates = plan.create.iter().map(|node| format!("+{node}"));
    let deletes = plan.delete.iter().map(|(pod, why)| match why {
        Why::Failed => format!("-{}:failed", pod.metadata.name.as_deref().unwrap()),
        Why::Succeeded => format!("-{}:done", pod.metadata.name.as_deref().unwrap()),
        Why::Unwanted => format!("-{}", pod.metadata.name.as_deref().unwrap()),
    });
    creates.chain(deletes).collect::<Vec<_>>().join(" ")
}

/// Nodes from words, tainted if they have a `!`; pods from words, named by their position.
fn check(rolling: Value, nodes: &str, pods: &str, managed: &str, rolled: &str) {
    let set = json!({ "metadata": { "name": "agent" }, "spec": { "selector": {},
        "template": { "spec": { "containers": [] } },
        "updateStrategy": { "type": if rolling.is_null() { "OnDelete" } else { "RollingUpdate" }, "rollingUpdate": rolling } } });
    let set: DaemonSet = serde_json::from_value(set).unwrap();
    let node = |word: &str| -> Arc<Node> {
        let taints = match word.strip_suffix('!') {
            Some(_) => json!([{ "key": "x", "effect": "NoExecute" }]),
            None => json!([]),
        };
        let node = json!({ "metadata": { "name": word.trim_end_matches('!') }, "spec": { "taints": taints } });
        Arc::new(serde_json::from_value(node).unwrap())
    };
    let nodes: Vec<_> = nodes.split_whitespace().map(node).collect();
    let all: Vec<_> = pods.split_whitespace().enumerate().map(|(place, word)| pod(place, word)).collect();
    let view = View { set: &set, nodes: &nodes, pods: &all, hash: "new", now: Timestamp::UNIX_EPOCH };
    assert_eq!((shown(&view.manage()).as_str(), shown(&view.roll()).as_str()), (managed, rolled), "{set:?} {pods}");
}

#[test]
fn every_eligible_node_has_one_pod() {
    let one = json!({ "maxUnavailable": 1, "maxSurge": 0 });
    check(one.clone(), "a b", "", "+a +b", "");
    check(one.clone(), "a b!", "b:new:ready", "+a -0", "");
    check(one.clone(), "a", "a:new:ready a:new:ready", "-1", "");
    check(one.clone(), "a", "a:new:failed", "-0:failed", "");
    check(one.clone(), "a", "a:new:done", "-0:done", "");
    check(one.clone(), "a", "a:new:going", "", "");
    check(one, "a", "gone:new:ready a:new:ready", "", "");
}

#[test]
fn a_rollout_replaces_as_many_pods_as_may_be_unavailable() {
    let most = |number: i32| json!({ "maxUnavailable": number, "maxSurge": 0 });
    check(most(1), "a b c", "a:old:ready b:old:ready c:old:ready", "", "-0");
    check(most(2), "a b c", "a:old:ready b:old:ready c:old:ready", "", "-0 -1");
    check(json!({ "maxUnavailable": "50%" }), "a b c", "a:old:ready b:old:ready c:old:ready", "", "-0 -1");
    check(most(1), "a b c", "a:new:starting b:old:ready c:old:ready", "", "");
    check(most(1), "a b c", "a:new:ready b:old:ready c:old:going", "", "");
    check(most(1), "a b c", "a:old:starting b:old:starting c:old:ready", "", "-0 -1");
    check(json!(null), "a", "a:old:ready", "", "");
    check(most(0), "a", "a:old:ready", "", "-0");
}

#[test]
fn with_a_surge_new_pods_are_created_first() {
    let surge = |number: i32| json!({ "maxUnavailable": 0, "maxSurge": number });
    check(surge(1), "a b", "a:old:ready b:old:ready", "", "+a");
    check(surge(2), "a b", "a:old:ready b:old:ready", "", "+a +b");
    check(surge(1), "a b", "a:old:ready b:old:ready a:new:starting", "", "");
    check(surge(1), "a b", "a:old:ready b:old:ready a:new:ready", "-0", "+b -0");
    check(surge(1), "a b", "a:old:starting b:old:ready", "", "+a +b");
    check(surge(1), "a", "a:old:starting a:new:starting", "-0", "");
    check(surge(1), "a", "a:new:failed", "+a -0:failed", "");
}

#[test]
fn unscheduled_pods_for_missing_nodes_are_deleted() {
    let set: DaemonSet = serde_json::from_value(json!({ "metadata": { "name": "agent", "uid": "u" },
        "spec": { "selector": {}, "template": { "spec": { "containers": [] } } } }))
    .unwrap();
    let pods = [Arc::new(super::super::fit::new_pod(&set, "new", "gone").unwrap())];
    let view = View { set: &set, nodes: &[], pods: &pods, hash: "new", now: Timestamp::UNIX_EPOCH };
    assert_eq!(view.manage().delete.len(), 1);
}
