//! CSIStorageCapacities: the storage that a CSI driver can still provision, per topology segment.

use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};

use super::pod::deprecated_label;
use crate::field_errors::FieldErrors;
use crate::object::{copy, entries, items, text};
use crate::resource_list::quantity;
use crate::strategy::Strategy;
use crate::validate;

/// Strategy of CSIStorageCapacities.
#[derive(Debug, Clone, Copy)]
pub struct CsiStorageCapacity;

impl Strategy for CsiStorageCapacity {
    fn validate(&self, object: &Value) -> ErrorList {
        validate(object, LabelSelectorOptions::default())
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let had = validate_label_selector(old.get("nodeTopology"), LabelSelectorOptions::default(), &Path::root());
        let options = LabelSelectorOptions { allow_invalid_values: !had.is_empty(), ..Default::default() };
        let mut errors = validate(object, options);
        for field in ["nodeTopology", "storageClassName"] {
            let pointer = format!("/{field}");
            errors.extend(validate::immutable(&Path::new(field), &copy(object, &pointer), &copy(old, &pointer)));
        }
        errors
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let mut warnings = Vec::new();
        for (index, expression) in items(object, "/nodeTopology/matchExpressions").iter().enumerate() {
            let key = text(expression, "/key");
            if let Some(message) = deprecated_label(key) {
                warnings.push(format!("nodeTopology.matchExpressions[{index}].key: {key} is {message}"));
            }
        }
        for (label, _) in entries(object, "/nodeTopology/matchLabels") {
            if let Some(message) = deprecated_label(label) {
                warnings.push(format!("nodeTopology.matchLabels.{label}: {message}"));
            }
        }
        warnings
    }
}

fn validate(object: &Value, options: LabelSelectorOptions) -> ErrorList {
    let mut errors = validate_label_selector(object.get("nodeTopology"), options, &Path::new("nodeTopology"));
    errors.dns_subdomain(&Path::new("storageClassName"), text(object, "/storageClassName"));
    if let Some(capacity) = object.get("capacity").and_then(quantity).filter(|capacity| capacity.sign() < 0) {
        errors.invalid(&Path::new("capacity"), capacity.to_string(), "must be greater than or equal to 0");
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn every_field_is_checked() {
        check_create(&CsiStorageCapacity, json!({"storageClassName": "c", "capacity": "1Gi"}), expect![[""]]);
        let topology = json!({"matchLabels": {"beta.kubernetes.io/os": "-"}});
        let bad = json!({"storageClassName": "", "capacity": "-1", "nodeTopology": topology});
        check_create(
            &CsiStorageCapacity,
            bad,
            expect![[r#"
            nodeTopology.matchLabels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            storageClassName: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            capacity: Invalid value: "-1": must be greater than or equal to 0
            warning: nodeTopology.matchLabels.beta.kubernetes.io/os: deprecated since v1.14; use "kubernetes.io/os" instead
        "#]],
        );
    }

    #[test]
    fn class_and_topology_never_change() {
        let new = json!({"storageClassName": "d", "nodeTopology": {"matchLabels": {"a": "b"}}, "capacity": "2"});
        check_update(
            &CsiStorageCapacity,
            new,
            json!({"storageClassName": "c", "capacity": "1"}),
            expect![[r#"
            nodeTopology: Invalid value: {"matchLabels":{"a":"b"}}: field is immutable
            storageClassName: Invalid value: "d": field is immutable
        "#]],
        );
    }
}
