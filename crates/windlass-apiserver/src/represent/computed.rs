//! Computed objects in the accepted form.

use http::{Response, StatusCode};
use serde_json::{Value, json};

use super::{compressed, encode, go_type, old_form, partial, table};
use crate::{
    body::Body,
    call::Call,
    computed::ComputedObjects,
    negotiate::Transform,
    status::{ApiError, Result},
};

/// Encodes a list of computed objects, or the only one of them.
pub(crate) fn computed(
    call: &Call<'_>,
    source: &dyn ComputedObjects,
    mut objects: Vec<Value>,
    is_list: bool,
) -> Result<Response<Body>> {
    let endpoint = call.endpoint;
    let not_acceptable = |form: &str, what: &str, suffix: &str| {
        let kind = go_type(endpoint, suffix);
        Err(ApiError::not_acceptable(format!("you requested {form}, but the requested object is {what} (*{kind})")))
    };
    let value = match call.accept.transform {
        Transform::None if is_list => json!({
            "kind": endpoint.list_kind(), "apiVersion": endpoint.resource.api_version(), "metadata": {}, "items": objects,
        }),
        Transform::None => objects.pop().unwrap_or_default(),
        Transform::Table => {
            let include = table::Include::parse(call.query.text("includeObject"))?;
            match source.table(&objects) {
                None => table::table(endpoint, &objects, include, json!({}), true),
                Some(own) => {
                    let rows = objects.iter().zip(own.rows);
                    let rows = rows.map(|(object, cells)| json!({"cells": cells, "object": include.part(object)}));
                    table::envelope(json!({}), own.columns.into(), rows.collect())
                }
            }
        }
        Transform::PartialObjectMetadata if is_list => {
            return not_acceptable("PartialObjectMetadata", "a list", "List");
        }
        Transform::PartialObjectMetadata => partial(&objects.pop().unwrap_or_default()),
        Transform::PartialObjectMetadataList if !is_list => {
            return not_acceptable("PartialObjectMetadataList", "not a list", "");
        }
        Transform::PartialObjectMetadataList => json!({
            "kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "metadata": {},
            "items": Some(objects.iter().map(partial).collect::<Vec<_>>()).filter(|items| !items.is_empty()),
        }),
    };
    let value = match call.accept.transform {
        Transform::None => value,
        _ if call.accept.old_form => old_form(value),
        _ => value,
    };
    if let Some(audit) = call.audit.filter(|audit| audit.wants_response()) {
        audit.response_object(&value);
    }
    Ok(compressed(call.headers, encode(&call.accept, StatusCode::OK, &value, endpoint)?))
}
