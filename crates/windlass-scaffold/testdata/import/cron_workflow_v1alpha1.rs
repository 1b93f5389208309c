//! CronWorkflow v1alpha1.
//!
//! Imported from the CustomResourceDefinition of `flows.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "flows.example.org",
    version = "v1alpha1",
    kind = "CronWorkflow",
    plural = "cronworkflows",
    shortname = "cwf",
    shortname = "cronwf",
    namespaced,
    status = "CronWorkflowStatus",
)]
#[serde(rename_all = "camelCase")]
pub struct CronWorkflowSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub concurrency_policy: Option<String>,
    pub schedules: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub starting_deadline_seconds: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub suspend: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub when: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value", extend("type" = "object", "x-kubernetes-preserve-unknown-fields" = true))]
    pub workflow_metadata: Option<serde_json::Value>,
    pub workflow_spec: CronWorkflowWorkflowSpec,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CronWorkflowWorkflowSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CronWorkflowWorkflowSpecArguments")]
    pub arguments: Option<CronWorkflowWorkflowSpecArguments>,
    pub entrypoint: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "serde_json::Value",
        extend(
            "type" = "object",
            "x-kubernetes-embedded-resource" = true,
            "x-kubernetes-preserve-unknown-fields" = true
        )
    )]
    pub pod_template: Option<serde_json::Value>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i32")]
    pub priority: Option<i32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "BTreeMap<String, serde_json::Value>",
        extend(
            "additionalProperties" = {"nullable": false, "pattern": r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$", "x-kubernetes-int-or-string": true}
        )
    )]
    pub resources: Option<BTreeMap<String, IntOrString>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "serde_json::Value",
        extend(
            "nullable" = false,
            "pattern" = r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))))?$",
            "x-kubernetes-int-or-string" = true
        )
    )]
    pub storage: Option<IntOrString>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<CronWorkflowWorkflowSpecVolumes>")]
    pub volumes: Option<Vec<CronWorkflowWorkflowSpecVolumes>>,
    /// Fields that the schema does not specify.
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronWorkflowWorkflowSpecArguments {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<CronWorkflowWorkflowSpecArgumentsParameters>")]
    pub parameters: Option<Vec<CronWorkflowWorkflowSpecArgumentsParameters>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronWorkflowWorkflowSpecArgumentsParameters {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub r#enum: Option<Vec<String>>,
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value", extend("x-kubernetes-preserve-unknown-fields" = true))]
    pub value: Option<serde_json::Value>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CronWorkflowWorkflowSpecVolumes {
    pub name: String,
    /// Fields that the schema does not specify.
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CronWorkflowStatus {
    /// Fields that the schema does not specify.
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: BTreeMap<String, serde_json::Value>,
}
