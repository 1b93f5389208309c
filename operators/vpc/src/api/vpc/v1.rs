//! Vpc v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// What a Vpc is to be.
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
    /// What people call it.
    #[schemars(length(min = 1, max = 63))]
    pub vpcname: String,
    /// Its addresses, as `10.0.0.0/16` or `fd00::/48`.
    pub cidrblock: String,
    /// How many subnets it is cut into.
    #[schemars(range(min = 1, max = 1024))]
    pub subnetnum: u32,
}

/// What a Vpc is.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct VpcStatus {
    /// How many subnets there are.
    #[serde(default)]
    pub subnetnum: u32,
    /// The subnets, in order.
    #[serde(default)]
    pub subnets: Vec<String>,
    /// The pods in it, in order.
    #[serde(default)]
    pub pod_names: Vec<String>,
    /// Whether it is as asked for.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// The generation that this status is about.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
