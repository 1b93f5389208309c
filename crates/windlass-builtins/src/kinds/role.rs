//! Roles and ClusterRoles. Privilege escalation is prevented elsewhere.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};

use crate::field_errors::FieldErrors;
use crate::object::{copy, is_set, items};
use crate::strategy::Strategy;

/// Strategy of Roles.
#[derive(Debug, Clone, Copy)]
pub struct Role;

/// Strategy of ClusterRoles.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRole;

impl Strategy for Role {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_rules(object, true, &mut errors);
        errors
    }
}

impl Strategy for ClusterRole {
    fn validate(&self, object: &Value) -> ErrorList {
        validate_cluster_role(object, LabelSelectorOptions::default())
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        // Values that an older server accepted are tolerated.
        let allow_invalid_values = items(old, "/aggregationRule/clusterRoleSelectors").iter().any(is_invalid);
        validate_cluster_role(object, LabelSelectorOptions { allow_invalid_values, ..LabelSelectorOptions::default() })
    }
}

fn is_invalid(selector: &Value) -> bool {
    !validate_label_selector(Some(selector), LabelSelectorOptions::default(), &Path::root()).is_empty()
}

fn validate_cluster_role(object: &Value, options: LabelSelectorOptions) -> ErrorList {
    let mut errors = ErrorList::new();
    validate_rules(object, false, &mut errors);
    if !is_set(object, "/aggregationRule") {
        return errors;
    }
    let path = Path::new("aggregationRule").child("clusterRoleSelectors");
    let selectors = items(object, "/aggregationRule/clusterRoleSelectors");
    if selectors.is_empty() {
        let detail = "at least one clusterRoleSelector required if aggregationRule is non-nil";
        errors.required_because(&path, detail);
    }
    for (index, selector) in selectors.iter().enumerate() {
        let path = path.index(index);
        errors.extend(validate_label_selector(Some(selector), options, &path));
        if is_invalid(selector) {
            // kube-apiserver shows the selector that it failed to convert.
            errors.invalid(&path, Value::Null, "invalid label selector.");
        }
    }
    errors
}

fn validate_rules(object: &Value, is_namespaced: bool, errors: &mut ErrorList) {
    for (index, rule) in items(object, "/rules").iter().enumerate() {
        let path = Path::new("rules").index(index);
        let has = |field: &str| !items(rule, field).is_empty();
        if !has("/verbs") {
            errors.required_because(&path.child("verbs"), "verbs must contain at least one value");
        }
        if has("/nonResourceURLs") {
            let at = path.child("nonResourceURLs");
            let urls = || copy(rule, "/nonResourceURLs");
            if is_namespaced {
                errors.invalid(&at, urls(), "namespaced rules cannot apply to non-resource URLs");
            }
            if has("/apiGroups") || has("/resources") || has("/resourceNames") {
                let detail = "rules cannot apply to both regular resources and non-resource URLs";
                errors.invalid(&at, urls(), detail);
            }
            continue;
        }
        if !has("/apiGroups") {
            let detail = "resource rules must supply at least one api group";
            errors.required_because(&path.child("apiGroups"), detail);
        }
        if !has("/resources") {
            let detail = "resource rules must supply at least one resource";
            errors.required_because(&path.child("resources"), detail);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn rules_are_about_resources_or_about_addresses() {
        let rule = json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"]});
        check_create(&Role, json!({"rules": [rule]}), expect![[""]]);
        check_create(
            &ClusterRole,
            json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/healthz"]}]}),
            expect![[""]],
        );
        check_create(
            &Role,
            json!({"rules": [{}, {"verbs": ["get"], "nonResourceURLs": ["/x"]}]}),
            expect![[r#"
            rules[0].verbs: Required value: verbs must contain at least one value
            rules[0].apiGroups: Required value: resource rules must supply at least one api group
            rules[0].resources: Required value: resource rules must supply at least one resource
            rules[1].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs
        "#]],
        );
        let mixed = json!({"rules": [{"verbs": ["get"], "nonResourceURLs": ["/x"], "resources": ["pods"]}]});
        check_create(
            &ClusterRole,
            mixed,
            expect![[r#"
            rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs
        "#]],
        );
    }

    #[test]
    fn aggregation_needs_selectors() {
        check_create(
            &ClusterRole,
            json!({"aggregationRule": {}}),
            expect![[r#"
            aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if aggregationRule is non-nil
        "#]],
        );
        let selector = json!({"matchExpressions": [{"key": "a", "operator": "In", "values": ["-"]}]});
        let role = json!({"aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}, selector]}});
        check_create(
            &ClusterRole,
            role.clone(),
            expect![[r#"
            aggregationRule.clusterRoleSelectors[1].matchExpressions[0].values[0]: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            aggregationRule.clusterRoleSelectors[1]: Invalid value: null: invalid label selector.
        "#]],
        );
        check_update(
            &ClusterRole,
            role.clone(),
            role,
            expect![[r#"
            aggregationRule.clusterRoleSelectors[1]: Invalid value: null: invalid label selector.
        "#]],
        );
    }
}
