//! Values as Go encodes those of kube-apiserver's internal types, which have no JSON names: field errors show them so.

use serde_json::Value;
use windlass_schema::go_format;

/// A Go type.
#[derive(Debug, Clone, Copy)]
pub(crate) enum GoType {
    /// A scalar, and how its zero value is written.
    Scalar(&'static str),
    /// A struct.
    Struct(&'static [GoField]),
    /// A pointer to a struct.
    Pointer(&'static [GoField]),
    /// A slice.
    List(&'static GoType),
}

/// A field of a struct: its name in Go, its name in JSON, its type.
pub(crate) type GoField = (&'static str, &'static str, GoType);

impl GoType {
    pub(crate) const STRING: Self = Self::Scalar("\"\"");
    pub(crate) const INT: Self = Self::Scalar("0");
    pub(crate) const BOOL: Self = Self::Scalar("false");
    /// A pointer to a number.
    pub(crate) const INT_POINTER: Self = Self::Scalar("null");
    pub(crate) const STRINGS: Self = Self::List(&Self::STRING);

    /// Encodes a value of the type.
    pub(crate) fn encode(&self, value: &Value) -> String {
        self.write(value, "[]")
    }

    /// Returns whether two values are the same to Go's `Semantic.DeepEqual`: absent lists are empty.
    pub(crate) fn is_equal(&self, one: &Value, other: &Value) -> bool {
        self.write(one, "null") == self.write(other, "null")
    }

    fn write(&self, value: &Value, empty: &str) -> String {
        match (self, value) {
            (Self::Scalar(zero), Value::Null) => (*zero).to_owned(),
            (Self::Scalar(_), value) => go_format::marshal(value),
            (Self::List(_) | Self::Pointer(_), Value::Null) => "null".to_owned(),
            (Self::List(_), Value::Array(items)) if items.is_empty() => empty.to_owned(),
            (Self::List(of), value) => {
                let items = value.as_array().into_iter().flatten().map(|item| of.write(item, empty));
                format!("[{}]", items.collect::<Vec<_>>().join(","))
            }
            (Self::Struct(fields) | Self::Pointer(fields), value) => {
                let field = |(go, json, of): &GoField| format!("\"{go}\":{}", of.write(&value[*json], empty));
                format!("{{{}}}", fields.iter().map(field).collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const INNER: GoType = GoType::Pointer(&[("Name", "name", GoType::STRING), ("Size", "size", GoType::INT_POINTER)]);
    const OUTER: GoType = GoType::Struct(&[
        ("Inner", "inner", INNER),
        ("Names", "names", GoType::STRINGS),
        ("On", "isOn", GoType::BOOL),
        ("Count", "count", GoType::INT),
    ]);

    #[test]
    fn fields_are_in_the_order_of_go_with_their_zero_values() {
        for (value, expected) in [
            (json!({}), r#"{"Inner":null,"Names":null,"On":false,"Count":0}"#),
            (
                json!({"count": 2, "isOn": true, "names": [], "inner": {}}),
                r#"{"Inner":{"Name":"","Size":null},"Names":[],"On":true,"Count":2}"#,
            ),
            (
                json!({"names": ["a", "<"], "inner": {"size": 1, "name": "n"}}),
                r#"{"Inner":{"Name":"n","Size":1},"Names":["a","\u003c"],"On":false,"Count":0}"#,
            ),
        ] {
            assert_eq!(OUTER.encode(&value), expected);
        }
    }

    #[test]
    fn absent_lists_are_empty_and_absent_pointers_are_not_zero() {
        assert!(OUTER.is_equal(&json!({"names": []}), &json!({"count": 0})));
        assert!(!OUTER.is_equal(&json!({"inner": {}}), &json!({})));
        assert!(!OUTER.is_equal(&json!({"names": ["a"]}), &json!({})));
    }
}
