//! Validation of webhook configurations.

use std::collections::HashSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names::{is_dns1035_label, is_dns1123_subdomain};

use crate::kinds::admission_rule::{conditions, one_of, validate_rule};
use crate::kinds::custom_resource_definition::conversion::{webhook_service, webhook_url};
use crate::object::{integer, items, text};
use crate::validate;

const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];

/// Rules that an update may violate because the old object does.
#[derive(Debug)]
pub(super) struct Rules {
    conditions: bool,
    side_effects: &'static [&'static str],
    known_review_version: bool,
    unique_names: bool,
    any_label_value: bool,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            conditions: true,
            side_effects: NO_SIDE_EFFECTS,
            known_review_version: true,
            unique_names: true,
            any_label_value: false,
        }
    }
}

impl Rules {
    pub(super) fn of_update(new: &[Value], old: &[Value]) -> Self {
        let none = |hook: &Value| NO_SIDE_EFFECTS.contains(&text(hook, "/sideEffects"));
        let known = |hook: &Value| {
            let versions = items(hook, "/admissionReviewVersions");
            versions.is_empty() || versions.iter().any(is_review_version)
        };
        let mut names = HashSet::new();
        let selectors_fit = |hook: &Value| selector_errors(hook, false, &Path::root()).is_empty();
        let same_conditions = |(new, old): (&Value, &Value)| new["matchConditions"] == old["matchConditions"];
        Self {
            conditions: new.len() != old.len() || !new.iter().zip(old).all(same_conditions),
            side_effects: if old.iter().all(none) { NO_SIDE_EFFECTS } else { SIDE_EFFECTS },
            known_review_version: old.iter().all(known),
            unique_names: old.iter().all(|hook| names.insert(text(hook, "/name"))),
            any_label_value: !old.iter().all(selectors_fit),
        }
    }
}

/// Validates the webhooks of a configuration.
pub(super) fn validate(webhooks: &[Value], mutating: bool, rules: &Rules) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut names = HashSet::new();
    for (index, webhook) in webhooks.iter().enumerate() {
        let path = Path::new("webhooks").index(index);
        errors.extend(validate_webhook(webhook, mutating, rules, &path));
        let versions = items(webhook, "/admissionReviewVersions");
        errors.extend(review_versions(versions, rules, &path.child("admissionReviewVersions")));
        let name = text(webhook, "/name");
        if rules.unique_names && !name.is_empty() && !names.insert(name) {
            errors.push(FieldError::duplicate(&path.child("name"), &name.into()));
        }
    }
    errors
}

fn validate_webhook(webhook: &Value, mutating: bool, rules: &Rules, path: &Path) -> ErrorList {
    let mut errors = fully_qualified_name(text(webhook, "/name"), &path.child("name"));
    for (index, rule) in items(webhook, "/rules").iter().enumerate() {
        errors.extend(validate_rule(rule, &path.child("rules").index(index)));
    }
    errors.extend(one_of(webhook, "failurePolicy", &["Fail", "Ignore"], path));
    errors.extend(one_of(webhook, "matchPolicy", &["Equivalent", "Exact"], path));
    if webhook["sideEffects"].is_null() {
        let detail = format!("must specify one of {}", rules.side_effects.join(", "));
        errors.push(FieldError::required(&path.child("sideEffects"), detail));
    }
    errors.extend(one_of(webhook, "sideEffects", rules.side_effects, path));
    if let Some(seconds) = integer(webhook, "/timeoutSeconds").filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), &seconds.into(), detail));
    }
    errors.extend(selector_errors(webhook, rules.any_label_value, path));
    if mutating {
        errors.extend(one_of(webhook, "reinvocationPolicy", &["IfNeeded", "Never"], path));
    }
    errors.extend(client_config(&webhook["clientConfig"], &path.child("clientConfig")));
    if rules.conditions {
        errors.extend(conditions(items(webhook, "/matchConditions"), false, &path.child("matchConditions")));
    }
    errors
}

fn selector_errors(webhook: &Value, any_label_value: bool, path: &Path) -> ErrorList {
    let options = LabelSelectorOptions { allow_invalid_values: any_label_value, ..LabelSelectorOptions::default() };
    let errors = |field: &str| validate_label_selector(webhook.get(field), options, &path.child(field));
    let mut all = errors("namespaceSelector");
    all.extend(errors("objectSelector"));
    all
}

/// Validates a domain name of at least three parts.
fn fully_qualified_name(name: &str, path: &Path) -> ErrorList {
    if name.is_empty() {
        return vec![FieldError::required(path, "")];
    }
    let messages = is_dns1123_subdomain(name);
    if !messages.is_empty() {
        return vec![FieldError::invalid(path, &name.into(), messages.join(","))];
    }
    if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        return vec![FieldError::invalid(path, &name.into(), detail)];
    }
    ErrorList::new()
}

fn is_review_version(version: &Value) -> bool {
    version.as_str().is_some_and(|version| REVIEW_VERSIONS.contains(&version))
}

fn review_versions(versions: &[Value], rules: &Rules, path: &Path) -> ErrorList {
    let accepted = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        return vec![FieldError::required(path, format!("must specify one of {accepted}"))];
    }
    let mut errors = ErrorList::new();
    for (index, version) in versions.iter().enumerate() {
        let at = path.index(index);
        if versions[..index].contains(version) {
            errors.push(FieldError::invalid(&at, version, "duplicate version"));
            continue;
        }
        let version = version.as_str().unwrap_or_default();
        errors.extend(validate::each(&at, version, is_dns1035_label(version)));
    }
    if rules.known_review_version && !versions.iter().any(is_review_version) {
        errors.push(FieldError::invalid(path, &versions.into(), format!("must include at least one of {accepted}")));
    }
    errors
}

fn client_config(config: &Value, path: &Path) -> ErrorList {
    match (config["url"].as_str(), config["service"].is_object()) {
        (None, false) | (Some(_), true) => {
            vec![FieldError::required(path, "exactly one of url or service is required")]
        }
        (Some(url), false) => webhook_url(url, &path.child("url")),
        (None, true) => webhook_service(&config["service"], &path.child("service")),
    }
}
