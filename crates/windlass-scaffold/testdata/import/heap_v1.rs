//! Heap v1.
//!
//! Imported from the CustomResourceDefinition of `shop.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "shop.example.org",
    version = "v1",
    kind = "Heap",
    plural = "heaps",
    namespaced,
    no_spec,
)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-preserve-unknown-fields" = true))]
pub struct HeapSpec {
    /// Fields that the schema does not specify.
    #[serde(flatten, deserialize_with = "rest_of_object")]
    #[schemars(skip)]
    pub rest: BTreeMap<String, serde_json::Value>,
}

fn rest_of_object<'de, D: serde::Deserializer<'de>>(
    deserializer: D,
) -> Result<BTreeMap<String, serde_json::Value>, D::Error> {
    let mut rest = BTreeMap::<String, serde_json::Value>::deserialize(deserializer)?;
    rest.retain(|name, _| name != "apiVersion" && name != "kind");
    Ok(rest)
}
