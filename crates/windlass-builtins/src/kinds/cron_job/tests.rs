use serde_json::json;

use super::*;
use crate::kinds::tests::workloads::{changed, check_create, check_update, created};

fn valid() -> Value {
    let spec = json!({"containers": [{"name": "c", "image": "i"}], "restartPolicy": "Never"});
    json!({"metadata": {"name": "c"}, "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": spec}}}}})
}

#[test]
fn a_cron_job_is_defaulted_but_its_job_template_is_not() {
    let made = created(&CronJob, &valid());
    let spec = &made["spec"];
    assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
    assert_eq!((&spec["successfulJobsHistoryLimit"], &spec["failedJobsHistoryLimit"]), (&json!(3), &json!(1)));
    assert_eq!(spec["jobTemplate"]["spec"]["template"]["spec"]["dnsPolicy"], "ClusterFirst");
    assert_eq!(spec["jobTemplate"]["spec"].get("completions"), None);
}

#[test]
fn each_field_of_a_cron_job_is_validated() {
    let zone = |name: &str| json!({"/spec/timeZone": name});
    check_create(
        &CronJob,
        &valid(),
        &[
            (zone("Europe/Berlin"), &[]),
            (zone(""), &["spec.timeZone: Invalid value: \"\": timeZone must be nil or non-empty string"]),
            (zone("Mars/Base"), &["spec.timeZone: Invalid value: \"Mars/Base\": unknown time zone Mars/Base"]),
            (
                zone("europe/berlin"),
                &["spec.timeZone: Invalid value: \"europe/berlin\": unknown time zone europe/berlin"],
            ),
            (zone("a/../b"), &["spec.timeZone: Invalid value: \"a/../b\": unknown time zone a/../b"]),
            (
                zone("Local"),
                &[
                    "spec.timeZone: Invalid value: \"Local\": timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones",
                ],
            ),
            (json!({"/spec/schedule": ""}), &["spec.schedule: Required value"]),
            (
                json!({"/spec/schedule": "every day"}),
                &["spec.schedule: Invalid value: \"every day\": expected exactly 5 fields, found 2: [every day]"],
            ),
            (
                json!({"/spec/schedule": "TZ=UTC 0 * * * *"}),
                &[
                    "spec.schedule: Invalid value: \"TZ=UTC 0 * * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
                ],
            ),
            (
                json!({"/spec/concurrencyPolicy": "Maybe", "/spec/startingDeadlineSeconds": -1,
                    "/spec/successfulJobsHistoryLimit": -1, "/spec/failedJobsHistoryLimit": -2}),
                &[
                    "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.concurrencyPolicy: Unsupported value: \"Maybe\": supported values: \"Allow\", \"Forbid\", \"Replace\"",
                    "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                    "spec.failedJobsHistoryLimit: Invalid value: -2: must be greater than or equal to 0",
                ],
            ),
            (
                json!({"/spec/jobTemplate/spec/selector": {"matchLabels": {"a": "b"}}, "/spec/jobTemplate/spec/manualSelector": true,
                    "/spec/jobTemplate/spec/parallelism": -1}),
                &[
                    "spec.jobTemplate.spec.parallelism: Invalid value: -1: must be greater than or equal to 0",
                    "spec.jobTemplate.spec.selector: Invalid value: {\"matchLabels\":{\"a\":\"b\"}}: `selector` will be auto-generated",
                    "spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: \"nil\", \"false\"",
                ],
            ),
            (
                json!({"/metadata/name": "a-name-that-is-longer-than-fifty-two-characters-by-some"}),
                &[
                    "metadata.name: Invalid value: \"a-name-that-is-longer-than-fifty-two-characters-by-some\": must be no more than 52 characters",
                ],
            ),
        ],
    );
}

#[test]
fn values_that_were_already_invalid_may_stay() {
    let old = changed(
        &created(&CronJob, &valid()),
        &json!({"/spec/timeZone": "Mars/Base", "/spec/schedule": "TZ=UTC @daily"}),
    );
    let both =
        "spec.schedule: Invalid value: \"TZ=UTC @daily\": cannot use both timeZone field and TZ or CRON_TZ in schedule";
    check_update(
        &CronJob,
        &old,
        &[
            (json!({"/spec/suspend": true}), &[both]),
            (
                json!({"/spec/timeZone": null, "/metadata/name": "a-name-that-is-longer-than-fifty-two-characters-by-some"}),
                &[],
            ),
            (json!({"/spec/schedule": "@daily"}), &[]),
        ],
    );
    let warnings = CronJob.warnings(&old, Some(&old));
    assert_eq!(
        warnings,
        [
            "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details"
        ]
    );
}
