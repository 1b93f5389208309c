//! ImoocPod v1alpha1.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state of an ImoocPod.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "k8s.example.com",
    version = "v1alpha1",
    kind = "ImoocPod",
    namespaced,
    status = "ImoocPodStatus",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name": "Desired", "type": "integer", "jsonPath": ".spec.replicas"}"#,
    printcolumn = r#"{"name": "Current", "type": "integer", "jsonPath": ".status.replicas"}"#
)]
pub struct ImoocPodSpec {
    /// Number of pods.
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// Observed state of an ImoocPod.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImoocPodStatus {
    /// Number of pods.
    #[serde(default)]
    pub replicas: i32,
    /// Names of the pods, sorted.
    #[serde(default)]
    pub pod_names: Vec<String>,
    /// Label selector of the pods, for autoscalers.
    #[serde(default)]
    pub selector: String,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
