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
    group = "webapp.tutorial.kubebuilder.io",
    version = "v1",
    kind = "Guestbook",
    namespaced,
    status = "GuestbookStatus",
    scale(spec_replicas_path = ".spec.size", status_replicas_path = ".status.replicas"),
    printcolumn = r#"{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}"#,
    printcolumn = r#"{"name": "Ready", "type": "string", "jsonPath": ".status.conditions[?(@.type=='Ready')].status"}"#,
    printcolumn = r#"{"name": "URL", "type": "string", "jsonPath": ".status.url"}"#
)]
pub struct GuestbookSpec {
    /// Number of pods.
    #[schemars(range(min = 1, max = 10))]
    pub size: i32,
    /// Name of the ConfigMap with the settings, which become environment variables of the pods.
    #[schemars(length(min = 1, max = 63))]
    pub config_map_name: String,
    /// Type of the entries in the guestbook.
    #[serde(default, rename = "type")]
    pub kind: EntryKind,
}

/// Type of the entries in a guestbook.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum EntryKind {
    /// A phone number.
    #[default]
    Phone,
    /// An address.
    Address,
    /// A name.
    Name,
}

/// Observed state of a Guestbook.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct GuestbookStatus {
    /// URL of the guestbook within the cluster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Number of pods.
    #[serde(default)]
    pub replicas: i32,
    /// Number of ready pods.
    #[serde(default)]
    pub ready_replicas: i32,
    /// Latest observed conditions.
    #[serde(default)]
    #[schemars(schema_with = "windlass::schema::conditions")]
    pub conditions: Vec<Condition>,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}
