//! Evictions: whether a PodDisruptionBudget allows one, and how its status records it.

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::object::{integer, items, map, set, text};

/// Maximum number of evicted pods that the disruption controller has not yet confirmed.
const MAX_DISRUPTED: usize = 2000;
/// The condition of a budget.
const CONDITION: &str = "DisruptionAllowed";

/// Reasons why a budget does not allow an eviction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Denied {
    /// The disruption controller has not yet observed the current spec.
    NotYet,
    /// The status of the budget is invalid.
    Broken(&'static str),
    /// Too few healthy pods would remain, with the reason.
    Exhausted(String),
}

/// Records an eviction in the budget and returns it.
///
/// # Errors
/// Returns an error if the budget does not allow the eviction.
pub fn check_and_decrement(budget: &Value, pod: &str, now: Timestamp) -> Result<Value, Denied> {
    let number = |field: &str| integer(budget, &format!("/status/{field}")).unwrap_or_default();
    if number("observedGeneration") < integer(budget, "/metadata/generation").unwrap_or_default() {
        return Err(Denied::NotYet);
    }
    let allowed = number("disruptionsAllowed");
    if allowed < 0 {
        return Err(Denied::Broken("pdb disruptions allowed is negative"));
    }
    if map(budget, "/status/disruptedPods").is_some_and(|pods| pods.len() > MAX_DISRUPTED) {
        return Err(Denied::Broken("DisruptedPods map too big - too many evictions not confirmed by PDB controller"));
    }
    if allowed == 0 {
        return Err(Denied::Exhausted(reason(budget, number("currentHealthy"), number("desiredHealthy"))));
    }
    let mut budget = budget.clone();
    set(&mut budget, "/status/disruptionsAllowed", allowed - 1);
    if allowed == 1 {
        exhaust(&mut budget, now);
    }
    let mut pods = map(&budget, "/status/disruptedPods").cloned().unwrap_or_else(Map::new);
    pods.insert(pod.to_owned(), time(now));
    set(&mut budget, "/status/disruptedPods", pods);
    Ok(budget)
}

/// Returns whether a pod that is not ready may be evicted regardless of the budget, because it does not count as
/// healthy.
pub fn allows_unready_eviction(budget: &Value) -> bool {
    let number = |field: &str| integer(budget, &format!("/status/{field}")).unwrap_or_default();
    let enough = number("currentHealthy") >= number("desiredHealthy") && number("desiredHealthy") > 0;
    text(budget, "/spec/unhealthyPodEvictionPolicy") == "AlwaysAllow" || enough
}

fn reason(budget: &Value, healthy: i64, desired: i64) -> String {
    let name = text(budget, "/metadata/name");
    let condition = items(budget, "/status/conditions").iter().find(|condition| text(condition, "/type") == CONDITION);
    let said = condition.filter(|condition| text(condition, "/status") == "False");
    let said = said.map(|condition| (text(condition, "/reason"), text(condition, "/message")));
    match said.filter(|(_, message)| !message.is_empty()) {
        Some(("SyncFailed", message)) => format!(
            "The disruption budget {name} does not allow evicting pods currently because it failed sync: {message}"
        ),
        _ if healthy <= desired => {
            format!("The disruption budget {name} needs {desired} healthy pods and has {healthy} currently")
        }
        Some((reason, message)) => {
            format!("The disruption budget {name} does not allow evicting pods currently ({reason}): {message}")
        }
        None => format!("The disruption budget {name} does not allow evicting pods currently"),
    }
}

/// Sets the condition that no further disruption is allowed.
fn exhaust(budget: &mut Value, now: Timestamp) {
    let mut conditions = items(budget, "/status/conditions").to_vec();
    let generation = integer(budget, "/status/observedGeneration").unwrap_or_default();
    let mut condition = json!({
        "type": CONDITION, "status": "False", "observedGeneration": generation, "lastTransitionTime": time(now),
        "reason": "InsufficientPods", "message": "",
    });
    match conditions.iter_mut().find(|condition| text(condition, "/type") == CONDITION) {
        Some(old) => {
            if text(old, "/status") == "False" {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => conditions.push(condition),
    }
    set(budget, "/status/conditions", conditions);
}

fn time(now: Timestamp) -> Value {
    now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string().into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(status: Value) -> Value {
        json!({"metadata": {"name": "guard", "generation": 2}, "status": status})
    }

    #[test]
    fn an_eviction_is_recorded_in_the_budget() {
        let two = budget(json!({"observedGeneration": 2, "disruptionsAllowed": 2, "conditions": [
            {"type": CONDITION, "status": "True", "lastTransitionTime": "old", "reason": "SufficientPods"}]}));
        let one = check_and_decrement(&two, "a", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(one["status"]["disruptionsAllowed"], 1);
        assert_eq!(one["status"]["conditions"][0]["status"], "True");
        assert_eq!(one["status"]["disruptedPods"], json!({"a": "1970-01-01T00:00:00Z"}));
        let none = check_and_decrement(&one, "b", Timestamp::UNIX_EPOCH).unwrap();
        assert_eq!(none["status"]["disruptionsAllowed"], 0);
        assert_eq!(none["status"]["disruptedPods"].as_object().unwrap().len(), 2);
        assert_eq!(
            none["status"]["conditions"],
            json!([{"type": CONDITION, "status": "False", "observedGeneration": 2, "reason": "InsufficientPods",
                "message": "", "lastTransitionTime": "1970-01-01T00:00:00Z"}])
        );
    }

    #[test]
    fn a_budget_reports_why_it_denies_an_eviction() {
        let said = |reason: &str, message: &str| json!([{"type": CONDITION, "status": "False", "reason": reason, "message": message}]);
        for (status, expected) in [
            (json!({"observedGeneration": 1, "disruptionsAllowed": 5}), Denied::NotYet),
            (
                json!({"observedGeneration": 2, "disruptionsAllowed": -1}),
                Denied::Broken("pdb disruptions allowed is negative"),
            ),
            (
                json!({"observedGeneration": 2, "currentHealthy": 1, "desiredHealthy": 1}),
                Denied::Exhausted("The disruption budget guard needs 1 healthy pods and has 1 currently".to_owned()),
            ),
            (
                json!({"observedGeneration": 2, "conditions": said("SyncFailed", "no scale")}),
                Denied::Exhausted(
                    "The disruption budget guard does not allow evicting pods currently because it failed sync: no scale"
                        .to_owned(),
                ),
            ),
            (
                json!({"observedGeneration": 2, "currentHealthy": 2, "desiredHealthy": 1, "conditions": said("X", "why")}),
                Denied::Exhausted(
                    "The disruption budget guard does not allow evicting pods currently (X): why".to_owned(),
                ),
            ),
            (
                json!({"observedGeneration": 2, "currentHealthy": 2, "desiredHealthy": 1}),
                Denied::Exhausted("The disruption budget guard does not allow evicting pods currently".to_owned()),
            ),
        ] {
            assert_eq!(check_and_decrement(&budget(status.clone()), "p", Timestamp::UNIX_EPOCH), Err(expected), "{status}");
        }
    }

    #[test]
    fn unready_pods_can_be_evicted_if_the_budget_is_healthy() {
        assert!(allows_unready_eviction(&budget(json!({"currentHealthy": 1, "desiredHealthy": 1}))));
        assert!(!allows_unready_eviction(&budget(json!({"currentHealthy": 0, "desiredHealthy": 0}))));
        let always = json!({"spec": {"unhealthyPodEvictionPolicy": "AlwaysAllow"}});
        assert!(allows_unready_eviction(&always));
    }
}
