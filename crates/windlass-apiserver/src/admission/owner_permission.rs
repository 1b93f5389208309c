//! OwnerReferencesPermissionEnforcement: owner references of an object are changed only by users who may delete it, and an
//! owner is blocked only by users who may set its finalizers.

use async_trait::async_trait;
use serde_json::Value;

use super::{Admission, Attributes, Operation};
use crate::{
    authorization::ResourceAction,
    status::{ApiError, Result},
};

pub(crate) struct OwnerPermission;

#[async_trait]
impl Admission for OwnerPermission {
    async fn validate(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let is_pod_status = write.is("", "pods") && write.subresource == "status";
        let (new, old) = (owners(object), write.old.map(owners).unwrap_or_default());
        let writes = matches!(write.operation, Operation::Create | Operation::Update);
        if !writes || is_pod_status || new == old {
            return Ok(());
        }
        if write.operation == Operation::Update {
            self.check_deletion(write, object).await?;
        }
        let blocking: Vec<_> = new.iter().filter(|owner| blocks(owner) && !blocked_before(owner, old)).collect();
        let anything = ResourceAction { verb: "update", group: "*", version: "*", resource: "*", ..finalizers("*") };
        if blocking.is_empty() || write.authorize(anything).await.is_allowed() {
            return Ok(());
        }
        for owner in blocking {
            check_owner(write, object, owner).await?;
        }
        Ok(())
    }
}

impl OwnerPermission {
    /// A user who can delete an object can also have it deleted with others.
    async fn check_deletion(&self, write: &Attributes<'_>, object: &Value) -> Result<()> {
        let deletion = ResourceAction {
            verb: "delete",
            group: &write.resource.group,
            version: &write.resource.version,
            resource: &write.resource.plural,
            subresource: write.subresource,
            namespace: write.namespace,
            name: write.name,
            ..ResourceAction::default()
        };
        allow(write, object, deletion, "cannot set an ownerRef on a resource you can't delete").await
    }
}

/// Checks that the user may set the finalizers of an owner.
async fn check_owner(write: &Attributes<'_>, object: &Value, owner: &Value) -> Result<()> {
    let text = |field: &str| owner[field].as_str().unwrap_or_default();
    let (api_version, kind) = (text("apiVersion"), text("kind"));
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = write.objects.server().registry.load_full();
    let resources: Vec<_> =
        registry.resources(group, version).into_iter().filter(|resource| &*resource.kind == kind).collect();
    if resources.is_empty() {
        let why = format!(
            "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for APIVersion {api_version} \
             Kind {kind}: no matches for kind \"{kind}\" in version \"{api_version}\""
        );
        return Err(write.forbidden(object, &why));
    }
    for resource in resources {
        let action = ResourceAction {
            verb: "update",
            group,
            version,
            resource: &resource.plural,
            namespace: if resource.namespaced { write.namespace } else { "" },
            ..finalizers(text("name"))
        };
        let why = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on";
        allow(write, object, action, why).await?;
    }
    Ok(())
}

fn finalizers(name: &str) -> ResourceAction<'_> {
    ResourceAction { subresource: "finalizers", name, ..ResourceAction::default() }
}

async fn allow(write: &Attributes<'_>, object: &Value, action: ResourceAction<'_>, why: &str) -> Result<(), ApiError> {
    let decision = write.authorize(action).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let error = decision.error.as_deref().unwrap_or("<nil>");
    Err(write.forbidden(object, &format!("{why}: {}, {error}", decision.reason)))
}

fn owners(object: &Value) -> &[Value] {
    object["metadata"]["ownerReferences"].as_array().map_or(&[], Vec::as_slice)
}

fn blocks(owner: &Value) -> bool {
    owner["blockOwnerDeletion"] == true
}

fn blocked_before(owner: &Value, old: &[Value]) -> bool {
    old.iter().rev().find(|before| before["uid"] == owner["uid"]).is_some_and(blocks)
}
