//! ServiceMonitor v1.
//!
//! Imported from the CustomResourceDefinition of `monitoring.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "monitoring.example.org",
    version = "v1",
    kind = "ServiceMonitor",
    plural = "servicemonitors",
    doc = "Which services are scraped, and how.",
    shortname = "smon",
    namespaced,
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServiceMonitorAttachMetadata")]
    pub attach_metadata: Option<ServiceMonitorAttachMetadata>,
    pub endpoints: Vec<ServiceMonitorEndpoints>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub job_label: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServiceMonitorNamespaceSelector")]
    pub namespace_selector: Option<ServiceMonitorNamespaceSelector>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "f64", extend("format" = "float"))]
    pub ratio: Option<f64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64", extend("minimum" = 0))]
    pub sample_limit: Option<i64>,
    pub selector: ServiceMonitorSelector,
    #[serde(default = "default_service_monitor_weight")]
    #[schemars(extend("minimum" = 0.5f64))]
    pub weight: f64,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorAttachMetadata {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub node: Option<bool>,
}

/// An endpoint.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorEndpoints {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServiceMonitorEndpointsAuthorization")]
    pub authorization: Option<ServiceMonitorEndpointsAuthorization>,
    #[serde(default = "default_service_monitor_endpoints_honor_labels")]
    pub honor_labels: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(
        with = "String",
        extend(
            "pattern" = "^(0|(([0-9]+)y)?(([0-9]+)w)?(([0-9]+)d)?(([0-9]+)h)?(([0-9]+)m)?(([0-9]+)s)?(([0-9]+)ms)?)$"
        )
    )]
    pub interval: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<ServiceMonitorEndpointsMetricRelabelings>")]
    pub metric_relabelings: Option<Vec<ServiceMonitorEndpointsMetricRelabelings>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, Vec<String>>")]
    pub params: Option<BTreeMap<String, Vec<String>>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub path: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub port: Option<String>,
    /// The number or the name of the port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "serde_json::Value", extend("nullable" = false, "x-kubernetes-int-or-string" = true))]
    pub target_port: Option<IntOrString>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorEndpointsAuthorization {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "ServiceMonitorEndpointsAuthorizationCredentials")]
    pub credentials: Option<ServiceMonitorEndpointsAuthorizationCredentials>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub r#type: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ServiceMonitorEndpointsAuthorizationCredentials {
    pub key: String,
    #[serde(default = "default_service_monitor_endpoints_authorization_credentials_name")]
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub optional: Option<bool>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorEndpointsMetricRelabelings {
    #[serde(default = "default_service_monitor_endpoints_metric_relabelings_action")]
    pub action: ServiceMonitorEndpointsMetricRelabelingsAction,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "i64")]
    pub modulus: Option<i64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub regex: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub separator: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", extend("items" = {"pattern": "^[a-zA-Z_][a-zA-Z0-9_]*$", "type": "string"}))]
    pub source_labels: Option<Vec<String>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ServiceMonitorEndpointsMetricRelabelingsAction {
    #[serde(rename = "replace")]
    Replace,
    #[serde(rename = "Replace")]
    ReplaceOr2,
    #[serde(rename = "keep")]
    Keep,
    #[serde(rename = "Keep")]
    KeepOr2,
    #[serde(rename = "drop")]
    Drop,
    #[serde(rename = "Drop")]
    DropOr2,
    #[serde(rename = "hashmod")]
    Hashmod,
    HashMod,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorNamespaceSelector {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "bool")]
    pub any: Option<bool>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>")]
    pub match_names: Option<Vec<String>>,
}

#[derive(Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-map-type" = "atomic"))]
pub struct ServiceMonitorSelector {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<ServiceMonitorSelectorMatchExpressions>", extend("x-kubernetes-list-type" = "atomic"))]
    pub match_expressions: Option<Vec<ServiceMonitorSelectorMatchExpressions>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, String>")]
    pub match_labels: Option<BTreeMap<String, String>>,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorSelectorMatchExpressions {
    pub key: String,
    pub operator: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Vec<String>", extend("x-kubernetes-list-type" = "atomic"))]
    pub values: Option<Vec<String>>,
}

fn default_service_monitor_endpoints_authorization_credentials_name() -> String {
    "".to_owned()
}

fn default_service_monitor_endpoints_honor_labels() -> bool {
    false
}

fn default_service_monitor_endpoints_metric_relabelings_action() -> ServiceMonitorEndpointsMetricRelabelingsAction {
    ServiceMonitorEndpointsMetricRelabelingsAction::Replace
}

fn default_service_monitor_weight() -> f64 {
    1.5
}
