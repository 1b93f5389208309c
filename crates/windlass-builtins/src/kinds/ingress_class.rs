//! IngressClasses.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::names;

use super::ingress::validate_reference;
use crate::columns::{AGE, Column, NAME, Printer, age, column};
use crate::field_errors::FieldErrors;
use crate::object::{copy, is_set, map, set_default, text};
use crate::strategy::Strategy;
use crate::validate;

/// Strategy of IngressClasses.
#[derive(Debug, Clone, Copy)]
pub struct IngressClass;

const MAX_CONTROLLER: usize = 250;
const PATH: &str = r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+";

/// Returns whether the class is the default for Ingresses without a class.
pub fn is_default_class(class: &Value) -> bool {
    let annotation = "ingressclass.kubernetes.io/is-default-class";
    map(class, "/metadata/annotations").is_some_and(|all| all.get(annotation).is_some_and(|on| on == "true"))
}

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for IngressClass {
    fn default(&self, object: &mut Value) {
        if is_set(object, "/spec/parameters") {
            set_default(object, "/spec/parameters/scope", "Cluster");
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let (path, controller) = (Path::new("spec").child("controller"), text(object, "/spec/controller"));
        if controller.len() > MAX_CONTROLLER {
            errors.push(FieldError::too_long(&path, MAX_CONTROLLER));
        }
        validate_domain_path(controller, &path, &mut errors);
        if let Some(parameters) = object.pointer("/spec/parameters").filter(|parameters| !parameters.is_null()) {
            validate_parameters(parameters, &Path::new("spec").child("parameters"), &mut errors);
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let (path, field) = (Path::new("spec").child("controller"), "/spec/controller");
        let mut errors = validate::immutable(&path, &copy(object, field), &copy(old, field));
        errors.extend(self.validate(object));
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = text(object, "/metadata/name").to_owned();
    if is_default_class(object) {
        shown.push_str(" (default)");
    }
    let parameters = if is_set(object, "/spec/parameters") {
        let part = |field: &str| text(object, &format!("/spec/parameters/{field}"));
        let has_group = is_set(object, "/spec/parameters/apiGroup");
        let group = if has_group { format!(".{}", part("apiGroup")) } else { String::new() };
        format!("{}{group}/{}", part("kind"), part("name"))
    } else {
        "<none>".to_owned()
    };
    vec![shown.into(), text(object, "/spec/controller").into(), parameters.into(), age(object, now)]
}

/// Validates a path that starts with a domain, such as `acme.io/foo`.
fn validate_domain_path(value: &str, path: &Path, errors: &mut ErrorList) {
    if value.is_empty() {
        return errors.required(path);
    }
    let Some((host, rest)) = value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        return errors.invalid(path, value, "must be a domain-prefixed path (such as \"acme.io/foo\")");
    };
    errors.dns_subdomain(path, host);
    if !rest.bytes().all(|b| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b)) {
        errors.invalid(path, rest, names::regex_error("Invalid path", PATH, &[]));
    }
}

fn validate_parameters(parameters: &Value, path: &Path, errors: &mut ErrorList) {
    validate_reference(parameters, path, errors);
    let namespace = parameters.get("namespace").and_then(Value::as_str);
    let at = path.child("namespace");
    match (parameters.get("scope").and_then(Value::as_str), namespace) {
        (None, _) => errors.required(&path.child("scope")),
        (Some("Namespace"), None) => errors.required_because(&at, "`parameters.scope` is set to 'Namespace'"),
        (Some("Namespace"), Some(namespace)) => errors.dns_label(&at, namespace),
        (Some("Cluster"), Some(_)) => errors.forbidden(&at, "`parameters.scope` is set to 'Cluster'"),
        (Some("Cluster"), None) => {}
        (Some(other), _) => errors.not_supported(&path.child("scope"), other, &["Cluster", "Namespace"]),
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Controller", "string", "Controller that is responsible for handling this class"),
    column("Parameters", "string", "A reference to a resource with additional parameters"),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn class(spec: Value) -> Value {
        json!({"metadata": {"name": "c"}, "spec": spec})
    }

    #[test]
    fn a_controller_is_a_path_under_a_domain() {
        for (controller, expected) in [
            ("example.com/controller", expect![[""]]),
            (
                "",
                expect![[r#"
                spec.controller: Required value
            "#]],
            ),
            (
                "controller",
                expect![[r#"
                spec.controller: Invalid value: "controller": must be a domain-prefixed path (such as "acme.io/foo")
            "#]],
            ),
            (
                "A_/b",
                expect![[r#"
                spec.controller: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
            ),
            (
                "a.b/c d",
                expect![[r#"
                spec.controller: Invalid value: "c d": Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')
            "#]],
            ),
        ] {
            check_create(&IngressClass, class(json!({"controller": controller})), expected);
        }
    }

    #[test]
    fn parameters_are_of_the_cluster_or_of_a_namespace() {
        for (parameters, expected) in [
            (json!({"kind": "K", "name": "n"}), expect![[""]]),
            (
                json!({"kind": "K", "name": "n", "namespace": "x"}),
                expect![[r#"
                spec.parameters.namespace: Forbidden: `parameters.scope` is set to 'Cluster'
            "#]],
            ),
            (
                json!({"kind": "K", "name": "n", "scope": "Namespace"}),
                expect![[r#"
                spec.parameters.namespace: Required value: `parameters.scope` is set to 'Namespace'
            "#]],
            ),
            (
                json!({"kind": "K", "name": "n", "scope": "Namespace", "namespace": "X"}),
                expect![[r#"
                spec.parameters.namespace: Invalid value: "X": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            "#]],
            ),
            (
                json!({"apiGroup": "A_", "kind": "a/b", "scope": "World"}),
                expect![[r#"
                spec.parameters.apiGroup: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.parameters.kind: Invalid value: "a/b": may not contain '/'
                spec.parameters.name: Required value
                spec.parameters.scope: Unsupported value: "World": supported values: "Cluster", "Namespace"
            "#]],
            ),
        ] {
            check_create(&IngressClass, class(json!({"controller": "a.b/c", "parameters": parameters})), expected);
        }
    }

    #[test]
    fn the_controller_never_changes() {
        let (new, old) = (class(json!({"controller": "a.b/d"})), class(json!({"controller": "a.b/c"})));
        check_update(
            &IngressClass,
            new,
            old,
            expect![[r#"
            spec.controller: Invalid value: "a.b/d": field is immutable
        "#]],
        );
    }
}
