//! The condition `DisruptionTarget` of pods that a loop deletes.

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

const TARGET: &str = "DisruptionTarget";

/// Returns the condition as an entry of a strategic merge patch, or `None` if the pod already has it.
pub(crate) fn disruption_target(pod: &Pod, reason: &str, message: &str, now: Timestamp) -> Option<Value> {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    let present = conditions.into_iter().flatten().find(|condition| condition.type_ == TARGET);
    let holds = present.filter(|present| present.status == "True");
    let same = |text: &Option<String>, wanted: &str| text.as_deref().unwrap_or_default() == wanted;
    if holds.is_some_and(|holds| same(&holds.reason, reason) && same(&holds.message, message)) {
        return None;
    }
    let since = holds.and_then(|holds| holds.last_transition_time.as_ref()).map_or(now, |time| time.0);
    Some(json!({
        "type": TARGET, "status": "True", "reason": reason, "message": message,
        "lastTransitionTime": since.to_string(), "observedGeneration": pod.metadata.generation,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_condition_is_set_once_and_keeps_its_time() {
        let now: Timestamp = "2026-01-01T00:00:10Z".parse().unwrap();
        let pod = |conditions: Value| -> Pod {
            serde_json::from_value(json!({"metadata": {"generation": 2}, "status": {"conditions": conditions}}))
                .unwrap()
        };
        let told = |status: &str, reason: &str| {
            json!([{"type": TARGET, "status": status, "reason": reason, "message": "m",
                "lastTransitionTime": "2026-01-01T00:00:00Z"}])
        };
        let time = |conditions| {
            let target = disruption_target(&pod(conditions), "r", "m", now)?;
            Some(target["lastTransitionTime"].as_str().unwrap().to_owned())
        };
        assert_eq!(time(json!([])).as_deref(), Some("2026-01-01T00:00:10Z"));
        assert_eq!(time(told("False", "r")).as_deref(), Some("2026-01-01T00:00:10Z"));
        assert_eq!(time(told("True", "other")).as_deref(), Some("2026-01-01T00:00:00Z"));
        assert_eq!(time(told("True", "r")), None);
    }
}
