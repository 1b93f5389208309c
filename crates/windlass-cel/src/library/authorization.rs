//! Authorization checks: `authorizer.group('').resource('pods').check('list').allowed()`.

use windlass_schema::names;

use super::{Call, Table};
use crate::authorizer::{AuthorizationValue, Check, Resource, Subject, Target};
use crate::value::{EvalError, Opaque, Outcome, Value};

pub(super) const FUNCTIONS: &Table = &[
    ("path", path),
    ("group", group),
    ("serviceAccount", service_account),
    ("resource", resource),
    ("subresource", refine),
    ("namespace", refine),
    ("name", refine),
    ("fieldSelector", refine),
    ("labelSelector", refine),
    ("check", check),
    ("allowed", decision),
    ("reason", decision),
    ("error", decision),
    ("errored", decision),
];

fn receiver<'c>(call: &'c Call<'_, '_>) -> Option<&'c AuthorizationValue> {
    match call.arguments.first() {
        Some(Value::Opaque(value)) => match &**value {
            Opaque::Authorization(value) => Some(value),
            _ => None,
        },
        _ => None,
    }
}

fn text<'c>(call: &'c Call<'_, '_>, index: usize) -> Option<&'c str> {
    call.arguments.get(index).and_then(Value::as_str)
}

fn value<'a>(value: AuthorizationValue) -> Outcome<'a> {
    Ok(Value::opaque(Opaque::Authorization(value)))
}

fn path<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match (receiver(&call), text(&call, 1)) {
        (Some(AuthorizationValue::Authorizer(_)), Some(path)) if path.trim().is_empty() => {
            Err(EvalError::new("path must not be empty"))
        }
        (Some(AuthorizationValue::Authorizer(subject)), Some(path)) => {
            value(AuthorizationValue::PathCheck(subject.clone(), path.to_owned()))
        }
        _ => Err(call.mismatch()),
    }
}

fn group<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match (receiver(&call), text(&call, 1)) {
        (Some(AuthorizationValue::Authorizer(subject)), Some(group)) => {
            value(AuthorizationValue::GroupCheck(subject.clone(), group.to_owned()))
        }
        _ => Err(call.mismatch()),
    }
}

fn service_account<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match (receiver(&call), text(&call, 1), text(&call, 2)) {
        (Some(AuthorizationValue::Authorizer(subject)), Some(namespace), Some(name)) => {
            if !names::name_is_dns_subdomain(name, false).is_empty() {
                return Err(EvalError::new("Invalid service account name"));
            }
            if !names::name_is_dns_label(namespace, false).is_empty() {
                return Err(EvalError::new("Invalid service account namespace"));
            }
            let account = Some((namespace.to_owned(), name.to_owned()));
            value(AuthorizationValue::Authorizer(Subject { account, authorizer: subject.authorizer.clone() }))
        }
        _ => Err(call.mismatch()),
    }
}

fn resource<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match (receiver(&call), text(&call, 1)) {
        (Some(AuthorizationValue::GroupCheck(..)), Some(resource)) if resource.trim().is_empty() => {
            Err(EvalError::new("resource must not be empty"))
        }
        (Some(AuthorizationValue::GroupCheck(subject, group)), Some(resource)) => {
            let (group, resource) = (group.clone(), resource.to_owned());
            let resource = Resource { group, resource, ..Resource::default() };
            value(AuthorizationValue::ResourceCheck(subject.clone(), resource))
        }
        _ => Err(call.mismatch()),
    }
}

/// Restricts a check to a subresource, a namespace, a name or a selector.
fn refine<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match (receiver(&call), text(&call, 1)) {
        (Some(AuthorizationValue::ResourceCheck(subject, resource)), Some(text)) => {
            let mut resource = resource.clone();
            let field = match call.function {
                "subresource" => &mut resource.subresource,
                "namespace" => &mut resource.namespace,
                "name" => &mut resource.name,
                "fieldSelector" => &mut resource.field_selector,
                _ => &mut resource.label_selector,
            };
            text.clone_into(field);
            value(AuthorizationValue::ResourceCheck(subject.clone(), resource))
        }
        _ => Err(call.mismatch()),
    }
}

fn check<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (subject, target) = match receiver(&call) {
        Some(AuthorizationValue::PathCheck(subject, path)) => (subject, Target::Path(path.clone())),
        Some(AuthorizationValue::ResourceCheck(subject, resource)) => (subject, Target::Resource(resource.clone())),
        _ => return Err(call.mismatch()),
    };
    let Some(verb) = text(&call, 1) else { return Err(call.mismatch()) };
    let check = Check { account: subject.account.clone(), verb: verb.to_owned(), target };
    match subject.authorizer.decide(&check) {
        Some(decision) => value(AuthorizationValue::Decision(decision)),
        None => Err(EvalError::new("the authorization decision is pending")),
    }
}

fn decision<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let Some(AuthorizationValue::Decision(decision)) = receiver(&call) else { return Err(call.mismatch()) };
    Ok(match call.function {
        "allowed" => Value::Bool(decision.allowed),
        "errored" => Value::Bool(decision.error.is_some()),
        "reason" => Value::string(&*decision.reason),
        _ => Value::string(decision.error.as_deref().unwrap_or_default()),
    })
}
