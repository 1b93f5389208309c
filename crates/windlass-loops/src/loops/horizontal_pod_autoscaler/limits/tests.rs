//! Table tests of the limits.

use serde_json::{Value, json};

use super::*;

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_800_000_000 + seconds).unwrap()
}

fn spec(behavior: Value) -> HorizontalPodAutoscalerSpec {
    let target = json!({"kind": "Deployment", "name": "web"});
    serde_json::from_value(json!({"scaleTargetRef": target, "minReplicas": 2, "maxReplicas": 50, "behavior": behavior}))
        .unwrap()
}

fn range(current: i32, desired: i32) -> Range {
    Range { current, desired, least: 2, most: 50 }
}

#[test]
fn by_default_scaling_up_doubles_and_scaling_down_waits_five_minutes() {
    let spec = spec(Value::Null);
    for (current, desired, replicas, reason) in [
        (3, 3, 3, "DesiredWithinRange"),
        (3, 5, 5, "DesiredWithinRange"),
        (3, 9, 6, "ScaleUpLimit"),
        (1, 9, 4, "ScaleUpLimit"),
        (40, 60, 50, "TooManyReplicas"),
        (3, 1, 2, "TooFewReplicas"),
    ] {
        let limited = History::default().limit(&spec, range(current, desired), at(0));
        assert_eq!((limited.replicas, limited.limited.1), (replicas, reason), "{current} {desired}");
        assert_eq!(limited.limited.0, reason != "DesiredWithinRange", "{current} {desired}");
    }
    let mut history = History::default();
    history.begin(10, at(0));
    for (seconds, replicas, reason) in
        [(0, 10, "ScaleDownStabilized"), (299, 10, "ScaleDownStabilized"), (301, 5, "ReadyForNewScale")]
    {
        let limited = history.limit(&spec, range(10, 5), at(seconds));
        assert_eq!((limited.replicas, limited.able.0), (replicas, reason), "{seconds}");
    }
}

#[test]
fn rules_limit_the_rate_within_a_period() {
    let rules = |select: &str| {
        spec(json!({
            "scaleUp": {"selectPolicy": select, "stabilizationWindowSeconds": 0, "policies": [
                {"type": "Pods", "value": 3, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]},
            "scaleDown": {"selectPolicy": select, "stabilizationWindowSeconds": 0, "policies": [
                {"type": "Pods", "value": 3, "periodSeconds": 60}, {"type": "Percent", "value": 50, "periodSeconds": 60}]},
        }))
    };
    for (select, current, desired, replicas, reason) in [
        ("Max", 10, 40, 15, "ScaleUpLimit"),
        ("Min", 10, 40, 13, "ScaleUpLimit"),
        ("Disabled", 10, 40, 10, "ScaleUpLimit"),
        ("Max", 10, 2, 5, "ScaleDownLimit"),
        ("Min", 10, 2, 7, "ScaleDownLimit"),
        ("Disabled", 10, 2, 10, "ScaleDownLimit"),
        ("Max", 40, 60, 50, "TooManyReplicas"),
        ("Max", 3, 1, 2, "TooFewReplicas"),
    ] {
        let limited = History::default().limit(&rules(select), range(current, desired), at(0));
        assert_eq!((limited.replicas, limited.limited.1), (replicas, reason), "{select} {current} {desired}");
    }
    // Added replicas count until the period is over.
    let (mut history, spec) = (History::default(), rules("Max"));
    history.changed(&spec, 10, 15, at(0));
    assert_eq!(history.limit(&spec, range(15, 40), at(30)).replicas, 15);
    assert_eq!(history.limit(&spec, range(15, 40), at(61)).replicas, 23);
}

#[test]
fn stabilization_windows_select_the_most_conservative_recommendation() {
    let spec =
        spec(json!({"scaleUp": {"stabilizationWindowSeconds": 60}, "scaleDown": {"stabilizationWindowSeconds": 60}}));
    let mut history = History::default();
    history.begin(10, at(0));
    for (seconds, desired, replicas, reason) in [
        (10, 20, 10, "ScaleUpStabilized"),
        (30, 14, 10, "ScaleUpStabilized"),
        (65, 16, 14, "ScaleUpStabilized"),
        (100, 6, 10, "ScaleDownStabilized"),
        (300, 6, 6, "ReadyForNewScale"),
    ] {
        let limited = history.limit(&spec, range(10, desired), at(seconds));
        assert_eq!((limited.replicas, limited.able.0), (replicas, reason), "{seconds}");
    }
}
