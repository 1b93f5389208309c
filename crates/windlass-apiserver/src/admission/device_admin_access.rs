//! Access for administrators: only claims of namespaces with a label use devices that others use.
//!
//! kube-apiserver checks this where it validates claims; strategies of kinds cannot read other objects.

use std::sync::Arc;

use async_trait::async_trait;
use serde_json::Value;
use windlass_builtins::kinds::resource_claim::{ADMIN_ACCESS_LABEL, admin_access};
use windlass_schema::field::{FieldError, Path};

use super::{Admission, Attributes, Operation};
use crate::{
    status::{ApiError, Result},
    storage::ResourceCache,
};

pub(crate) struct DeviceAdminAccess {
    pub(crate) namespaces: Arc<ResourceCache>,
}

#[async_trait]
impl Admission for DeviceAdminAccess {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        // The spec does not change later.
        if write.operation != Operation::Create || &*write.resource.group != "resource.k8s.io" {
            return Ok(());
        }
        let path = match &*write.resource.plural {
            "resourceclaims" => Path::new("spec"),
            "resourceclaimtemplates" => Path::new("spec").child("spec"),
            _ => return Ok(()),
        };
        let path = path.child("devices").child("requests");
        let requests = format!("/{}", path.as_str().replace('.', "/"));
        let Some(field) = admin_access(object, &requests, &path) else { return Ok(()) };
        let namespace = self.namespaces.get(write.namespace);
        if namespace.is_some_and(|namespace| namespace.header.label(ADMIN_ACCESS_LABEL) == Some("true")) {
            return Ok(());
        }
        let why = format!(
            "admin access to devices requires the `{ADMIN_ACCESS_LABEL}: true` label on the containing namespace"
        );
        let errors = vec![FieldError::forbidden(&field, why)];
        Err(ApiError::invalid(&write.resource.kind, &write.resource.group, write.name, &errors))
    }
}
