//! Foo v1alpha1.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use windlass::{Conditions, schema};

/// Desired state of a Foo: a Deployment of a web server.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "samplecontroller.k8s.io",
    version = "v1alpha1",
    kind = "Foo",
    namespaced,
    status = "FooStatus",
    annotation("api-approved.kubernetes.io", "unapproved, experimental-only"),
    printcolumn = r#"{"name": "Deployment", "type": "string", "jsonPath": ".spec.deploymentName"}"#,
    printcolumn = r#"{"name": "Available", "type": "integer", "jsonPath": ".status.availableReplicas"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct FooSpec {
    /// Name of the Deployment.
    pub deployment_name: String,
    /// Number of replicas of the Deployment.
    #[serde(default = "one")]
    #[schemars(range(min = 1, max = 10))]
    pub replicas: i32,
}

fn one() -> i32 {
    1
}

/// Observed state of a Foo.
#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema, Conditions)]
#[serde(rename_all = "camelCase")]
pub struct FooStatus {
    /// Number of available replicas of the Deployment.
    #[serde(default)]
    pub available_replicas: i32,
    /// Generation of the spec that this status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Latest observed conditions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::conditions")]
    pub conditions: Vec<Condition>,
}
