//! Formatting of values as in kube-apiserver's messages: with the field names of its internal types, including unset
//! fields.

mod template;

use serde_json::Value;
use windlass_schema::go_format::marshal;

use super::pod_template::show_selector;

pub(super) use template::{
    show_claim_spec, show_ephemeral_container, show_pod_spec, show_template, show_volume_source,
};

/// The type of a field.
pub(super) enum Shape {
    /// A value that is shown as is, or as this string if it is absent.
    Plain(&'static str),
    /// A struct. If it is absent, a pointer is shown as `null`, and a value with all fields unset.
    Struct { fields: &'static [Field], pointer: bool },
    /// A list of structs; `null` if it is absent.
    List(&'static [Field]),
    /// A pointer to a label selector.
    Selector,
}

/// A field: its name in the internal type, its name in JSON, and its type.
pub(super) type Field = (&'static str, &'static str, Shape);

/// An optional value.
pub(super) const OPTIONAL: Shape = Shape::Plain("null");
/// A number.
pub(super) const NUMBER: Shape = Shape::Plain("0");
/// A string.
pub(super) const TEXT: Shape = Shape::Plain("\"\"");

/// A pointer to a struct.
pub(super) const fn pointer(fields: &'static [Field]) -> Shape {
    Shape::Struct { fields, pointer: true }
}

/// Formats a struct; an absent one as if all fields were unset.
pub(super) fn show(value: &Value, fields: &[Field]) -> String {
    let show = |(name, json, shape): &Field| format!("\"{name}\":{}", show_field(value.get(json), shape));
    format!("{{{}}}", fields.iter().map(show).collect::<Vec<_>>().join(","))
}

/// Formats a pointer to a struct.
pub(super) fn show_pointer(value: &Value, fields: &[Field]) -> String {
    if value.is_null() { "null".to_owned() } else { show(value, fields) }
}

fn show_field(value: Option<&Value>, shape: &Shape) -> String {
    let value = value.filter(|value| !value.is_null());
    match (shape, value) {
        (Shape::Plain(zero), None) => (*zero).to_owned(),
        (Shape::Plain(_), Some(value)) => marshal(value),
        (Shape::Struct { pointer: true, .. } | Shape::List(_) | Shape::Selector, None) => "null".to_owned(),
        (Shape::Selector, Some(value)) => show_selector(value),
        (Shape::Struct { fields, .. }, value) => show(value.unwrap_or(&Value::Null), fields),
        (Shape::List(fields), Some(value)) => {
            let items = value.as_array().map_or(&[][..], Vec::as_slice);
            format!("[{}]", items.iter().map(|item| show(item, fields)).collect::<Vec<_>>().join(","))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_field_is_shown_under_its_name_inside_the_server() {
        const INNER: &[Field] = &[("Key", "key", TEXT), ("Values", "values", OPTIONAL)];
        const OUTER: &[Field] = &[
            ("Count", "count", NUMBER),
            ("Inner", "inner", Shape::Struct { fields: INNER, pointer: false }),
            ("Maybe", "maybe", pointer(INNER)),
            ("List", "list", Shape::List(INNER)),
        ];
        assert_eq!(
            show(&json!({"list": [{"key": "<a>"}, {"values": [1]}], "count": null}), OUTER),
            r#"{"Count":0,"Inner":{"Key":"","Values":null},"Maybe":null,"List":[{"Key":"\u003ca\u003e","Values":null},{"Key":"","Values":[1]}]}"#
        );
        assert_eq!(show_pointer(&Value::Null, INNER), "null");
    }
}
