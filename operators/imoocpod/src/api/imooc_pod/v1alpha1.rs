//! ImoocPod v1alpha1.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What an ImoocPod is to be.
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
    /// How many pods there are to be.
    #[schemars(range(min = 0))]
    pub replicas: i32,
}

/// What an ImoocPod is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ImoocPodStatus {
    /// How many pods there are.
    #[serde(default)]
    pub replicas: i32,
    /// Their names, in order.
    #[serde(default)]
    pub pod_names: Vec<String>,
    /// What selects them, for autoscalers.
    #[serde(default)]
    pub selector: String,
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
