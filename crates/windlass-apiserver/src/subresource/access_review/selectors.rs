//! Selectors of access reviews. Parts that cannot be parsed are ignored: the rest selects more objects, so that
//! nothing is allowed that should not be.

use serde_json::Value;
use windlass_schema::selector::{FieldSelector, LabelSelector, Operator, Requirement};

/// A selector as in the query of a request.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Selector {
    /// The parts that were understood.
    pub(super) text: String,
    /// Whether there were others.
    is_partial: bool,
}

impl Selector {
    /// Returns what was ignored of a selector in this field.
    pub(super) fn ignored(&self, field: &str) -> Option<String> {
        let how = if self.text.is_empty() { "" } else { "partially " };
        self.is_partial.then(|| format!("spec.resourceAttributes.{field} {how}ignored due to parse error"))
    }

    pub(super) fn of_fields(selector: &Value) -> Self {
        match raw(selector) {
            Some(raw) if FieldSelector::parse(raw).is_ok() => Self { text: raw.to_owned(), is_partial: false },
            Some(_) => Self { text: String::new(), is_partial: true },
            None => Self::of_requirements(selector, field_requirement),
        }
    }

    pub(super) fn of_labels(selector: &Value) -> Self {
        match raw(selector) {
            Some(raw) if LabelSelector::parse(raw).is_ok() => Self { text: raw.to_owned(), is_partial: false },
            Some(_) => Self { text: String::new(), is_partial: true },
            None => Self::of_requirements(selector, label_requirement),
        }
    }

    fn of_requirements(selector: &Value, read: fn(&Value) -> Option<String>) -> Self {
        let requirements = selector["requirements"].as_array().map(Vec::as_slice).unwrap_or_default();
        let terms: Vec<String> = requirements.iter().filter_map(read).collect();
        Self { is_partial: terms.len() < requirements.len(), text: terms.join(",") }
    }
}

fn raw(selector: &Value) -> Option<&str> {
    selector["rawSelector"].as_str().filter(|raw| !raw.is_empty())
}

fn values(requirement: &Value) -> Vec<&str> {
    requirement["values"].as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

fn field_requirement(requirement: &Value) -> Option<String> {
    let operator = match requirement["operator"].as_str()? {
        "In" => "=",
        "NotIn" => "!=",
        _ => return None,
    };
    let [value] = values(requirement)[..] else { return None };
    let value = value.replace('\\', r"\\").replace(',', r"\,").replace('=', r"\=");
    Some(format!("{}{operator}{value}", requirement["key"].as_str()?))
}

fn label_requirement(requirement: &Value) -> Option<String> {
    let key = requirement["key"].as_str()?;
    let values = values(requirement);
    let owned = values.iter().map(|value| (*value).to_owned()).collect();
    let (operator, text) = match requirement["operator"].as_str()? {
        "In" => (Operator::In, format!("{key} in ({})", values.join(","))),
        "NotIn" => (Operator::NotIn, format!("{key} notin ({})", values.join(","))),
        "Exists" => (Operator::Exists, key.to_owned()),
        "DoesNotExist" => (Operator::DoesNotExist, format!("!{key}")),
        _ => return None,
    };
    Requirement::new(key, operator, owned).is_ok().then_some(text)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn requirements_become_the_selector_of_a_request() {
        let requirement =
            |key: &str, operator: &str, values: &[&str]| json!({"key": key, "operator": operator, "values": values});
        let selector = |requirements: &[Value]| json!({"requirements": requirements});
        for (read, given, text, ignored) in [
            (Selector::of_fields as fn(&Value) -> Selector, json!({"rawSelector": "a=b"}), "a=b", None),
            (Selector::of_fields, json!({"rawSelector": "a"}), "", Some("x ignored")),
            (Selector::of_fields, Value::Null, "", None),
            (
                Selector::of_fields,
                selector(&[
                    requirement("a", "In", &["b,c=d\\"]),
                    requirement("b", "Exists", &[]),
                    requirement("c", "NotIn", &["x"]),
                ]),
                r"a=b\,c\=d\\,c!=x",
                Some("x partially ignored"),
            ),
            (Selector::of_fields, selector(&[requirement("a", "In", &["b", "c"])]), "", Some("x ignored")),
            (Selector::of_labels, json!({"rawSelector": "a in (b"}), "", Some("x ignored")),
            (
                Selector::of_labels,
                selector(&[
                    requirement("a", "In", &["b", "c"]),
                    requirement("d", "NotIn", &["e"]),
                    requirement("f", "Exists", &[]),
                    requirement("g", "DoesNotExist", &[]),
                ]),
                "a in (b,c),d notin (e),f,!g",
                None,
            ),
            (Selector::of_labels, selector(&[requirement("a", "Near", &["b"])]), "", Some("x ignored")),
        ] {
            let selector = read(&given);
            assert_eq!(selector.text, text, "{given}");
            let expected = ignored.map(|ignored| format!("spec.resourceAttributes.{ignored} due to parse error"));
            assert_eq!(selector.ignored("x"), expected, "{given}");
            if !text.is_empty() {
                assert!(FieldSelector::parse(text).is_ok() || LabelSelector::parse(text).is_ok(), "{text}");
            }
        }
    }
}
