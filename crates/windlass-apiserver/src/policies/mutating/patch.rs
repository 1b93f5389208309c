//! Patches that mutations result in, and how they change an object.

use serde_json::{Map, Value as Json};
use windlass_cel::{
    policy::{Returns, apply_configuration, json_patch},
    value::Value,
};
use windlass_merge::{
    apply::{configuration::merge_configuration, schema::TypeRef},
    json_patch::Patch as JsonPatch,
};

use crate::{call::Call, endpoint::Endpoint, webhooks::Versions};

/// The result of a mutation.
pub(super) enum Patch {
    /// A partial object to merge.
    Apply(Json),
    /// The operations of a JSON patch.
    Json(Vec<Map<String, Json>>),
}

impl Patch {
    /// Returns the patch that an expression evaluated to.
    pub(super) fn new(value: &Value<'_>, returns: Returns) -> Result<Self, String> {
        match returns {
            Returns::JsonPatch => json_patch(value).map(Self::Json),
            _ => apply_configuration(value).map(Self::Apply),
        }
    }
}

/// Returns the patched object; `None` if a `test` operation does not hold, which leaves the object as it is.
pub(super) fn patched(call: &Call<'_>, versions: &Versions<'_>, patch: Patch) -> Result<Option<Json>, String> {
    let object = versions.object();
    match patch {
        Patch::Json(operations) => {
            let failed = |error| format!("JSON Patch: {error}");
            match JsonPatch::new(operations).map_err(failed)?.apply(object.clone()) {
                Ok(patched) => Ok(Some(patched)),
                Err(error) if error.is_failed_test() => Ok(None),
                Err(error) => Err(failed(error)),
            }
        }
        Patch::Apply(mut partial) => {
            for field in ["apiVersion", "kind"] {
                partial[field] = object[field].clone();
            }
            let merged = merge_configuration(object, &partial, types(call, versions.endpoint()));
            merged.map(Some).map_err(|error| format!("error applying patch: {error}"))
        }
    }
}

/// Returns how objects of the request merge.
fn types<'a>(call: &Call<'_>, endpoint: &'a Endpoint) -> TypeRef<'a> {
    let table = &endpoint.table.types;
    match endpoint.custom() {
        _ if !call.is_own_kind() => TypeRef::built_in(table, call.body_type()),
        Some(custom) => match custom.schema_of(&endpoint.resource.version) {
            Some(schema) => TypeRef::custom(schema, table, endpoint.object_meta()),
            None => TypeRef::DEDUCED,
        },
        None => TypeRef::built_in(table, endpoint.resource.ty),
    }
}
