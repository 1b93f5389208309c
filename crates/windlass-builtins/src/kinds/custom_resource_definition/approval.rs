//! The groups of the Kubernetes community, in which definitions say where they were approved.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path, quote};
use windlass_schema::go_url::parse_request_uri;

use super::conditions::{self, API_APPROVAL, Condition};
use crate::object::{map, text};

/// The annotation with the URL of the approval.
pub(super) const ANNOTATION: &str = "api-approved.kubernetes.io";

/// Whether a group belongs to the Kubernetes community.
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

/// What is wrong with the annotation of a definition in a protected group. What an update does not change is not
/// looked at.
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

/// The new status of a definition in a protected group whose approval is not what its condition says; `None` if
/// nothing changes.
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
