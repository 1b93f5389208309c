//! PriceTable v1.
//!
//! Imported from the CustomResourceDefinition of `shop.example.org`, including names and descriptions.

#![allow(clippy::all, rustdoc::all)]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "shop.example.org",
    version = "v1",
    kind = "PriceTable",
    plural = "pricelists",
    singular = "pricelist",
    no_spec,
)]
#[serde(rename_all = "camelCase")]
pub struct PriceTableSpec {
    pub currency: PriceTableCurrency,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "BTreeMap<String, PriceTablePrices>")]
    pub prices: Option<BTreeMap<String, PriceTablePrices>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String")]
    pub spec: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum PriceTableCurrency {
    #[serde(rename = "EUR")]
    Eur,
    #[serde(rename = "USD")]
    Usd,
}

#[derive(Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PriceTablePrices {
    pub amount: f64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "String", extend("format" = "date-time"))]
    pub since: Option<Time>,
}
