//! RuntimeClasses.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::pod::deprecated_label;
use super::pod::validation::resources::validate_as_limits;
use super::pod::validation::scheduling::validate_tolerations;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::kinds::label_selector::validate_labels;
use crate::object::{copy, entries, is_set, items, text};
use crate::resource_list::round_up;
use crate::strategy::Strategy;
use crate::validate::{self, go_struct};

/// Strategy of RuntimeClasses.
#[derive(Debug, Clone, Copy)]
pub struct RuntimeClass;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for RuntimeClass {
    fn default(&self, object: &mut Value) {
        round_up(object, "/overhead/podFixed");
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("handler");
        match text(object, "/handler") {
            "" => errors.required(&path),
            handler => errors.dns_label(&path, handler),
        }
        if is_set(object, "/overhead") {
            validate_as_limits(object, "/overhead/podFixed", &Path::new("overhead"), &mut errors);
        }
        let path = Path::new("scheduling");
        validate_labels(object, "/scheduling/nodeSelector", &path.child("nodeSelector"), &mut errors);
        validate_unique_tolerations(object, &path.child("tolerations"), &mut errors);
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(object);
        errors.extend(validate::immutable(&Path::new("handler"), &copy(object, "/handler"), &copy(old, "/handler")));
        errors
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        let labels = entries(object, "/scheduling/nodeSelector").filter_map(|(label, _)| deprecated_label(label));
        labels.map(|message| format!("scheduling.nodeSelector: {message}")).collect()
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/handler").into(), age(object, now)]
}

fn validate_unique_tolerations(object: &Value, path: &Path, errors: &mut ErrorList) {
    let tolerations = items(object, "/scheduling/tolerations");
    validate_tolerations(tolerations, path, errors);
    let mut seen = BTreeSet::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        let part = |field: &str| text(toleration, &format!("/{field}")).to_owned();
        let parts = ["key", "operator", "value", "effect"].map(part);
        if seen.contains(&parts) {
            let [key, operator, value, effect] = parts.map(Value::from);
            let seconds = copy(toleration, "/tolerationSeconds");
            let shown = go_struct(&[
                ("Key", &key),
                ("Operator", &operator),
                ("Value", &value),
                ("Effect", &effect),
                ("TolerationSeconds", &seconds),
            ]);
            errors.duplicate_shown(&path.index(index), shown);
        } else {
            seen.insert(parts);
        }
    }
}

const COLUMNS: &[Column] = &[NAME, column("Handler", "string", ""), AGE];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    #[test]
    fn every_field_is_checked() {
        check_create(&RuntimeClass, json!({"handler": "runc", "overhead": {"podFixed": {"cpu": "1"}}}), expect![[""]]);
        check_create(
            &RuntimeClass,
            json!({"overhead": {"podFixed": {"x": "-1"}}}),
            expect![[r#"
            handler: Required value
            overhead.limits[x]: Invalid value: "x": must be a standard resource type or fully qualified
            overhead.limits[x]: Invalid value: "x": must be a standard resource for containers
            overhead.limits[x]: Invalid value: "-1": must be greater than or equal to 0
        "#]],
        );
        let scheduling = json!({"nodeSelector": {"beta.kubernetes.io/os": "-"}, "tolerations": [
            {"key": "a", "operator": "Exists"}, {"key": "a", "operator": "Exists"}, {"operator": "Equal"}]});
        check_create(
            &RuntimeClass,
            json!({"handler": "A_", "scheduling": scheduling}),
            expect![[r#"
            handler: Invalid value: "A_": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
            scheduling.nodeSelector: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            scheduling.tolerations[2].operator: Invalid value: "Equal": operator must be Exists when `key` is empty, which means "match all values and all keys"
            scheduling.tolerations[1]: Duplicate value: {"Key":"a","Operator":"Exists","Value":"","Effect":"","TolerationSeconds":null}
            warning: scheduling.nodeSelector: deprecated since v1.14; use "kubernetes.io/os" instead
        "#]],
        );
    }

    #[test]
    fn the_handler_never_changes() {
        check_update(
            &RuntimeClass,
            json!({"handler": "b"}),
            json!({"handler": "a"}),
            expect![[r#"
            handler: Invalid value: "b": field is immutable
        "#]],
        );
    }
}
