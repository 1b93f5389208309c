//! Validation of AuthorizationConfigurations.

use std::{collections::HashSet, fs, path::Path as FilePath};

use serde_json::json;
use windlass_cel::review_conditions::ReviewCondition;
use windlass_schema::{
    field::{ErrorList, FieldError, Path},
    names,
    time::format_duration,
};

use super::file::{Authorizer, Webhook};

const TYPES: [&str; 6] = ["ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"];
/// Maximum timeout of a webhook, in nanoseconds.
const LONGEST: i64 = 30_000_000_000;
const MAX_CONDITIONS: usize = 64;

/// Returns the errors of a configuration.
pub(super) fn validate(authorizers: &[Authorizer]) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("authorizers");
    if authorizers.is_empty() {
        errors.push(FieldError::required(&path, "at least one authorization mode must be defined"));
    }
    let (mut types, mut names) = (HashSet::new(), HashSet::new());
    for (index, authorizer) in authorizers.iter().enumerate() {
        let path = path.index(index);
        let kind = authorizer.kind.as_str();
        let type_path = path.child("type");
        if kind.is_empty() {
            errors.push(FieldError::required(&type_path, ""));
            continue;
        }
        if !TYPES.contains(&kind) {
            errors.push(FieldError::not_supported(&type_path, &json!(kind), &TYPES));
            continue;
        }
        if !types.insert(kind) && kind != "Webhook" {
            errors.push(FieldError::duplicate(&type_path, &json!(kind)));
            continue;
        }
        errors.extend(name_error(&authorizer.name, &path.child("name"), names.contains(authorizer.name.as_str())));
        names.insert(authorizer.name.as_str());
        match (&authorizer.webhook, kind) {
            (Some(webhook), "Webhook") => validate_webhook(webhook, &path, &mut errors),
            (None, "Webhook") => {
                errors.push(FieldError::required(&path.child("webhook"), "required when type=Webhook"))
            }
            (Some(_), _) => errors.push(FieldError::invalid(
                &path.child("webhook"),
                &json!("non-null"),
                "may only be specified when type=Webhook",
            )),
            (None, _) => {}
        }
    }
    errors
}

fn name_error(name: &str, path: &Path, is_known: bool) -> Option<FieldError> {
    if name.is_empty() {
        return Some(FieldError::required(path, ""));
    }
    if is_known {
        return Some(FieldError::duplicate(path, &json!(name)));
    }
    let wrong = names::is_dns1123_subdomain(name);
    let detail = || format!("authorizer name is invalid: {}", wrong.join(", "));
    (!wrong.is_empty()).then(|| FieldError::invalid(path, &json!(name), detail()))
}

fn validate_webhook(webhook: &Webhook, path: &Path, errors: &mut ErrorList) {
    let durations = [
        ("timeout", webhook.timeout, LONGEST, "must be > 0s and <= 30s"),
        ("authorizedTTL", webhook.authorized_ttl, i64::MAX, "must be > 0s"),
        ("unauthorizedTTL", webhook.unauthorized_ttl, i64::MAX, "must be > 0s"),
    ];
    for (field, value, longest, detail) in durations {
        let path = path.child(field);
        match value {
            0 => errors.push(FieldError::required(&path, "")),
            value if value < 0 || value > longest => {
                errors.push(FieldError::invalid(&path, &json!(format_duration(value)), detail));
            }
            _ => {}
        }
    }
    one_of(path, "subjectAccessReviewVersion", &webhook.version, &["v1", "v1beta1"], errors);
    if webhook.condition_version.is_empty() {
        if !webhook.conditions.is_empty() {
            let path = path.child("matchConditionSubjectAccessReviewVersion");
            errors.push(FieldError::required(&path, "required if match conditions are specified"));
        }
    } else {
        one_of(path, "matchConditionSubjectAccessReviewVersion", &webhook.condition_version, &["v1"], errors);
    }
    one_of(path, "failurePolicy", &webhook.failure_policy, &["NoOpinion", "Deny"], errors);
    errors.extend(connection_error(webhook, &path.child("connectionInfo")));
    validate_conditions(&webhook.conditions, &path.child("matchConditions"), errors);
}

fn one_of(path: &Path, field: &str, value: &str, known: &[&str], errors: &mut ErrorList) {
    if value.is_empty() {
        errors.push(FieldError::required(&path.child(field), ""));
    } else if !known.contains(&value) {
        errors.push(FieldError::not_supported(&path.child(field), &json!(value), known));
    }
}

fn connection_error(webhook: &Webhook, path: &Path) -> Option<FieldError> {
    let file_path = path.child("kubeConfigFile");
    let file = webhook.kubeconfig.as_deref();
    let invalid = |file: &str, why: String| Some(FieldError::invalid(&file_path, &json!(file), why));
    match (webhook.connection.as_str(), file) {
        ("", _) => Some(FieldError::required(&path.child("type"), "")),
        ("InClusterConfig", Some(file)) => invalid(file, "can only be set when type=KubeConfigFile".to_owned()),
        ("InClusterConfig", None) => None,
        ("KubeConfigFile", None | Some("")) => Some(FieldError::required(&file_path, "")),
        ("KubeConfigFile", Some(file)) if !FilePath::new(file).is_absolute() => {
            invalid(file, "must be an absolute path".to_owned())
        }
        ("KubeConfigFile", Some(file)) => match fs::metadata(file) {
            Ok(found) if found.is_file() => None,
            Ok(_) => invalid(file, "must be a regular file".to_owned()),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                invalid(file, format!("error loading file: stat {file}: no such file or directory"))
            }
            Err(error) => invalid(file, format!("error loading file: stat {file}: {error}")),
        },
        (other, _) => {
            let known = ["InClusterConfig", "KubeConfigFile"];
            Some(FieldError::not_supported(&path.child("type"), &json!(other), &known))
        }
    }
}

fn validate_conditions(conditions: &[String], path: &Path, errors: &mut ErrorList) {
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
        return;
    }
    let mut seen = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let path = path.index(index).child("expression");
        if condition.trim().is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if !seen.insert(condition) {
            errors.push(FieldError::duplicate(&path, &json!(condition)));
        } else if let Err(why) = ReviewCondition::compile(condition) {
            errors.push(FieldError::invalid(&path, &json!(condition), why));
        }
    }
}
