use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_status, check_update, created};

const UID: &str = "5d1c";

fn valid() -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    json!({"metadata": {"name": "j", "uid": UID}, "spec": {"template": {"metadata": {"labels": {"app": "x"}}, "spec": spec}}})
}

fn failing(rules: Value) -> Value {
    json!({"/spec/podFailurePolicy": {"rules": rules}})
}

#[test]
fn a_job_gets_a_selector_of_its_own_and_the_labels_of_its_template() {
    let made = created(&Job, &valid());
    assert_eq!(made["spec"]["selector"], json!({"matchLabels": {"batch.kubernetes.io/controller-uid": UID}}));
    let labels = json!({"app": "x", "batch.kubernetes.io/controller-uid": UID, "batch.kubernetes.io/job-name": "j",
        "controller-uid": UID, "job-name": "j"});
    assert_eq!(made["spec"]["template"]["metadata"]["labels"], labels);
    assert_eq!(made["metadata"]["labels"], labels);
    let own = created(&Job, &changed(&valid(), &json!({"/metadata/labels": {"a": "b"}})));
    assert_eq!(own["metadata"]["labels"], json!({"a": "b"}));
    let spec = &made["spec"];
    let defaults = [
        ("completions", json!(1)),
        ("parallelism", json!(1)),
        ("backoffLimit", json!(6)),
        ("suspend", json!(false)),
        ("completionMode", json!("NonIndexed")),
        ("podReplacementPolicy", json!("TerminatingOrFailed")),
    ];
    for (field, value) in defaults {
        assert_eq!(spec[field], value, "{field}");
    }
    let facts = crate::kinds::facts("batch", "jobs");
    assert!(facts.orphans_by_default && facts.deletion_warning.is_some());
}

#[test]
fn a_manual_selector_is_kept() {
    let manual = json!({"/spec/manualSelector": true, "/spec/selector": {"matchLabels": {"app": "x"}}});
    let made = created(&Job, &changed(&valid(), &manual));
    assert_eq!(made["metadata"]["labels"], json!({"app": "x"}));
    check_create(
        &Job,
        &valid(),
        &[
            (manual, &[]),
            (
                json!({"/spec/manualSelector": true}),
                &[
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"x\"}: `selector` does not match template `labels`",
                ],
            ),
            (
                json!({"/spec/template/metadata/labels": {"job-name": "other"}}),
                &[
                    "spec.template.metadata.labels[job-name]: Invalid value: {\"batch.kubernetes.io/controller-uid\":\"5d1c\",\"batch.kubernetes.io/job-name\":\"j\",\"controller-uid\":\"5d1c\",\"job-name\":\"other\"}: must be 'j'",
                ],
            ),
            (
                json!({"/spec/selector": {"matchLabels": {"app": "x"}}}),
                &[
                    "spec.selector: Invalid value: {\"matchLabels\":{\"app\":\"x\",\"batch.kubernetes.io/controller-uid\":\"5d1c\"}}: `selector` not auto-generated",
                ],
            ),
        ],
    );
}

#[test]
fn each_field_of_a_job_is_validated() {
    check_create(
        &Job,
        &valid(),
        &[
            (
                json!({"/spec/parallelism": -1, "/spec/completions": -1, "/spec/activeDeadlineSeconds": -1,
                    "/spec/backoffLimit": -1, "/spec/ttlSecondsAfterFinished": -1}),
                &[
                    "spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                    "spec.completions: Invalid value: -1: must be greater than or equal to 0",
                    "spec.activeDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.backoffLimit: Invalid value: -1: must be greater than or equal to 0",
                    "spec.ttlSecondsAfterFinished: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (
                json!({"/spec/template/spec/restartPolicy": null}),
                &["spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\""],
            ),
            (
                json!({"/spec/completionMode": "Odd"}),
                &["spec.completionMode: Unsupported value: \"Odd\": supported values: \"NonIndexed\", \"Indexed\""],
            ),
            (
                json!({"/spec/completionMode": "Indexed", "/spec/parallelism": 100_001}),
                &[
                    "spec.completions: Required value: when completion mode is Indexed",
                    "spec.parallelism: Invalid value: 100001: must be less than or equal to 100000 when completion mode is Indexed",
                ],
            ),
            (
                json!({"/spec/completionMode": "Indexed", "/spec/completions": 100_001, "/spec/backoffLimitPerIndex": 1}),
                &["spec.maxFailedIndexes: Required value: must be specified when completions is above 100000"],
            ),
            (
                json!({"/spec/backoffLimitPerIndex": 1, "/spec/maxFailedIndexes": 2}),
                &[
                    "spec.backoffLimitPerIndex: Invalid value: 1: requires indexed completion mode",
                    "spec.maxFailedIndexes: Invalid value: 2: requires indexed completion mode",
                ],
            ),
            (
                json!({"/spec/managedBy": "x"}),
                &["spec.managedBy: Invalid value: \"x\": must be a domain-prefixed path (such as \"acme.io/foo\")"],
            ),
            (
                json!({"/spec/podReplacementPolicy": "X"}),
                &[
                    "spec.podReplacementPolicy: Unsupported value: \"X\": supported values: \"Failed\", \"TerminatingOrFailed\"",
                ],
            ),
            (
                json!({"/metadata/name": "a.b", "/spec/completionMode": "Indexed", "/spec/completions": 3}),
                &["metadata.name: Invalid value: \"a.b\": will not able to create pod with invalid DNS label: a.b-2"],
            ),
        ],
    );
}

#[test]
fn failure_and_success_policies_are_validated() {
    check_create(
        &Job,
        &valid(),
        &[
            (failing(json!([{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}])), &[]),
            (
                failing(
                    json!([{"action": "FailIndex", "onExitCodes": {"operator": "In", "values": [3, 0, 3], "containerName": "x"}}]),
                ),
                &[
                    "spec.podFailurePolicy.rules[0].action: Invalid value: \"FailIndex\": requires the backoffLimitPerIndex to be set",
                    "spec.podFailurePolicy.rules[0].onExitCodes.containerName: Invalid value: \"x\": must be one of the container or initContainer names in the pod template",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[1]: Invalid value: 0: must not be 0 for the In operator",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values[2]: Duplicate value: 3",
                    "spec.podFailurePolicy.rules[0].onExitCodes.values: Invalid value: [3,0,3]: must be ordered",
                ],
            ),
            (
                failing(json!([{}])),
                &[
                    "spec.podFailurePolicy.rules[0].action: Required value: valid values: [\"Count\" \"FailIndex\" \"FailJob\" \"Ignore\"]",
                    "spec.podFailurePolicy.rules[0]: Invalid value: specifying one of OnExitCodes and OnPodConditions is required",
                ],
            ),
            (
                json!({"/spec/successPolicy": {"rules": [{"succeededCount": 1}]}}),
                &[
                    "spec.successPolicy: Invalid value: {\"Rules\":[{\"SucceededIndexes\":null,\"SucceededCount\":1}]}: requires indexed completion mode",
                ],
            ),
            (
                json!({"/spec/completionMode": "Indexed", "/spec/completions": 3,
                    "/spec/successPolicy": {"rules": [{}, {"succeededIndexes": "0-9", "succeededCount": 4}]}}),
                &[
                    "spec.successPolicy.rules[0]: Required value: at least one of succeededCount or succeededIndexes must be specified",
                    "spec.successPolicy.rules[1].succeededIndexes: Invalid value: \"0-9\": error parsing succeededIndexes: too large index: \"9\"",
                    "spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 3 (the number of specified completions)",
                    "spec.successPolicy.rules[1].succeededCount: Invalid value: 4: must be less than or equal to 0 (the number of indexes in the specified succeededIndexes field)",
                ],
            ),
        ],
    );
    let made = created(&Job, &changed(&valid(), &failing(json!([{"onPodConditions": [{"type": "T"}]}]))));
    assert_eq!(made["spec"]["podFailurePolicy"]["rules"][0]["onPodConditions"][0]["status"], "True");
    assert_eq!(made["spec"]["podReplacementPolicy"], "Failed");
}

#[test]
fn most_of_a_job_cannot_change() {
    let old = created(&Job, &valid());
    check_update(
        &Job,
        &old,
        &[
            (json!({"/spec/parallelism": 3, "/spec/suspend": true, "/spec/activeDeadlineSeconds": 5}), &[]),
            (json!({"/spec/completions": 3}), &["spec.completions: Invalid value: 3: field is immutable"]),
            (
                json!({"/spec/managedBy": "acme.io/foo"}),
                &["spec.managedBy: Invalid value: \"acme.io/foo\": field is immutable"],
            ),
            (
                failing(json!([{"action": "Ignore", "onExitCodes": {"operator": "In", "values": [1]}}])),
                &[
                    // With such a policy, the default of podReplacementPolicy differs; the spec is validated twice.
                    "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
                    "spec.podReplacementPolicy: Unsupported value: \"TerminatingOrFailed\": supported values: \"Failed\"",
                    "spec.podFailurePolicy: Invalid value: {\"Rules\":[{\"Action\":\"Ignore\",\"OnExitCodes\":{\"ContainerName\":null,\"Operator\":\"In\",\"Values\":[1]},\"OnPodConditions\":null}]}: field is immutable",
                ],
            ),
        ],
    );
    let image = changed(&old, &json!({"/spec/template/spec/containers/0/image": "other"}));
    let errors = Job.validate_update(&image, &old);
    assert_eq!(errors.len(), 1);
    let message = errors[0].to_string();
    assert!(message.starts_with("spec.template: Invalid value: {\"labels\":{\"app\":\"x\","), "{message}");
    assert!(message.contains("\"Containers\":[{\"Name\":\"c\",\"Image\":\"other\",\"Command\":null,"), "{message}");
    assert!(message.ends_with(": field is immutable"), "{message}");
}

#[test]
fn a_suspended_job_may_change_scheduling_and_resources() {
    let old = created(&Job, &changed(&valid(), &json!({"/spec/suspend": true})));
    let affinity = json!({"nodeAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": []}});
    check_update(
        &Job,
        &old,
        &[(
            json!({"/spec/template/spec/nodeSelector": {"a": "b"}, "/spec/template/spec/affinity": affinity,
                "/spec/template/spec/containers/0/resources": {"limits": {"cpu": "1"}, "requests": {"cpu": "1"}}}),
            &[],
        )],
    );
    let image = changed(&old, &json!({"/spec/template/spec/containers/0/image": "other"}));
    let errors = Job.validate_update(&image, &old);
    assert_eq!(errors.len(), 1);
    assert!(
        errors[0].to_string().starts_with("spec.template.spec: Invalid value: {\"Volumes\":null,"),
        "{}",
        errors[0]
    );
    let started = changed(&old, &json!({"/status/startTime": "2026-01-01T00:00:00Z", "/status/active": 1}));
    let moved = changed(&started, &json!({"/spec/template/spec/nodeSelector": {"a": "b"}}));
    assert_eq!(Job.validate_update(&moved, &started).len(), 1);
}

#[test]
fn the_completions_of_an_indexed_job_follow_its_parallelism() {
    let old = created(&Job, &changed(&valid(), &json!({"/spec/completionMode": "Indexed", "/spec/completions": 2})));
    check_update(
        &Job,
        &old,
        &[
            (json!({"/spec/completions": 4, "/spec/parallelism": 4}), &[]),
            (
                json!({"/spec/completions": 4}),
                &["spec.completions: Invalid value: 4: can only be modified in tandem with spec.parallelism"],
            ),
        ],
    );
}

#[test]
fn the_status_of_a_job_goes_one_way() {
    let condition = |kind: &str| json!({"type": kind, "status": "True"});
    let (start, end) = ("2026-01-01T00:00:00Z", "2026-01-01T01:00:00Z");
    let running = json!({"spec": {"completions": 1, "completionMode": "NonIndexed"},
        "status": {"startTime": start, "active": 1, "failed": 1}});
    check_status(
        &Job,
        &running,
        &[
            (
                json!({"/status/active": 0, "/status/succeeded": 1, "/status/completionTime": end,
                    "/status/conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}),
                &[],
            ),
            (
                json!({"/status/conditions": [condition("Complete")]}),
                &[
                    "status.completionTime: Required value: completionTime is required for Complete jobs",
                    "status.conditions: Invalid value: cannot set Complete=True condition without the SuccessCriteriaMet=true condition",
                    "status.active: Invalid value: 1: active>0 is invalid for finished job",
                ],
            ),
            (
                json!({"/status/conditions": [condition("Failed")], "/status/active": 0, "/status/startTime": null}),
                &[
                    "status.conditions: Invalid value: cannot set Failed=True condition without the FailureTarget=true condition",
                    "status.startTime: Required value: startTime is required for finished job",
                    "status.startTime: Invalid value: null: field is immutable for unsuspended job once set",
                ],
            ),
            (
                json!({"/status/failed": 0, "/status/ready": 2, "/status/completedIndexes": "0",
                    "/status/uncountedTerminatedPods": {"succeeded": ["a"], "failed": ["a", ""]}}),
                &[
                    "status.uncountedTerminatedPods.failed[0]: Duplicate value: \"a\"",
                    "status.uncountedTerminatedPods.failed[1]: Invalid value: \"\": must not be empty",
                    "status.completedIndexes: Invalid value: \"0\": cannot set non-empty completedIndexes when non-indexed completion mode",
                    "status.ready: Invalid value: 2: cannot set more ready pods than active",
                    "status.failed: Invalid value: 0: cannot decrease the failed counter",
                ],
            ),
            (
                json!({"/status/completionTime": "2025-01-01T00:00:00Z"}),
                &[
                    "status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": cannot set completionTime when there is no Complete=True condition",
                    "status.completionTime: Invalid value: \"2025-01-01T00:00:00Z\": must be equal to or after `startTime`",
                ],
            ),
        ],
    );
    let done = json!({"spec": {}, "status": {"startTime": start, "completionTime": end, "succeeded": 1,
        "conditions": [condition("SuccessCriteriaMet"), condition("Complete")]}});
    check_status(
        &Job,
        &done,
        &[(
            json!({"/status/conditions": [], "/status/completionTime": null}),
            &[
                "status.conditions: Invalid value: cannot disable the terminal Complete=True condition",
                "status.conditions: Invalid value: cannot disable the SuccessCriteriaMet=True condition",
            ],
        )],
    );
}
