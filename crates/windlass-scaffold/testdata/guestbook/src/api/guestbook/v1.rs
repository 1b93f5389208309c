//! Guestbook v1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::Conditions;

/// Desired state of a Guestbook.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "webapp.example.com",
    version = "v1",
    kind = "Guestbook",
    plural = "guestbooks",
    namespaced,
    status = "GuestbookStatus",
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Config map name", "type": "string", "jsonPath": ".spec.configMapName"}"#,
    printcolumn = r#"{"name": "Type", "type": "string", "jsonPath": ".spec.type"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
pub struct GuestbookSpec {
    /// Number of replicas.
    #[serde(default = "default_size")]
    #[schemars(range(min = 1, max = 10))]
    pub size: i32,
    /// Name of the ConfigMap with the settings.
    #[schemars(length(min = 1, max = 63))]
    pub config_map_name: String,
    /// Kind of entry that guests leave.
    #[serde(default)]
    pub r#type: GuestbookType,
}

/// Observed state of a Guestbook.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookStatus {
    /// Latest observed conditions.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that was last reconciled.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

fn default_size() -> i32 {
    1
}

/// Kind of entry that guests leave.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum GuestbookType {
    #[default]
    Phone,
    Address,
    Name,
}
