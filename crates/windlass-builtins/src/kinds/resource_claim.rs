//! ResourceClaims of dynamic resource allocation.

mod permission;
mod status;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

pub use self::permission::{admin_access, allocated_node, changed_drivers, changes_binding, granted_admin_access};
pub(super) use self::status::validate_binding_conditions;
use super::device_claim;
use super::internal_types::show;
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::copy;
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

#[cfg(test)]
mod tests;
