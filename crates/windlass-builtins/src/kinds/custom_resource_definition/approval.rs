//! Protected API groups: CRDs in groups of the Kubernetes community need an annotation that refers to their approval.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path, quote};
use windlass_schema::go_url::parse_request_uri;

use super::conditions::{self, API_APPROVAL, Condition};
use crate::object::{map, text};

/// Annotation with the URL of the approval.
pub(super) const ANNOTATION: &str = "api-approved.kubernetes.io";

/// Returns whether a group belongs to the Kubernetes community.
pub fn is_protected_group(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"].iter().any(|domain| {
        group.strip_suffix(domain).is_some_and(|subdomain| subdomain.is_empty() || subdomain.ends_with('.'))
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Approval {
    Missing,
    Bypassed,
    Approved,
    Invalid,
}

fn annotation(object: &Value) -> &str {
    map(object, "/metadata/annotations").and_then(|all| all.get(ANNOTATION)).and_then(Value::as_str).unwrap_or_default()
}

fn is_absolute(text: &str) -> bool {
    parse_request_uri(text).is_ok_and(|url| !url.scheme.is_empty() && !url.host.is_empty())
}

fn state(object: &Value) -> (Approval, String) {
    let (name, value) = (quote(ANNOTATION), annotation(object));
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if value.is_empty() {
        (Approval::Missing, format!("protected groups must have approval annotation {name}, {see}"))
    } else if value.starts_with("unapproved") {
        (Approval::Bypassed, format!("not approved: {}", quote(value)))
    } else if is_absolute(value) {
        (Approval::Approved, format!("approved in {value}"))
    } else {
        let how = "with either a URL or a reason starting with \"unapproved\"";
        (Approval::Invalid, format!("protected groups must have approval annotation {name} {how}, {see}"))
    }
}

/// Validates the annotation of a CRD in a protected group. An annotation that an update does not change is not
/// validated.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> ErrorList {
    if !is_protected_group(text(object, "/spec/group")) {
        return ErrorList::new();
    }
    let (new, reason) = state(object);
    if old.is_some_and(|old| state(old).0 == new) {
        return ErrorList::new();
    }
    let path = Path::new("metadata").child("annotations").key(ANNOTATION);
    match new {
        Approval::Invalid => vec![FieldError::invalid(&path, &annotation(object).into(), reason)],
        Approval::Missing => vec![FieldError::required(&path, reason)],
        Approval::Approved | Approval::Bypassed => ErrorList::new(),
    }
}

/// Returns the new status of a CRD in a protected group if its approval condition is outdated; `None` if nothing
/// changes.
pub fn api_approval(object: &Value, now: Timestamp) -> Option<Value> {
    if !is_protected_group(text(object, "/spec/group")) {
        return None;
    }
    let (approval, message) = state(object);
    let (status, reason) = match approval {
        Approval::Invalid => ("False", "InvalidAnnotation"),
        Approval::Missing => ("False", "MissingAnnotation"),
        Approval::Approved => ("True", "ApprovedAnnotation"),
        Approval::Bypassed => ("False", "UnapprovedAnnotation"),
    };
    let condition = Condition::new(API_APPROVAL, status, reason, message);
    if condition.says_the_same_as(conditions::find(object, API_APPROVAL)) {
        return None;
    }
    let mut status = conditions::status_of(object);
    conditions::set(&mut status, &condition, now);
    Some(status)
}
