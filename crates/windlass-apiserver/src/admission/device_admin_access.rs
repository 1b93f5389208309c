//! Access for administrators: only claims of namespaces with a label use devices that others use.

use std::sync::Arc;

use futures_util::future::BoxFuture;
use serde_json::Value;
use windlass_builtins::kinds::resource_claim::{ADMIN_ACCESS_LABEL, admin_access, granted_admin_access};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::{Admission, Attributes, Operation};
use crate::storage::ResourceCache;

pub(crate) struct DeviceAdminAccess {
    pub(crate) namespaces: Arc<ResourceCache>,
}

impl Admission for DeviceAdminAccess {
    fn forbidden_fields<'a>(
        &'a self,
        write: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Option<BoxFuture<'a, ErrorList>> {
        if &*write.resource.group != "resource.k8s.io" {
            return None;
        }
        let field = match (write.operation, &*write.resource.plural, write.subresource) {
            // The spec does not change later.
            (Operation::Create, "resourceclaims", _) => requested(object, &Path::new("spec")),
            (Operation::Create, "resourceclaimtemplates", _) => requested(object, &Path::new("spec").child("spec")),
            // What was granted does not change later.
            (Operation::Update, "resourceclaims", "status") if write.old.and_then(granted_admin_access).is_none() => {
                granted_admin_access(object)
            }
            _ => None,
        }?;
        let namespace = self.namespaces.get(write.namespace);
        if namespace.is_some_and(|namespace| namespace.header.label(ADMIN_ACCESS_LABEL) == Some("true")) {
            return None;
        }
        let why = format!(
            "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
        );
        let errors = vec![FieldError::forbidden(&field, why)];
        Some(Box::pin(async { errors }))
    }
}

/// Returns the field of a spec that asks for access to devices that others use.
fn requested(object: &Value, spec: &Path) -> Option<Path> {
    let path = spec.child("devices").child("requests");
    let requests = format!("/{}", path.as_str().replace('.', "/"));
    admin_access(object, &requests, &path)
}
