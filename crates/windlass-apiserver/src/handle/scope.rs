//! Whether a path addresses a resource in the scope that it has, and which resources can be shown as Tables.

use http::Method;

use crate::{
    registry::Endpoint,
    request_info::ResourceRequest,
    status::{ApiError, Result},
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
        if !in_namespace && !resource.has_verb("list") {
            return Err(ApiError::no_such_resource());
        }
        if !in_namespace && *method != Method::GET && *method != Method::HEAD {
            return Err(ApiError::method_not_allowed());
        }
    } else if in_namespace {
        return Err(ApiError::no_such_resource());
    }
    // Objects that can only be created, such as reviews, have no path.
    let has_objects = ["get", "update", "patch", "delete"].iter().any(|verb| resource.has_verb(verb));
    if !has_objects && !target.name.is_empty() && target.subresource.is_empty() {
        return Err(ApiError::no_such_resource());
    }
    if target.old_watch && *method != Method::GET {
        return Err(ApiError::method_not_allowed());
    }
    Ok(())
}

/// Returns whether a resource can be represented as a Table: if it is stored, or is the status or the scale of one.
pub(super) fn has_tables(endpoint: &Endpoint, subresource: &str) -> bool {
    let resource = &*endpoint.resource;
    match subresource {
        "" => endpoint.custom().is_some() || resource.verbs.iter().any(|verb| **verb == *"list"),
        "status" => (&*resource.group, &*resource.plural) != ("resource.k8s.io", "resourceclaims"),
        other => other == "scale",
    }
}
