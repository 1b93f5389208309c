//! CronTab v1.
//!
//! Imported from the CustomResourceDefinition of `stable.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "stable.example.org",
    version = "v1",
    kind = "CronTab",
    plural = "crontabs",
    shortname = "ct",
    namespaced,
    status = "CronTabStatus",
    scale = r#"{"labelSelectorPath":".status.labelSelector","specReplicasPath":".spec.replicas","statusReplicasPath":".status.replicas"}"#,
)]
#[serde(rename_all = "camelCase")]
pub struct CronTabSpec {
    #[schemars(extend("pattern" = r"^(\d+|\*)(/\d+)?(\s+(\d+|\*)(/\d+)?){4}$"))]
    pub cron_spec: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    pub free: Option<BTreeMap<String, serde_json::Value>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub image: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<i32>",
        extend(
            "default" = [1, 2],
            "items" = {"format": "int32", "minimum": -1, "type": "integer"}
        )
    )]
    pub limits: Option<Vec<i32>>,
    #[serde(rename = "log-level", default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", extend("enum" = [1, 2, 3000000000i64]))]
    pub log_level_2: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub log_level: Option<String>,
    #[schemars(with = "String", extend("nullable" = true))]
    pub must: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "CronTabNothing")]
    pub nothing: Option<CronTabNothing>,
    #[serde(rename = r#"odd "name""#, default = "default_cron_tab_odd_name")]
    pub odd_name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "Vec<Vec<String>>",
        extend(
            "items" = {"items": {"type": "string"}, "maxItems": 2, "type": "array"}
        )
    )]
    pub pair: Option<Vec<Vec<String>>>,
    #[serde(default = "default_cron_tab_replicas")]
    #[schemars(extend("maximum" = 10, "minimum" = 1))]
    pub replicas: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub self_: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub r#type: Option<String>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTabNothing {}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CronTabStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub label_selector: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub replicas: Option<i64>,
}

fn default_cron_tab_odd_name() -> String {
    r#"a "b" \ c"#.to_owned()
}

fn default_cron_tab_replicas() -> i64 {
    1
}
