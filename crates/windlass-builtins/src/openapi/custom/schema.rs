//! The schema of a CRD as published in either version of OpenAPI.
//!
//! Version 3 can express everything. Version 2 has neither null nor alternatives, and kubectl treats a declared type as
//! exhaustive, so types that it cannot express are left open there.

use serde_json::{Map, Number, Value, json};
use windlass_schema::{json::format_float, sorting::Gather as _};

use super::{CustomSubject, META};
use crate::openapi::{Descriptions, Dialect};

/// The built-in kind whose `apiVersion`, `kind` and `metadata` have the same descriptions as those of custom resources.
const LIKE: &str = "io.k8s.api.core.v1.Pod";

// Descriptions of fields that built-in kinds do not have.
const EMBEDDED_API_VERSION: &str = "apiVersion defines the versioned schema of this representation of an object. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#resources";
const EMBEDDED_KIND: &str = "kind is a string value representing the type of this object. In CamelCase. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";
const LIST_METADATA: &str = "Standard list metadata. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#types-kinds";

const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";

type Schema = Map<String, Value>;

/// Returns the schema of the object.
pub(super) fn of_object(subject: &CustomSubject<'_>, dialect: Dialect, descriptions: &dyn Descriptions) -> Value {
    let open = |schema: &Value| dialect == Dialect::V2 && (subject.preserve_unknown_fields || is(schema, PRESERVE));
    let mut schema = match subject.schema {
        Some(schema) if !open(schema) => {
            let mut published = structural(schema, dialect, descriptions);
            add_properties(&mut published, [None; 2], dialect, descriptions);
            published
        }
        // If any property were listed, kubectl would reject all others.
        _ => [("type".to_owned(), json!("object"))].into_iter().gather(),
    };
    add_extensions(&mut schema, subject, subject.kind);
    Value::Object(schema)
}

/// Returns the schema of lists of the object.
pub(super) fn of_list(
    subject: &CustomSubject<'_>,
    object: &str,
    dialect: Dialect,
    descriptions: &dyn Descriptions,
) -> Value {
    let items = format!(
        "List of {}. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md",
        subject.plural
    );
    let fields = [
        ("description".to_owned(), json!(format!("{} is a list of {}", subject.list_kind, subject.kind))),
        ("type".to_owned(), json!("object")),
        ("required".to_owned(), json!(["items"])),
    ];
    let mut schema: Schema = fields.into_iter().gather();
    add_properties(&mut schema, [None; 2], dialect, descriptions);
    let properties = properties(&mut schema);
    properties.insert("metadata".to_owned(), described("ListMeta", Some(LIST_METADATA), dialect));
    let items = json!({"description": items, "type": "array", "items": dialect.reference(object)});
    properties.insert("items".to_owned(), items);
    add_extensions(&mut schema, subject, subject.list_kind);
    Value::Object(schema)
}

fn add_extensions(schema: &mut Schema, subject: &CustomSubject<'_>, kind: &str) {
    let kind = json!([{"group": subject.group, "kind": kind, "version": subject.version}]);
    schema.insert("x-kubernetes-group-version-kind".to_owned(), kind);
    if !subject.selectable_fields.is_empty() {
        let field = |field: &Value| {
            let path = field.get("jsonPath").and_then(Value::as_str).unwrap_or_default();
            json!({"fieldPath": path.strip_prefix('.').unwrap_or(path)})
        };
        let fields = subject.selectable_fields.iter().map(field).collect();
        schema.insert("x-kubernetes-selectable-fields".to_owned(), fields);
    }
}

/// Adds the properties that every object has. The descriptions of `apiVersion` and `kind` are the usual ones, unless
/// others are given.
fn add_properties(
    schema: &mut Schema,
    [api_version, kind]: [Option<&str>; 2],
    dialect: Dialect,
    descriptions: &dyn Descriptions,
) {
    let properties = properties(schema);
    for (name, description) in [("apiVersion", api_version), ("kind", kind)] {
        let mut property = json!({"type": "string"});
        if let Some(description) = description.or_else(|| descriptions.property(LIKE, name)) {
            property["description"] = json!(description);
        }
        properties.insert(name.to_owned(), property);
    }
    let metadata = described("ObjectMeta", descriptions.property(LIKE, "metadata"), dialect);
    properties.insert("metadata".to_owned(), metadata);
}

fn properties(schema: &mut Schema) -> &mut Schema {
    let properties = schema.entry("properties").or_insert_with(|| Value::Object(Map::new()));
    properties.as_object_mut().expect("properties must be an object")
}

/// Returns a reference with a description, which version 3 does not allow next to each other.
fn described(name: &str, description: Option<&str>, dialect: Dialect) -> Value {
    let mut reference = dialect.reference(&format!("{META}{name}"));
    if let Some(description) = description {
        if dialect == Dialect::V3 {
            reference = json!({"allOf": [reference]});
        }
        reference["description"] = json!(description);
    }
    reference
}

/// Returns whether a keyword is `true`.
fn is(schema: &Value, keyword: &str) -> bool {
    schema.get(keyword).and_then(Value::as_bool) == Some(true)
}

/// Converts a schema that declares the type of a value.
fn structural(of: &Value, dialect: Dialect, descriptions: &dyn Descriptions) -> Schema {
    let mut schema = keywords(of, dialect);
    if dialect == Dialect::V2 {
        narrow(of, &mut schema);
    }
    // Keywords that were removed from `schema` are not descended into.
    let wanted = |schema: &Schema, keyword: &str| dialect == Dialect::V3 || schema.contains_key(keyword);
    if let Some(items) = of.get("items").filter(|items| items.is_object() && wanted(&schema, "items")) {
        schema.insert("items".to_owned(), structural(items, dialect, descriptions).into());
    }
    let fields = of.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty());
    if let Some(fields) = fields.filter(|_| wanted(&schema, "properties")) {
        let fields = fields.iter().map(|(name, field)| (name.clone(), structural(field, dialect, descriptions).into()));
        schema.insert("properties".to_owned(), Value::Object(fields.gather()));
    }
    match of.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            schema.insert("additionalProperties".to_owned(), (*allowed).into());
        }
        Some(values @ Value::Object(_)) => {
            schema.insert("additionalProperties".to_owned(), structural(values, dialect, descriptions).into());
        }
        _ => {}
    }
    if dialect == Dialect::V3 && is(of, INT_OR_STRING) {
        add_alternatives(&mut schema);
    }
    if is(of, EMBEDDED) && !(dialect == Dialect::V2 && is(of, PRESERVE)) {
        let own = [Some(EMBEDDED_API_VERSION), Some(EMBEDDED_KIND)];
        add_properties(&mut schema, own, dialect, descriptions);
        let required = schema.entry("required").or_insert_with(|| json!([]));
        for name in ["kind", "apiVersion"] {
            if let Some(required) = required.as_array_mut()
                && !required.iter().any(|have| have == name)
            {
                required.push(json!(name));
            }
        }
    }
    schema
}

/// Removes the keywords of a schema that version 2 cannot express. `items` and `properties` remain as markers
/// if they will be published.
fn narrow(of: &Value, schema: &mut Schema) {
    let has = |keyword: &str| of.get(keyword).is_some_and(Value::is_object);
    let (nullable, preserve) = (is(of, "nullable"), is(of, PRESERVE));
    let open = nullable || preserve;
    for keyword in ["items", "properties"] {
        if has(keyword) && !open {
            schema.insert(keyword.to_owned(), Value::Null);
        }
    }
    let kind = of.get("type").and_then(Value::as_str).unwrap_or_default();
    // kubectl supports neither a list without items nor an object with properties and unknown fields.
    if nullable || (kind == "array" && !schema.contains_key("items")) || (kind == "object" && preserve) {
        schema.remove("type");
    }
    let is_nullable = |name: &Value| {
        let name = name.as_str().unwrap_or_default();
        !open && of.get("properties").and_then(|fields| fields.get(name)).is_some_and(|field| is(field, "nullable"))
    };
    if let Some(required) = schema.get_mut("required").and_then(Value::as_array_mut) {
        required.retain(|name| !is_nullable(name));
        if required.is_empty() || of.get("additionalProperties").is_some_and(|values| is(values, "nullable")) {
            schema.remove("required");
        }
    }
    if schema.get("properties").is_some()
        && of.pointer("/properties").and_then(Value::as_object).is_some_and(Map::is_empty)
    {
        schema.remove("properties");
    }
}

/// Declares an integer or a string, unless the schema already does.
fn add_alternatives(schema: &mut Schema) {
    let alternatives = json!([{"type": "integer"}, {"type": "string"}]);
    if schema.get("anyOf") == Some(&alternatives) {
        return;
    }
    if schema.get("allOf").and_then(|all| all.pointer("/0/anyOf")) == Some(&alternatives) {
        return;
    }
    if !schema.contains_key("anyOf") {
        schema.insert("anyOf".to_owned(), alternatives);
        return;
    }
    let all = schema.entry("allOf").or_insert_with(|| json!([]));
    if let Some(all) = all.as_array_mut() {
        all.insert(0, json!({"anyOf": alternatives}));
    }
}

/// Converts a value validation, which declares no types.
fn restriction(of: &Value) -> Value {
    let mut schema = keywords(of, Dialect::V3);
    if let Some(items) = of.get("items").filter(|items| items.is_object()) {
        schema.insert("items".to_owned(), restriction(items));
    }
    if let Some(fields) = of.get("properties").and_then(Value::as_object).filter(|fields| !fields.is_empty()) {
        let fields = fields.iter().map(|(name, field)| (name.clone(), restriction(field)));
        schema.insert("properties".to_owned(), Value::Object(fields.gather()));
    }
    Value::Object(schema)
}

/// Copies all keywords except those for nested values, without empty ones.
fn keywords(of: &Value, dialect: Dialect) -> Schema {
    let mut schema = Map::new();
    let mut set = |keyword: &str, value: Value| schema.insert(keyword.to_owned(), value);
    for keyword in
        ["description", "title", "type", "format", "pattern", "x-kubernetes-list-type", "x-kubernetes-map-type"]
    {
        if let Some(text) = of.get(keyword).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            set(keyword, text.into());
        }
    }
    for keyword in ["maximum", "minimum", "multipleOf"] {
        if let Some(Value::Number(number)) = of.get(keyword) {
            set(keyword, whole(number));
        }
    }
    for keyword in ["maxLength", "minLength", "maxItems", "minItems", "maxProperties", "minProperties"] {
        if let Some(number) = of.get(keyword).and_then(Value::as_i64) {
            set(keyword, number.into());
        }
    }
    for keyword in ["exclusiveMaximum", "exclusiveMinimum", "uniqueItems", PRESERVE, EMBEDDED, INT_OR_STRING] {
        if is(of, keyword) {
            set(keyword, true.into());
        }
    }
    for keyword in ["enum", "required", "x-kubernetes-list-map-keys"] {
        if let Some(list) = of.get(keyword).and_then(Value::as_array).filter(|list| !list.is_empty()) {
            set(keyword, list.clone().into());
        }
    }
    if let Some(example) = of.get("example").filter(|example| !example.is_null()) {
        set("example", example.clone());
    }
    if let Some(docs) = of.get("externalDocs").and_then(Value::as_object) {
        let docs = docs.iter().filter(|(_, text)| *text != "").map(|(k, v)| (k.clone(), v.clone()));
        set("externalDocs", docs.gather::<Schema>().into());
    }
    let rules = of.get("x-kubernetes-validations").and_then(Value::as_array).filter(|rules| !rules.is_empty());
    if let Some(rules) = rules {
        set("x-kubernetes-validations", rules.iter().map(rule).collect());
    }
    if dialect == Dialect::V2 {
        return schema;
    }
    if is(of, "nullable") {
        set("nullable", true.into());
    }
    if let Some(default) = of.get("default").filter(|default| !default.is_null()) {
        set("default", default.clone());
    }
    for keyword in ["allOf", "anyOf", "oneOf"] {
        if let Some(list) = of.get(keyword).and_then(Value::as_array).filter(|list| !list.is_empty()) {
            set(keyword, list.iter().map(restriction).collect());
        }
    }
    if let Some(not) = of.get("not").filter(|not| not.is_object()) {
        set("not", restriction(not));
    }
    schema
}

/// Returns a validation rule without empty fields.
fn rule(rule: &Value) -> Value {
    let says = |(name, value): &(&String, &Value)| *name == "rule" || !(value.is_null() || *value == "");
    let entries = rule.as_object().into_iter().flatten().filter(says);
    entries.map(|(name, value)| (name.clone(), value.clone())).gather::<Schema>().into()
}

/// Formats a number as Go formats a float.
fn whole(number: &Number) -> Value {
    let float = number.as_f64().unwrap_or(0.0);
    match format_float(float).parse::<i64>() {
        Ok(int) => int.into(),
        Err(_) => Value::Number(number.clone()),
    }
}
