//! Impersonation headers, which are rejected: a request that asks to act as another user must never be performed as its
//! sender.

use http::{HeaderMap, HeaderName};

use crate::{
    status::{ApiError, Result},
    user::User,
};

const PREFIX: &str = "impersonate-";
const REASON: &str = "this server does not support impersonation";

/// Rejects a request with impersonation headers.
///
/// # Errors
/// Returns the 403 with which kube-apiserver answers a user who may not impersonate.
pub(crate) fn reject(user: &User, headers: &HeaderMap) -> Result<()> {
    match headers.keys().find(|name| name.as_str().starts_with(PREFIX)) {
        None => Ok(()),
        Some(first) => Err(forbidden(user, headers, first)),
    }
}

fn forbidden(user: &User, headers: &HeaderMap, first: &HeaderName) -> ApiError {
    // kube-apiserver checks the user name before the other attributes.
    let (header, value) = match headers.get("impersonate-user") {
        Some(value) => ("user", Some(value)),
        None => (first.as_str().trim_start_matches(PREFIX), headers.get(first)),
    };
    let value = String::from_utf8_lossy(value.map_or(&[][..], |value| value.as_bytes()));
    let account = value.strip_prefix("system:serviceaccount:").and_then(|rest| rest.split_once(':'));
    let authentication = "authentication.k8s.io";
    let (group, resource, namespace, name) = match (header, account) {
        ("user", Some((namespace, name))) => ("", "serviceaccounts", namespace, name),
        ("user", None) => ("", "users", "", &*value),
        ("group", _) => ("", "groups", "", &*value),
        ("uid", _) => (authentication, "uids", "", &*value),
        _ => (authentication, "userextras", "", &*value),
    };
    let what = match header.strip_prefix("extra-") {
        Some(key) => format!("{resource}/{key}"),
        None => resource.to_owned(),
    };
    let scope = match namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace \"{namespace}\""),
    };
    let user = &user.name;
    let why =
        format!("User \"{user}\" cannot impersonate resource \"{what}\" in API group \"{group}\" {scope}: {REASON}");
    ApiError::forbidden(resource, group, name, &why)
}
