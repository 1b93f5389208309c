//! Validation of a schema keyword by keyword: unsupported keywords, and the constraints among the Kubernetes
//! extensions.
//!
//! The caller has checked that schemas are not nested too deeply.

use std::collections::BTreeSet;

use windlass_schema::field::{ErrorKind, ErrorList, FieldError, Path};
use windlass_schema::{go_format::marshal, sorting::Gather as _};

use super::options::Options;
use super::render;
use super::schema::{Items, Props};
use super::validation_rules;

/// The types of OpenAPI.
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];

/// Maximum number of reported errors about the keys of one list.
const MAX_KEY_ERRORS: usize = 100;

/// The position of a schema, which determines the keywords that are forbidden there.
#[derive(Debug, Clone, Copy, Default)]
struct Place<'a> {
    /// Reason why defaults are forbidden.
    no_defaults: Option<&'a str>,
    /// Whether the schema is within `metadata`, `kind` or `apiVersion` of a resource.
    inside_meta: bool,
}

/// Validates a schema and the schemas within it.
pub(super) fn validate(schema: Props<'_>, path: &Path, options: &Options) -> ErrorList {
    let mut errors = ErrorList::new();
    walk(schema, path, Place::default(), true, options, &mut errors);
    errors
}

/// Returns whether the type is absent or an OpenAPI type.
pub(super) fn has_valid_type(schema: Props<'_>) -> bool {
    let kind = schema.text("type");
    kind.is_empty() || TYPES.contains(&kind)
}

fn walk(schema: Props<'_>, path: &Path, place: Place<'_>, is_root: bool, options: &Options, errors: &mut ErrorList) {
    keywords(schema, path, place, options, errors);
    if schema.flag("uniqueItems") {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.push(FieldError::forbidden(&path.child("uniqueItems"), detail));
    }
    let is_resource = is_root || schema.flag("x-kubernetes-embedded-resource");
    if let Some(additional) = schema.props_or_bool("additionalProperties") {
        let path = path.child("additionalProperties");
        if !schema.map("properties").is_empty() && (!additional.allows || additional.schema.is_some()) {
            errors.push(FieldError::forbidden(&path, "additionalProperties and properties are mutual exclusive"));
        }
        let mut place = place;
        if place.inside_meta {
            place.no_defaults = Some("inside additionalProperties applying to object metadata");
        }
        if let Some(schema) = additional.schema {
            walk(schema, &path, place, false, options, errors);
        }
    }
    for (name, property) in schema.named("properties") {
        let top_level = format!("in top-level {name}");
        let mut place = place;
        if is_resource && ["metadata", "kind", "apiVersion"].contains(&name) {
            place.inside_meta = true;
            if is_root {
                place.no_defaults = Some(&top_level);
            }
        }
        walk(property, &path.child("properties").key(name), place, false, options, errors);
    }
    if let Some(not) = schema.schema("not") {
        walk(not, &path.child("not"), place, false, options, errors);
    }
    for field in ["allOf", "oneOf", "anyOf"] {
        for (index, nested) in schema.schemas(field).enumerate() {
            walk(nested, &path.child(field).index(index), place, false, options, errors);
        }
    }
    for (name, nested) in schema.named("definitions") {
        walk(nested, &path.child("definitions").key(name), place, false, options, errors);
    }
    match schema.items() {
        Items::Absent => {}
        Items::Schema(item) => walk(item, &path.child("items"), place, false, options, errors),
        Items::Schemas(items) => {
            for (index, item) in items.into_iter().enumerate() {
                walk(item, &path.child("items").index(index), place, false, options, errors);
            }
        }
    }
    for (name, value) in schema.map("dependencies").iter().filter(|(_, value)| value.is_object()) {
        walk(Props::new(value), &path.child("dependencies").key(name), place, false, options, errors);
    }
    extensions(schema, path, options, errors);
    validation_rules::validate(schema, path, errors);
}

/// Rejects unsupported keywords.
fn keywords(schema: Props<'_>, path: &Path, place: Place<'_>, options: &Options, errors: &mut ErrorList) {
    let kind = schema.text("type");
    if options.valid_types && !has_valid_type(schema) {
        errors.push(FieldError::not_supported(&path.child("type"), &kind.into(), TYPES));
    }
    if let Some(reason) = place.no_defaults.filter(|_| schema.value("default").is_some()) {
        errors.push(FieldError::forbidden(&path.child("default"), format!("must not be set {reason}")));
    }
    let many_items = matches!(schema.items(), Items::Schemas(schemas) if !schemas.is_empty());
    let embedded = place.inside_meta && schema.flag("x-kubernetes-embedded-resource");
    for (name, set, detail) in [
        ("id", !schema.text("id").is_empty(), "id is not supported"),
        ("additionalItems", schema.value("additionalItems").is_some(), "additionalItems is not supported"),
        ("patternProperties", !schema.map("patternProperties").is_empty(), "patternProperties is not supported"),
        ("definitions", !schema.map("definitions").is_empty(), "definitions is not supported"),
        ("dependencies", schema.value("dependencies").is_some(), "dependencies is not supported"),
        ("$ref", schema.value("$ref").is_some(), "$ref is not supported"),
        ("type", kind == "null", "type cannot be set to null, use nullable as an alternative"),
        ("items", many_items, "items must be a schema object and not an array"),
        ("x-kubernetes-embedded-resource", embedded, "must not be used inside of resource meta"),
    ] {
        if set {
            errors.push(FieldError::forbidden(&path.child(name), detail));
        }
    }
}

/// Validates the constraints among the Kubernetes extensions.
fn extensions(schema: Props<'_>, path: &Path, options: &Options, errors: &mut ErrorList) {
    const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
    let kind = schema.text("type");
    if schema.optional_flag(PRESERVE) == Some(false) {
        errors.push(FieldError::invalid(&path.child(PRESERVE), &false.into(), "must be true or undefined"));
    }
    let wrong_type = |detail: &str| match kind {
        "" => FieldError::required(&path.child("type"), detail),
        other => FieldError::invalid(&path.child("type"), &other.into(), detail),
    };
    if let Some(map_type) = schema.optional_text("x-kubernetes-map-type") {
        if kind != "object" {
            errors.push(wrong_type("must be object if x-kubernetes-map-type is specified"));
        }
        let supported = &["atomic", "granular"];
        if !supported.contains(&map_type) {
            let path = path.child("x-kubernetes-map-type");
            errors.push(FieldError::not_supported(&path, &map_type.into(), supported));
        }
    }
    let list_type = schema.optional_text("x-kubernetes-list-type");
    let type_path = path.child("x-kubernetes-list-type");
    if let Some(list_type) = list_type {
        if kind != "array" {
            errors.push(wrong_type("must be array if x-kubernetes-list-type is specified"));
        } else if options.atomic_sets
            && let Some((field, value)) = set_item_error(schema)
        {
            errors.push(FieldError {
                kind: ErrorKind::Invalid,
                field: path.child("items").child(field).to_string(),
                value: Some(value),
                detail: "must be atomic as item of a list with x-kubernetes-list-type=set".to_owned(),
            });
        }
        let supported = &["atomic", "set", "map"];
        if !supported.contains(&list_type) {
            errors.push(FieldError::not_supported(&type_path, &list_type.into(), supported));
        }
    }
    if !schema.list("x-kubernetes-list-map-keys").is_empty() {
        let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
        match list_type {
            None => errors.push(FieldError::required(&type_path, detail)),
            Some("map") => {}
            Some(other) => errors.push(FieldError::invalid(&type_path, &other.into(), detail)),
        }
    }
    if list_type == Some("map") {
        map_list(schema, path, errors);
    }
    if options.map_keys {
        errors.extend(map_keys(schema, path));
    }
}

/// Returns the field to report and the value to show if the items of a set are not atomic.
pub(super) fn set_item_error(schema: Props<'_>) -> Option<(&'static str, String)> {
    if schema.optional_text("x-kubernetes-list-type") != Some("set") {
        return None;
    }
    let item = schema.item()?;
    let list_type = item.optional_text("x-kubernetes-list-type");
    // kube-apiserver shows the list type in both cases.
    let shown = list_type.map_or_else(|| "null".to_owned(), |value| marshal(&value.into()));
    match item.text("type") {
        "array" if list_type.is_some_and(|value| value != "atomic") => Some(("x-kubernetes-list-type", shown)),
        "object" if item.optional_text("x-kubernetes-map-type") != Some("atomic") => {
            Some(("x-kubernetes-map-type", shown))
        }
        _ => None,
    }
}

/// Validates a list of type `map`.
fn map_list(schema: Props<'_>, path: &Path, errors: &mut ErrorList) {
    let (keys_path, items_path) = (path.child("x-kubernetes-list-map-keys"), path.child("items"));
    let keys = schema.list("x-kubernetes-list-map-keys");
    if keys.is_empty() {
        errors.push(FieldError::required(&keys_path, "must not be empty if x-kubernetes-list-type is map"));
    }
    let item = match schema.items() {
        Items::Absent => {
            let detail = "must have a schema if x-kubernetes-list-type is map";
            return errors.push(FieldError::required(&items_path, detail));
        }
        Items::Schemas(_) => {
            return errors.push(FieldError {
                kind: ErrorKind::Invalid,
                field: items_path.to_string(),
                value: schema.value("items").map(render::items),
                detail: "must only have a single schema if x-kubernetes-list-type is map".to_owned(),
            });
        }
        Items::Schema(item) => item,
    };
    let kind = item.text("type");
    if kind != "object" {
        let detail = "must be object if parent array's x-kubernetes-list-type is map";
        return errors.push(FieldError::invalid(&items_path.child("type"), &kind.into(), detail));
    }
    let mut seen = BTreeSet::new();
    let before = errors.len();
    for key in schema.texts("x-kubernetes-list-map-keys") {
        match item.property(key) {
            Some(property) if matches!(property.text("type"), "array" | "object") => {
                let path = items_path.child("properties").key(key).child("type");
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.push(FieldError::invalid(&path, &kind.into(), detail));
            }
            Some(_) => {}
            None => {
                let detail = "entries must all be names of item properties";
                errors.push(FieldError::invalid(&keys_path, &keys.into(), detail));
            }
        }
        if !seen.insert(key) {
            errors.push(FieldError::invalid(&keys_path, &keys.into(), "must not contain duplicate entries"));
        }
        // Each error shows the whole list, so the number of errors about a long list is limited.
        if errors.len() - before > MAX_KEY_ERRORS {
            return;
        }
    }
}

/// Requires that items of sets and map lists are not nullable, and that the keys of map lists are required or have a
/// default.
pub(super) fn map_keys(schema: Props<'_>, path: &Path) -> ErrorList {
    let mut errors = ErrorList::new();
    let Some(item) = schema.item() else { return errors };
    let Some(list_type @ ("set" | "map")) = schema.optional_text("x-kubernetes-list-type") else { return errors };
    let path = path.child("items");
    if item.flag("nullable") {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {list_type}");
        errors.push(FieldError::forbidden(&path.child("nullable"), detail));
    }
    if list_type == "set" {
        return errors;
    }
    let required: BTreeSet<_> = item.texts("required").gather();
    for key in schema.texts("x-kubernetes-list-map-keys") {
        let Some(property) = item.property(key) else { continue };
        let path = path.child("properties").key(key);
        if !required.contains(key) && property.value("default").is_none() {
            let detail = "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required \
                          property";
            errors.push(FieldError::required(&path.child("default"), detail));
        }
        if property.flag("nullable") {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.push(FieldError::forbidden(&path.child("nullable"), detail));
        }
    }
    errors
}
