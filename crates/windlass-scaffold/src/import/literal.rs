//! JSON values and strings as Rust literals.

use serde_json::{Number, Value};

use super::Object;

/// A string literal; raw if that is easier to read.
pub(super) fn text(text: &str) -> String {
    let plain = text.chars().all(|letter| !letter.is_control() && !is_hidden(letter));
    if !plain || !text.contains(['"', '\\']) {
        return format!("{text:?}");
    }
    let mut signs = String::new();
    while text.contains(&format!("\"{signs}")) {
        signs.push('#');
    }
    format!("r{signs}\"{text}\"{signs}")
}

/// Characters that change the direction of text, which rustc rejects.
fn is_hidden(letter: char) -> bool {
    matches!(letter, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// A value in the syntax of `json!`.
pub(super) fn json(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => number(value),
        Value::String(value) => text(value),
        Value::Array(values) => format!("[{}]", values.iter().map(json).collect::<Vec<_>>().join(", ")),
        Value::Object(values) => format!("{{{}}}", entries(values).join(", ")),
    }
}

fn entries(values: &Object) -> Vec<String> {
    values.iter().map(|(key, value)| format!("{}: {}", text(key), json(value))).collect()
}

/// A number of any size.
pub(super) fn number(value: &Number) -> String {
    match (value.as_i64(), value.as_u64()) {
        (Some(whole), _) if i32::try_from(whole).is_ok() => whole.to_string(),
        (Some(whole), _) => format!("{whole}i64"),
        (_, Some(whole)) => format!("{whole}u64"),
        _ => format!("{:?}f64", value.as_f64().unwrap_or_default()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn values_are_valid_input_of_the_json_macro() {
        for (value, expected) in [
            (json!({"b": [1, -2, null], "a": true}), r#"{"a": true, "b": [1, -2, null]}"#),
            (json!(3_000_000_000_i64), "3000000000i64"),
            (json!(u64::MAX), "18446744073709551615u64"),
            (json!(0.5), "0.5f64"),
            (json!("^\"a\"$"), "r#\"^\"a\"$\"#"),
            (json!("a\n"), "\"a\\n\""),
            (json!("\\d"), "r\"\\d\""),
        ] {
            assert_eq!(super::json(&value), expected);
        }
    }
}
