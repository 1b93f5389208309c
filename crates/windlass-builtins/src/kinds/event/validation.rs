//! Validation of events in their core form.

use jiff::{Timestamp, Unit};
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::object::{copy, integer, is_set, text};
use crate::validate;

/// Maximum length of the reporting instance, the action and the reason, in bytes.
const SHORT: usize = 128;
/// Maximum length of the message, in bytes.
const LONG: usize = 1024;

/// Validates the rules of both APIs. `controller` is the name of the reporting controller field in the requested API.
pub(super) fn legacy(event: &Value, controller: &str) -> ErrorList {
    let namespace = text(event, "/metadata/namespace");
    let involved = text(event, "/involvedObject/namespace");
    let mut errors = ErrorList::new();
    let has_time = is_set(event, "/eventTime");
    let mismatch = match (has_time, involved) {
        (false, "") => !matches!(namespace, "" | "default"),
        (false, involved) => involved != namespace,
        (true, "") => !matches!(namespace, "default" | "kube-system"),
        (true, _) => false,
    };
    if mismatch {
        let path = Path::new("involvedObject").child("namespace");
        errors.push(FieldError::invalid(&path, &involved.into(), "does not match event.namespace"));
    }
    if has_time {
        let controller = Path::new(controller);
        let reporter = text(event, "/reportingComponent");
        if reporter.is_empty() {
            errors.push(FieldError::required(&controller, ""));
        }
        errors.extend(validate::qualified_name(&controller, reporter));
        for field in ["reportingInstance", "action", "reason"] {
            let path = Path::new(field);
            let value = text(event, &format!("/{field}"));
            if value.is_empty() {
                errors.push(FieldError::required(&path, ""));
            }
            errors.extend(too_long(&path, value, SHORT));
        }
        errors.extend(too_long(&Path::new("message"), text(event, "/message"), LONG));
    }
    errors.extend(validate::dns_subdomain(&Path::new("namespace"), namespace));
    errors
}

/// Validates the additional rules of a create through events.k8s.io.
pub(super) fn strict(event: &Value) -> ErrorList {
    let mut errors = series(event);
    if !is_set(event, "/eventTime") {
        errors.push(FieldError::required(&Path::new("eventTime"), ""));
    }
    let kind = text(event, "/type");
    if kind != "Normal" && kind != "Warning" {
        errors.push(unshown("type", format!("has invalid value: {kind}")));
    }
    for field in ["firstTimestamp", "lastTimestamp"] {
        if is_set(event, &format!("/{field}")) {
            errors.push(unshown(field, "needs to be unset"));
        }
    }
    if integer(event, "/count").unwrap_or_default() != 0 {
        errors.push(unshown("count", "needs to be unset"));
    }
    if ["/source/component", "/source/host"].iter().any(|field| !text(event, field).is_empty()) {
        errors.push(unshown("source", "needs to be unset"));
    }
    errors
}

/// Validates an update through events.k8s.io, which may change only the series.
pub(super) fn strict_update(event: &Value, old: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if copy(event, "/series") != copy(old, "/series") {
        errors.extend(series(event));
    }
    // kube-apiserver checks the reason twice.
    let fields =
        ["involvedObject", "reason", "message", "source", "firstTimestamp", "lastTimestamp", "count", "reason", "type"];
    for field in fields {
        errors.extend(unchangeable(event, old, field, field));
    }
    let moment =
        |event| text(event, "/eventTime").parse::<Timestamp>().ok().and_then(|time| time.round(Unit::Microsecond).ok());
    if moment(event) != moment(old) {
        errors.extend(unchangeable(event, old, "eventTime", "eventTime"));
    }
    for (field, shown) in [
        ("action", "action"),
        ("related", "related"),
        ("reportingComponent", "reportingController"),
        ("reportingInstance", "reportingInstance"),
    ] {
        errors.extend(unchangeable(event, old, field, shown));
    }
    errors
}

fn series(event: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    if is_set(event, "/series") {
        if integer(event, "/series/count").unwrap_or_default() < 2 {
            errors.push(unshown("series.count", "should be at least 2"));
        }
        if !is_set(event, "/series/lastObservedTime") {
            errors.push(FieldError::required(&Path::new("series.lastObservedTime"), ""));
        }
    }
    errors
}

/// Requires an unchanged field; absent strings and numbers are equal to empty ones.
fn unchangeable(event: &Value, old: &Value, field: &str, shown: &str) -> Option<FieldError> {
    let read = |event: &Value| match (field, copy(event, &format!("/{field}"))) {
        ("count", Value::Null) => 0.into(),
        ("involvedObject" | "source", Value::Null) => Value::Object(Default::default()),
        ("firstTimestamp" | "lastTimestamp" | "eventTime" | "related", Value::Null) => Value::Null,
        (_, Value::Null) => "".into(),
        (_, value) => value,
    };
    let (new, old) = (read(event), read(old));
    if new == old {
        return None;
    }
    let mut error = FieldError::invalid(&Path::new(shown), &new, "field is immutable");
    if matches!(field, "involvedObject" | "source" | "related") {
        error.value = Some(go_struct(field, &new));
    }
    Some(error)
}

/// Formats a value as kube-apiserver prints its internal structs: with Go field names, including empty fields.
fn go_struct(field: &str, value: &Value) -> String {
    let names: &[(&str, &str)] = match field {
        "source" => &[("Component", "/component"), ("Host", "/host")],
        _ if value.is_null() => return "null".to_owned(),
        _ => &[
            ("Kind", "/kind"),
            ("Namespace", "/namespace"),
            ("Name", "/name"),
            ("UID", "/uid"),
            ("APIVersion", "/apiVersion"),
            ("ResourceVersion", "/resourceVersion"),
            ("FieldPath", "/fieldPath"),
        ],
    };
    let fields: Vec<_> =
        names.iter().map(|(name, pointer)| format!("\"{name}\":{}", Value::from(text(value, pointer)))).collect();
    format!("{{{}}}", fields.join(","))
}

fn too_long(path: &Path, value: &str, limit: usize) -> Option<FieldError> {
    (value.len() > limit).then(|| FieldError::invalid(path, &"".into(), format!("can have at most {limit} characters")))
}

/// Returns an error that shows an empty string as the value, as kube-apiserver does here.
fn unshown(field: &str, detail: impl Into<String>) -> FieldError {
    FieldError::invalid(&Path::new(field), &"".into(), detail)
}
