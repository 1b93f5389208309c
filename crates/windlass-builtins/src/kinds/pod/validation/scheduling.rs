//! Validation of affinity, tolerations, topology spread constraints and scheduling gates.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::{names, sorting::Gather as _};

use crate::field_errors::FieldErrors;
use crate::kinds::label_selector;
use crate::object::{entries, integer, is_set, items, text};

const REQUIRED: &str = "requiredDuringSchedulingIgnoredDuringExecution";
const PREFERRED: &str = "preferredDuringSchedulingIgnoredDuringExecution";

/// Validates the affinity of a spec.
pub(super) fn validate_affinity(spec: &Value, path: &Path, errors: &mut ErrorList) {
    if let Some(affinity) = spec.pointer("/affinity/nodeAffinity").filter(|affinity| !affinity.is_null()) {
        validate_node_affinity(affinity, &path.child("nodeAffinity"), errors);
    }
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer(&format!("/affinity/{kind}")) else { continue };
        let path = path.child(kind);
        for (index, term) in items(affinity, &format!("/{REQUIRED}")).iter().enumerate() {
            validate_pod_term(term, &path.child(REQUIRED).index(index), errors);
        }
        for (index, term) in items(affinity, &format!("/{PREFERRED}")).iter().enumerate() {
            let at = path.child(PREFERRED).index(index);
            validate_weight(term, &at, errors);
            let inner = term.get("podAffinityTerm").unwrap_or(&Value::Null);
            validate_pod_term(inner, &at.child("podAffinityTerm"), errors);
        }
    }
}

fn validate_weight(term: &Value, path: &Path, errors: &mut ErrorList) {
    let weight = integer(term, "/weight").unwrap_or_default();
    if !(1..=100).contains(&weight) {
        errors.invalid(&path.child("weight"), weight, "must be in the range 1-100");
    }
}

fn validate_node_affinity(affinity: &Value, path: &Path, errors: &mut ErrorList) {
    if let Some(required) = affinity.get(REQUIRED).filter(|required| !required.is_null()) {
        validate_node_selector(required, true, &path.child(REQUIRED), errors);
    }
    for (index, term) in items(affinity, &format!("/{PREFERRED}")).iter().enumerate() {
        let at = path.child(PREFERRED).index(index);
        validate_weight(term, &at, errors);
        validate_node_term(term.get("preference").unwrap_or(&Value::Null), false, &at.child("preference"), errors);
    }
}

/// Validates a node selector; invalid label values are only rejected if `strict`.
pub(crate) fn validate_node_selector(selector: &Value, strict: bool, path: &Path, errors: &mut ErrorList) {
    let path = path.child("nodeSelectorTerms");
    let terms = items(selector, "/nodeSelectorTerms");
    if terms.is_empty() {
        errors.required_because(&path, "must have at least one node selector term");
    }
    for (index, term) in terms.iter().enumerate() {
        validate_node_term(term, strict, &path.index(index), errors);
    }
}

/// Validates a node selector term. Invalid label values are only rejected in required terms.
fn validate_node_term(term: &Value, is_required: bool, path: &Path, errors: &mut ErrorList) {
    for (index, requirement) in items(term, "/matchExpressions").iter().enumerate() {
        let at = path.child("matchExpressions").index(index);
        let values = items(requirement, "/values");
        let values_at = at.child("values");
        match text(requirement, "/operator") {
            "In" | "NotIn" => {
                if values.is_empty() {
                    let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                    errors.required_because(&values_at, detail);
                }
            }
            "Exists" | "DoesNotExist" => {
                if !values.is_empty() {
                    let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                    errors.forbidden(&values_at, detail);
                }
            }
            "Gt" | "Lt" => {
                if values.len() != 1 {
                    let detail = "must be specified single value when `operator` is 'Lt' or 'Gt'";
                    errors.required_because(&values_at, detail);
                }
            }
            other => errors.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
        errors.qualified_name(&at.child("key"), text(requirement, "/key"));
        if is_required {
            for (value_index, value) in values.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                errors.invalid_each(&values_at.index(value_index), value, names::is_valid_label_value(value));
            }
        }
    }
    for (index, requirement) in items(term, "/matchFields").iter().enumerate() {
        let at = path.child("matchFields").index(index);
        let values = items(requirement, "/values");
        match text(requirement, "/operator") {
            "In" | "NotIn" => {
                if values.len() != 1 {
                    let detail = "must be only one value when `operator` is 'In' or 'NotIn' for node field selector";
                    errors.required_because(&at.child("values"), detail);
                }
            }
            other => errors.invalid(&at.child("operator"), other, "not a valid selector operator"),
        }
        let key = text(requirement, "/key");
        if key != "metadata.name" {
            errors.invalid(&at.child("key"), key, "not a valid field selector key");
            continue;
        }
        for (value_index, value) in values.iter().enumerate() {
            errors.dns_subdomain(&at.child("values").index(value_index), value.as_str().unwrap_or_default());
        }
    }
}

fn validate_pod_term(term: &Value, path: &Path, errors: &mut ErrorList) {
    for selector in ["labelSelector", "namespaceSelector"] {
        label_selector::validate(term.get(selector), &path.child(selector), errors);
    }
    for name in items(term, "/namespaces").iter().filter_map(Value::as_str) {
        errors.dns_label(&path.child("namespace"), name);
    }
    validate_label_keys(term, path, errors);
    let key = text(term, "/topologyKey");
    if key.is_empty() {
        errors.required_because(&path.child("topologyKey"), "can not be empty");
    }
    errors.qualified_name(&path.child("topologyKey"), key);
}

/// Validates `matchLabelKeys` and `mismatchLabelKeys`.
fn validate_label_keys(term: &Value, path: &Path, errors: &mut ErrorList) {
    let keys = |field: &str| -> Vec<&str> {
        items(term, &format!("/{field}")).iter().map(|key| key.as_str().unwrap_or_default()).collect()
    };
    let (wanted, unwanted) = (keys("matchLabelKeys"), keys("mismatchLabelKeys"));
    for (field, keys) in [("matchLabelKeys", &wanted), ("mismatchLabelKeys", &unwanted)] {
        if keys.is_empty() {
            continue;
        }
        let at = path.child(field);
        if !is_set(term, "/labelSelector") {
            errors.forbidden(&at, "must not be specified when labelSelector is not set");
            continue;
        }
        for (index, key) in keys.iter().enumerate() {
            errors.qualified_name(&at.index(index), key);
        }
    }
    let mut selected: BTreeSet<&str> = entries(term, "/labelSelector/matchLabels").map(|(key, _)| key).gather();
    for expression in items(term, "/labelSelector/matchExpressions") {
        let key = text(expression, "/key");
        if let Some(index) = wanted.iter().rposition(|wanted| *wanted == key)
            && selected.contains(key)
        {
            errors.invalid(&path.index(index), key, "exists in both matchLabelKeys and labelSelector");
        }
        selected.insert(key);
    }
    for (index, key) in wanted.iter().enumerate().filter(|(_, key)| unwanted.contains(key)) {
        let at = path.child("matchLabelKeys").index(index);
        errors.invalid(&at, *key, "exists in both matchLabelKeys and mismatchLabelKeys");
    }
}

/// Validates topology spread constraints.
pub(super) fn validate_spread(spec: &Value, path: &Path, errors: &mut ErrorList) {
    let constraints = items(spec, "/topologySpreadConstraints");
    for (index, constraint) in constraints.iter().enumerate() {
        let at = path.index(index);
        let (key, action) = (text(constraint, "/topologyKey"), text(constraint, "/whenUnsatisfiable"));
        let skew = integer(constraint, "/maxSkew").unwrap_or_default();
        if skew <= 0 {
            errors.invalid(&at.child("maxSkew"), skew, "must be greater than zero");
        }
        if key.is_empty() {
            errors.required_because(&at.child("topologyKey"), "can not be empty");
        }
        if !matches!(action, "DoNotSchedule" | "ScheduleAnyway") {
            errors.not_supported(&at.child("whenUnsatisfiable"), action, &["DoNotSchedule", "ScheduleAnyway"]);
        }
        let is_same =
            |other: &&Value| text(other, "/topologyKey") == key && text(other, "/whenUnsatisfiable") == action;
        if constraints[index + 1..].iter().any(|other| is_same(&other)) {
            errors.duplicate(&at.child("{topologyKey, whenUnsatisfiable}"), &format!("{{{key}, {action}}}"));
        }
        if let Some(domains) = integer(constraint, "/minDomains") {
            if domains <= 0 {
                errors.invalid(&at.child("minDomains"), domains, "must be greater than zero");
            }
            if action != "DoNotSchedule" {
                let detail = format!("can only use minDomains if whenUnsatisfiable=DoNotSchedule, not {action}");
                errors.invalid(&at.child("minDomains"), domains, detail);
            }
        }
        for field in ["nodeAffinityPolicy", "nodeTaintsPolicy"] {
            let Some(policy) = constraint.get(field).and_then(Value::as_str) else { continue };
            if !matches!(policy, "Honor" | "Ignore") {
                errors.not_supported(&at.child(field), policy, &["Honor", "Ignore"]);
            }
        }
        validate_label_keys(constraint, &at, errors);
        label_selector::validate(constraint.get("labelSelector"), &at.child("labelSelector"), errors);
    }
}

/// Validates tolerations.
pub(crate) fn validate_tolerations(tolerations: &[Value], path: &Path, errors: &mut ErrorList) {
    for (index, toleration) in tolerations.iter().enumerate() {
        let at = path.index(index);
        let (key, operator) = (text(toleration, "/key"), text(toleration, "/operator"));
        let (value, effect) = (text(toleration, "/value"), text(toleration, "/effect"));
        if !key.is_empty() {
            errors.qualified_name(&at.child("key"), key);
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.invalid(&at.child("operator"), operator, detail);
        }
        if is_set(toleration, "/tolerationSeconds") && effect != "NoExecute" {
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.invalid(&at.child("effect"), effect, detail);
        }
        match operator {
            "Equal" | "" => {
                let problems = names::is_valid_label_value(value);
                if !problems.is_empty() {
                    errors.invalid(&at.child("operator"), value, problems.join(";"));
                }
            }
            "Exists" => {
                if !value.is_empty() {
                    let detail = "value must be empty when `operator` is 'Exists'";
                    errors.invalid(&at.child("operator"), value, detail);
                }
            }
            "Lt" | "Gt" => {
                errors.not_supported(&at.child("operator"), operator, &["Equal", "Exists", "Lt", "Gt"]);
            }
            other => errors.not_supported(&at.child("operator"), other, &["Equal", "Exists"]),
        }
        let effects = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
        if !effect.is_empty() && !effects.contains(&effect) {
            errors.not_supported(&at.child("effect"), effect, &effects);
        }
    }
}

/// Validates scheduling gates and readiness gates.
pub(super) fn validate_gates(spec: &Value, path: &Path, errors: &mut ErrorList) {
    for (index, gate) in items(spec, "/readinessGates").iter().enumerate() {
        let at = path.child("readinessGates").index(index).child("conditionType");
        errors.qualified_name(&at, text(gate, "/conditionType"));
    }
    let mut seen = BTreeSet::new();
    for (index, gate) in items(spec, "/schedulingGates").iter().enumerate() {
        let (name, at) = (text(gate, "/name"), path.child("schedulingGates").index(index));
        errors.qualified_name(&at, name);
        if !seen.insert(name) {
            errors.duplicate(&at, name);
        }
    }
}
