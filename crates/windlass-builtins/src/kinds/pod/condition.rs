//! Conditions of a pod.

use serde_json::{Value, json};

use crate::object::{items, set, text};

/// Returns whether a pod is ready.
pub fn is_ready(pod: &Value) -> bool {
    let mut conditions = items(pod, "/status/conditions").iter();
    conditions.any(|condition| text(condition, "/type") == "Ready" && text(condition, "/status") == "True")
}

/// Sets a condition to true; the transition time is `now` unless it already was true.
pub fn set_condition(pod: &mut Value, kind: &str, reason: &str, message: &str, now: &str) {
    let mut conditions = items(pod, "/status/conditions").to_vec();
    let mut condition = json!({
        "type": kind, "status": "True", "lastProbeTime": null, "lastTransitionTime": now, "reason": reason,
        "message": message,
    });
    match conditions.iter_mut().find(|condition| text(condition, "/type") == kind) {
        Some(old) => {
            if text(old, "/status") == "True" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    set(pod, "/status/conditions", conditions);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_condition_keeps_the_time_since_when_it_holds() {
        let mut pod = json!({"status": {"conditions": [{"type": "Ready", "status": "True"}]}});
        assert!(is_ready(&pod));
        set_condition(&mut pod, "DisruptionTarget", "R", "m", "first");
        set_condition(&mut pod, "DisruptionTarget", "S", "n", "second");
        assert_eq!(
            pod["status"]["conditions"][1],
            json!({"type": "DisruptionTarget", "status": "True", "lastProbeTime": null, "lastTransitionTime": "first",
                "reason": "S", "message": "n"})
        );
        set_condition(&mut pod, "Ready", "", "", "now");
        assert_eq!(items(&pod, "/status/conditions").len(), 2);
    }
}
