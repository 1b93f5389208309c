//! Schemas for CRDs, of types that have none of their own.

use schemars::{Schema, SchemaGenerator, json_schema};

pub use super::conditions::schema as conditions;

/// Schema of a required `Time`.
///
/// ```
/// use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
///
/// #[derive(schemars::JsonSchema)]
/// struct BackupStatus {
///     #[schemars(schema_with = "windlass_runtime::objects::schema::time")]
///     started: Time,
///     #[schemars(schema_with = "windlass_runtime::objects::schema::optional_time")]
///     finished: Option<Time>,
/// }
/// # let schema = serde_json::json!(schemars::schema_for!(BackupStatus));
/// # assert_eq!(schema["properties"]["started"]["nullable"], serde_json::Value::Null);
/// # assert_eq!(schema["properties"]["finished"]["nullable"], true);
/// ```
pub fn time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time" })
}

/// Schema of an `Option<Time>`.
pub fn optional_time(_: &mut SchemaGenerator) -> Schema {
    json_schema!({ "type": "string", "format": "date-time", "nullable": true })
}
