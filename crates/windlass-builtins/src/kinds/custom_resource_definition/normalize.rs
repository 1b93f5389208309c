//! Normalization of schemas to the form that kube-apiserver returns: union types (`items`, `additionalProperties`) lose
//! unknown fields, and whole numbers lose their fraction.

use serde_json::{Map, Value};

use super::schema::{FIELDS, Form};

/// Normalizes the schemas of a CRD.
pub(super) fn normalize(object: &mut Value) {
    let versions = object.pointer_mut("/spec/versions").and_then(Value::as_array_mut);
    for version in versions.into_iter().flatten() {
        if let Some(schema) = version.pointer_mut("/schema/openAPIV3Schema") {
            tidy_schema(schema);
        }
    }
}

/// Normalizes a schema: drops unknown fields, values of the wrong type and values that are omitted.
fn tidy_schema(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else {
        *schema = Value::Object(Map::new());
        return;
    };
    fields.retain(|name, value| {
        FIELDS.iter().find(|field| field.name == name).is_some_and(|field| keep(value, field.form, field.pointer))
    });
}

/// Normalizes the value of a field; returns whether to keep it.
fn keep(value: &mut Value, form: Form, pointer: bool) -> bool {
    match (form, &mut *value) {
        // An empty list of schemas, which kube-apiserver writes as null.
        (Form::Items, Value::Null) => true,
        (_, Value::Null) => false,
        (Form::Text, Value::String(text)) => pointer || !text.is_empty(),
        (Form::Flag, Value::Bool(flag)) => pointer || *flag,
        (Form::Number, Value::Number(_)) | (Form::Json, _) => {
            tidy_numbers(value);
            true
        }
        (Form::Texts, Value::Array(texts)) => !texts.is_empty() && texts.iter().all(Value::is_string),
        (Form::JsonList, Value::Array(list)) => {
            list.iter_mut().for_each(tidy_numbers);
            !list.is_empty()
        }
        (Form::Schema | Form::Items | Form::OrBool, Value::Object(_)) => {
            tidy_schema(value);
            true
        }
        (Form::Items, Value::Array(list)) => {
            list.iter_mut().for_each(tidy_schema);
            if list.is_empty() {
                *value = Value::Null;
            }
            true
        }
        (Form::OrBool, Value::Bool(_)) => true,
        (Form::Schemas, Value::Array(list)) => {
            list.iter_mut().for_each(tidy_schema);
            !list.is_empty()
        }
        (Form::SchemaMap, Value::Object(map)) => {
            map.values_mut().for_each(tidy_schema);
            !map.is_empty()
        }
        (Form::Dependencies, Value::Object(map)) => {
            map.retain(|_, value| value.is_array() || value.is_object());
            map.values_mut().filter(|value| value.is_object()).for_each(tidy_schema);
            !map.is_empty()
        }
        (Form::Docs, Value::Object(docs)) => {
            let is_text = |value: &Value| value.as_str().is_some_and(|text| !text.is_empty());
            docs.retain(|name, value| matches!(name.as_str(), "description" | "url") && is_text(value));
            true
        }
        (Form::Rules, Value::Array(rules)) => {
            rules.iter_mut().for_each(tidy_rule);
            !rules.is_empty()
        }
        _ => false,
    }
}

fn tidy_rule(rule: &mut Value) {
    let Some(fields) = rule.as_object_mut() else {
        *rule = serde_json::json!({"rule": ""});
        return;
    };
    fields.retain(|name, value| match name.as_str() {
        "message" | "messageExpression" | "fieldPath" => value.as_str().is_some_and(|text| !text.is_empty()),
        "reason" => value.is_string(),
        "optionalOldSelf" => value.is_boolean(),
        "rule" => value.is_string(),
        _ => false,
    });
    fields.entry("rule").or_insert_with(|| "".into());
}

/// Writes whole numbers without a fraction, as Go does.
fn tidy_numbers(value: &mut Value) {
    match value {
        Value::Number(number) if number.is_f64() => {
            let float = number.as_f64().unwrap_or_default();
            // Larger floats have no fraction and are written in another format.
            if float.fract() == 0.0 && float.abs() < 9e15 {
                *value = (float as i64).into();
            }
        }
        Value::Array(list) => list.iter_mut().for_each(tidy_numbers),
        Value::Object(map) => map.values_mut().for_each(tidy_numbers),
        _ => {}
    }
}
