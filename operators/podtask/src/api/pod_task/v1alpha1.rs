//! PodTask v1alpha1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// Desired state of a PodTask.
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
    /// Action to perform. Immutable.
    pub action: TaskAction,
    /// Name of the target pod. Immutable.
    #[schemars(length(min = 1, max = 253))]
    pub target: String,
    /// Number of retries after a failure.
    #[serde(default = "three")]
    #[schemars(range(min = 0, max = 20))]
    pub retries: i32,
    /// Time to live of a finished task, in seconds. Kept forever if not set.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub ttl_seconds_after_finished: Option<i64>,
}

fn three() -> i32 {
    3
}

/// An action on a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum TaskAction {
    /// Deletes the pod, so that it starts again.
    Restart,
    /// Saves the pod to a ConfigMap.
    Snapshot,
}

/// Phase of a task.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Not started.
    #[default]
    Pending,
    /// Started.
    Running,
    /// Completed successfully.
    Succeeded,
    /// Failed after all retries.
    Failed,
}

impl Phase {
    /// Returns whether the task is finished.
    pub fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// Observed state of a PodTask.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct PodTaskStatus {
    /// Phase of the task.
    #[serde(default)]
    pub phase: Phase,
    /// Human-readable description of the last step.
    #[serde(default)]
    pub message: String,
    /// UID of the target pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target_uid: Option<String>,
    /// Name of the ConfigMap with the snapshot.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<String>,
    /// Number of failed attempts.
    #[serde(default)]
    pub failures: i32,
    /// Time at which the task was started.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub start_time: Option<Time>,
    /// Time of the next attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub retry_time: Option<Time>,
    /// Time at which the task finished.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "windlass::schema::optional_time")]
    pub completion_time: Option<Time>,
    /// Latest observed conditions.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
}
