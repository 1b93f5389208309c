use serde_json::json;

use super::*;

/// Describes what a container does: `0 after 5s`, `runs` or `unknown`.
fn described(pod: &Value, container: &Value, restarts: u64) -> String {
    match behaviour(pod, container, restarts) {
        Some(Behaviour::Ends { after, code }) => format!("{code} after {}s", after.as_secs()),
        Some(Behaviour::Runs) => "runs".to_owned(),
        None => "unknown".to_owned(),
    }
}

fn of(command: &[&str]) -> String {
    let pod = json!({"metadata": {"name": "p", "uid": "u"}, "spec": {"restartPolicy": "Never"}});
    described(&pod, &json!({"name": "c", "image": "busybox", "command": command}), 0)
}

#[test]
fn simple_programs_end_as_they_would() {
    for (command, expected) in [
        (&["true"][..], "0 after 0s"),
        (&["/bin/false"], "1 after 0s"),
        (&["sleep", "5"], "0 after 5s"),
        (&["/bin/sleep", "1m", "30"], "0 after 90s"),
        (&["sleep", "infinity"], "runs"),
        (&["sleep"], "unknown"),
        (&["echo", "hello"], "0 after 0s"),
        (&["wget", "web:80"], "0 after 1s"),
        (&["/manager", "--leader-elect"], "unknown"),
        (&["sh"], "0 after 0s"),
        (&["sh", "script.sh"], "unknown"),
    ] {
        assert_eq!(of(command), expected, "{command:?}");
    }
}

#[test]
fn scripts_of_simple_programs_end_as_they_would() {
    for (script, expected) in [
        ("exit 3", "3 after 0s"),
        ("exit 300", "44 after 0s"),
        ("echo 'a; b'; sleep 2 && exit 4", "4 after 2s"),
        ("sleep 2\nfalse", "1 after 2s"),
        ("false && exit 3; sleep 1", "0 after 1s"),
        ("false || exit 3", "3 after 0s"),
        ("true || exit 3", "0 after 0s"),
        ("! true", "1 after 0s"),
        ("echo test > /file 2>&1; sleep 240", "0 after 240s"),
        ("trap 'sleep 30' TERM; while true; do sleep 1; done", "runs"),
        ("while :; do exit 2; done", "2 after 0s"),
        ("until false; do sleep 1; done", "runs"),
        ("while [ -f /tmp/x ]; do sleep 1; done", "unknown"),
        ("if [ 1 -eq 2 ]; then exit 1; elif true; then exit 5; else exit 6; fi", "5 after 0s"),
        ("if [[ a == b ]]\nthen\n exit 1\nelse\n exit 6\nfi", "6 after 0s"),
        ("if false; then run-server; fi; exit 7", "7 after 0s"),
        ("if true; then run-server; fi", "unknown"),
        ("exec sleep 9", "0 after 9s"),
        ("sh -c 'exit 2'; sleep 3", "0 after 3s"),
        ("exec sh -c \"sleep 3; exit 2\"", "2 after 3s"),
        ("set -e; false; sleep 3", "1 after 0s"),
        ("set -e; if false; then true; fi; sleep 3", "0 after 3s"),
        ("exit $((7 % 4))", "3 after 0s"),
        ("exit $(expr 7 - 4)", "3 after 0s"),
        ("echo $UNSET done; exit \"2\"", "2 after 0s"),
        ("run-server & sleep 5", "unknown"),
        ("for i in 1 2; do sleep 1; done", "unknown"),
        ("A=1; exit $A", "unknown"),
        ("if true; then exit 1", "unknown"),
        ("exit 1; fi", "unknown"),
        ("echo \"unclosed", "unknown"),
    ] {
        assert_eq!(of(&["/bin/sh", "-c", script]), expected, "{script}");
    }
    assert_eq!(of(&["sh", "-ec", "false; sleep 3"]), "1 after 0s");
}

#[test]
fn variables_have_the_values_of_the_container() {
    let pod = json!({
        "metadata": {"name": "p", "labels": {"index": "3"}, "annotations": {"a/b": "4"}},
        "spec": {"restartPolicy": "Never"},
    });
    let field = |name: &str, path: &str| json!({"name": name, "valueFrom": {"fieldRef": {"fieldPath": path}}});
    let env = json!([
        {"name": "CODE", "value": "2"}, field("LABEL", "metadata.labels['index']"),
        field("ANNOTATION", "metadata.annotations['a/b']"), field("NAME", "metadata.name"),
        {"name": "SECRET", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
    ]);
    for (script, expected) in [
        ("exit $CODE", "2 after 0s"),
        ("exit $(CODE)", "2 after 0s"),
        ("if [ $(expr ${LABEL} % 2) -ne 0 ]; then exit 1; fi", "1 after 0s"),
        ("if [ $(expr ${ANNOTATION} % 2) -ne 0 ]; then exit 1; fi", "0 after 0s"),
        ("test \"$NAME\" = p", "0 after 0s"),
        ("test \"$SECRET\" = p", "unknown"),
    ] {
        let container = json!({"name": "c", "command": ["sh", "-c", script], "env": env});
        assert_eq!(described(&pod, &container, 0), expected, "{script}");
    }
}

#[test]
fn a_file_that_the_script_touches_exists_after_a_restart() {
    let script = "if [[ -r /data/foo ]]\nthen\n exit 0\nelse\n touch /data/foo\n exit 1\nfi";
    let container = json!({
        "name": "c", "command": ["/bin/sh", "-c"], "args": [script],
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    });
    let pod = |volume: Value| json!({"metadata": {"uid": "u"}, "spec": {"volumes": [volume]}});
    let temporary = pod(json!({"name": "data", "emptyDir": {}}));
    assert_eq!(described(&temporary, &container, 0), "1 after 0s");
    assert_eq!(described(&temporary, &container, 1), "0 after 0s");
    let shared = pod(json!({"name": "data", "hostPath": {"path": "/x"}}));
    assert_eq!(described(&shared, &container, 0), "unknown");
}

#[test]
fn the_image_decides_only_if_it_is_pause() {
    let pod = json!({"spec": {}});
    for (image, expected) in
        [("registry.k8s.io/pause:3.10", "runs"), ("localhost:5000/pause@sha256:0", "runs"), ("busybox", "unknown")]
    {
        assert_eq!(described(&pod, &json!({"image": image, "args": ["exit"]}), 0), expected, "{image}");
    }
}

proptest::proptest! {
    #[test]
    fn no_command_panics(script in ".{0,60}", words in "[;|&$(){}\\[\\]'\"a-z0-9 \n]{0,60}") {
        of(&["sh", "-c", &script]);
        of(&["sh", "-c", &words]);
    }
}
