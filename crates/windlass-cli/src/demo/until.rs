//! Conditions that the story waits for.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::kubectl::{Selection, kind};

/// A condition that must be met within a time limit, or else the demo fails.
#[derive(Debug)]
pub(super) enum Until {
    /// This many nodes are ready.
    NodesReady(usize),
    /// The `Ready` condition of an object has this status for the current generation.
    Ready { kind: &'static str, name: &'static str, is: &'static str },
    /// There are this many pods, all ready, on exactly these nodes.
    Pods { count: usize, nodes: &'static [&'static str] },
    /// There are this many pods, all ready, none of which existed before.
    NewPods(usize),
    /// A Deployment has this many desired and ready replicas.
    Replicas { name: &'static str, count: u64 },
    /// An object is terminating, but still has finalizers.
    Leaving { kind: &'static str, name: &'static str },
    /// An object does not exist.
    Gone { kind: &'static str, name: &'static str },
    /// No object of these kinds has the label.
    NoneLeft { kinds: &'static [&'static str], labels: &'static str },
}

impl Until {
    /// Objects that the condition concerns.
    pub(super) fn about(&self) -> Selection {
        let of = |kinds: &[&str]| Selection {
            kinds: kinds.iter().filter_map(|name| kind(name)).collect(),
            ..Selection::default()
        };
        match self {
            Self::NodesReady(_) => of(&["nodes"]),
            Self::Pods { .. } | Self::NewPods(_) => of(&["pods"]),
            Self::Replicas { .. } => of(&["deployments"]),
            Self::Ready { kind, .. } | Self::Leaving { kind, .. } | Self::Gone { kind, .. } => of(&[kind]),
            Self::NoneLeft { kinds, labels } => Selection { labels: Some((*labels).to_owned()), ..of(kinds) },
        }
    }

    /// Checks the condition; the error describes the actual state. `before` contains the UIDs of earlier pods.
    pub(super) fn holds(&self, objects: &[Value], before: &BTreeSet<String>) -> Result<(), String> {
        let named = |wanted: &str| objects.iter().find(|object| object["metadata"]["name"] == wanted);
        let there = |name: &str| named(name).ok_or_else(|| format!("{name} does not exist"));
        match self {
            Self::NodesReady(count) => {
                let ready = objects.iter().filter(|node| condition(node, "Ready") == Some("True")).count();
                (ready == *count).then_some(()).ok_or_else(|| format!("{ready} of {count} nodes are ready"))
            }
            Self::Ready { name, is, .. } => {
                let object = there(name)?;
                let observed = &object["status"]["observedGeneration"];
                if !observed.is_null() && *observed != object["metadata"]["generation"] {
                    return Err(format!("{name} has not been reconciled since its last change"));
                }
                match condition(object, "Ready") {
                    Some(said) if said == *is => Ok(()),
                    said => Err(format!("{name} is Ready={}", said.unwrap_or("nothing"))),
                }
            }
            Self::Pods { count, nodes } => {
                all_ready(objects, *count)?;
                let at: BTreeSet<&str> = objects.iter().filter_map(|pod| pod["spec"]["nodeName"].as_str()).gather();
                let right = at.iter().copied().eq(nodes.iter().copied());
                right.then_some(()).ok_or_else(|| format!("the pods are on {}", Vec::from_iter(at).join(" and ")))
            }
            Self::NewPods(count) => {
                all_ready(objects, *count)?;
                let old = objects.iter().filter(|pod| before.contains(id(pod))).count();
                (old == 0).then_some(()).ok_or_else(|| format!("{old} of the old pods still exist"))
            }
            Self::Replicas { name, count } => {
                let object = there(name)?;
                let (wanted, ready) = (&object["spec"]["replicas"], &object["status"]["readyReplicas"]);
                let seen = object["status"]["observedGeneration"] == object["metadata"]["generation"];
                (wanted == count && ready == count && seen)
                    .then_some(())
                    .ok_or_else(|| format!("{name} has {ready} of {wanted} desired pods ready"))
            }
            Self::Leaving { name, .. } => {
                let leaves = there(name)?["metadata"]["deletionTimestamp"].is_string();
                leaves.then_some(()).ok_or_else(|| format!("{name} is not being deleted"))
            }
            Self::Gone { name, .. } => named(name).map_or(Ok(()), |_| Err(format!("{name} still exists"))),
            Self::NoneLeft { .. } => match objects.len() {
                0 => Ok(()),
                left => Err(format!("{left} objects remain")),
            },
        }
    }
}

/// Uid of an object.
pub(super) fn id(object: &Value) -> &str {
    object["metadata"]["uid"].as_str().unwrap_or_default()
}

fn all_ready(pods: &[Value], count: usize) -> Result<(), String> {
    let ready =
        |pod: &&Value| condition(pod, "Ready") == Some("True") && pod["metadata"]["deletionTimestamp"].is_null();
    let ready = pods.iter().filter(ready).count();
    match pods.len() {
        all if all == count && ready == count => Ok(()),
        all => Err(format!("there are {all} pods, {ready} of them ready and not terminating; expected {count}")),
    }
}

/// Status of a condition.
fn condition<'a>(object: &'a Value, name: &str) -> Option<&'a str> {
    let conditions = object["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == name)?["status"].as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, node: &str, ready: &str) -> Value {
        json!({"metadata": {"uid": uid}, "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "Ready", "status": ready}]}})
    }

    fn why(until: &Until, objects: &[Value], before: &[&str]) -> Result<(), String> {
        until.holds(objects, &before.iter().map(|id| (*id).to_owned()).collect())
    }

    #[test]
    fn pods_count_if_ready_not_terminating_and_on_the_right_nodes() {
        let both = Until::Pods { count: 2, nodes: &["a", "b"] };
        assert_eq!(why(&both, &[pod("1", "a", "True"), pod("2", "b", "True")], &[]), Ok(()));
        assert_eq!(why(&both, &[pod("1", "a", "True"), pod("2", "a", "True")], &[]), Err("the pods are on a".into()));
        let one = "there are 2 pods, 1 of them ready and not terminating; expected 2";
        assert_eq!(why(&both, &[pod("1", "a", "True"), pod("2", "b", "False")], &[]), Err(one.into()));
        let mut leaving = pod("2", "b", "True");
        leaving["metadata"]["deletionTimestamp"] = "now".into();
        assert_eq!(why(&both, &[pod("1", "a", "True"), leaving], &[]), Err(one.into()));
        let pods = [pod("1", "a", "True"), pod("2", "b", "True")];
        assert_eq!(why(&Until::NewPods(2), &pods, &["2"]), Err("1 of the old pods still exist".into()));
        assert_eq!(why(&Until::NewPods(2), &pods, &["3"]), Ok(()));
    }

    #[test]
    fn conditions_of_an_older_generation_do_not_count() {
        let network = |observed: u64, ready: &str| {
            json!({"metadata": {"name": "n", "generation": 2}, "status": {"observedGeneration": observed,
                "conditions": [{"type": "Ready", "status": ready}]}})
        };
        let until = Until::Ready { kind: "networks", name: "n", is: "True" };
        assert_eq!(why(&until, &[network(2, "True")], &[]), Ok(()));
        assert_eq!(why(&until, &[network(2, "False")], &[]), Err("n is Ready=False".into()));
        assert!(why(&until, &[network(1, "True")], &[]).is_err());
        assert_eq!(why(&until, &[], &[]), Err("n does not exist".into()));
        let deployment = |replicas: u64, ready: u64| {
            json!({"metadata": {"name": "d", "generation": 1}, "spec": {"replicas": replicas},
                "status": {"observedGeneration": 1, "readyReplicas": ready}})
        };
        let until = Until::Replicas { name: "d", count: 4 };
        assert_eq!(why(&until, &[deployment(4, 4)], &[]), Ok(()));
        assert_eq!(why(&until, &[deployment(0, 4)], &[]), Err("d has 4 of 0 desired pods ready".into()));
    }

    #[test]
    fn conditions_about_deletions_are_checked() {
        let object = json!({"metadata": {"name": "n"}});
        let leaving = json!({"metadata": {"name": "n", "deletionTimestamp": "now"}});
        let wants = Until::Leaving { kind: "networks", name: "n" };
        assert!(why(&wants, std::slice::from_ref(&object), &[]).is_err() && why(&wants, &[], &[]).is_err());
        assert_eq!(why(&wants, &[leaving], &[]), Ok(()));
        let gone = Until::Gone { kind: "networks", name: "n" };
        assert_eq!(why(&gone, &[object], &[]), Err("n still exists".into()));
        assert_eq!(why(&gone, &[], &[]), Ok(()));
    }
}
