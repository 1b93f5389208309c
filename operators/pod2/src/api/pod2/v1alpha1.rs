//! Pod2 v1alpha1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// What is to run.
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
    /// The processes. They cannot be changed.
    #[schemars(length(min = 1, max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    pub containers: Vec<Container>,
    /// When a process that has ended is started again.
    #[serde(default)]
    pub restart_policy: RestartPolicy,
    /// How long processes may take to end once they are asked to.
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
    /// Its name, which no other of the Pod2 has.
    #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"))]
    pub name: String,
    /// The program and its arguments.
    #[schemars(length(min = 1, max = 64))]
    pub command: Vec<String>,
    /// Variables, beside those of the operator.
    #[serde(default)]
    #[schemars(length(max = 64))]
    pub env: Vec<Variable>,
    /// The folder it runs in; that of the operator, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_dir: Option<String>,
}

/// A variable of a process.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
pub struct Variable {
    /// Its name.
    #[schemars(length(min = 1, max = 256), regex(pattern = "^[A-Za-z_][A-Za-z0-9_]*$"))]
    pub name: String,
    /// Its value.
    #[serde(default)]
    #[schemars(length(max = 4096))]
    pub value: String,
}

/// When a process that has ended is started again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum RestartPolicy {
    /// However it ended.
    #[default]
    Always,
    /// If it failed.
    OnFailure,
    /// Never.
    Never,
}

/// How far a Pod2 is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum Phase {
    /// Not all processes have been started.
    #[default]
    Pending,
    /// Some process runs, or will again.
    Running,
    /// All have ended well, and none is started again.
    Succeeded,
    /// All have ended, some not well, and none is started again.
    Failed,
}

/// What runs.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct Pod2Status {
    /// How far it is.
    #[serde(default)]
    pub phase: Phase,
    /// How often processes were started again, all together.
    #[serde(default)]
    pub restarts: u32,
    /// The processes, in the order of the spec.
    #[serde(default)]
    pub containers: Vec<ContainerStatus>,
    /// Whether all processes run.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

/// What has become of a process.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ContainerStatus {
    /// The name of the container.
    pub name: String,
    /// What it does now.
    #[serde(default)]
    pub state: State,
    /// The process, while it runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pid: Option<u32>,
    /// How it last ended: its exit code, or 128 and the number of the signal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub exit_code: Option<i32>,
    /// Why it is as it is, where there is something to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// How often it was started again.
    #[serde(default)]
    pub restart_count: u32,
}

/// What a process does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum State {
    /// It will be started.
    #[default]
    Waiting,
    /// It runs.
    Running,
    /// It has ended, and is not started again.
    Terminated,
}
