//! IPAddresses: allocated cluster IPs and the objects that use them.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::{self, is_valid_ip};

use crate::columns::{Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{copy, is_set, text};
use crate::strategy::Strategy;
use crate::validate::go_struct;

/// Strategy of IPAddresses.
#[derive(Debug, Clone, Copy)]
pub struct IpAddress;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for IpAddress {
    fn validate(&self, object: &Value) -> ErrorList {
        // The name is the address.
        let mut errors = is_valid_ip(&Path::new("metadata").child("name"), text(object, "/metadata/name"));
        validate_parent(object, &Path::new("spec").child("parentRef"), &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(object);
        let (new, old) = (copy(object, "/spec/parentRef"), copy(old, "/spec/parentRef"));
        if new != old {
            let part = |field: &str| Value::from(text(&new, &format!("/{field}")));
            let (group, resource) = (part("group"), part("resource"));
            let (namespace, name) = (part("namespace"), part("name"));
            let parts = [("Group", &group), ("Resource", &resource), ("Namespace", &namespace), ("Name", &name)];
            let shown = if new.is_null() { "null".to_owned() } else { go_struct(&parts) };
            errors.invalid_shown(&Path::new("spec").child("parentRef"), shown, "field is immutable");
        }
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = if is_set(object, "/spec/parentRef") {
        let part = |field: &str| text(object, &format!("/spec/parentRef/{field}"));
        let mut shown = part("resource").to_lowercase();
        if !part("group").is_empty() {
            shown = format!("{shown}.{}", part("group").to_lowercase());
        }
        if !part("namespace").is_empty() {
            shown = format!("{shown}/{}", part("namespace"));
        }
        format!("{shown}/{}", part("name"))
    } else {
        "<none>".to_owned()
    };
    vec![name(object), parent.into(), age(object, now)]
}

fn validate_parent(object: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(parent) = object.pointer("/spec/parentRef").filter(|parent| !parent.is_null()) else {
        return errors.required(path);
    };
    let group = text(parent, "/group");
    if !group.is_empty() {
        errors.dns_subdomain(&path.child("group"), group);
    }
    for field in ["resource", "name", "namespace"] {
        let at = path.child(field);
        match parent.get(field).and_then(Value::as_str).unwrap_or_default() {
            "" if field == "namespace" => {}
            "" => errors.required(&at),
            value => errors.invalid_each(&at, value, names::is_path_segment_name(value)),
        }
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "ParentRef",
        "string",
        "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a parent object.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn address(name: &str, parent: Value) -> Value {
        json!({"metadata": {"name": name}, "spec": {"parentRef": parent}})
    }

    #[test]
    fn the_name_is_an_ip_address_with_a_parent() {
        let service = json!({"resource": "services", "namespace": "n", "name": "s"});
        check_create(&IpAddress, address("10.0.0.1", service.clone()), expect![[""]]);
        check_create(
            &IpAddress,
            address("010.0.0.1", service),
            expect![[r#"
            metadata.name: Invalid value: "010.0.0.1": must not have leading 0s
        "#]],
        );
        check_create(
            &IpAddress,
            address("2001:DB8::1", json!(null)),
            expect![[r#"
            metadata.name: Invalid value: "2001:DB8::1": must be in canonical form ("2001:db8::1")
            spec.parentRef: Required value
        "#]],
        );
        let parent = json!({"group": "A_", "resource": "", "name": "a/b", "namespace": ".."});
        check_create(
            &IpAddress,
            address("10.0.0.1", parent),
            expect![[r#"
            spec.parentRef.group: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.parentRef.resource: Required value
            spec.parentRef.name: Invalid value: "a/b": may not contain '/'
            spec.parentRef.namespace: Invalid value: "..": may not be '..'
        "#]],
        );
    }

    #[test]
    fn the_parent_never_changes() {
        let of = |name: &str| address("10.0.0.1", json!({"resource": "services", "namespace": "n", "name": name}));
        check_update(
            &IpAddress,
            of("b"),
            of("a"),
            expect![[r#"
            spec.parentRef: Invalid value: {"Group":"","Resource":"services","Namespace":"n","Name":"b"}: field is immutable
        "#]],
        );
    }
}
