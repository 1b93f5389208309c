//! Conversion of a schema into a structural one.
//!
//! A structural schema declares the type of every field outside of `allOf`, `anyOf`, `oneOf` and `not`, which may only
//! contain value validations. Missing types are added and misplaced ones are moved.

use serde_json::{Map, Value, json};

use super::notes::{Notes, Repair};
use super::{UpgradeError, types, wrong};

pub(super) const PRESERVE: &str = "x-kubernetes-preserve-unknown-fields";
const INT_OR_STRING: &str = "x-kubernetes-int-or-string";
const EMBEDDED: &str = "x-kubernetes-embedded-resource";

/// Maximum nesting depth of a schema; real schemas stay below twenty.
const MAX_DEPTH: usize = 100;

/// Keywords that no server accepts, and what to use instead.
const UNSUPPORTED: [(&str, &str); 7] = [
    ("$ref", "replace the reference with the schema it refers to"),
    ("$schema", "remove the keyword"),
    ("id", "remove the keyword"),
    ("definitions", "inline the schemas"),
    ("dependencies", "express the dependency with oneOf, or with a rule in x-kubernetes-validations"),
    ("patternProperties", "use additionalProperties"),
    ("additionalItems", "declare all items with items"),
];

type Schema = Map<String, Value>;

/// Makes the schema of a version structural. With `preserve`, objects keep unknown fields at any depth.
pub(super) fn repair(schema: &mut Value, field: String, preserve: bool, notes: &mut Notes) -> Result<(), UpgradeError> {
    let mut walk = Walk { preserve, notes };
    let place = Place { field, depth: 0 };
    let Some(root) = schema.as_object_mut() else { return Err(wrong(place.field, "an object")) };
    if root.get("type").is_none_or(Value::is_null) {
        root.insert("type".to_owned(), "object".into());
    }
    if root.remove("additionalProperties").is_some_and(|additional| !additional.is_null()) {
        root.insert(PRESERVE.to_owned(), true.into());
        walk.notes.repair(Repair::Additional, &place.field);
    }
    let metadata = root.get_mut("properties").and_then(|fields| fields.get_mut("metadata"));
    let metadata = metadata.map(Value::take).map(|metadata| walk.metadata(metadata, &place)).transpose()?;
    walk.structural(schema, &place)?;
    if let Some(metadata) = metadata {
        schema["properties"]["metadata"] = metadata;
    }
    Ok(())
}

/// Position of a schema.
struct Place {
    field: String,
    depth: usize,
}

impl Place {
    fn below(&self, step: impl std::fmt::Display) -> Result<Self, UpgradeError> {
        if self.depth == MAX_DEPTH {
            return Err(self.reject("the schema is nested too deeply", "declare fewer levels of nested fields"));
        }
        Ok(Self { field: format!("{}{step}", self.field), depth: self.depth + 1 })
    }

    fn reject(&self, reason: impl Into<String>, hint: &'static str) -> UpgradeError {
        UpgradeError::NotStructural { field: self.field.clone(), reason: reason.into(), hint }
    }
}

struct Walk<'n> {
    preserve: bool,
    notes: &'n mut Notes,
}

impl Walk<'_> {
    /// Repairs the schema of the root's metadata, which may restrict only a few fields.
    fn metadata(&mut self, metadata: Value, place: &Place) -> Result<Value, UpgradeError> {
        let place = place.below(".properties[metadata]")?;
        let mut kept = Map::new();
        kept.insert("type".to_owned(), json!("object"));
        let fields = metadata.get("properties").and_then(Value::as_object);
        let mut names = Map::new();
        for name in ["name", "generateName"] {
            if let Some(mut field) = fields.and_then(|fields| fields.get(name)).cloned() {
                self.structural(&mut field, &place.below(format!(".properties[{name}]"))?)?;
                names.insert(name.to_owned(), field);
            }
        }
        let is_kept = |keyword: &str| matches!(keyword, "type" | "properties");
        let more_fields = fields.is_some_and(|fields| fields.len() > names.len());
        if more_fields || metadata.as_object().is_some_and(|all| all.keys().any(|keyword| !is_kept(keyword))) {
            self.notes.repair(Repair::Metadata, &place.field);
        }
        if !names.is_empty() {
            kept.insert("properties".to_owned(), Value::Object(names));
        }
        Ok(Value::Object(kept))
    }

    /// Repairs a schema that declares the type of a value.
    fn structural(&mut self, schema: &mut Value, place: &Place) -> Result<(), UpgradeError> {
        let Some(schema) = schema.as_object_mut() else {
            return Err(place.reject("must be a schema", "declare the value with a schema object"));
        };
        check_keywords(schema, place)?;
        self.type_list(schema, place)?;
        self.alternatives(schema, place);
        self.restrictions(schema, place)?;
        self.infer(schema, place);
        if let Some(items) = schema.get_mut("items") {
            self.structural(items, &place.below(".items")?)?;
        }
        for (name, field) in schema.get_mut("properties").and_then(Value::as_object_mut).into_iter().flatten() {
            // The metadata of the root is handled separately.
            if place.depth > 0 || name != "metadata" {
                self.structural(field, &place.below(format!(".properties[{name}]"))?)?;
            }
        }
        match schema.get_mut("additionalProperties") {
            None | Some(Value::Null) => {
                if self.preserve && schema.get("type").is_some_and(|kind| kind == "object") {
                    schema.insert(PRESERVE.to_owned(), true.into());
                }
            }
            Some(Value::Bool(_)) => {}
            Some(values) => self.structural(values, &place.below(".additionalProperties")?)?,
        }
        Ok(())
    }

    /// Handles `type: [string, "null"]`.
    fn type_list(&mut self, schema: &mut Schema, place: &Place) -> Result<(), UpgradeError> {
        let types = match schema.get("type") {
            None | Some(Value::String(_) | Value::Null) => return Ok(()),
            Some(Value::Array(types)) => types.clone(),
            Some(_) => return Err(wrong(format!("{}.type", place.field), "a string")),
        };
        let (nulls, others): (Vec<_>, Vec<_>) = types.into_iter().partition(|kind| kind == "null");
        match others.as_slice() {
            [kind @ Value::String(_)] => schema.insert("type".to_owned(), kind.clone()),
            _ => return Err(place.reject("a value can only have one type", "choose one type, or allow any value")),
        };
        if !nulls.is_empty() {
            schema.insert("nullable".to_owned(), true.into());
            self.notes.repair(Repair::Nullable, &place.field);
        }
        Ok(())
    }

    /// Handles the ways to declare an integer or a string.
    fn alternatives(&mut self, schema: &mut Schema, place: &Place) {
        let (integer, string) = (json!({"type": "integer"}), json!({"type": "string"}));
        let are_both = |list: &Value| {
            let list = list.as_array().map_or(&[][..], Vec::as_slice);
            matches!(list, [one, other] if (*one == integer && *other == string) || (*one == string && *other == integer))
        };
        let found = ["anyOf", "oneOf"].into_iter().find(|keyword| schema.get(*keyword).is_some_and(are_both));
        let is_format = schema.get("format").is_some_and(|format| format == "int-or-string");
        let typed = schema.get("type").is_some_and(Value::is_string);
        if (found.is_none() && !is_format) || (typed && found.is_none()) {
            return;
        }
        if let Some(found) = found {
            schema.remove(found);
            schema.insert("anyOf".to_owned(), json!([integer, string]));
        }
        let marked = schema.insert(INT_OR_STRING.to_owned(), true.into()).is_some_and(|marked| marked == true);
        // A type declared in addition can only mean one of the two.
        if schema.remove("type").is_some() || !marked {
            self.notes.repair(Repair::IntOrString, &place.field);
        }
    }

    /// Moves everything but value validations out of `allOf`, `anyOf`, `oneOf` and `not`.
    fn restrictions(&mut self, schema: &mut Schema, place: &Place) -> Result<(), UpgradeError> {
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let Some(list) = schema.remove(keyword) else { continue };
            let Value::Array(mut list) = list else {
                if !list.is_null() {
                    return Err(wrong(format!("{}.{keyword}", place.field), "a list"));
                }
                continue;
            };
            let is_both = |one: &Value| one.get("anyOf") == Some(&json!([{"type": "integer"}, {"type": "string"}]));
            let marked = schema.get(INT_OR_STRING).is_some_and(|marked| *marked == true);
            let exempt = match keyword {
                "anyOf" if marked && list == [json!({"type": "integer"}), json!({"type": "string"})] => list.len(),
                "allOf" if marked && list.first().is_some_and(is_both) => 1,
                _ => 0,
            };
            // A type is moved out only if all alternatives have it.
            let same = list.iter().all(|one| one.get("type").is_some() && one.get("type") == list[0].get("type"));
            for (index, one) in list.iter_mut().enumerate().skip(exempt) {
                let place = place.below(format!(".{keyword}[{index}]"))?;
                self.restriction(one, schema, same || keyword == "allOf", &place)?;
            }
            schema.insert(keyword.to_owned(), Value::Array(list));
        }
        if let Some(mut not) = schema.remove("not").filter(|not| !not.is_null()) {
            self.restriction(&mut not, schema, false, &place.below(".not")?)?;
            schema.insert("not".to_owned(), not);
        }
        Ok(())
    }

    /// Repairs a schema that is a value validation of another.
    fn restriction(
        &mut self,
        schema: &mut Value,
        of: &mut Schema,
        holds: bool,
        place: &Place,
    ) -> Result<(), UpgradeError> {
        const HINT: &str =
            "declare the field outside of allOf, anyOf, oneOf and not, and only restrict its values inside";
        let Some(schema) = schema.as_object_mut() else {
            return Err(place.reject("must be a schema", "declare the value with a schema object"));
        };
        check_keywords(schema, place)?;
        self.type_list(schema, place)?;
        if schema.remove("title").is_some() | schema.remove("description").is_some() {
            self.notes.repair(Repair::Described, &place.field);
        }
        if let Some(kind) = schema.remove("type").filter(|kind| !kind.is_null()) {
            match of.get("type").filter(|have| !have.is_null()) {
                Some(have) if *have == kind => {}
                None if holds => {
                    of.insert("type".to_owned(), kind);
                }
                _ => return Err(place.reject(format!("the type {kind} is not allowed here"), HINT)),
            }
            self.notes.repair(Repair::Hoisted, &place.field);
        }
        let forbidden = ["additionalProperties", "default", "nullable", PRESERVE, EMBEDDED, INT_OR_STRING];
        for keyword in forbidden.into_iter().chain(["x-kubernetes-list-type", "x-kubernetes-map-type"]) {
            if schema.get(keyword).is_some_and(|value| !value.is_null() && *value != false) {
                return Err(place.reject(format!("{keyword} is not allowed here"), HINT));
            }
        }
        self.restrictions_within(schema, of, place)
    }

    /// Declares the fields and items of a value validation outside of it as well.
    fn restrictions_within(&mut self, schema: &mut Schema, of: &mut Schema, place: &Place) -> Result<(), UpgradeError> {
        if schema.get("properties").is_some_and(Value::is_object) && !of.get("properties").is_some_and(Value::is_object)
        {
            of.insert("properties".to_owned(), json!({}));
        }
        let fields = of.get_mut("properties").and_then(Value::as_object_mut);
        let restricted = schema.get_mut("properties").and_then(Value::as_object_mut);
        if let (Some(fields), Some(restricted)) = (fields, restricted) {
            for (name, one) in restricted {
                self.field(fields, name, one, place)?;
            }
        }
        if let Some(restricted) = schema.get_mut("items").filter(|items| !items.is_null()) {
            let items = of.entry("items").or_insert_with(|| json!({}));
            if let Some(items) = items.as_object_mut() {
                self.restriction(restricted, items, true, &place.below(".items")?)?;
            }
        }
        for keyword in ["allOf", "anyOf", "oneOf"] {
            let list = schema.get_mut(keyword).and_then(Value::as_array_mut);
            for (index, one) in list.into_iter().flatten().enumerate() {
                self.restriction(one, of, false, &place.below(format!(".{keyword}[{index}]"))?)?;
            }
        }
        if let Some(not) = schema.get_mut("not").filter(|not| !not.is_null()) {
            self.restriction(not, of, false, &place.below(".not")?)?;
        }
        Ok(())
    }

    fn field(&mut self, fields: &mut Schema, name: &str, one: &mut Value, place: &Place) -> Result<(), UpgradeError> {
        let place = place.below(format!(".properties[{name}]"))?;
        if !fields.contains_key(name) {
            self.notes.repair(Repair::Declared, &place.field);
        }
        let field = fields.entry(name).or_insert_with(|| json!({}));
        match field.as_object_mut() {
            Some(field) => self.restriction(one, field, true, &place),
            None => Ok(()),
        }
    }

    /// Adds a missing type.
    fn infer(&mut self, schema: &mut Schema, place: &Place) {
        let is = |schema: &Schema, keyword: &str| schema.get(keyword).is_some_and(|value| *value == true);
        if schema.get("type").is_none_or(|kind| kind.is_null() || kind == "") {
            schema.remove("type");
            let root_text = place.depth == 1
                && [".properties[apiVersion]", ".properties[kind]"].iter().any(|field| place.field.ends_with(field));
            let kind = match () {
                () if is(schema, EMBEDDED) => Some("object"),
                () if root_text => Some("string"),
                () => types::infer(schema),
            };
            match kind {
                _ if is(schema, INT_OR_STRING) => {}
                Some(kind) => {
                    schema.insert("type".to_owned(), kind.into());
                    self.notes.repair(Repair::Inferred, &place.field);
                }
                None if is(schema, PRESERVE) => {}
                None => {
                    schema.insert(PRESERVE.to_owned(), true.into());
                    self.notes.repair(Repair::Anything, &place.field);
                }
            }
        }
        if schema.get("type").is_some_and(|kind| kind == "array") && schema.get("items").is_none_or(Value::is_null) {
            schema.insert("items".to_owned(), json!({PRESERVE: true}));
            self.notes.repair(Repair::Elements, &place.field);
        }
    }
}

/// Rejects keywords that cannot be repaired.
fn check_keywords(schema: &Schema, place: &Place) -> Result<(), UpgradeError> {
    let says = |keyword: &str| schema.get(keyword).is_some_and(|value| !value.is_null() && *value != "");
    for (keyword, hint) in UNSUPPORTED {
        if says(keyword) {
            return Err(place.reject(format!("{keyword} is not supported"), hint));
        }
    }
    if schema.get("uniqueItems").is_some_and(|unique| *unique == true) {
        let hint = "use x-kubernetes-list-type: set";
        return Err(place.reject("uniqueItems cannot be true", hint));
    }
    if schema.get("additionalProperties").is_some_and(|additional| *additional == false) {
        let hint = "remove it: unknown fields are pruned anyway, unless they are explicitly preserved";
        return Err(place.reject("additionalProperties cannot be false", hint));
    }
    if says("additionalProperties") && schema.get("properties").is_some_and(super::has_content) {
        let hint = "keep one of the two";
        return Err(place.reject("properties and additionalProperties exclude each other", hint));
    }
    if schema.get("items").is_some_and(Value::is_array) {
        return Err(place.reject("items cannot be a list", "declare all items with one schema"));
    }
    if schema.get("properties").is_some_and(|fields| !fields.is_object() && !fields.is_null()) {
        return Err(wrong(format!("{}.properties", place.field), "an object"));
    }
    Ok(())
}
