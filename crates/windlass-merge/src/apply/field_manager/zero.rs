//! Empty objects of built-in kinds.

use serde_json::Value;
use windlass_schema::decode;
use windlass_schema::types::{StructId, Type, TypeTable};

/// Returns what Go serializes of a zero value of a built-in kind: the object that a create is compared with. No manager
/// comes to own a struct that is always present, so this decides whether an entry contains `f:spec` itself or only the
/// fields below it.
pub fn empty_object(table: &TypeTable, id: StructId, api_version: &str, kind: &str) -> Value {
    let mut object = decode::zero(table, &Type::Struct(id));
    object["apiVersion"] = api_version.into();
    object["kind"] = kind.into();
    object
}
