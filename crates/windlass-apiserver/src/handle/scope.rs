//! Whether a path addresses a resource in its scope, and which resources can be shown as Tables.

use http::Method;
use windlass_schema::{field::quote, names::is_path_segment_name};

use crate::{
    debug_pages::{FLAGS_PATH, STATUS_PATH},
    registry::Endpoint,
    request_info::ResourceRequest,
    status::{ApiError, Result},
    tokens::issuers::{CONFIGURATION_PATH, KEYS_PATH},
    verb::Verb,
};

/// Checks that namespaced objects are addressed in a namespace, and cluster-scoped ones are not.
pub(super) fn check_scope(endpoint: &Endpoint, target: &ResourceRequest<'_>, method: &Method) -> Result<()> {
    let resource = &*endpoint.resource;
    if endpoint.custom().is_some() {
        let reads = target.name.is_empty() && (*method == Method::GET || *method == Method::HEAD);
        let fits = resource.namespaced != target.namespace.is_empty() || (resource.namespaced && reads);
        return if fits { Ok(()) } else { Err(ApiError::page_not_found()) };
    }
    // A namespace is not addressed in another one, whose rules would apply.
    let in_namespace = !target.namespace.is_empty() && (target.in_namespace || &*resource.plural != "namespaces");
    if resource.namespaced {
        if !in_namespace && !target.name.is_empty() {
            return Err(ApiError::no_such_resource());
        }
        // Without a list of all namespaces, the path is that of no resource.
        if !in_namespace && !resource.has_verb(Verb::List) {
            return Err(ApiError::no_such_resource());
        }
        if !in_namespace && *method != Method::GET && *method != Method::HEAD {
            return Err(ApiError::method_not_allowed());
        }
    } else if in_namespace {
        return Err(ApiError::no_such_resource());
    }
    // Objects that can only be created, such as reviews, have no path.
    let has_objects = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete].iter().any(|verb| resource.has_verb(*verb));
    if !has_objects && !target.name.is_empty() && target.subresource.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    if target.old_watch && *method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}

/// Rejects requests for an object with a name that no object can have.
pub(super) fn check_name(verb: Verb, name: &str) -> Result<()> {
    let reasons = match verb {
        Verb::Get | Verb::Update | Verb::Patch | Verb::Delete => is_path_segment_name(name),
        _ => Vec::new(),
    };
    if reasons.is_empty() {
        return Ok(());
    }
    Err(ApiError::bad_request(format!("Name parameter invalid: {}: {}", quote(name), reasons.join(";"))))
}

/// Returns whether a non-resource path is served for a method. As in kube-apiserver, the lists
/// of groups and paths are served for all of them, and what go-restful routes is not served for `HEAD`.
pub(super) fn serves_method(path: &str, method: &Method) -> bool {
    let below = path.strip_prefix("/apis/").map(|below| below.trim_end_matches('/'));
    if matches!(path, "/" | "/index.html" | "/apis" | "/openapi/v2" | FLAGS_PATH | STATUS_PATH)
        || below.is_some_and(|group| !group.contains('/'))
    {
        return true;
    }
    let routed = path.starts_with("/api") || path.trim_end_matches('/') == "/version";
    *method == Method::GET || (*method == Method::HEAD && !routed)
}

/// Returns the error for a path that is not served for the method of the request. `unknown` is the error for a path
/// of discovery that is not served at all.
pub(super) fn method_error(path: &str, unknown: impl FnOnce() -> Option<ApiError>) -> ApiError {
    match path.trim_end_matches('/') {
        "/version" | CONFIGURATION_PATH | KEYS_PATH => ApiError::method_not_allowed(),
        path if path.starts_with("/api") => unknown().unwrap_or_else(ApiError::method_not_allowed),
        _ => ApiError::page_not_found(),
    }
}

/// Returns whether a resource can be represented as a Table: if it is stored, or is the status or the scale of one.
pub(super) fn has_tables(endpoint: &Endpoint, subresource: &str) -> bool {
    let resource = &*endpoint.resource;
    match subresource {
        "" => endpoint.custom().is_some() || resource.has_verb(Verb::List),
        "status" => (&*resource.group, &*resource.plural) != ("resource.k8s.io", "resourceclaims"),
        other => other == "scale",
    }
}
