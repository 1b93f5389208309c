//! Operator v1api20200601.
//!
//! Imported from the CustomResourceDefinition of `install.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "install.example.org",
    version = "v1api20200601",
    kind = "Operator",
    plural = "operators",
    root = "OperatorObject",
    status = "OperatorObjectStatus",
)]
#[serde(rename_all = "camelCase")]
pub struct OperatorObjectSpec {
    pub object: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "OperatorObjectSpec2")]
    pub spec: Option<OperatorObjectSpec2>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorObjectSpec2 {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub self_: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct OperatorObjectStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub ready: Option<bool>,
}
