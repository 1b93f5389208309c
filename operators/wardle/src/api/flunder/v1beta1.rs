//! Version `v1beta1` of Flunder.

use windlass_extension::prelude::*;

/// Desired state of a Flunder.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "wardle.example.com", version = "v1beta1", kind = "Flunder", namespaced)]
#[kube(printcolumn = r#"{"name": "Created At", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[serde(rename_all = "camelCase")]
pub struct FlunderSpec {
    /// Name of another Flunder.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub flunder_reference: String,
    /// Name of a Fischer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub fischer_reference: String,
    /// Kind of the reference: Flunder or Fischer.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference_type: String,
}
