//! Objects of built-in kinds of which nothing is set.

use serde_json::Value;
use windlass_schema::decode;
use windlass_schema::types::{StructId, Type, TypeTable};

/// What Go writes of a zero value of a built-in kind: the object that a create is compared with. Nobody comes to own a
/// struct that is always there, so this decides whether an entry has `f:spec` itself or only what is below it.
pub fn empty_object(table: &TypeTable, id: StructId, api_version: &str, kind: &str) -> Value {
    let mut object = decode::zero(table, &Type::Struct(id));
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}
