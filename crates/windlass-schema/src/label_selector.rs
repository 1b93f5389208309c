//! Validation of `LabelSelector` fields; see [`crate::selector`] for parsing selectors in query strings.

use serde_json::Value;

use crate::field::{ErrorList, FieldError, Path};
use crate::names;
use crate::object_meta::{validate_label_name, validate_labels};

/// Exceptions to the rules for new selectors.
#[derive(Debug, Clone, Copy, Default)]
pub struct LabelSelectorOptions {
    /// Allow values that are not valid label values: for objects that already had them.
    pub allow_invalid_values: bool,
    /// Allow unknown operators: for access reviews.
    pub allow_unknown_operators: bool,
}

/// Validates a selector; an absent one is valid.
pub fn validate_label_selector(selector: Option<&Value>, options: LabelSelectorOptions, path: &Path) -> ErrorList {
    let Some(selector) = selector.and_then(Value::as_object) else { return Vec::new() };
    let labels = selector.get("matchLabels").and_then(Value::as_object);
    let mut errors = validate_labels(labels, &path.child("matchLabels"));
    let expressions = selector.get("matchExpressions").and_then(Value::as_array);
    for (index, expression) in expressions.into_iter().flatten().enumerate() {
        let path = path.child("matchExpressions").index(index);
        errors.extend(validate_label_selector_requirement(expression, options, &path));
    }
    errors
}

/// Validates one requirement of `matchExpressions`.
pub fn validate_label_selector_requirement(
    requirement: &Value,
    options: LabelSelectorOptions,
    path: &Path,
) -> ErrorList {
    let mut errors = Vec::new();
    let text = |key: &str| requirement.get(key).and_then(Value::as_str).unwrap_or_default();
    let values = requirement.get("values").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
    match text("operator") {
        "In" | "NotIn" if values.is_empty() => {
            let detail = "must be specified when `operator` is 'In' or 'NotIn'";
            errors.push(FieldError::required(&path.child("values"), detail));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
            errors.push(FieldError::forbidden(&path.child("values"), detail));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        _ if options.allow_unknown_operators => {}
        other => {
            let path = path.child("operator");
            errors.push(FieldError::invalid(&path, &Value::from(other), "not a valid selector operator"));
        }
    }
    errors.extend(validate_label_name(text("key"), &path.child("key")));
    if !options.allow_invalid_values {
        for (index, value) in values.iter().enumerate() {
            for message in names::is_valid_label_value(value.as_str().unwrap_or_default()) {
                errors.push(FieldError::invalid(&path.child("values").index(index), value, message));
            }
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    #[test]
    fn each_requirement_is_validated_by_its_operator() {
        let selector = json!({
            "matchLabels": {"app": "-x"},
            "matchExpressions": [
                {"key": "a", "operator": "In"},
                {"key": "a", "operator": "Exists", "values": ["b"]},
                {"key": "", "operator": "Near", "values": ["_"]},
            ],
        });
        let errors = validate_label_selector(Some(&selector), LabelSelectorOptions::default(), &Path::new("selector"));
        let text: Vec<_> = errors.iter().map(ToString::to_string).collect();
        expect![[r#"
            selector.matchLabels: Invalid value: "-x": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            selector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'
            selector.matchExpressions[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'
            selector.matchExpressions[2].operator: Invalid value: "Near": not a valid selector operator
            selector.matchExpressions[2].key: Invalid value: "": name part must be non-empty
            selector.matchExpressions[2].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            selector.matchExpressions[2].values[0]: Invalid value: "_": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"#]].assert_eq(&text.join("\n"));
        assert!(validate_label_selector(None, LabelSelectorOptions::default(), &Path::new("s")).is_empty());
    }
}
