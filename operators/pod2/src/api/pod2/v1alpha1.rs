//! Pod2 v1alpha1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// Desired state of a Pod2.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "samples.windlass.dev",
    version = "v1alpha1",
    kind = "Pod2",
    plural = "pod2s",
    namespaced,
    status = "Pod2Status",
    validation = "self.spec.containers == oldSelf.spec.containers",
    printcolumn = r#"{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}"#,
    printcolumn = r#"{"name": "Restarts", "type": "integer", "jsonPath": ".status.restarts"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct Pod2Spec {
    /// Processes to run. Immutable.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub containers: Vec<Container>,
    /// Restart policy for a process that has exited.
    #[serde(default)]
    pub restart_policy: RestartPolicy,
    /// Maximum time for processes to exit after SIGTERM.
    #[serde(default = "ten")]
    #[schemars(range(min = 0, max = 3600))]
    pub termination_grace_period_seconds: i64,
}

fn ten() -> i64 {
    10
}

/// A process.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Container {
    /// Name of the container, unique within the Pod2.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// Program and arguments.
    #[schemars(length(min = 1, max = 64))]
    pub command: Vec<String>,
    /// Environment variables, in addition to those of the operator.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub env: Vec<Variable>,
    /// Working directory. Defaults to that of the operator.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
}

/// An environment variable of a process.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Variable {
    /// Name of the variable.
    #[schemars(length(min = 1, max = 256), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// Value of the variable.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// Restart policy for a process that has exited.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RestartPolicy {
    /// Always restart it.
    #[default]
    Always,
    /// Restart it if it failed.
    OnFailure,
    /// Never restart it.
    Never,
}

/// Phase of a Pod2.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Not all processes have been started.
    #[default]
    Pending,
    /// A process is running, or will be restarted.
    Running,
    /// All processes have succeeded and will not be restarted.
    Succeeded,
    /// All processes have exited, some of them failed, and none will be restarted.
    Failed,
}

/// Observed state of a Pod2.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct Pod2Status {
    /// Phase of the Pod2.
    #[serde(default)]
    pub phase: Phase,
    /// Total number of restarts.
    #[serde(default)]
    pub restarts: u32,
    /// Processes in the order of the spec.
    #[serde(default)]
    pub containers: Vec<ContainerStatus>,
    /// Latest observed conditions.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// Observed state of a process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// Name of the container.
    pub name: String,
    /// State of the process.
    #[serde(default)]
    pub state: State,
    /// Process ID, while it is running.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// Last exit code, or 128 plus the number of the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Reason for the state, if any.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Number of restarts.
    #[serde(default)]
    pub restart_count: u32,
}

/// State of a process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum State {
    /// It will be started.
    #[default]
    Waiting,
    /// It is running.
    Running,
    /// It has exited and will not be restarted.
    Terminated,
}
