//! CronTab v1beta1.
//!
//! Imported from the CustomResourceDefinition of `stable.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "stable.example.org",
    version = "v1beta1",
    kind = "CronTab",
    plural = "crontabs",
    shortname = "ct",
    namespaced,
    storage = false,
    deprecated = "stable.example.org/v1beta1 CronTab is deprecated; use v1",
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct CronTabSpec {
    /// Fields that the schema does not specify.
    #[serde(flatten)]
    #[schemars(skip)]
    pub rest: BTreeMap<String, serde_json::Value>,
}
