//! CronTab v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// Desired state of a CronTab.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "stable.example.com",
    version = "v1",
    kind = "CronTab",
    plural = "crontabs",
    shortname = "ct",
    namespaced,
    status = "CronTabStatus",
    scale(spec_replicas_path = ".spec.replicas", status_replicas_path = ".status.replicas"),
    printcolumn = r#"{"name": "Spec", "type": "string", "jsonPath": ".spec.cronSpec"}"#,
    printcolumn = r#"{"name": "Replicas", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Last run", "type": "date", "jsonPath": ".status.lastScheduleTime"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct CronTabSpec {
    /// Schedule in cron format: minute, hour, day of the month, month, day of the week.
    #[schemars(length(min = 1))]
    pub cron_spec: String,
    /// Time zone of the schedule, such as `Europe/Berlin`. Defaults to UTC.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// Container image to run.
    #[schemars(length(min = 1))]
    pub image: String,
    /// Number of pods per run.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Treatment of a run that is due while another is still active.
    #[serde(default)]
    pub concurrency_policy: CronTabConcurrencyPolicy,
    /// Deadline in seconds for starting a run that is late. Unlimited if not set.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub starting_deadline_seconds: Option<i64>,
    /// Number of successful runs to keep.
    #[serde(default = "three")]
    #[schemars(range(min = 0))]
    pub successful_history_limit: i32,
    /// Number of failed runs to keep.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub failed_history_limit: i32,
    /// Suspends new runs.
    #[serde(default)]
    pub suspend: bool,
}

fn one() -> i32 {
    1
}

fn three() -> i32 {
    3
}

/// Treatment of a run that is due while another is still active.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CronTabConcurrencyPolicy {
    /// Run both concurrently.
    #[default]
    Allow,
    /// Wait until the active run ends; skip the new one if it is then too late.
    Forbid,
    /// Delete the active run first.
    Replace,
}

/// Observed state of a CronTab.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct CronTabStatus {
    /// Names of the active Jobs, oldest first.
    #[serde(default)]
    pub active: Vec<String>,
    /// Number of running pods.
    #[serde(default)]
    pub replicas: i32,
    /// Scheduled time of the last run that was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub last_schedule_time: Option<Time>,
    /// Time of the last successful run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub last_successful_time: Option<Time>,
    /// Latest observed conditions.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
