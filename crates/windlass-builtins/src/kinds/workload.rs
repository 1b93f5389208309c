//! Workloads: the templates of PodGroups.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::go_format::marshal;
use windlass_schema::names::{is_dns1123_subdomain, is_path_segment_name};

use super::pod_group::{drop_disabled, short_name, validate_policy};
use crate::columns::{AGE, Column, NAME, Printer, age, name};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{copy, items, list_mut, remove, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of Workloads.
#[derive(Debug, Clone, Copy)]
pub struct Workload;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

const TEMPLATES: usize = 8;

impl Strategy for Workload {
    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        prepare(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = Path::new("spec");
        validate_controller(object, &spec.child("controllerRef"), &mut errors);
        validate_templates(items(object, "/spec/podGroupTemplates"), &spec.child("podGroupTemplates"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        prepare(object);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        for field in ["controllerRef", "podGroupTemplates"] {
            let pointer = format!("/spec/{field}");
            if !same(&copy(object, &pointer), &copy(old, &pointer)) {
                errors.invalid(&Path::new("spec").child(field), Value::Null, "field is immutable");
            }
        }
        errors
    }
}

/// Removes the fields of features that are off.
fn prepare(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    for template in list_mut(spec, "podGroupTemplates") {
        drop_disabled(template);
        remove(template, "/disruptionMode");
    }
}

fn validate_controller(object: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(controller) = object.pointer("/spec/controllerRef").filter(|controller| !controller.is_null()) else {
        return;
    };
    let group = text(controller, "/apiGroup");
    if !group.is_empty() {
        errors.invalid_each(&path.child("apiGroup"), group, is_dns1123_subdomain(group));
    }
    for field in ["kind", "name"] {
        match text(controller, &format!("/{field}")) {
            "" => errors.required(&path.child(field)),
            value => errors.invalid_each(&path.child(field), value, is_path_segment_name(value)),
        }
    }
}

fn validate_templates(templates: &[Value], path: &Path, errors: &mut ErrorList) {
    match templates.len() {
        0 => return errors.required(path),
        count if count > TEMPLATES => return errors.push(FieldError::too_many(path, count, TEMPLATES)),
        _ => {}
    }
    for (at, template) in templates.iter().enumerate() {
        if templates[..at].iter().any(|other| text(other, "/name") == text(template, "/name")) {
            errors.duplicate_shown(&path.index(at), show(template));
        }
    }
    for (at, template) in templates.iter().enumerate() {
        let path = path.index(at);
        short_name(&path.child("name"), text(template, "/name"), errors);
        validate_policy(&template["schedulingPolicy"], &path.child("schedulingPolicy"), errors);
    }
}

/// Shows a template without fields of features that are off, as kube-apiserver does.
fn show(template: &Value) -> String {
    let (name, policy) = (text(template, "/name").into(), copy(template, "/schedulingPolicy"));
    let policy = if policy.is_null() { Value::Object(serde_json::Map::new()) } else { policy };
    format!("{{\"name\":{},\"schedulingPolicy\":{},\"schedulingConstraints\":null}}", marshal(&name), marshal(&policy))
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

const COLUMNS: &[Column] = &[NAME, AGE];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn workload(templates: Value) -> Value {
        json!({"metadata": {"name": "w"}, "spec": {"podGroupTemplates": templates}})
    }

    fn template(name: &str) -> Value {
        json!({"name": name, "schedulingPolicy": {"gang": {"minCount": 3}}, "priority": 5, "disruptionMode": "Pod"})
    }

    #[test]
    fn a_workload_has_one_to_eight_different_templates() {
        let many = |count: usize| workload((0..count).map(|at| template(&format!("t{at}"))).collect());
        check_create(&Workload, many(1), expect![[""]]);
        check_create(&Workload, many(8), expect![[""]]);
        check_create(
            &Workload,
            many(0),
            expect![[r#"
            spec.podGroupTemplates: Required value
        "#]],
        );
        check_create(
            &Workload,
            many(9),
            expect![[r#"
            spec.podGroupTemplates: Too many: 9: must have at most 8 items
        "#]],
        );
        check_create(
            &Workload,
            workload(json!([template("a"), template("a"), {"name": "B"}, {"schedulingPolicy": {"basic": {}}}])),
            expect![[r#"
                spec.podGroupTemplates[1]: Duplicate value: {"name":"a","schedulingPolicy":{"gang":{"minCount":3}},"schedulingConstraints":null}
                spec.podGroupTemplates[2].name: Invalid value: "B": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                spec.podGroupTemplates[2].schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`
                spec.podGroupTemplates[3].name: Required value
            "#]],
        );
    }

    #[test]
    fn a_controller_is_named() {
        let mut object = workload(json!([template("a")]));
        object["spec"]["controllerRef"] = json!({"apiGroup": "B", "kind": "a/b"});
        check_create(
            &Workload,
            object.clone(),
            expect![[r#"
            spec.controllerRef.apiGroup: Invalid value: "B": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.controllerRef.kind: Invalid value: "a/b": may not contain '/'
            spec.controllerRef.name: Required value
        "#]],
        );
        object["spec"]["controllerRef"] = json!({"apiGroup": "batch", "kind": "Job", "name": "j"});
        check_create(&Workload, object, expect![[""]]);
    }

    #[test]
    fn the_spec_never_changes() {
        let old = workload(json!([{"name": "a", "schedulingPolicy": {"gang": {"minCount": 3}}}]));
        check_update(&Workload, workload(json!([template("a")])), old.clone(), expect![[""]]);
        let mut changed = workload(json!([template("b")]));
        changed["spec"]["controllerRef"] = json!({"kind": "Job", "name": "j"});
        check_update(
            &Workload,
            changed,
            old,
            expect![[r#"
            spec.controllerRef: Invalid value: null: field is immutable
            spec.podGroupTemplates: Invalid value: null: field is immutable
        "#]],
        );
    }
}
