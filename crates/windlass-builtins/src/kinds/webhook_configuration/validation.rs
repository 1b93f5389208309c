//! Validation of webhook configurations.

use std::collections::HashSet;

use serde_json::Value;
use windlass_cel::match_conditions::MatchCondition;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names::{is_dns1035_label, is_dns1123_subdomain};

use crate::kinds::custom_resource_definition::conversion::{webhook_service, webhook_url};
use crate::object::{integer, items, text};
use crate::validate;

const NO_SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun"];
const SIDE_EFFECTS: &[&str] = &["None", "NoneOnDryRun", "Some", "Unknown"];
const REVIEW_VERSIONS: &[&str] = &["v1", "v1beta1"];
const OPERATIONS: &[&str] = &["*", "CONNECT", "CREATE", "DELETE", "UPDATE"];
/// Maximum number of match conditions of a webhook.
const MAX_CONDITIONS: usize = 64;

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
        errors.extend(conditions(items(webhook, "/matchConditions"), &path.child("matchConditions")));
    }
    errors
}

fn one_of(webhook: &Value, field: &str, supported: &[&str], path: &Path) -> Option<FieldError> {
    let value = webhook[field].as_str().filter(|value| !supported.contains(value))?;
    Some(FieldError::not_supported(&path.child(field), &value.into(), supported))
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

fn validate_rule(rule: &Value, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let list = |field: &str, what: &str| {
        let (at, values) = (path.child(field), items(rule, &format!("/{field}")));
        if values.is_empty() {
            return Some(FieldError::required(&at, ""));
        }
        let crowded = values.len() > 1 && values.iter().any(|value| value == "*");
        crowded.then(|| {
            FieldError::invalid(&at, &values.into(), format!("if '*' is present, must not specify other {what}"))
        })
    };
    errors.extend(list("operations", "operations"));
    for (index, operation) in items(rule, "/operations").iter().enumerate() {
        if !operation.as_str().is_some_and(|operation| OPERATIONS.contains(&operation)) {
            let at = path.child("operations").index(index);
            errors.push(FieldError::not_supported(&at, operation, OPERATIONS));
        }
    }
    errors.extend(list("apiGroups", "API groups"));
    errors.extend(list("apiVersions", "API versions"));
    for (index, version) in items(rule, "/apiVersions").iter().enumerate() {
        if version == "" {
            errors.push(FieldError::required(&path.child("apiVersions").index(index), ""));
        }
    }
    errors.extend(resources(items(rule, "/resources"), &path.child("resources")));
    errors.extend(one_of(rule, "scope", &["*", "Cluster", "Namespaced"], path));
    errors
}

fn resources(resources: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if resources.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
    let (mut all_subresources, mut of_all_resources) = (HashSet::new(), HashSet::new());
    let mut plain = false;
    for (index, resource) in resources.iter().enumerate() {
        let (at, resource) = (path.index(index), resource.as_str().unwrap_or_default());
        if resource.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let Some((name, subresource)) = resource.split_once('/') else {
            // Only the last one counts, as in kube-apiserver.
            plain = resource != "*";
            continue;
        };
        let mut taken = |by: String| {
            let detail = format!("if '{by}' is present, must not specify {resource}");
            errors.push(FieldError::invalid(&at, &resource.into(), detail));
        };
        if all_subresources.contains(name) {
            taken(format!("{name}/*"));
        }
        if of_all_resources.contains(subresource) {
            taken(format!("*/{subresource}"));
        }
        if subresource == "*" {
            all_subresources.insert(name);
        }
        if name == "*" {
            of_all_resources.insert(subresource);
        }
    }
    let has = |wanted: &str| resources.iter().any(|resource| resource == wanted);
    if resources.len() > 1 && has("*/*") {
        let detail = "if '*/*' is present, must not specify other resources";
        errors.push(FieldError::invalid(path, &resources.into(), detail));
    }
    if plain && has("*") {
        let detail = "if '*' is present, must not specify other resources without subresources";
        errors.push(FieldError::invalid(path, &resources.into(), detail));
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

fn conditions(conditions: &[Value], path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    if conditions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, conditions.len(), MAX_CONDITIONS));
    }
    let mut names = HashSet::new();
    for (index, condition) in conditions.iter().enumerate() {
        let (at, expression) = (path.index(index), text(condition, "/expression").trim());
        let expression_at = at.child("expression");
        if expression.is_empty() {
            errors.push(FieldError::required(&expression_at, ""));
        } else if let Err(detail) = MatchCondition::compile(expression) {
            errors.push(FieldError::invalid(&expression_at, &expression.into(), detail));
        }
        let (at, name) = (at.child("name"), text(condition, "/name"));
        if name.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        errors.extend(validate::qualified_name(&at, name));
        if !names.insert(name) {
            errors.push(FieldError::duplicate(&at, &name.into()));
        }
    }
    errors
}
