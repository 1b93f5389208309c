//! StorageVersionMigrations, whose spec never changes and whose status records how the migration ends.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::go_format::marshal;
use windlass_schema::names::{is_dns1035_label, is_dns1123_subdomain};

use super::conditions;
use super::internal_types::{Field, Shape, TEXT, show};
use crate::columns::{Column, NAME, Printer, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{copy, integer, items, text};
use crate::strategy::Strategy;

/// Strategy of StorageVersionMigrations.
#[derive(Debug, Clone, Copy)]
pub struct StorageVersionMigration;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

const SPEC: &[Field] = &[("Resource", "resource", Shape::Struct { fields: RESOURCE, pointer: false })];
const RESOURCE: &[Field] = &[("group", "group", TEXT), ("resource", "resource", TEXT)];

impl Strategy for StorageVersionMigration {
    fn validate(&self, object: &Value) -> ErrorList {
        let path = Path::new("spec").child("resource");
        let mut errors = ErrorList::new();
        let (group, resource) = (text(object, "/spec/resource/group"), text(object, "/spec/resource/resource"));
        let at = path.child("resource");
        if resource.is_empty() {
            errors.required_because(&at, "resource is required to be set");
        } else {
            joined(&at, resource, &is_dns1035_label(resource), &mut errors);
        }
        if !group.is_empty() {
            joined(&path.child("group"), group, &is_dns1123_subdomain(group), &mut errors);
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(object);
        let resource = |object| {
            (text(object, "/spec/resource/group").to_owned(), text(object, "/spec/resource/resource").to_owned())
        };
        if resource(object) != resource(old) {
            errors.invalid_shown(&Path::new("spec"), show(&object["spec"], SPEC), "field is immutable");
        }
        errors
    }

    fn validate_subresource_update(&self, _subresource: &str, object: &Value, old: &Value) -> ErrorList {
        let status = Path::new("status");
        let mut errors = ErrorList::new();
        let (version, before) = (text(object, "/status/resourceVersion"), text(old, "/status/resourceVersion"));
        let at = status.child("resourceVersion");
        if !version.is_empty() && !is_resource_version(version) {
            errors.invalid(&at, version, format!("resource version is not well formed: {version}"));
        }
        let conditions = status.child("conditions");
        conditions::validate(object, "/status/conditions", &conditions, &mut errors);
        if !before.is_empty() && before != version {
            errors.invalid(&at, version, "field is immutable");
        }
        let mut invalid = |detail: &str| {
            errors.invalid_shown(&conditions, show_conditions(object), detail);
        };
        if has(object, "Succeeded") && has(object, "Failed") {
            invalid("Both success and failed conditions cannot be true at the same time");
        }
        if has(old, "Succeeded") && !has(object, "Succeeded") {
            invalid("Success condition cannot be set to false once it is true");
        }
        if has(old, "Failed") && !has(object, "Failed") {
            invalid("Failed condition cannot be set to false once it is true");
        }
        errors
    }
}

/// Reports all problems of a value as one.
fn joined(path: &Path, value: &str, problems: &[String], errors: &mut ErrorList) {
    if !problems.is_empty() {
        errors.invalid(path, value, problems.join(","));
    }
}

fn is_resource_version(text: &str) -> bool {
    !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Returns whether the first condition of a type is true.
fn has(object: &Value, kind: &str) -> bool {
    let mut conditions = items(object, "/status/conditions").iter();
    conditions.find(|condition| text(condition, "/type") == kind).is_some_and(|found| text(found, "/status") == "True")
}

fn show_conditions(object: &Value) -> String {
    let show = |condition: &Value| {
        let string = |field: &str| marshal(&text(condition, &format!("/{field}")).into());
        let generation = match integer(condition, "/observedGeneration") {
            Some(generation) if generation != 0 => format!("\"observedGeneration\":{generation},"),
            _ => String::new(),
        };
        format!(
            "{{\"type\":{},\"status\":{},{generation}\"lastTransitionTime\":{},\"reason\":{},\"message\":{}}}",
            string("type"),
            string("status"),
            marshal(&copy(condition, "/lastTransitionTime")),
            string("reason"),
            string("message"),
        )
    };
    match object.pointer("/status/conditions") {
        Some(Value::Array(list)) => format!("[{}]", list.iter().map(show).collect::<Vec<_>>().join(",")),
        _ => "null".to_owned(),
    }
}

fn cells(object: &Value, _now: Timestamp) -> Vec<Value> {
    let (group, resource) = (text(object, "/spec/resource/group"), text(object, "/spec/resource/resource"));
    let migrated = if group.is_empty() { resource.to_owned() } else { format!("{resource}.{group}") };
    let is_true = |condition: &&Value| text(condition, "/status") == "True";
    let states = items(object, "/status/conditions").iter().filter(is_true).map(|condition| text(condition, "/type"));
    let state = states.filter(|kind| ["Running", "Failed", "Succeeded"].contains(kind)).next_back();
    vec![name(object), migrated.into(), state.unwrap_or("Unknown").into()]
}

const COLUMNS: &[Column] = &[
    Column { format: "", ..NAME },
    column("Resource", "string", "GroupResource to migrate"),
    column("Status", "string", "Status of the migration"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn migration(group: &str, resource: &str) -> Value {
        json!({"metadata": {"name": "m"}, "spec": {"resource": {"group": group, "resource": resource}}})
    }

    fn with_status(version: &str, conditions: &[(&str, &str)]) -> Value {
        let mut object = migration("", "secrets");
        let conditions: Vec<Value> = conditions
            .iter()
            .map(|(kind, status)| {
                json!({
                    "type": kind, "status": status, "reason": "R", "message": "",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                })
            })
            .collect();
        object["status"] = json!({"resourceVersion": version, "conditions": conditions});
        object
    }

    #[test]
    fn the_resource_is_required_and_named_as_in_paths() {
        check_create(&StorageVersionMigration, migration("", "secrets"), expect![[""]]);
        check_create(&StorageVersionMigration, migration("example.com", "wardles"), expect![[""]]);
        check_create(
            &StorageVersionMigration,
            json!({"spec": {"resource": {"group": "Example"}}}),
            expect![[r#"
                spec.resource.resource: Required value: resource is required to be set
                spec.resource.group: Invalid value: "Example": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            "#]],
        );
        check_create(
            &StorageVersionMigration,
            migration("", &"A".repeat(64)),
            expect![[r#"
                spec.resource.resource: Invalid value: "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA": must be no more than 63 characters,a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')
            "#]],
        );
    }

    #[test]
    fn the_spec_never_changes() {
        check_update(&StorageVersionMigration, migration("", "secrets"), migration("", "secrets"), expect![[""]]);
        check_update(
            &StorageVersionMigration,
            migration("apps", "deployments"),
            migration("", "secrets"),
            expect![[r#"
                spec: Invalid value: {"Resource":{"group":"apps","resource":"deployments"}}: field is immutable
            "#]],
        );
    }

    #[test]
    fn a_status_only_makes_progress() {
        let running = with_status("17", &[("Running", "True")]);
        check_status(&StorageVersionMigration, running.clone(), with_status("", &[]), expect![[""]]);
        check_status(&StorageVersionMigration, with_status("17", &[("Succeeded", "True")]), running, expect![[""]]);
        check_status(
            &StorageVersionMigration,
            with_status("018", &[("Succeeded", "True"), ("Failed", "True")]),
            with_status("17", &[]),
            expect![[r#"
                status.resourceVersion: Invalid value: "018": resource version is not well formed: 018
                status.resourceVersion: Invalid value: "018": field is immutable
                status.conditions: Invalid value: [{"type":"Succeeded","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":""},{"type":"Failed","status":"True","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":""}]: Both success and failed conditions cannot be true at the same time
            "#]],
        );
        check_status(
            &StorageVersionMigration,
            with_status("17", &[("Succeeded", "False"), ("", "Perhaps")]),
            with_status("17", &[("Succeeded", "True")]),
            expect![[r#"
                status.conditions[1].type: Invalid value: "": name part must be non-empty
                status.conditions[1].type: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                status.conditions[1].status: Unsupported value: "Perhaps": supported values: "False", "True", "Unknown"
                status.conditions: Invalid value: [{"type":"Succeeded","status":"False","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":""},{"type":"","status":"Perhaps","lastTransitionTime":"2026-01-01T00:00:00Z","reason":"R","message":""}]: Success condition cannot be set to false once it is true
            "#]],
        );
    }

    #[test]
    fn columns_show_the_resource_and_the_last_true_condition() {
        let object = with_status("1", &[("Running", "False"), ("Succeeded", "True")]);
        assert_eq!(cells(&object, Timestamp::UNIX_EPOCH), ["m", "secrets", "Succeeded"]);
        assert_eq!(cells(&migration("apps", "jobs"), Timestamp::UNIX_EPOCH), ["m", "jobs.apps", "Unknown"]);
    }
}
