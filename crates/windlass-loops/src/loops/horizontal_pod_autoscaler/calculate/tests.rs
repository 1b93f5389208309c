//! Table tests of proposed replicas.

use serde_json::json;

use super::*;

fn now() -> Timestamp {
    "2026-01-01T12:00:00Z".parse().unwrap()
}

fn pod(name: &str, phase: &str, request: Option<&str>) -> Arc<Pod> {
    let requests = request.map(|cpu| json!({"requests": {"cpu": cpu}}));
    Arc::new(
        serde_json::from_value(json!({
            "metadata": {"name": name},
            "spec": {"containers": [{"name": "c", "resources": requests}]},
            "status": {"phase": phase, "startTime": "2026-01-01T10:00:00Z", "conditions": [
                {"type": "Ready", "status": if phase == "Running" { "True" } else { "False" },
                    "lastTransitionTime": "2026-01-01T10:00:10Z"}]},
        }))
        .unwrap(),
    )
}

fn samples(values: &[(&str, i64)]) -> Samples {
    let sample = |value| Sample { value, time: now(), window: Duration::from_secs(30) };
    values.iter().map(|(pod, value)| ((*pod).to_owned(), sample(*value))).collect()
}

fn situation(pods: &[Arc<Pod>], current: i32) -> Situation<'_> {
    Situation { current, pods, tolerances: Tolerances { down: 0.1, up: 0.1 }, now: now() }
}

#[test]
fn utilization_is_brought_to_its_target() {
    let pods = [pod("a", "Running", Some("1")), pod("b", "Running", Some("1"))];
    for (values, expected) in [
        (&[("a", 300), ("b", 500)][..], (2, 40, 400)),
        (&[("a", 500), ("b", 500)], (2, 50, 500)),
        // Within the tolerance.
        (&[("a", 540), ("b", 540)], (2, 54, 540)),
        (&[("a", 900), ("b", 900)], (4, 90, 900)),
        (&[("a", 100), ("b", 100)], (1, 10, 100)),
        // A pod without a sample counts as idle when scaling up, and as busy when scaling down.
        (&[("a", 900)], (2, 90, 900)),
        (&[("a", 100)], (2, 10, 100)),
    ] {
        let found = situation(&pods, 2).by_utilization(samples(values), 50, "cpu", None);
        assert_eq!(found, Ok(expected), "{values:?}");
    }
}

#[test]
fn pods_without_samples_are_left_out() {
    let pods = [pod("a", "Running", Some("1")), pod("b", "Pending", Some("1")), pod("c", "Failed", Some("1"))];
    let values = samples(&[("a", 900), ("b", 900), ("c", 900)]);
    let expected =
        Groups { ready: 1, unready: ["b".to_owned()].into(), ignored: ["c".to_owned()].into(), ..Groups::default() };
    assert_eq!(situation(&pods, 3).groups(&values, true), expected);
    // 90 % of one and nothing of the starting one: 45 % of both is enough.
    assert_eq!(situation(&pods, 2).by_utilization(values, 50, "cpu", None), Ok((2, 90, 900)));
    let none = situation(&pods, 2).by_average(samples(&[("b", 5)]), 10, false).unwrap_err();
    assert_eq!(none, "did not receive metrics for targeted pods (pods might be unready)");
}

#[test]
fn without_requests_there_is_no_utilization() {
    let (good, bad) = (pod("a", "Running", Some("1")), pod("b", "Running", None));
    let check = |pods: &[Arc<Pod>], container: Option<&str>| {
        situation(pods, 1).by_utilization(samples(&[("a", 1)]), 50, "cpu", container).unwrap_err()
    };
    assert_eq!(check(&[good.clone(), bad], None), "missing request for cpu in container c of Pod b");
    assert_eq!(check(&[good], Some("x")), "container x not found in Pod a");
    assert_eq!(check(&[], None), NO_PODS);
}

#[test]
fn averages_ratios_and_shares_are_brought_to_their_targets() {
    let pods = [pod("a", "Running", None), pod("b", "Running", None), pod("c", "Pending", None)];
    let situation = situation(&pods, 3);
    assert_eq!(situation.by_average(samples(&[("a", 30), ("b", 10)]), 10, false), Ok((4, 20)));
    for (ratio, expected) in [(1.05, 3), (2.0, 4), (0.2, 1), (1e12, i32::MAX)] {
        assert_eq!(situation.by_ratio(ratio), Ok(expected), "{ratio}");
    }
    for (usage, expected) in [(9000, (9, 3000)), (3100, (3, 1034)), (0, (0, 0))] {
        assert_eq!(situation.shared(3, usage, 1000), expected, "{usage}");
    }
    assert_eq!(Situation { current: 0, ..situation }.by_ratio(1.2), Ok(2));
}
