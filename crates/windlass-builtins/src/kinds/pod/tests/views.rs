//! Values derived from a pod: grace period, selectable fields, columns, warnings.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{changed, simple};
use crate::kinds::deployment::Deployment;
use crate::kinds::pod::{Pod, printer};
use crate::strategy::{Grace, Strategy};

#[test]
fn only_a_running_pod_has_a_grace_period() {
    let grace = |changes: Value, requested| Pod.grace(&changed(&simple(), changes), requested);
    let on_node = json!({"/spec/nodeName": "n"});
    assert_eq!(grace(json!({}), Some(20)), Grace::Seconds(0));
    assert_eq!(grace(on_node.clone(), None), Grace::Seconds(30));
    assert_eq!(grace(on_node.clone(), Some(5)), Grace::Seconds(5));
    assert_eq!(grace(on_node, Some(-7)), Grace::Seconds(1));
    assert_eq!(grace(json!({"/spec/nodeName": "n", "/status/phase": "Failed"}), None), Grace::Seconds(0));
}

#[test]
fn selectable_fields_are_the_same_for_every_pod() {
    let names = |pod: &Value| Pod.selectable_fields(pod).into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    let pod = changed(&simple(), json!({"/status/podIPs": [{"ip": "10.0.0.1"}], "/spec/hostNetwork": true}));
    assert_eq!(names(&pod), names(&Value::Null));
    let fields = Pod.selectable_fields(&pod);
    for expected in [("status.podIP", "10.0.0.1"), ("spec.hostNetwork", "true"), ("spec.restartPolicy", "Always")] {
        assert!(fields.iter().any(|(name, value)| (*name, value.as_str()) == expected), "{expected:?}");
    }
}

#[test]
fn the_status_column_shows_the_most_important_state() {
    let now: Timestamp = "2026-01-01T01:00:00Z".parse().expect("a time");
    let waiting = |reason: &str| json!({"name": "c", "state": {"waiting": {"reason": reason}}});
    let ended = |code: i64| json!({"name": "c", "state": {"terminated": {"exitCode": code}}});
    let running = json!({"name": "c", "ready": true, "state": {"running": {}}, "restartCount": 2,
        "lastState": {"terminated": {"finishedAt": "2026-01-01T00:55:00Z"}}});
    let sidecar = json!([{"name": "i"}, {"name": "s", "restartPolicy": "Always"}]);
    for (changes, ready, status, restarts) in [
        (json!({}), "0/1", "Pending", "0"),
        (json!({"/status/reason": "Evicted", "/status/phase": "Failed"}), "0/1", "Evicted", "0"),
        (json!({"/status/containerStatuses": [waiting("CrashLoopBackOff")]}), "0/1", "CrashLoopBackOff", "0"),
        (json!({"/status/phase": "Running", "/status/containerStatuses": [running]}), "1/1", "Running", "2 (5m ago)"),
        (json!({"/status/containerStatuses": [ended(3)]}), "0/1", "ExitCode:3", "0"),
        (
            json!({"/status/containerStatuses": [{"name": "c", "state": {"terminated": {"exitCode": 0, "reason": "Completed"}}}]}),
            "0/1",
            "Completed",
            "0",
        ),
        (
            json!({"/spec/initContainers": sidecar, "/status/initContainerStatuses": [{"name": "i", "state": {}}]}),
            "0/2",
            "Init:0/2",
            "0",
        ),
        (
            json!({"/spec/initContainers": sidecar, "/status/initContainerStatuses": [
                {"name": "i", "state": {"terminated": {"exitCode": 1, "reason": "Error"}}, "restartCount": 4}]}),
            "0/2",
            "Init:Error",
            "4",
        ),
        (
            json!({"/spec/initContainers": sidecar, "/status/phase": "Running", "/status/containerStatuses": [running],
                "/status/initContainerStatuses": [ended(0), {"name": "s", "started": true, "ready": true, "state": {"running": {}}}]}),
            "2/2",
            "Running",
            "2 (5m ago)",
        ),
        (json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z"}), "0/1", "Terminating", "0"),
        (
            json!({"/metadata/deletionTimestamp": "2026-01-01T00:00:00Z", "/status/reason": "NodeLost"}),
            "0/1",
            "Unknown",
            "0",
        ),
    ] {
        let cells = printer::cells(&changed(&simple(), changes.clone()), now);
        assert_eq!((&cells[1], &cells[2], &cells[3]), (&json!(ready), &json!(status), &json!(restarts)), "{changes}");
        assert_eq!(cells.len(), printer::COLUMNS.len());
    }
    let done = changed(&simple(), json!({"/status/phase": "Succeeded"}));
    let message = "The pod has completed successfully.";
    let expected = json!({"type": "Completed", "status": "True", "reason": "Succeeded", "message": message});
    assert_eq!(printer::row_conditions(&done), [expected]);
    assert!(printer::row_conditions(&simple()).is_empty());
    let wide = changed(
        &simple(),
        json!({"/spec/nodeName": "n", "/status/podIPs": [{"ip": "10.0.0.1"}], "/spec/readinessGates": [{"conditionType": "a"}, {"conditionType": "b"}],
            "/status/conditions": [{"type": "b", "status": "True"}]}),
    );
    assert_eq!(printer::cells(&wide, now)[5..], [json!("10.0.0.1"), json!("n"), json!("<none>"), json!("1/2")]);
}

#[test]
fn unintended_values_cause_warnings() {
    let pod = changed(
        &simple(),
        json!({
            "/metadata/name": "a.b",
            "/spec/nodeSelector": {"beta.kubernetes.io/os": "linux"},
            "/spec/terminationGracePeriodSeconds": -1,
            "/spec/hostAliases": [{"ip": "10.0.0.1"}, {"ip": "10.0.0.1"}],
            "/spec/volumes": [{"name": "g", "gitRepo": {}}, {"name": "m", "configMap": {"name": "x", "items": [{"key": "a", "path": "p"}, {"key": "b", "path": "p/q"}]}}],
            "/spec/containers/0/env": [{"name": "A", "value": "1"}, {"name": "A", "value": "$(A)2"}, {"name": "A", "value": "3"}],
            "/spec/containers/0/ports": [
                {"containerPort": 80, "protocol": "TCP", "name": "w"}, {"containerPort": 80, "protocol": "TCP", "name": "w"},
                {"containerPort": 81, "protocol": "TCP", "hostIP": "1.2.3.4"}],
            "/spec/containers/0/resources": {"limits": {"memory": "100m"}},
            "/spec/topologySpreadConstraints": [{"topologyKey": "z"}],
        }),
    );
    let expected = [
        "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is recommended: [must not contain dots]",
        "spec.nodeSelector[beta.kubernetes.io/os]: deprecated since v1.14; use \"kubernetes.io/os\" instead",
        "spec.topologySpreadConstraints[0].labelSelector: a null labelSelector results in matching no pod",
        "spec.volumes[0].gitRepo: deprecated in v1.11, and disabled by default in v1.33+",
        "volume \"m\" (ConfigMap \"x\"): overlapping paths: \"p/q\" with \"p\"",
        "spec.hostAliases[1].ip: duplicate ip \"10.0.0.1\"",
        "spec.containers[0].resources.limits[memory]: fractional byte value \"100m\" is invalid, must be an integer",
        "spec.containers[0].env[2]: hides previous definition of \"A\", which may be dropped when using apply",
        "spec.containers[0].ports[1]: duplicate port definition with spec.containers[0].ports[0]",
        "spec.containers[0].ports[2]: hostIP set without hostPort: {Name: HostPort:0 ContainerPort:81 Protocol:TCP HostIP:1.2.3.4}",
        "spec.containers[0].ports[1]: duplicate port name \"w\" with spec.containers[0].ports[0], services and probes that select ports by name will use spec.containers[0].ports[0]",
        "spec.terminationGracePeriodSeconds: must be >= 0; negative values are invalid and will be treated as 1",
    ];
    assert_eq!(Pod.warnings(&pod, None), expected);
    assert!(Pod.warnings(&pod, Some(&pod)).is_empty(), "updates of pods cause no warnings");
    let deployment = json!({"metadata": {"name": "d"}, "spec": {"template": {"spec": {"nodeSelector": {"beta.kubernetes.io/arch": "x"}}}}});
    let expected = "spec.template.spec.nodeSelector[beta.kubernetes.io/arch]: deprecated since v1.14; use \"kubernetes.io/arch\" instead";
    assert_eq!(Deployment.warnings(&deployment, None), [expected]);
}
