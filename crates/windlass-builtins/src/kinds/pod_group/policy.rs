//! Validation that PodGroups and the templates of Workloads share.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::{is_dns1123_label, is_dns1123_subdomain};

use crate::field_errors::FieldErrors;
use crate::object::{integer, is_set, remove};

/// Removes the fields of features that are off.
pub(in crate::kinds) fn drop_disabled(spec: &mut Value) {
    for field in ["/schedulingConstraints", "/resourceClaims", "/priorityClassName", "/priority"] {
        remove(spec, field);
    }
}

/// Requires exactly one policy.
pub(in crate::kinds) fn validate_policy(policy: &Value, path: &Path, errors: &mut ErrorList) {
    union(policy, &["basic", "gang"], path, errors);
    if is_set(policy, "/gang") {
        let path = path.child("gang").child("minCount");
        match integer(policy, "/gang/minCount").unwrap_or_default() {
            0 => errors.required(&path),
            count if count < 1 => errors.invalid(&path, count, "must be greater than or equal to 1"),
            _ => {}
        }
    }
}

/// Requires exactly one of several fields.
pub(super) fn union(value: &Value, fields: &[&str], path: &Path, errors: &mut ErrorList) {
    let given: Vec<&str> = fields.iter().copied().filter(|field| is_set(value, &format!("/{field}"))).collect();
    let all = fields.iter().map(|field| format!("`{field}`")).collect::<Vec<_>>().join(", ");
    match given.len() {
        0 => errors.invalid(path, "", format!("must specify one of: {all}")),
        1 => {}
        _ => {
            let given = format!("{{{}}}", given.join(", "));
            errors.invalid(path, given, format!("must specify exactly one of: {all}"));
        }
    }
}

/// Requires a DNS label.
pub(in crate::kinds) fn short_name(path: &Path, name: &str, errors: &mut ErrorList) {
    match name {
        "" => errors.required(path),
        name => errors.invalid_each(path, name, is_dns1123_label(name)),
    }
}

/// Requires a DNS subdomain.
pub(super) fn long_name(path: &Path, name: &str, errors: &mut ErrorList) {
    match name {
        "" => errors.required(path),
        name => errors.invalid_each(path, name, is_dns1123_subdomain(name)),
    }
}
