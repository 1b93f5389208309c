//! StorageClasses.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::object_meta::validate_label_name;

use super::pod::deprecated_label;
use crate::columns::{AGE, Column, NAME, Printer, age, column, flag};
use crate::field_errors::FieldErrors;
use crate::object::{copy, entries, items, map, set_default, text};
use crate::strategy::Strategy;
use crate::validate;

/// Strategy of StorageClasses.
#[derive(Debug, Clone, Copy)]
pub struct StorageClass;

/// Annotation of the default class, and its deprecated name.
pub const IS_DEFAULT: &str = "storageclass.kubernetes.io/is-default-class";
const WAS_DEFAULT: &str = "storageclass.beta.kubernetes.io/is-default-class";
const MAX_PARAMETERS: usize = 512;
const MAX_PARAMETERS_SIZE: usize = 256 << 10;

/// Returns whether the class is the default for claims without a class.
pub fn is_default_class(class: &Value) -> bool {
    let says = |key| map(class, "/metadata/annotations").is_some_and(|all| all.get(key).is_some_and(|on| on == "true"));
    says(IS_DEFAULT) || says(WAS_DEFAULT)
}

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for StorageClass {
    fn default(&self, object: &mut Value) {
        set_default(object, "/reclaimPolicy", "Delete");
        set_default(object, "/volumeBindingMode", "Immediate");
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        validate_provisioner(text(object, "/provisioner"), &Path::new("provisioner"), &mut errors);
        validate_parameters(object, &mut errors);
        let policy = text(object, "/reclaimPolicy");
        if !matches!(policy, "" | "Delete" | "Retain") {
            errors.not_supported(&Path::new("reclaimPolicy"), policy, &["Delete", "Retain"]);
        }
        let path = Path::new("volumeBindingMode");
        match object.get("volumeBindingMode").and_then(Value::as_str) {
            None => errors.required(&path),
            Some("Immediate" | "WaitForFirstConsumer") => {}
            Some(other) => errors.not_supported(&path, other, &["Immediate", "WaitForFirstConsumer"]),
        }
        validate_topologies(object, &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        ["parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"]
            .iter()
            .flat_map(|field| {
                let pointer = format!("/{field}");
                validate::immutable(&Path::new(field), &copy(object, &pointer), &copy(old, &pointer))
            })
            .collect()
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (i, term) in items(object, "/allowedTopologies").iter().enumerate() {
            for (j, expression) in items(term, "/matchLabelExpressions").iter().enumerate() {
                if let Some(message) = deprecated_label(text(expression, "/key")) {
                    warnings.push(format!("allowedTopologies[{i}].matchLabelExpressions[{j}].key: {message}"));
                }
            }
        }
        warnings
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = text(object, "/metadata/name").to_owned();
    if is_default_class(object) {
        shown.push_str(" (default)");
    }
    let or = |pointer: &str, absent: &str| {
        Value::from(object.pointer(pointer).and_then(Value::as_str).unwrap_or(absent).to_owned())
    };
    vec![
        shown.into(),
        text(object, "/provisioner").into(),
        or("/reclaimPolicy", "Delete"),
        or("/volumeBindingMode", "Immediate"),
        flag(object, "/allowVolumeExpansion"),
        age(object, now),
    ]
}

/// Validates the name of a provisioner or driver.
pub(super) fn validate_provisioner(provisioner: &str, path: &Path, errors: &mut ErrorList) {
    if provisioner.is_empty() {
        return errors.required(path);
    }
    errors.qualified_name(path, &provisioner.to_lowercase());
}

/// Validates the parameters of a driver.
pub(super) fn validate_parameters(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("parameters");
    if map(object, "/parameters").is_some_and(|all| all.len() > MAX_PARAMETERS) {
        return errors.push(FieldError::too_long(&path, MAX_PARAMETERS));
    }
    let mut size = 0;
    for (key, value) in entries(object, "/parameters") {
        if key.is_empty() {
            errors.invalid(&path, key, "field can not be empty.");
        }
        size += key.len() + value.as_str().map_or(0, str::len);
    }
    if size > MAX_PARAMETERS_SIZE {
        errors.push(FieldError::too_long(&path, MAX_PARAMETERS_SIZE));
    }
}

fn validate_topologies(object: &Value, errors: &mut ErrorList) {
    let path = Path::new("allowedTopologies");
    let mut seen: Vec<BTreeMap<&str, BTreeSet<&str>>> = Vec::new();
    let terms = items(object, "/allowedTopologies");
    for (i, term) in terms.iter().enumerate() {
        let path = path.index(i).child("matchLabelExpressions");
        let mut keys = BTreeMap::new();
        for (j, expression) in items(term, "/matchLabelExpressions").iter().enumerate() {
            let path = path.index(j);
            let (key, all) = (text(expression, "/key"), items(expression, "/values"));
            if all.is_empty() {
                errors.required(&path.child("values"));
            }
            let mut values = BTreeSet::new();
            for (k, value) in all.iter().enumerate() {
                let value = value.as_str().unwrap_or_default();
                if !values.insert(value) {
                    errors.duplicate(&path.child("values").index(k), value);
                }
            }
            errors.extend(validate_label_name(key, &path.child("key")));
            if keys.insert(key, values).is_some() {
                errors.duplicate(&path.child("key"), key);
            }
        }
        // kube-apiserver also compares with as many empty terms as there are terms.
        let equal = seen.iter().filter(|other| **other == keys).count() + if keys.is_empty() { terms.len() } else { 0 };
        (0..equal).for_each(|_| errors.duplicate(&path, ""));
        seen.push(keys);
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Provisioner", "string", "provisioner indicates the type of the provisioner."),
    column(
        "ReclaimPolicy",
        "string",
        "reclaimPolicy controls the reclaimPolicy for dynamically provisioned PersistentVolumes of this storage class. Defaults to Delete.",
    ),
    column(
        "VolumeBindingMode",
        "string",
        "volumeBindingMode indicates how PersistentVolumeClaims should be provisioned and bound.  When unset, VolumeBindingImmediate is used. This field is only honored by servers that enable the VolumeScheduling feature.",
    ),
    column(
        "AllowVolumeExpansion",
        "string",
        "allowVolumeExpansion shows whether the storage class allow volume expand.",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn class() -> Value {
        json!({"metadata": {"name": "c"}, "provisioner": "example.com/disk", "parameters": {"t": "ssd"}})
    }

    #[test]
    fn a_class_defaults_to_delete_and_immediate_binding() {
        let mut class = class();
        StorageClass.default(&mut class);
        assert_eq!((&class["reclaimPolicy"], &class["volumeBindingMode"]), (&json!("Delete"), &json!("Immediate")));
        check_create(&StorageClass, class, expect![[""]]);
    }

    #[test]
    fn every_field_is_checked() {
        check_create(
            &StorageClass,
            json!({"reclaimPolicy": "Burn", "volumeBindingMode": "Later"}),
            expect![[r#"
            provisioner: Required value
            reclaimPolicy: Unsupported value: "Burn": supported values: "Delete", "Retain"
            volumeBindingMode: Unsupported value: "Later": supported values: "Immediate", "WaitForFirstConsumer"
        "#]],
        );
        check_create(
            &StorageClass,
            json!({"provisioner": "a b", "parameters": {"": "x"}}),
            expect![[r#"
            provisioner: Invalid value: "a b": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            parameters: Invalid value: "": field can not be empty.
        "#]],
        );
        let topologies = json!([
            {"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a", "a"]}]},
            {"matchLabelExpressions": [{"key": "failure-domain.beta.kubernetes.io/zone", "values": ["a"]}]},
            {"matchLabelExpressions": [{"key": "-"}, {"key": "-"}]}]);
        check_create(
            &StorageClass,
            json!({"provisioner": "p", "allowedTopologies": topologies}),
            expect![[r#"
            allowedTopologies[0].matchLabelExpressions[0].values[1]: Duplicate value: "a"
            allowedTopologies[1].matchLabelExpressions: Duplicate value: ""
            allowedTopologies[2].matchLabelExpressions[0].values: Required value
            allowedTopologies[2].matchLabelExpressions[0].key: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            allowedTopologies[2].matchLabelExpressions[1].values: Required value
            allowedTopologies[2].matchLabelExpressions[1].key: Invalid value: "-": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            allowedTopologies[2].matchLabelExpressions[1].key: Duplicate value: "-"
            warning: allowedTopologies[0].matchLabelExpressions[0].key: deprecated since v1.17; use "topology.kubernetes.io/zone" instead
            warning: allowedTopologies[1].matchLabelExpressions[0].key: deprecated since v1.17; use "topology.kubernetes.io/zone" instead
        "#]],
        );
    }

    #[test]
    fn provisioner_and_parameters_never_change() {
        let new = json!({"provisioner": "p", "parameters": {"t": "hdd"}, "reclaimPolicy": "Retain",
            "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true});
        check_update(
            &StorageClass,
            new,
            class(),
            expect![[r#"
            parameters: Invalid value: {"t":"hdd"}: field is immutable
            provisioner: Invalid value: "p": field is immutable
            reclaimPolicy: Invalid value: "Retain": field is immutable
            volumeBindingMode: Invalid value: "WaitForFirstConsumer": field is immutable
        "#]],
        );
        let mut grows = class();
        grows["allowVolumeExpansion"] = json!(true);
        check_update(&StorageClass, grows, class(), expect![[""]]);
    }
}
