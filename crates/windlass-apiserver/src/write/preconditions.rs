//! Preconditions: an object must be the one that the request addresses, in the state that the client expects.

use std::borrow::Cow;

use serde_json::Value;
use windlass_schema::field::{ErrorKind, FieldError};

use crate::{
    call::Call,
    custom::Custom,
    endpoint::Endpoint,
    meta,
    options::parse_resource_version,
    status::{ApiError, Result},
    storage::StoredObject,
};

/// Checks that the object's name is the one in the path.
pub(crate) fn match_name(call: &Call<'_>, object: &Value) -> Result<()> {
    let name = meta::text(object, "name");
    if name.is_empty() {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({} based on URL) was undeterminable: name must be provided",
            call.target.name
        )));
    }
    if name != call.target.name {
        return Err(ApiError::bad_request(format!(
            "the name of the object ({name}) does not match the name on the URL ({})",
            call.target.name
        )));
    }
    Ok(())
}

/// Checks that the object's namespace is the one in the path; sets it if the object has none.
pub(crate) fn match_namespace(call: &Call<'_>, object: &mut Value) -> Result<()> {
    let wanted = if call.endpoint.resource.namespaced { call.target.namespace } else { "" };
    let namespace = meta::text(object, "namespace");
    if namespace == wanted {
        return Ok(());
    }
    if wanted.is_empty() || namespace.is_empty() {
        if wanted.is_empty() {
            meta::metadata_mut(object).remove("namespace");
        } else {
            meta::set(object, "namespace", wanted);
        }
        return Ok(());
    }
    let message = "the namespace of the provided object does not match the namespace sent on the request";
    Err(ApiError::bad_request(message))
}

/// Rejects new objects of a CustomResourceDefinition that is being deleted.
pub(super) fn check_not_terminating(call: &Call<'_>, object: &Value) -> Result<()> {
    if !call.endpoint.custom().is_some_and(Custom::is_terminating) {
        return Ok(());
    }
    let resource = &*call.endpoint.resource;
    let why = "create not allowed while custom resource definition is terminating";
    Err(ApiError::forbidden(&resource.plural, &resource.group, meta::text(object, "name"), why))
}

/// Checks that a new object has no resource version. kube-apiserver does this where it stores objects, so it does not
/// for a dry run, and ignores versions that are not numbers.
pub(super) fn check_unversioned(object: &Value) -> Result<()> {
    match parse_resource_version(meta::text(object, "resourceVersion")) {
        Ok(version) if version != 0 => {
            Err(ApiError::unexpected("resourceVersion should not be set on objects to be created"))
        }
        _ => Ok(()),
    }
}

/// Checks that the uid of the desired object, if it has one, is that of the existing object.
pub(crate) fn check_uid(call: &Call<'_>, desired: &Value, old: &Value) -> Result<()> {
    check_precondition(call, "uid", "UID", desired, old)
}

/// Checks that the uid and the resource version that a request states, if it does, are those of the stored object.
pub(crate) fn check_preconditions(call: &Call<'_>, stated: &Value, old: &Value) -> Result<()> {
    check_uid(call, stated, old)?;
    check_precondition(call, "resourceVersion", "ResourceVersion", stated, old)
}

fn check_precondition(call: &Call<'_>, field: &str, label: &str, stated: &Value, old: &Value) -> Result<()> {
    let resource = &*call.endpoint.resource;
    let (wanted, have) = (meta::text(stated, field), meta::text(old, field));
    if wanted.is_empty() || wanted == have {
        return Ok(());
    }
    let why = format!(
        "StorageError: invalid object, Code: 4, Key: /registry/{}/{}, ResourceVersion: 0, AdditionalErrorMsg: \
         Precondition failed: {label} in precondition: {wanted}, {label} in object meta: {have}",
        folder(call.endpoint),
        call.key()
    );
    Err(ApiError::conflict(&resource.plural, &resource.group, call.target.name, &why))
}

/// Returns where kube-apiserver stores the objects of a resource.
fn folder(endpoint: &Endpoint) -> Cow<'static, str> {
    let (group, plural) = (&*endpoint.resource.group, &*endpoint.resource.plural);
    match (group, plural) {
        ("", "replicationcontrollers") => "controllers".into(),
        ("", "endpoints") => "services/endpoints".into(),
        ("", "nodes") => "minions".into(),
        ("", "services") => "services/specs".into(),
        ("networking.k8s.io", "ingresses") => "ingress".into(),
        ("apiextensions.k8s.io" | "apiregistration.k8s.io", _) => format!("{group}/{plural}").into(),
        _ if endpoint.custom().is_some() => format!("{group}/{plural}").into(),
        _ => plural.to_owned().into(),
    }
}

/// Checks that the resource version of the desired object, if it has one, is the current one.
pub(super) fn check_resource_version(call: &Call<'_>, desired: &Value, current: &StoredObject) -> Result<()> {
    let resource = &*call.endpoint.resource;
    let name = call.target.name;
    let version = meta::text(desired, "resourceVersion");
    if matches!(version, "" | "0") {
        if call.endpoint.facts.allows_unconditional_update {
            return Ok(());
        }
        let error = FieldError {
            kind: ErrorKind::Invalid,
            field: "metadata.resourceVersion".to_owned(),
            value: Some("0".to_owned()),
            detail: "must be specified for an update".to_owned(),
        };
        return Err(ApiError::invalid(&resource.plural, &resource.group, name, &vec![error]));
    }
    let version = parse_resource_version(version).map_err(|error| ApiError::unexpected(error.detail))?;
    if version != current.revision.0 {
        return Err(call.modified(name));
    }
    Ok(())
}
