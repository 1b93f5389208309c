//! Users cannot grant more than they have: roles and bindings are accepted only from users who have all permissions
//! that these grant, or the permission to `escalate` the role or to `bind` it.

use futures_util::future::BoxFuture;
use serde::Deserialize as _;
use serde_json::Value;
use windlass_schema::go_format::quote;

use super::{Admission, Attributes};
use crate::{
    authorization::{
        self, Action, PolicyRule, ResourceAction,
        rbac::{GROUP, MissingRole, aggregate, describe, quoted, uncovered},
    },
    meta,
    status::{ApiError, Result},
};

pub(crate) struct RoleEscalation;

impl Admission for RoleEscalation {
    fn check_permission<'a>(
        &'a self,
        write: &'a Attributes<'a>,
        object: &'a Value,
    ) -> Option<BoxFuture<'a, Result<()>>> {
        let concerned = &*write.resource.group == GROUP && write.subresource.is_empty() && !write.user.is_master();
        concerned.then(|| Box::pin(check(write, object)) as _)
    }
}

async fn check(write: &Attributes<'_>, object: &Value) -> Result<()> {
    let server = write.objects.server();
    server.storage.fresh().await?;
    if write.old.is_some_and(|old| without_collected_fields(old) == without_collected_fields(object)) {
        return Ok(());
    }
    if matches!(&*write.resource.plural, "roles" | "clusterroles") {
        if is_allowed(write, "escalate", (GROUP, &write.resource.plural, write.requested_name)).await {
            return Ok(());
        }
        let rules = Vec::<PolicyRule>::deserialize(&object["rules"]).unwrap_or_default();
        confirm(write, object, &rules)?;
        if [Some(object), write.old].into_iter().flatten().any(is_aggregated)
            && confirm(write, object, &everything()).is_err()
        {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            return Err(forbidden(write, object, why));
        }
        return Ok(());
    }
    let field = |name: &str| object["roleRef"][name].as_str().unwrap_or_default();
    let (kind, name) = (field("kind"), field("name"));
    let plural = match kind {
        "ClusterRole" => "clusterroles",
        "Role" => "roles",
        _ => return Err(missing(write, &MissingRole::UnknownKind(kind.to_owned()))),
    };
    if is_allowed(write, "bind", (field("apiGroup"), plural, name)).await {
        return Ok(());
    }
    if kind == "Role" && write.namespace.is_empty() {
        return Err(ApiError::bad_request("Namespace parameter required."));
    }
    let rules = server.rbac.rules_of(kind, name, write.namespace).map_err(|role| missing(write, &role))?;
    confirm(write, object, &rules)
}

/// Returns the object without the fields that the garbage collector changes, and without their managers.
fn without_collected_fields(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.retain(|field, _| !matches!(field.as_str(), "ownerReferences" | "finalizers" | "managedFields"));
    }
    object
}

/// Returns whether the user has a permission for a role, given by its group, resource and name.
async fn is_allowed(write: &Attributes<'_>, verb: &str, (group, resource, name): (&str, &str, &str)) -> bool {
    let namespace = write.namespace;
    let action = ResourceAction { verb, group, version: "*", resource, namespace, name, ..ResourceAction::default() };
    let request = authorization::Attributes { user: write.user, action: Action::Resource(action) };
    write.objects.server().authorizer.authorize(&request).decide().await.is_allowed()
}

/// Checks that the user has all permissions of these rules.
fn confirm(write: &Attributes<'_>, object: &Value, rules: &[PolicyRule]) -> Result<()> {
    let (owned, unresolved) = write.objects.server().rbac.rules_for(write.user, write.namespace);
    let lacking = uncovered(&owned, rules);
    if lacking.is_empty() {
        return Ok(());
    }
    let (user, groups) = (quote(&write.user.name), quoted(&write.user.groups));
    let errors = match &unresolved[..] {
        [] => String::new(),
        unresolved => {
            format!("; resolution errors: [{}]", aggregate(unresolved.iter().map(|role| missing(write, role).message)))
        }
    };
    let why = format!(
        "user {user} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{}{errors}",
        describe(lacking)
    );
    Err(forbidden(write, object, &why))
}

fn forbidden(write: &Attributes<'_>, object: &Value, why: &str) -> ApiError {
    ApiError::forbidden(&write.resource.plural, GROUP, meta::text(object, "name"), why)
}

/// Returns the error for a role that does not exist, which names the requested resource instead of the role's, as in
/// kube-apiserver.
fn missing(write: &Attributes<'_>, role: &MissingRole) -> ApiError {
    match role {
        MissingRole::Role(name) | MissingRole::ClusterRole(name) => {
            ApiError::not_found(&write.resource.plural, GROUP, name)
        }
        MissingRole::UnknownKind(_) => ApiError::unexpected(role.to_string()),
    }
}

fn is_aggregated(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
}

/// The rules of an administrator.
fn everything() -> [PolicyRule; 2] {
    let all = || vec!["*".into()];
    [
        PolicyRule { verbs: all(), api_groups: all(), resources: all(), ..PolicyRule::default() },
        PolicyRule { verbs: all(), non_resource_urls: all(), ..PolicyRule::default() },
    ]
}
