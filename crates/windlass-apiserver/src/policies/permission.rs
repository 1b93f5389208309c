//! Checks that the author of a policy or binding may read its parameters, which expressions show to others.

use serde_json::Value;
use windlass_schema::field::{FieldError, Path};

use super::{MUTATING, VALIDATING, params::endpoint_of_kind};
use crate::{
    authorization::{Action, Attributes, ResourceAction},
    call::Call,
    status::{ApiError, Result},
    user::User,
    webhooks::GROUP,
};

/// Checks the permission for the parameters of a written policy or binding. Members of `system:masters` need none.
pub(crate) async fn check_params_permission(call: &Call<'_>, object: &Value, old: Option<&Value>) -> Result<()> {
    let resource = &*call.endpoint.resource;
    if &*resource.group != GROUP || call.subresource.is_some() || call.user.is_master() {
        return Ok(());
    }
    let spec = |object: &Value, field: &str| object["spec"].get(field).cloned().unwrap_or_default();
    let same = |field: &str| old.is_some_and(|old| spec(old, field) == spec(object, field));
    let plural = &*resource.plural;
    let (field, denied) = if plural == VALIDATING.0 || plural == MUTATING.0 {
        let kind = spec(object, "paramKind");
        if kind.is_null() || same("paramKind") {
            return Ok(());
        }
        ("paramKind", kind_denied(call, &kind).await)
    } else if plural == VALIDATING.1 || plural == MUTATING.1 {
        let reference = spec(object, "paramRef");
        if reference.is_null() || same("paramRef") && same("policyName") {
            return Ok(());
        }
        let policies =
            if plural == VALIDATING.1 { &call.server.policies.validating } else { &call.server.policies.mutating };
        let name = object["spec"]["policyName"].as_str().unwrap_or_default();
        call.server.storage.fresh().await?;
        let policy = policies.policies.get(name).map(|policy| policy.to_value());
        ("paramRef", reference_denied(call, &reference, name, policy.as_ref()).await)
    } else {
        return Ok(());
    };
    match denied {
        None => Ok(()),
        Some(why) => {
            let error = FieldError::forbidden(&Path::new("spec").child(field), why);
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            Err(ApiError::invalid(&resource.kind, GROUP, name, &vec![error]))
        }
    }
}

/// A kind of parameters; unknown parts are `*`.
struct Resolved {
    group: String,
    version: String,
    resource: String,
    /// Whether the resource is known.
    found: bool,
}

fn resolve(call: &Call<'_>, kind: &Value) -> Resolved {
    let api_version = kind["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let registry = call.server.registry.load();
    let endpoint = endpoint_of_kind(&registry, group, version, kind["kind"].as_str().unwrap_or_default());
    let resource = endpoint.map(|endpoint| endpoint.resource.plural.to_string());
    let found = resource.is_some();
    Resolved {
        group: group.to_owned(),
        version: version.to_owned(),
        resource: resource.unwrap_or_else(|| "*".to_owned()),
        found,
    }
}

/// Returns why the user may not use a kind of parameters.
async fn kind_denied(call: &Call<'_>, kind: &Value) -> Option<String> {
    let Resolved { group, version, resource, .. } = resolve(call, kind);
    let action = ResourceAction {
        verb: "get",
        group: &group,
        version: &version,
        resource: &resource,
        namespace: "*",
        name: "*",
        ..ResourceAction::default()
    };
    if is_allowed(call, action).await {
        return None;
    }
    let text = |field: &str| kind[field].as_str().unwrap_or_default();
    Some(format!(
        "user {} must have \"get\" permission on all objects of the referenced paramKind (kind={}, apiVersion={})",
        shown(call.user),
        text("kind"),
        text("apiVersion")
    ))
}

/// Returns why the user may not use the parameters that a binding refers to.
async fn reference_denied(
    call: &Call<'_>,
    reference: &Value,
    policy_name: &str,
    policy: Option<&Value>,
) -> Option<String> {
    let text = |field: &str| reference[field].as_str().unwrap_or_default();
    let kind = policy.map(|policy| &policy["spec"]["paramKind"]).filter(|kind| kind.is_object());
    let everything = || "*".to_owned();
    let resolved = kind.map(|kind| resolve(call, kind)).unwrap_or_else(|| Resolved {
        group: everything(),
        version: everything(),
        resource: everything(),
        found: true,
    });
    let verb = if text("name").is_empty() { "list" } else { "get" };
    let action = ResourceAction {
        verb,
        group: &resolved.group,
        version: &resolved.version,
        resource: &resolved.resource,
        namespace: text("namespace"),
        name: text("name"),
        ..ResourceAction::default()
    };
    if is_allowed(call, action).await {
        return None;
    }
    let user = shown(call.user);
    let everything = format!("user {user} does not have \"{verb}\" permission for all groups, versions and resources");
    Some(match kind {
        _ if policy.is_none() => {
            format!("unable to get policy {policy_name} to determine minimum required permissions and {everything}")
        }
        Some(kind) if !resolved.found => {
            let (api_version, kind) = (&kind["apiVersion"], &kind["kind"]);
            let shown =
                format!("&{{{} {}}}", api_version.as_str().unwrap_or_default(), kind.as_str().unwrap_or_default());
            format!("unable to resolve paramKind {shown} to determine minimum required permissions and {everything}")
        }
        _ => format!("user {user} does not have \"{verb}\" permission on the object referenced by paramRef"),
    })
}

async fn is_allowed(call: &Call<'_>, action: ResourceAction<'_>) -> bool {
    let request = Attributes { user: call.user, action: Action::Resource(action) };
    call.server.authorizer.authorize(&request).decide().await.is_allowed()
}

/// Formats a user as Go prints the struct.
fn shown(user: &User) -> String {
    let extra: Vec<String> = user.extra.iter().map(|(key, values)| format!("{key}:[{}]", values.join(" "))).collect();
    format!("&{{{} {} [{}] map[{}]}}", user.name, user.uid, user.groups.join(" "), extra.join(" "))
}
