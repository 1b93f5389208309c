//! ResourceClaims of dynamic resource allocation.

mod status;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

pub(super) use self::status::validate_binding_conditions;
use super::device_claim;
use super::internal_types::show;
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{boolean, copy, items};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of ResourceClaims.
#[derive(Debug, Clone, Copy)]
pub struct ResourceClaim;

/// The label of namespaces whose claims may use devices that others use.
pub const ADMIN_ACCESS_LABEL: &str = "resource.kubernetes.io/admin-access";

impl Strategy for ResourceClaim {
    fn default(&self, object: &mut Value) {
        object.get_mut("spec").into_iter().for_each(device_claim::default);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        device_claim::validate(&object["spec"], &Path::new("spec"), &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if !same(&copy(object, "/spec"), &copy(old, "/spec")) {
            let shown = show(&object["spec"], device_claim::CLAIM_SPEC);
            errors.invalid_shown(&Path::new("spec"), shown, "field is immutable");
        }
        errors
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        if subresource == "status" {
            status::drop_deallocated_devices(object, old);
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { status::validate(object, old) } else { ErrorList::new() }
    }
}

/// Returns the field that requests access to devices that others use, if it is set. `requests` is the place of the
/// requests, as JSON pointer, and `path` their path in messages.
pub fn admin_access(object: &Value, requests: &str, path: &Path) -> Option<Path> {
    let asks = |request: &Value| boolean(request, "/exactly/adminAccess") == Some(true);
    let index = items(object, requests).iter().position(asks)?;
    Some(path.index(index).child("adminAccess"))
}

#[cfg(test)]
mod tests;
