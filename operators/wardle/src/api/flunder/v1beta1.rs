//! Version `v1beta1` of Flunder.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Desired state of a Flunder.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "wardle.example.com", version = "v1beta1", kind = "Flunder", namespaced)]
#[kube(printcolumn = r#"{"name": "Created At", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[serde(rename_all = "camelCase")]
pub struct FlunderSpec {
    /// Name of another Flunder.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub flunder_reference: Option<String>,
    /// Name of a Fischer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fischer_reference: Option<String>,
    /// Kind of the reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_type: Option<ReferenceType>,
}

/// Kind that a Flunder refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ReferenceType {
    /// Another Flunder.
    Flunder,
    /// A Fischer.
    Fischer,
}
