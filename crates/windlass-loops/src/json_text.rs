//! Conversion between Kubernetes types and JSON values, by way of JSON text.
//!
//! Kubernetes types have a lot of serde code, which is compiled once for every serializer and deserializer that is
//! used with them. Clients and caches need the code for JSON text anyway, so this is the only one that is used.

use serde::{Serialize, de::DeserializeOwned};
use serde_json::{Result, Value};

/// Like [`serde_json::to_value`].
pub fn to_value<T: Serialize>(object: &T) -> Result<Value> {
    serde_json::from_slice(&serde_json::to_vec(object)?)
}

/// Like [`serde_json::from_value`].
pub fn from_value<T: DeserializeOwned>(value: &Value) -> Result<T> {
    serde_json::from_slice(&serde_json::to_vec(value)?)
}
