//! Vpc v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// Desired state of a Vpc.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "network.example.com",
    version = "v1",
    kind = "Vpc",
    namespaced,
    status = "VpcStatus",
    printcolumn = r#"{"name": "CIDR", "type": "string", "jsonPath": ".spec.cidrblock"}"#,
    printcolumn = r#"{"name": "Subnets", "type": "integer", "jsonPath": ".status.subnetnum"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Pods", "type": "string", "jsonPath": ".status.podNames", "priority": 1}"#
)]
pub struct VpcSpec {
    /// Display name.
    #[schemars(length(min = 1, max = 63))]
    pub vpcname: String,
    /// CIDR block, such as `10.0.0.0/16` or `fd00::/48`.
    pub cidrblock: String,
    /// Number of subnets to split the block into.
    #[schemars(range(min = 1, max = 1024))]
    pub subnetnum: u32,
}

/// Observed state of a Vpc.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct VpcStatus {
    /// Number of subnets.
    #[serde(default)]
    pub subnetnum: u32,
    /// CIDR blocks of the subnets, in order.
    #[serde(default)]
    pub subnets: Vec<String>,
    /// Names of the pods in the Vpc, sorted.
    #[serde(default)]
    pub pod_names: Vec<String>,
    /// Latest observed conditions.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
