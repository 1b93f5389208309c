use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_status, check_update};

#[test]
fn a_budget_has_one_bound_and_a_valid_selector() {
    let valid =
        json!({"metadata": {"name": "b"}, "spec": {"minAvailable": 1, "selector": {"matchLabels": {"a": "b"}}}});
    check_create(
        &PodDisruptionBudget,
        &valid,
        &[
            (json!({"/spec/minAvailable": "50%", "/spec/unhealthyPodEvictionPolicy": "AlwaysAllow"}), &[]),
            (
                json!({"/spec/maxUnavailable": "10%"}),
                &[
                    "spec: Invalid value: {\"MinAvailable\":1,\"Selector\":{\"matchLabels\":{\"a\":\"b\"}},\"MaxUnavailable\":\"10%\",\"UnhealthyPodEvictionPolicy\":null}: minAvailable and maxUnavailable cannot be both set",
                ],
            ),
            (
                json!({"/spec/minAvailable": -1}),
                &["spec.minAvailable: Invalid value: -1: must be greater than or equal to 0"],
            ),
            (
                json!({"/spec/minAvailable": "101%"}),
                &["spec.minAvailable: Invalid value: \"101%\": must not be greater than 100%"],
            ),
            (
                json!({"/spec/minAvailable": null, "/spec/maxUnavailable": "ten"}),
                &[
                    "spec.maxUnavailable: Invalid value: \"ten\": a valid percent string must be a numeric string followed by an ending '%' (e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')",
                ],
            ),
            (
                json!({"/spec/selector/matchExpressions": [{"key": "a", "operator": "In"}], "/spec/unhealthyPodEvictionPolicy": "X"}),
                &[
                    "spec.selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
                    "spec.unhealthyPodEvictionPolicy: Unsupported value: \"X\": supported values: \"AlwaysAllow\", \"IfHealthyBudget\"",
                ],
            ),
        ],
    );
    // Values that were already invalid are tolerated.
    let wrong = json!([{"key": "a", "operator": "In", "values": ["a b"]}]);
    let old = changed(&valid, &json!({"/spec/selector/matchExpressions": wrong}));
    assert!(!PodDisruptionBudget.validate(&old).is_empty());
    check_update(&PodDisruptionBudget, &old, &[(json!({"/spec/minAvailable": 2}), &[])]);
}

#[test]
fn the_status_of_a_budget_has_no_negative_counts_and_only_complete_conditions() {
    let condition = json!({"type": "DisruptionAllowed", "status": "True", "reason": "SufficientPods", "lastTransitionTime": "2026-01-01T00:00:00Z"});
    let old = json!({"status": {"conditions": [condition]}});
    check_status(
        &PodDisruptionBudget,
        &old,
        &[
            (json!({"/status/currentHealthy": 3}), &[]),
            (
                json!({"/status/disruptionsAllowed": -1, "/status/expectedPods": -2}),
                &[
                    "status.disruptionsAllowed: Invalid value: -1: must be greater than or equal to 0",
                    "status.expectedPods: Invalid value: -2: must be greater than or equal to 0",
                ],
            ),
            (
                json!({"/status/conditions": [condition, {"type": "DisruptionAllowed", "status": "Maybe", "reason": "1"}]}),
                &[
                    "status.conditions[1].type: Duplicate value: \"DisruptionAllowed\"",
                    "status.conditions[1].status: Unsupported value: \"Maybe\": supported values: \"False\", \"True\", \"Unknown\"",
                    "status.conditions[1].lastTransitionTime: Required value",
                    "status.conditions[1].reason: Invalid value: \"1\": a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_' (e.g. 'my_name',  or 'MY_NAME',  or 'MyName',  or 'ReasonA,ReasonB',  or 'ReasonA:ReasonB', regex used for validation is '[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?')",
                ],
            ),
        ],
    );
}
