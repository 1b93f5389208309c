//! CronTab v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// What a CronTab is to do.
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
    /// When, as of cron: minute, hour, day of the month, month, day of the week.
    #[schemars(length(min = 1))]
    pub cron_spec: String,
    /// The time zone of the schedule, as `Europe/Berlin`; UTC if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_zone: Option<String>,
    /// What runs.
    #[schemars(length(min = 1))]
    pub image: String,
    /// How many pods run at a time.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// What to do when a run is due while another is under way.
    #[serde(default)]
    pub concurrency_policy: CronTabConcurrencyPolicy,
    /// How late a run may start; as late as it gets, if there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub starting_deadline_seconds: Option<i64>,
    /// How many runs that went well are kept.
    #[serde(default = "three")]
    #[schemars(range(min = 0))]
    pub successful_history_limit: i32,
    /// How many runs that failed are kept.
    #[serde(default = "one")]
    #[schemars(range(min = 0))]
    pub failed_history_limit: i32,
    /// Whether no new runs begin.
    #[serde(default)]
    pub suspend: bool,
}

fn one() -> i32 {
    1
}

fn three() -> i32 {
    3
}

/// What to do when a run is due while another is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum CronTabConcurrencyPolicy {
    /// Run both.
    #[default]
    Allow,
    /// Wait until the other has ended; if that is too late, leave it out.
    Forbid,
    /// End the other first.
    Replace,
}

/// What a CronTab does.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct CronTabStatus {
    /// The Jobs that are under way, in order.
    #[serde(default)]
    pub active: Vec<String>,
    /// How many pods are running.
    #[serde(default)]
    pub replicas: i32,
    /// The time of the last run that was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub last_schedule_time: Option<Time>,
    /// When a run last went well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub last_successful_time: Option<Time>,
    /// Whether the schedule can be followed.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
