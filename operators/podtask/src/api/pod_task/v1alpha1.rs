//! PodTask v1alpha1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// What is to be done.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "ops.windlass.dev",
    version = "v1alpha1",
    kind = "PodTask",
    namespaced,
    status = "PodTaskStatus",
    validation = "self.spec.action == oldSelf.spec.action && self.spec.target == oldSelf.spec.target",
    printcolumn = r#"{"name": "Action", "type": "string", "jsonPath": ".spec.action"}"#,
    printcolumn = r#"{"name": "Target", "type": "string", "jsonPath": ".spec.target"}"#,
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Message", "type": "string", "jsonPath": ".status.message", "priority": 1}"#
)]
pub struct PodTaskSpec {
    /// What is done. Cannot be changed.
    pub action: TaskAction,
    /// The name of the pod that it is done to. Cannot be changed.
    #[schemars(length(min = 1, max = 253))]
    pub target: String,
    /// How often it is tried again when it fails.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 20))]
    pub retries: i32,
    /// How long the task stays when it is over; for ever, if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
}

fn three() -> i32 {
    3
}

/// What can be done to a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskAction {
    /// Ends it, so that it begins anew.
    Restart,
    /// Writes it down.
    Snapshot,
}

/// How far a task is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Not begun.
    #[default]
    Pending,
    /// Begun.
    Running,
    /// Done.
    Succeeded,
    /// Given up.
    Failed,
}

impl Phase {
    /// Whether nothing more is done.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// What has been done.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct PodTaskStatus {
    /// How far it is.
    #[serde(default)]
    pub phase: Phase,
    /// What happened last, in words.
    #[serde(default)]
    pub message: String,
    /// The pod that it is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    /// The ConfigMap with the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// How often it has failed.
    #[serde(default)]
    pub failures: i32,
    /// When it was begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub start_time: Option<Time>,
    /// When it is tried again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub retry_time: Option<Time>,
    /// When it was over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub completion_time: Option<Time>,
    /// Whether it is over, and well.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
}
