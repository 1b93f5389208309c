//! Preparation of schemas before types are derived from them.

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::Object;

/// Keyword that preserves fields that the schema does not specify.
pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
/// Keywords whose value is a schema, or a list or map of schemas.
const ONE: &[&str] = &["items", "additionalProperties", "not"];
const SEVERAL: &[&str] = &["allOf", "anyOf", "oneOf"];

/// Maximum nesting depth, as in the API server.
const MAX_DEPTH: usize = 200;

/// Finds the first part of a schema that no API server accepts, with its path.
pub(super) fn check(schema: &Object) -> Result<(), (String, String)> {
    check_at(schema, "", 0)
}

fn check_at(schema: &Object, path: &str, depth: usize) -> Result<(), (String, String)> {
    let rejected = |why: &str| Err((place(path).to_owned(), why.to_owned()));
    if depth >= MAX_DEPTH {
        return Err((String::from("the object"), format!("it nests deeper than {MAX_DEPTH} levels")));
    }
    if schema.contains_key("$ref") {
        return rejected("$ref refers to another schema");
    }
    if schema.get("required").is_some_and(|names| !is_list_of_texts(names)) {
        return rejected("required is not a list of names");
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return rejected("items is a list of schemas");
    }
    if let Some(Value::Object(properties)) = schema.get("properties") {
        for (name, property) in properties {
            if let Value::Object(property) = property {
                check_at(property, &format!("{path}.{name}"), depth + 1)?;
            }
        }
    }
    let one = ONE.iter().filter_map(|keyword| schema.get(*keyword));
    let several = SEVERAL.iter().filter_map(|keyword| schema.get(*keyword)?.as_array()).flatten();
    one.chain(several).filter_map(Value::as_object).try_for_each(|inner| check_at(inner, path, depth + 1))
}

fn is_list_of_texts(value: &Value) -> bool {
    value.is_null() || value.as_array().is_some_and(|all| all.iter().all(Value::is_string))
}

/// Removes parts of a schema that kube-derive would misread, and notes the important ones.
pub(super) fn prepare(schema: &mut Object, path: &str, notes: &mut Vec<String>) {
    if is_int_or_string(schema) {
        // The branches only repeat it.
        if schema.get("anyOf").is_some_and(is_integer_or_string) {
            schema.remove("anyOf");
        }
        if let Some(Value::Array(all)) = schema.get_mut("allOf") {
            all.retain(|one| !one.get("anyOf").is_some_and(is_integer_or_string));
            if all.is_empty() {
                schema.remove("allOf");
            }
        }
        // kube-derive makes the field nullable by default.
        schema.entry("nullable").or_insert(Value::Bool(false));
    }
    for keyword in ["anyOf", "oneOf"] {
        let branches = schema.get(keyword).and_then(Value::as_array).into_iter().flatten();
        // kube-derive mistakes these for Rust enums and merges their branches.
        let misread = branches.filter_map(Value::as_object).any(|branch| {
            ["properties", "enum", "additionalProperties"].iter().any(|keyword| branch.contains_key(*keyword))
        });
        if misread {
            schema.remove(keyword);
            notes.push(format!("{}: {keyword} over fields is dropped: use a CEL rule instead", place(path)));
        }
    }
    if schema.get("additionalProperties").is_some() && schema.contains_key("properties") {
        schema.remove("additionalProperties");
        notes.push(format!(
            "{}: has both properties and additionalProperties; only the properties are kept",
            place(path)
        ));
    }
    if let Some(Value::Object(properties)) = schema.get_mut("properties") {
        for (name, property) in properties {
            prepare_value(property, &format!("{path}.{name}"), notes);
        }
    }
    for keyword in ONE {
        if let Some(inner) = schema.get_mut(*keyword) {
            let end = if *keyword == "items" { "[]" } else { "" };
            prepare_value(inner, &format!("{path}{end}"), notes);
        }
    }
    for keyword in SEVERAL {
        if let Some(Value::Array(inner)) = schema.get_mut(*keyword) {
            inner.iter_mut().for_each(|inner| prepare_value(inner, path, notes));
        }
    }
}

fn prepare_value(schema: &mut Value, path: &str, notes: &mut Vec<String>) {
    if let Value::Object(schema) = schema {
        prepare(schema, path, notes);
    }
}

fn place(path: &str) -> &str {
    if path.is_empty() { "the object" } else { path.trim_start_matches('.') }
}

/// Returns whether a keyword is set to true.
pub(super) fn is_set(schema: &Object, keyword: &str) -> bool {
    schema.get(keyword) == Some(&Value::Bool(true))
}

pub(super) fn is_int_or_string(schema: &Object) -> bool {
    is_set(schema, "x-kubernetes-int-or-string")
}

/// `[{type: integer}, {type: string}]`
fn is_integer_or_string(branches: &Value) -> bool {
    let types = branches.as_array().into_iter().flatten().map(|branch| branch.get("type").and_then(Value::as_str));
    types.eq([Some("integer"), Some("string")])
}

/// The schema without descriptions, which become comments.
pub(super) fn without_words(schema: &Value) -> Value {
    let Value::Object(schema) = schema else { return schema.clone() };
    let mut bare = Object::new();
    for (keyword, value) in schema {
        let value = match keyword.as_str() {
            "description" | "externalDocs" | "example" | "title" | "$schema" | "id" => continue,
            "properties" => match value {
                Value::Object(properties) => properties
                    .iter()
                    .map(|(name, property)| (name.clone(), without_words(property)))
                    .gather::<Object>()
                    .into(),
                other => other.clone(),
            },
            keyword if ONE.contains(&keyword) => without_words(value),
            keyword if SEVERAL.contains(&keyword) => match value {
                Value::Array(schemas) => schemas.iter().map(without_words).collect::<Vec<_>>().into(),
                other => other.clone(),
            },
            _ => value.clone(),
        };
        bare.insert(keyword.clone(), value);
    }
    Value::Object(bare)
}
