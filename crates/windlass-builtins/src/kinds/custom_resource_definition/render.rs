//! Formatting of internal-version values as in kube-apiserver's messages: JSON with Go field names.

use serde_json::Value;
use windlass_schema::go_format::marshal as json;

use super::internal_version::Version;
use super::schema::{FIELDS, Field, Form, Props};
use crate::object::{boolean, text};

/// Formats a list of versions.
pub(super) fn versions(versions: &[Version<'_>]) -> String {
    list(versions.iter().map(version))
}

/// Formats a schema.
pub(super) fn schema(schema: Props<'_>) -> String {
    object(FIELDS.iter().map(|field| (field.inner, schema_field(schema, field))))
}

/// Formats the value of `items`.
pub(super) fn items(value: &Value) -> String {
    let (one, many) = match value {
        Value::Object(_) => (schema(Props::new(value)), "null".to_owned()),
        Value::Array(many) => ("null".to_owned(), list(many.iter().map(|one| schema(Props::new(one))))),
        _ => ("null".to_owned(), "null".to_owned()),
    };
    object([("Schema", one), ("JSONSchemas", many)])
}

fn schema_field(props: Props<'_>, field: &Field) -> String {
    let value = props.value(field.name);
    let null = || "null".to_owned();
    match (field.form, value) {
        (Form::Text, None) if !field.pointer => "\"\"".to_owned(),
        (Form::Flag, None) if !field.pointer => "false".to_owned(),
        (_, None) => null(),
        (Form::Text | Form::Flag | Form::Number | Form::Texts | Form::Json | Form::JsonList, Some(value)) => {
            json(value)
        }
        (Form::Schema, Some(value)) => schema(Props::new(value)),
        (Form::Schemas, Some(value)) => list(value.as_array().into_iter().flatten().map(|one| schema(Props::new(one)))),
        (Form::SchemaMap, Some(_)) => object(props.named(field.name).map(|(name, property)| (name, schema(property)))),
        (Form::Items, Some(value)) => items(value),
        (Form::OrBool, Some(value)) => {
            let either = value.is_object().then(|| schema(Props::new(value)));
            let allows = value.as_bool().unwrap_or(either.is_some());
            object([("Allows", allows.to_string()), ("Schema", either.unwrap_or_else(null))])
        }
        (Form::Dependencies, Some(value)) => object(value.as_object().into_iter().flatten().map(|(name, value)| {
            let either = if value.is_object() { schema(Props::new(value)) } else { null() };
            let names = if value.is_array() { json(value) } else { null() };
            (name.as_str(), object([("Schema", either), ("Property", names)]))
        })),
        (Form::Docs, Some(value)) => {
            let field = |pointer| json(&text(value, pointer).into());
            object([("Description", field("/description")), ("URL", field("/url"))])
        }
        (Form::Rules, Some(value)) => list(value.as_array().into_iter().flatten().map(rule)),
    }
}

/// Formats a rule of `x-kubernetes-validations`.
pub(super) fn rule(rule: &Value) -> String {
    let field = |name| json(&rule.get(name).cloned().unwrap_or_else(|| "".into()));
    let pointer = |name| json(rule.get(name).unwrap_or(&Value::Null));
    object([
        ("Rule", field("rule")),
        ("Message", field("message")),
        ("MessageExpression", field("messageExpression")),
        ("Reason", pointer("reason")),
        ("FieldPath", field("fieldPath")),
        ("OptionalOldSelf", pointer("optionalOldSelf")),
    ])
}

fn version(version: &Version<'_>) -> String {
    let flag = |pointer| boolean(version.value, pointer).unwrap_or_default().to_string();
    let column = |column: &Value| {
        let field = |pointer| json(&text(column, pointer).into());
        object([
            ("Name", field("/name")),
            ("Type", field("/type")),
            ("Format", field("/format")),
            ("Description", field("/description")),
            ("Priority", column["priority"].as_i64().unwrap_or_default().to_string()),
            ("JSONPath", field("/jsonPath")),
        ])
    };
    let selectable = |field: &Value| object([("JSONPath", json(&text(field, "/jsonPath").into()))]);
    let each = |value: Option<&Value>, one: &dyn Fn(&Value) -> String| match value.and_then(Value::as_array) {
        None => "null".to_owned(),
        Some(all) => list(all.iter().map(one)),
    };
    let validation = version.schema.map_or_else(
        || "null".to_owned(),
        |validation| {
            let props = super::internal_version::open_api(validation).map_or_else(|| "null".to_owned(), schema);
            object([("OpenAPIV3Schema", props)])
        },
    );
    object([
        ("Name", json(&version.name.into())),
        ("Served", flag("/served")),
        ("Storage", flag("/storage")),
        ("Deprecated", flag("/deprecated")),
        ("DeprecationWarning", json(version.value.get("deprecationWarning").unwrap_or(&Value::Null))),
        ("Schema", validation),
        ("Subresources", version.subresources.map_or_else(|| "null".to_owned(), subresources)),
        ("AdditionalPrinterColumns", each(version.columns, &column)),
        ("SelectableFields", each(version.selectable, &selectable)),
    ])
}

fn subresources(value: &Value) -> String {
    let status = if value["status"].is_object() { "{}" } else { "null" }.to_owned();
    let scale = value.get("scale").filter(|scale| scale.is_object()).map(|scale| {
        object([
            ("SpecReplicasPath", json(&text(scale, "/specReplicasPath").into())),
            ("StatusReplicasPath", json(&text(scale, "/statusReplicasPath").into())),
            ("LabelSelectorPath", json(scale.get("labelSelectorPath").unwrap_or(&Value::Null))),
        ])
    });
    object([("Status", status), ("Scale", scale.unwrap_or_else(|| "null".to_owned()))])
}

fn list(parts: impl Iterator<Item = String>) -> String {
    format!("[{}]", parts.collect::<Vec<_>>().join(","))
}

fn object<'a>(fields: impl IntoIterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<_> = fields.into_iter().map(|(name, value)| format!("{}:{value}", json(&name.into()))).collect();
    format!("{{{}}}", fields.join(","))
}
