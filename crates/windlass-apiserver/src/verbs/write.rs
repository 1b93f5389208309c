//! What create, update and patch share: the rules every object is held to, and what a write answers.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use crate::{
    call::{Answer, Call},
    meta,
    status::{ApiError, Result},
    storage::StoredObject,
};

/// The outcome of a write.
pub(crate) enum Written {
    /// The object as it is stored now.
    Stored(Arc<StoredObject>),
    /// The object as it would have been stored.
    DryRun(Value),
}

impl Written {
    pub(crate) fn answer(self, code: StatusCode) -> Answer {
        match self {
            Self::Stored(object) => Answer::Stored { code, object },
            Self::DryRun(value) => Answer::Value { code, value },
        }
    }
}

/// Validates metadata and the rest of an object; `old` is the object an update replaces.
pub(crate) fn check_object(call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    let endpoint = call.endpoint;
    let resource = &*endpoint.resource;
    let errors = match endpoint.custom() {
        Some(custom) => call.validate_custom(custom, object, old),
        None => {
            let mut errors = call.validate_metadata(object, old);
            errors.extend(match (call.subresource, old) {
                (Some(sub), Some(old)) => endpoint.strategy.validate_subresource_update(&sub.name, object, old),
                (_, Some(old)) => endpoint.strategy.validate_update(object, old),
                (_, None) => endpoint.strategy.validate(object),
            });
            errors
        }
    };
    if errors.is_empty() {
        return Ok(());
    }
    if endpoint.custom().is_some() {
        // One that says it is something else is named as that.
        let kind = object["kind"].as_str().unwrap_or(&resource.kind);
        return Err(ApiError::invalid(kind, &resource.group, meta::text(object, "name"), &errors));
    }
    // Events are judged as what they are stored as.
    Err(ApiError::invalid(&resource.kind, &endpoint.stored.group, meta::text(object, "name"), &errors))
}
