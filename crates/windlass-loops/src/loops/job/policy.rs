//! Pod failure policies and success policies.

use k8s_openapi::api::{
    batch::v1::{PodFailurePolicy, PodFailurePolicyOnExitCodesRequirement, PodFailurePolicyRule, SuccessPolicy},
    core::v1::{ContainerStatus, Pod},
};

use super::indexes::Indexes;

/// The consequence of a failed pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It counts as a failure.
    Counts,
    /// It is ignored.
    Ignored,
    /// Its index fails, regardless of the backoff limit.
    FailsIndex,
    /// The job fails, with this message.
    FailsJob(String),
}

impl Failure {
    /// Returns whether it counts towards the backoff limits.
    pub(super) fn counts(&self) -> bool {
        *self != Self::Ignored
    }
}

/// The consequence of a failed pod, by the first matching rule.
pub(super) fn judge(policy: Option<&PodFailurePolicy>, pod: &Pod) -> Failure {
    let Some(policy) = policy else { return Failure::Counts };
    for (place, rule) in policy.rules.iter().enumerate() {
        let Some(why) = fits(rule, pod) else { continue };
        match rule.action.as_str() {
            "Ignore" => return Failure::Ignored,
            "FailIndex" => return Failure::FailsIndex,
            "Count" => return Failure::Counts,
            "FailJob" => return Failure::FailsJob(format!("{why} matching FailJob rule at index {place}")),
            _ => {}
        }
    }
    Failure::Counts
}

/// Returns the message for a rule that matches a pod, or `None`.
fn fits(rule: &PodFailurePolicyRule, pod: &Pod) -> Option<String> {
    let status = pod.status.as_ref()?;
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    if let Some(codes) = &rule.on_exit_codes {
        let containers = status.container_statuses.iter().flatten();
        let (container, code) = containers
            .chain(status.init_container_statuses.iter().flatten())
            .find_map(|container| Some((container, matching_code(container, codes)?)))?;
        let container = &container.name;
        return Some(format!("Container {container} for pod {namespace}/{name} failed with exit code {code}"));
    }
    let patterns = rule.on_pod_conditions.as_ref()?;
    let condition = status.conditions.iter().flatten().find(|condition| {
        // A pattern without a status means `True`.
        let wants = |status: &Option<String>| status.as_deref().unwrap_or("True") == condition.status;
        patterns.iter().any(|pattern| pattern.type_ == condition.type_ && wants(&pattern.status))
    })?;
    Some(format!("Pod {namespace}/{name} has condition {}", condition.type_))
}

/// The exit code of a container, if it matches the requirement.
fn matching_code(container: &ContainerStatus, codes: &PodFailurePolicyOnExitCodesRequirement) -> Option<i32> {
    let code = container.state.as_ref()?.terminated.as_ref()?.exit_code;
    if code == 0 || codes.container_name.as_ref().is_some_and(|name| *name != container.name) {
        return None;
    }
    let listed = codes.values.contains(&code);
    match codes.operator.as_str() {
        "In" => listed.then_some(code),
        "NotIn" => (!listed).then_some(code),
        _ => None,
    }
}

/// Returns the message for a fulfilled success policy, or `None`.
pub(super) fn succeeded(policy: Option<&SuccessPolicy>, completions: i64, succeeded: &Indexes) -> Option<String> {
    if succeeded.is_empty() {
        return None;
    }
    let met = policy?.rules.iter().position(|rule| match &rule.succeeded_indexes {
        Some(text) => {
            let required = Indexes::parse(text, completions);
            let common = required.common(succeeded);
            let enough = rule.succeeded_count.is_some_and(|count| common >= count.into());
            !required.is_empty() && (common == required.total() || enough)
        }
        None => rule.succeeded_count.is_some_and(|count| succeeded.total() >= count.into()),
    });
    met.map(|place| format!("Matched rules at index {place}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(code: i32, condition: &str) -> Pod {
        serde_json::from_value(json!({
            "metadata": {"name": "p", "namespace": "n"},
            "status": {
                "conditions": [{"type": condition, "status": "True"}],
                "containerStatuses": [{"name": "main", "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"terminated": {"exitCode": code}}}],
            },
        }))
        .unwrap()
    }

    #[test]
    fn the_first_matching_rule_decides() {
        let policy: PodFailurePolicy = serde_json::from_value(json!({"rules": [
            {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]},
            {"action": "FailJob", "onExitCodes": {"containerName": "main", "operator": "In", "values": [42]}},
            {"action": "FailJob", "onExitCodes": {"containerName": "other", "operator": "NotIn", "values": [1]}},
            {"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [7]}},
            {"action": "Count", "onExitCodes": {"operator": "In", "values": [8]}},
            {"action": "FailJob", "onPodConditions": [{"type": "ConfigIssue"}]},
        ]}))
        .unwrap();
        let fails = |text: &str| Failure::FailsJob(text.to_owned());
        for (code, condition, expected) in [
            (42, "DisruptionTarget", Failure::Ignored),
            (
                42,
                "Ready",
                fails("Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1"),
            ),
            (0, "Ready", Failure::Counts),
            (7, "Ready", Failure::FailsIndex),
            (8, "ConfigIssue", Failure::Counts),
            (1, "ConfigIssue", fails("Pod n/p has condition ConfigIssue matching FailJob rule at index 5")),
        ] {
            assert_eq!(judge(Some(&policy), &pod(code, condition)), expected, "{code} {condition}");
        }
        assert_eq!(judge(None, &pod(42, "Ready")), Failure::Counts);
    }

    #[test]
    fn a_success_policy_is_met_by_one_of_its_rules() {
        let check = |rules: Value, indexes: &str, expected: Option<&str>| {
            let policy: SuccessPolicy = serde_json::from_value(json!({"rules": rules})).unwrap();
            let found = succeeded(Some(&policy), 10, &Indexes::parse(indexes, 10));
            assert_eq!(found.as_deref(), expected, "{rules} with {indexes}");
        };
        check(json!([{"succeededIndexes": "0-2"}]), "0,1", None);
        check(json!([{"succeededIndexes": "0-2"}]), "0-2,5", Some("Matched rules at index 0"));
        check(json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "1,2", Some("Matched rules at index 0"));
        check(json!([{"succeededIndexes": "0-2", "succeededCount": 2}]), "2-9", None);
        check(json!([{"succeededIndexes": "9"}, {"succeededCount": 2}]), "2,3", Some("Matched rules at index 1"));
        check(json!([{"succeededCount": 1}]), "", None);
        // A job without this index cannot require it.
        check(json!([{"succeededIndexes": "20"}]), "0-9", None);
    }
}
