//! Network v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{Conditions, schema};

/// Desired state of a Network.
#[derive(CustomResource, Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "samplecrd.k8s.io",
    version = "v1",
    kind = "Network",
    namespaced,
    status = "NetworkStatus",
    annotation("api-approved.kubernetes.io", "unapproved, experimental-only"),
    printcolumn = r#"{"name": "CIDR", "type": "string", "jsonPath": ".spec.cidr"}"#,
    printcolumn = r#"{"name": "Gateway", "type": "string", "jsonPath": ".spec.gateway"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type==\"Ready\")].status"}"#
)]
pub struct NetworkSpec {
    /// CIDR block of the network, such as `192.168.0.0/16`.
    pub cidr: String,
    /// Address of the gateway, within the block.
    pub gateway: String,
}

/// Observed state of a Network.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct NetworkStatus {
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Latest observed conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
