//! RoleBindings and ClusterRoleBindings.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names;

use crate::columns::{AGE, Column, NAME, Printer, age, column, name, wide};
use crate::field_errors::FieldErrors;
use crate::object::{copy, items, set_default_text, text};
use crate::strategy::Strategy;
use crate::validate::go_struct;

const GROUP: &str = "rbac.authorization.k8s.io";

/// Strategy of RoleBindings and ClusterRoleBindings.
#[derive(Debug, Clone, Copy)]
pub struct RoleBinding {
    is_namespaced: bool,
}

impl RoleBinding {
    /// RoleBindings.
    pub const NAMESPACED: Self = Self { is_namespaced: true };
    /// ClusterRoleBindings.
    pub const CLUSTER: Self = Self { is_namespaced: false };
}

/// The printer columns of RoleBindings.
pub(crate) const PRINTER: Printer = Printer::new(ROLE_BINDING, cells);

/// The printer columns of ClusterRoleBindings.
pub(crate) const CLUSTER_PRINTER: Printer = Printer::new(CLUSTER_ROLE_BINDING, cells);

impl Strategy for RoleBinding {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validate(object, self.is_namespaced)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(object);
        keep_role(object, old, &mut errors);
        errors
    }
}

fn default(object: &mut Value) {
    set_default_text(object, "/roleRef/apiGroup", GROUP);
    for subject in object.get_mut("subjects").and_then(Value::as_array_mut).into_iter().flatten() {
        if matches!(text(subject, "/kind"), "User" | "Group") {
            set_default_text(subject, "/apiGroup", GROUP);
        }
    }
}

fn validate(object: &Value, is_namespaced: bool) -> ErrorList {
    let mut errors = ErrorList::new();
    let path = Path::new("roleRef");
    let group = text(object, "/roleRef/apiGroup");
    if group != GROUP {
        errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
    }
    let kinds: &[&str] = if is_namespaced { &["Role", "ClusterRole"] } else { &["ClusterRole"] };
    let kind = text(object, "/roleRef/kind");
    if !kinds.contains(&kind) {
        errors.not_supported(&path.child("kind"), kind, kinds);
    }
    let role = text(object, "/roleRef/name");
    errors.nonempty(&path.child("name"), role);
    errors.invalid_each(&path.child("name"), role, names::is_path_segment_name(role));
    for (index, subject) in items(object, "/subjects").iter().enumerate() {
        validate_subject(subject, is_namespaced, &Path::new("subjects").index(index), &mut errors);
    }
    errors
}

fn validate_subject(subject: &Value, is_namespaced: bool, path: &Path, errors: &mut ErrorList) {
    let (name, group) = (text(subject, "/name"), text(subject, "/apiGroup"));
    errors.nonempty(&path.child("name"), name);
    match text(subject, "/kind") {
        "ServiceAccount" => {
            if !name.is_empty() {
                errors.dns_subdomain(&path.child("name"), name);
            }
            if !group.is_empty() {
                errors.not_supported(&path.child("apiGroup"), group, &[""]);
            }
            if !is_namespaced {
                errors.nonempty(&path.child("namespace"), text(subject, "/namespace"));
            }
        }
        "User" | "Group" => {
            if group != GROUP {
                errors.not_supported(&path.child("apiGroup"), group, &[GROUP]);
            }
        }
        other => errors.not_supported(&path.child("kind"), other, &["ServiceAccount", "User", "Group"]),
    }
}

fn keep_role(object: &Value, old: &Value, errors: &mut ErrorList) {
    let field = |object, name: &str| copy(object, &format!("/roleRef/{name}"));
    let parts = |object| ["apiGroup", "kind", "name"].map(|name| field(object, name));
    let new = parts(object);
    if new != parts(old) {
        let shown = go_struct(&[("APIGroup", &new[0]), ("Kind", &new[1]), ("Name", &new[2])]);
        errors.invalid_shown(&Path::new("roleRef"), shown, "cannot change roleRef");
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let subjects = |kind: &str| {
        let show = |subject: &Value| match kind {
            "ServiceAccount" => format!("{}/{}", text(subject, "/namespace"), text(subject, "/name")),
            _ => text(subject, "/name").to_owned(),
        };
        let found = items(object, "/subjects").iter().filter(|subject| text(subject, "/kind") == kind);
        Value::from(found.map(show).collect::<Vec<_>>().join(", "))
    };
    let role = format!("{}/{}", text(object, "/roleRef/kind"), text(object, "/roleRef/name"));
    vec![name(object), role.into(), age(object, now), subjects("User"), subjects("Group"), subjects("ServiceAccount")]
}

const ROLE_BINDING: &[Column] = &[
    NAME,
    column(
        "Role",
        "string",
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE,
    wide("Users", "string", "Users in the roleBinding"),
    wide("Groups", "string", "Groups in the roleBinding"),
    wide("ServiceAccounts", "string", "ServiceAccounts in the roleBinding"),
];

const CLUSTER_ROLE_BINDING: &[Column] = &[
    NAME,
    column(
        "Role",
        "string",
        "RoleRef can only reference a ClusterRole in the global namespace. If the RoleRef cannot be resolved, the Authorizer must return an error.",
    ),
    AGE,
    wide("Users", "string", "Users in the clusterRoleBinding"),
    wide("Groups", "string", "Groups in the clusterRoleBinding"),
    wide("ServiceAccounts", "string", "ServiceAccounts in the clusterRoleBinding"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn binding() -> Value {
        json!({"roleRef": {"kind": "ClusterRole", "name": "view"}, "subjects": [
            {"kind": "User", "name": "jane"}, {"kind": "ServiceAccount", "name": "bot", "namespace": "n"}]})
    }

    #[test]
    fn groups_are_defaulted() {
        let mut object = binding();
        RoleBinding::NAMESPACED.default(&mut object);
        assert_eq!(object["roleRef"]["apiGroup"], GROUP);
        assert_eq!(object["subjects"][0]["apiGroup"], GROUP);
        assert_eq!(object["subjects"][1].get("apiGroup"), None);
        check_create(&RoleBinding::NAMESPACED, binding(), expect![[""]]);
        check_create(&RoleBinding::CLUSTER, binding(), expect![[""]]);
    }

    #[test]
    fn roles_and_subjects_must_be_of_known_kinds() {
        let bad = json!({"roleRef": {"apiGroup": "x", "kind": "Thing", "name": "a/b"}, "subjects": [
            {"kind": "Robot", "name": "x"}, {"kind": "User", "apiGroup": "y"}, {"kind": "ServiceAccount", "name": "A", "apiGroup": "z"}]});
        check_create(
            &RoleBinding::NAMESPACED,
            bad.clone(),
            expect![[r#"
            roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"
            roleRef.kind: Unsupported value: "Thing": supported values: "Role", "ClusterRole"
            roleRef.name: Invalid value: "a/b": may not contain '/'
            subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"
            subjects[1].name: Required value
            subjects[1].apiGroup: Unsupported value: "y": supported values: "rbac.authorization.k8s.io"
            subjects[2].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            subjects[2].apiGroup: Unsupported value: "z": supported values: ""
        "#]],
        );
        check_create(
            &RoleBinding::CLUSTER,
            bad,
            expect![[r#"
            roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io"
            roleRef.kind: Unsupported value: "Thing": supported values: "ClusterRole"
            roleRef.name: Invalid value: "a/b": may not contain '/'
            subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group"
            subjects[1].name: Required value
            subjects[1].apiGroup: Unsupported value: "y": supported values: "rbac.authorization.k8s.io"
            subjects[2].name: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            subjects[2].apiGroup: Unsupported value: "z": supported values: ""
            subjects[2].namespace: Required value
        "#]],
        );
        check_create(
            &RoleBinding::CLUSTER,
            json!({"roleRef": {"kind": "Role"}}),
            expect![[r#"
            roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole"
            roleRef.name: Required value
        "#]],
        );
    }

    #[test]
    fn the_role_never_changes() {
        let mut new = binding();
        new["roleRef"]["name"] = json!("edit");
        check_update(
            &RoleBinding::NAMESPACED,
            new.clone(),
            binding(),
            expect![[r#"
            roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef
        "#]],
        );
        check_update(
            &RoleBinding::CLUSTER,
            new,
            binding(),
            expect![[r#"
            roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef
        "#]],
        );
        let mut new = binding();
        new["subjects"] = json!([]);
        check_update(&RoleBinding::NAMESPACED, new, binding(), expect![[""]]);
    }
}
