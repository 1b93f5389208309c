//! Claims for devices: the part that ResourceClaims and their templates share, and the notation of devices that all
//! kinds of dynamic resource allocation share.

mod configuration;
mod names;
mod request;
mod shown;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

pub(super) use self::configuration::{validate_configuration, validate_raw};
pub(super) use self::names::{driver_name, fully_qualified_name, label_value, pool_name, qualified_name, unique_id};
pub(super) use self::request::{EFFECTS, validate_selectors};
pub(super) use self::shown::{ALLOCATION, ATTRIBUTE, CLAIM_SPEC};
use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, items, list_mut, set, set_default_text, text};

/// The number of requests of a claim, and of results of an allocation.
pub(super) const REQUESTS: usize = 32;
const CONSTRAINTS: usize = 32;
/// The number of configurations of a claim or a class.
pub(super) const CONFIGURATIONS: usize = 32;

/// Sets the defaults of the requests in the spec of a claim.
pub(super) fn default(spec: &mut Value) {
    let Some(devices) = spec.get_mut("devices") else { return };
    for request in list_mut(devices, "requests") {
        if is_set(request, "/exactly")
            && let Some(exactly) = request.get_mut("exactly")
        {
            default_request(exactly);
        }
        list_mut(request, "firstAvailable").iter_mut().for_each(default_request);
    }
}

fn default_request(request: &mut Value) {
    set_default_text(request, "/allocationMode", "ExactCount");
    if text(request, "/allocationMode") == "ExactCount" && integer(request, "/count").unwrap_or_default() == 0 {
        set(request, "/count", 1);
    }
    for toleration in list_mut(request, "tolerations") {
        set_default_text(toleration, "/operator", "Equal");
    }
}

/// Validates the spec of a claim.
pub(super) fn validate(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let path = path.child("devices");
    let requests = items(spec, "/devices/requests");
    let names = RequestNames(requests);
    let name = |request: &Value| text(request, "/name").to_owned();
    validate_set(requests, REQUESTS, name, &path.child("requests"), errors, request::validate);
    let constraints = items(spec, "/devices/constraints");
    validate_list(constraints, CONSTRAINTS, &path.child("constraints"), errors, |constraint, path, errors| {
        validate_constraint(constraint, names, path, errors);
    });
    let configurations = items(spec, "/devices/config");
    validate_list(configurations, CONFIGURATIONS, &path.child("config"), errors, |config, path, errors| {
        names.validate_all(items(config, "/requests"), &path.child("requests"), errors);
        validate_configuration(config, false, path, errors);
    });
}

fn validate_constraint(constraint: &Value, names: RequestNames<'_>, path: &Path, errors: &mut ErrorList) {
    names.validate_all(items(constraint, "/requests"), &path.child("requests"), errors);
    let attribute = ["matchAttribute", "distinctAttribute"]
        .into_iter()
        .find_map(|field| Some((field, constraint.get(field)?.as_str()?)));
    match attribute {
        Some((field, name)) => fully_qualified_name(&path.child(field), name, errors),
        None => errors.required_because(
            path,
            "exactly one of \"matchAttribute\" or \"distinctAttribute\" is required, but multiple fields are set",
        ),
    }
}

/// The names of the requests of a claim.
#[derive(Debug, Clone, Copy)]
pub(super) struct RequestNames<'a>(pub(super) &'a [Value]);

impl RequestNames<'_> {
    /// Checks that each item names a request: `request`, or `request/subrequest`.
    pub(super) fn validate_all(self, references: &[Value], path: &Path, errors: &mut ErrorList) {
        let name = |reference: &Value| reference.as_str().unwrap_or_default().to_owned();
        validate_set(references, REQUESTS, name, path, errors, |reference, path, errors| {
            self.validate(reference.as_str().unwrap_or_default(), path, errors);
        });
    }

    /// Checks that the item names a request.
    pub(super) fn validate(self, reference: &str, path: &Path, errors: &mut ErrorList) {
        let detail = "must be the name of a request in the claim or the name of a request and a subrequest separated by \
                      '/'";
        let segments: Vec<&str> = reference.split('/').collect();
        if segments.len() > 2 {
            return errors.invalid(path, reference, detail);
        }
        segments.iter().for_each(|segment| errors.dns_label(path, segment));
        let request = self.0.iter().find(|request| text(request, "/name") == segments[0]);
        let is_known = request.is_some_and(|request| match segments.get(1) {
            None => true,
            Some(sub) => items(request, "/firstAvailable").iter().any(|have| text(have, "/name") == *sub),
        });
        if !is_known {
            errors.invalid(path, reference, detail);
        }
    }
}

/// Validates the items of a list; a list that is too long is one error.
pub(super) fn validate_list(
    list: &[Value],
    max: usize,
    path: &Path,
    errors: &mut ErrorList,
    mut validate: impl FnMut(&Value, &Path, &mut ErrorList),
) {
    if list.len() > max {
        return errors.push(FieldError::too_many(path, list.len(), max));
    }
    for (index, item) in list.iter().enumerate() {
        validate(item, &path.index(index), errors);
    }
}

/// Validates the items of a list without duplicates.
pub(super) fn validate_set(
    list: &[Value],
    max: usize,
    key: impl Fn(&Value) -> String,
    path: &Path,
    errors: &mut ErrorList,
    validate: impl FnMut(&Value, &Path, &mut ErrorList),
) {
    validate_list(list, max, path, errors, validate);
    if list.len() > max {
        return;
    }
    let mut seen = std::collections::BTreeSet::new();
    for (index, item) in list.iter().enumerate() {
        let key = key(item);
        if seen.contains(&key) {
            errors.duplicate(&path.index(index), &key);
        }
        seen.insert(key);
    }
}
