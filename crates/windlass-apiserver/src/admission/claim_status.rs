//! The status of ResourceClaims: a user who may write it needs another permission to bind a claim, and one per driver to
//! change the state of its devices.

use futures_util::future::BoxFuture;
use serde_json::Value;
use windlass_builtins::kinds::resource_claim::{allocated_node, changed_drivers, changes_binding};
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::{Admission, Attributes};
use crate::{
    authentication::names::{NODE_NAME, service_account},
    authorization::{self, Action, ResourceAction},
};

pub(crate) struct ClaimStatus;

impl Admission for ClaimStatus {
    fn forbidden_fields<'a>(
        &'a self,
        write: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Option<BoxFuture<'a, ErrorList>> {
        let concerned = write.is("resource.k8s.io", "resourceclaims") && write.subresource == "status";
        let old = write.old.filter(|_| concerned)?;
        Some(Box::pin(check(write, object, old)))
    }
}

async fn check(write: &Attributes<'_>, object: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("status");
    let verb = write.verb.as_str();
    if changes_binding(object, old)
        && let Err(denied) = permit(write, verb, "binding", "", "").await
    {
        let why = format!(
            "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", \
             verb=\"{verb}\" permission: {denied}"
        );
        errors.push(FieldError::forbidden(&path.child("allocation"), why));
    }
    let drivers = changed_drivers(object, old);
    if drivers.is_empty() {
        return errors;
    }
    let mut verbs = vec![format!("arbitrary-node:{verb}")];
    if allocated_node(object).is_some_and(|node| runs_on(write, node)) {
        verbs.insert(0, format!("associated-node:{verb}"));
    }
    for driver in &drivers {
        if let Err(denied) = permit_any(write, &verbs, driver).await {
            let why = format!(
                "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {denied}",
                verbs.join(" ")
            );
            errors.push(FieldError::forbidden(&path.child("devices"), why));
        }
    }
    errors
}

/// Returns whether the user is a service account whose token is bound to a pod on the node.
fn runs_on(write: &Attributes<'_>, node: &str) -> bool {
    let nodes = write.user.extra.get(NODE_NAME);
    service_account(&write.user.name).is_some() && nodes.is_some_and(|nodes| *nodes == [node])
}

/// Checks that the user has one of these permissions for a driver; the error is that of the first one.
async fn permit_any(write: &Attributes<'_>, verbs: &[String], driver: &str) -> Result<(), String> {
    let mut first = Ok(());
    for verb in verbs {
        match permit(write, verb, "driver", write.namespace, driver).await {
            Ok(()) => return Ok(()),
            denied => first = first.and(denied),
        }
    }
    first
}

async fn permit(
    write: &Attributes<'_>,
    verb: &str,
    subresource: &str,
    namespace: &str,
    name: &str,
) -> Result<(), String> {
    let (group, version, resource) = (&*write.resource.group, &*write.resource.version, &*write.resource.plural);
    let action =
        ResourceAction { verb, group, version, resource, subresource, namespace, name, ..ResourceAction::default() };
    let decision = write.authorize(action.clone()).await;
    if decision.is_allowed() {
        return Ok(());
    }
    let why = match (&decision.error, &*decision.reason) {
        (None, reason) => reason.to_owned(),
        (Some(error), "") => error.clone(),
        (Some(error), reason) => format!("{error}: {reason}"),
    };
    let request = authorization::Attributes { user: write.user, action: Action::Resource(action) };
    Err(authorization::forbidden(&request, &why).message)
}
