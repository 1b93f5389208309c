//! Structural schemas: every value has a declared type, and value validations (`allOf`, `anyOf`, `oneOf`, `not`)
//! declare none.
//!
//! The caller has checked that schemas are not nested too deeply.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};
use windlass_schema::go_regex;

use super::conditions::{self, Condition, NON_STRUCTURAL_SCHEMA};
use super::schema::{Items, Props};
use crate::object::{boolean, items, text};

/// The position of a schema, which determines the message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

/// Returns why a schema has no structural form at all: a keyword that it cannot represent. kube-apiserver reports this
/// only if there are no other errors.
pub(super) fn unsupported(schema: Props<'_>) -> Option<&'static str> {
    let keywords = [
        (!schema.text("id").is_empty(), "OpenAPIV3Schema 'id' is not supported"),
        (!schema.text("$schema").is_empty(), "OpenAPIV3Schema 'schema' is not supported"),
        (!schema.text("$ref").is_empty(), "OpenAPIV3Schema '$ref' is not supported"),
        (!schema.map("patternProperties").is_empty(), "OpenAPIV3Schema 'patternProperties' is not supported"),
        (!schema.map("dependencies").is_empty(), "OpenAPIV3Schema 'dependencies' is not supported"),
        (schema.props_or_bool("additionalItems").is_some(), "OpenAPIV3Schema 'additionalItems' is not supported"),
        (!schema.map("definitions").is_empty(), "OpenAPIV3Schema 'definitions' is not supported"),
    ];
    if let Some((_, message)) = keywords.into_iter().find(|(set, _)| *set) {
        return Some(message);
    }
    let restricting = schema
        .schema("not")
        .into_iter()
        .chain(["allOf", "anyOf", "oneOf"].into_iter().flat_map(|field| schema.schemas(field)));
    if let Some(message) = restricting.into_iter().find_map(unsupported) {
        return Some(message);
    }
    if schema.optional_flag("x-kubernetes-preserve-unknown-fields") == Some(false) {
        return Some("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined");
    }
    match schema.items() {
        Items::Absent => {}
        Items::Schema(item) => {
            if let Some(message) = unsupported(item) {
                return Some(message);
            }
        }
        Items::Schemas(schemas) if schemas.is_empty() => {}
        Items::Schemas(_) => return Some("OpenAPIV3Schema 'items' must be a schema, but is an array"),
    }
    let additional = schema.props_or_bool("additionalProperties").and_then(|either| either.schema);
    schema.named("properties").map(|(_, property)| property).chain(additional).find_map(unsupported)
}

/// Returns the reasons why a schema is not structural, sorted by message. The schema must have a structural form.
pub(super) fn validate(schema: Props<'_>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    invariants(schema, Level::Root, path, &mut errors);
    complete(schema, Some(schema), path, path, &mut errors);
    errors.sort_by_cached_key(ToString::to_string);
    errors
}

/// Returns whether a schema is structural.
pub(super) fn is_structural(schema: Props<'_>) -> bool {
    unsupported(schema).is_none() && validate(schema, &Path::root()).is_empty()
}

fn invariants(schema: Props<'_>, level: Level, path: &Path, errors: &mut ErrorList) {
    let kind = schema.text("type");
    match schema.item() {
        Some(item) => invariants(item, Level::Item, &path.child("items"), errors),
        None if kind == "array" => errors.push(FieldError::required(&path.child("items"), "must be specified")),
        None => {}
    }
    for (name, property) in schema.named("properties") {
        invariants(property, Level::Field, &path.child("properties").key(name), errors);
    }
    let additional = schema.props_or_bool("additionalProperties");
    let additional_path = path.child("additionalProperties");
    if let Some(additional) = additional {
        if level == Level::Root {
            errors.push(FieldError::forbidden(&additional_path, "must not be used at the root"));
        }
        if let Some(schema) = additional.schema {
            invariants(schema, Level::Field, &additional_path, errors);
        }
    }
    let (preserve, embedded, int_or_string) = (
        schema.flag("x-kubernetes-preserve-unknown-fields"),
        schema.flag("x-kubernetes-embedded-resource"),
        schema.flag("x-kubernetes-int-or-string"),
    );
    for (name, set) in
        [("x-kubernetes-preserve-unknown-fields", preserve), ("x-kubernetes-embedded-resource", embedded)]
    {
        if int_or_string && set {
            let detail = "must be false if x-kubernetes-int-or-string is true";
            errors.push(FieldError::invalid(&path.child(name), &true.into(), detail));
        }
    }
    let first_all_of = schema.schemas("allOf").next();
    let skip = Skip { any_of: is_int_or_string(schema), all_of: first_all_of.is_some_and(is_int_or_string) };
    restrictions(schema, skip, level, path, errors);
    type_of(schema, level, path, errors);
    if embedded && additional.is_some() {
        let detail = "must not be used if x-kubernetes-embedded-resource is set";
        errors.push(FieldError::forbidden(&additional_path, detail));
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.push(FieldError::invalid(&path.child("type"), &kind.into(), "must be object at the root"));
    }
    metadata(schema, level, path, errors);
    if embedded && !preserve && schema.map("properties").is_empty() {
        let detail = "must not be empty if x-kubernetes-embedded-resource is true without \
                      x-kubernetes-preserve-unknown-fields";
        errors.push(FieldError::required(&path.child("properties"), detail));
    }
}

fn type_of(schema: Props<'_>, level: Level, path: &Path, errors: &mut ErrorList) {
    let (path, kind) = (path.child("type"), schema.text("type"));
    if schema.flag("x-kubernetes-embedded-resource") && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        errors.push(match kind {
            "" => FieldError::required(&path, detail),
            other => FieldError::invalid(&path, &other.into(), detail),
        });
        return;
    }
    let untyped = ["x-kubernetes-int-or-string", "x-kubernetes-preserve-unknown-fields"];
    if kind.is_empty() && !untyped.iter().any(|flag| schema.flag(flag)) {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.push(FieldError::required(&path, detail));
    }
}

/// Validates the schemas of `kind`, `apiVersion` and `metadata`, of which only the name may be restricted.
fn metadata(schema: Props<'_>, level: Level, path: &Path, errors: &mut ErrorList) {
    let is_resource = level == Level::Root || schema.flag("x-kubernetes-embedded-resource");
    let at = |name: &str| path.child("properties").key(name);
    for (name, kind, detail) in [
        ("kind", "string", "must be string"),
        ("apiVersion", "string", "must be string"),
        ("metadata", "object", "must be object"),
    ] {
        let Some(property) = schema.property(name).filter(|_| is_resource) else { continue };
        if property.text("type") != kind {
            let value = property.text("type").into();
            errors.push(FieldError::invalid(&at(name).child("type"), &value, detail));
        }
    }
    if let Some(metadata) = schema.property("metadata").filter(|_| level == Level::Root) {
        let only_names = metadata.map("properties").keys().all(|name| matches!(name.as_str(), "name" | "generateName"));
        if !only_names || !metadata.has_only(&["type", "default", "properties", "$ref"]) {
            let detail =
                "must not specify anything other than name and generateName, but metadata is implicitly specified";
            errors.push(FieldError::forbidden(&at("metadata"), detail));
        }
    }
}

/// Recognized patterns for an integer or a string, which are exempt.
#[derive(Debug, Clone, Copy, Default)]
struct Skip {
    any_of: bool,
    all_of: bool,
}

/// Returns whether `anyOf` declares an integer or a string.
fn is_int_or_string(schema: Props<'_>) -> bool {
    let is_only = |schema: Props<'_>, kind| {
        schema.text("type") == kind && schema.has_only(&["type"]) && schema.value("properties").is_none()
    };
    let mut any_of = schema.schemas("anyOf");
    matches!((any_of.next(), any_of.next(), any_of.next()), (Some(integer), Some(string), None)
        if is_only(integer, "integer") && is_only(string, "string"))
}

fn restrictions(schema: Props<'_>, skip: Skip, level: Level, path: &Path, errors: &mut ErrorList) {
    if !skip.any_of {
        for (index, nested) in schema.schemas("anyOf").enumerate() {
            restriction(nested, Skip::default(), level, &path.child("anyOf").index(index), errors);
        }
    }
    for (index, nested) in schema.schemas("allOf").enumerate() {
        let skip = Skip { any_of: skip.all_of && index == 0, all_of: false };
        restriction(nested, skip, level, &path.child("allOf").index(index), errors);
    }
    for (index, nested) in schema.schemas("oneOf").enumerate() {
        restriction(nested, Skip::default(), level, &path.child("oneOf").index(index), errors);
    }
    if let Some(nested) = schema.schema("not") {
        restriction(nested, Skip::default(), level, &path.child("not"), errors);
    }
    let pattern = schema.text("pattern");
    if let Err(error) = go_regex::check(pattern) {
        let detail = format!("must be a valid regular expression, but isn't: {error}");
        errors.push(FieldError::invalid(&path.child("pattern"), &pattern.into(), detail));
    }
}

/// Validates a value validation, which must not declare types.
fn restriction(schema: Props<'_>, skip: Skip, level: Level, path: &Path, errors: &mut ErrorList) {
    restrictions(schema, skip, level, path, errors);
    if let Some(item) = schema.item() {
        restriction(item, Skip::default(), level, &path.child("items"), errors);
    }
    for (name, property) in schema.named("properties") {
        let path = path.child("properties").key(name);
        restriction(property, Skip::default(), Level::Field, &path, errors);
    }
    let additional = schema.props_or_bool("additionalProperties");
    let flag = |name| schema.flag(name);
    const EMPTY: &str = "must be empty to be structural";
    const FALSE: &str = "must be false to be structural";
    const UNDEFINED: &str = "must be undefined to be structural";
    for (name, set, detail) in [
        ("type", !schema.text("type").is_empty(), EMPTY),
        ("additionalProperties", additional.is_some_and(|either| either.allows), UNDEFINED),
        ("default", schema.value("default").is_some(), UNDEFINED),
        ("title", !schema.text("title").is_empty(), EMPTY),
        ("description", !schema.text("description").is_empty(), EMPTY),
        ("nullable", flag("nullable"), FALSE),
        ("x-kubernetes-preserve-unknown-fields", flag("x-kubernetes-preserve-unknown-fields"), FALSE),
        ("x-kubernetes-embedded-resource", flag("x-kubernetes-embedded-resource"), FALSE),
        ("x-kubernetes-int-or-string", flag("x-kubernetes-int-or-string"), FALSE),
        ("x-kubernetes-list-map-keys", !schema.list("x-kubernetes-list-map-keys").is_empty(), EMPTY),
        ("x-kubernetes-list-type", schema.value("x-kubernetes-list-type").is_some(), UNDEFINED),
        ("x-kubernetes-map-type", schema.value("x-kubernetes-map-type").is_some(), UNDEFINED),
        ("x-kubernetes-validations", !schema.list("x-kubernetes-validations").is_empty(), EMPTY),
    ] {
        if set {
            errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }
    if schema.property("metadata").is_some() {
        let path = path.child("properties").key("metadata");
        errors.push(FieldError::forbidden(&path, "must not be specified in a nested context"));
    }
}

/// Requires that all fields of the value validations at `v_path` are declared in the schema at `s_path`.
fn complete(nested: Props<'_>, schema: Option<Props<'_>>, s_path: &Path, v_path: &Path, errors: &mut ErrorList) {
    let Some(schema) = schema else {
        return errors.push(FieldError::required(s_path, format!("because it is defined in {v_path}")));
    };
    if let Some(not) = nested.schema("not") {
        complete_nested(not, schema, s_path, &v_path.child("not"), errors);
    }
    for field in ["allOf", "anyOf", "oneOf"] {
        for (index, inner) in nested.schemas(field).enumerate() {
            complete_nested(inner, schema, s_path, &v_path.child(field).index(index), errors);
        }
    }
}

fn complete_nested(nested: Props<'_>, schema: Props<'_>, s_path: &Path, v_path: &Path, errors: &mut ErrorList) {
    complete(nested, Some(schema), s_path, v_path, errors);
    let mut within = |inner: Props<'_>, outer: Option<Props<'_>>, s_path: &Path, v_path: &Path| match outer {
        Some(outer) => complete_nested(inner, outer, s_path, v_path, errors),
        None => errors.push(FieldError::required(s_path, format!("because it is defined in {v_path}"))),
    };
    if let Some(item) = nested.item() {
        within(item, schema.item(), &s_path.child("items"), &v_path.child("items"));
    }
    for (name, property) in nested.named("properties") {
        let at = |path: &Path| path.child("properties").key(name);
        within(property, schema.property(name), &at(s_path), &at(v_path));
    }
}

/// Returns the new status of a CRD if its NonStructuralSchema condition is outdated; `None` if nothing changes.
pub fn check_structural(object: &Value, now: Timestamp) -> Option<Value> {
    let condition = condition(object);
    let old = conditions::find(object, NON_STRUCTURAL_SCHEMA);
    let mut status = conditions::status_of(object);
    match condition {
        None if old.is_none() => return None,
        None => conditions::remove(&mut status, NON_STRUCTURAL_SCHEMA),
        Some(condition) if condition.says_the_same_as(old) => return None,
        Some(condition) => conditions::set(&mut status, &condition, now),
    }
    Some(status)
}

fn condition(object: &Value) -> Option<Condition> {
    let spec = Path::new("spec");
    let mut errors = ErrorList::new();
    if boolean(object, "/spec/preserveUnknownFields") == Some(true) {
        errors.push(FieldError::invalid(&spec.child("preserveUnknownFields"), &true.into(), "must be false"));
    }
    for (index, version) in items(object, "/spec/versions").iter().enumerate() {
        let Some(schema) = version.pointer("/schema/openAPIV3Schema").filter(|schema| schema.is_object()) else {
            continue;
        };
        let schema = Props::new(schema);
        let error = match super::is_too_deep(schema) {
            true => Some(super::too_deep()),
            false => unsupported(schema).map(str::to_owned),
        };
        if let Some(error) = error {
            let version = text(version, "/name");
            let message = format!("failed to check validation schema for version {version}: {error}");
            return Some(Condition::new(NON_STRUCTURAL_SCHEMA, "Unknown", "StructuralError", message));
        }
        let path = spec.child("versions").index(index).child("schema").child("openAPIV3Schema");
        errors.extend(validate(schema, &path));
    }
    let mut seen = BTreeSet::new();
    let messages: Vec<_> = errors.iter().map(ToString::to_string).filter(|text| seen.insert(text.clone())).collect();
    let message = match messages.as_slice() {
        [] => return None,
        [one] => one.clone(),
        several => format!("[{}]", several.join(", ")),
    };
    Some(Condition::new(NON_STRUCTURAL_SCHEMA, "True", "Violations", message))
}
