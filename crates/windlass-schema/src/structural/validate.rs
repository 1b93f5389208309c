//! Validates values against a schema, with the messages and order of kube-apiserver's OpenAPI validator.
//!
//! Errors of siblings, which kube-apiserver finds in random order, are ordered by name. An update tolerates errors in
//! unchanged parts (see `ratchet`).

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::compiled::{Allowed, Formats};
use super::number::Num;
use super::{Additional, Structural};
use crate::field::{ErrorKind, ErrorList, FieldError, Path};
use crate::go_regex;

mod composite;
mod number;
mod place;
mod ratchet;
mod report;
mod types;

use place::{Place, Segment};
use types::Types;

/// Selects one of kube-apiserver's two validators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// For custom resources.
    Resource,
    /// For defaults in a CustomResourceDefinition: formats that do not belong to a type apply, an int-or-string has no
    /// type, and `additionalProperties` under `allOf` and similar keywords is ignored.
    Default,
}

impl Structural {
    /// Validates a new object: its schema, then embedded resources, then lists of type set or map.
    pub fn validate(&self, object: &Value) -> ErrorList {
        let root = Path::root();
        let mut errors = self.validate_schema(&root, object, None);
        errors.extend(self.validate_embedded(&root, object, false));
        errors.extend(self.validate_lists(object));
        errors
    }

    /// Validates an updated object, tolerating errors in unchanged parts. Lists of type set or map are validated only
    /// if those of the old object were valid.
    pub fn validate_update(&self, new: &Value, old: &Value) -> ErrorList {
        let root = Path::root();
        let mut errors = self.validate_schema(&root, new, Some(old));
        errors.extend(self.validate_embedded(&root, new, false));
        errors.extend(self.validate_lists_update(new, old));
        errors
    }

    /// Validates an update of the status only.
    pub fn validate_status_update(&self, new: &Value, old: &Value) -> ErrorList {
        let mut errors = Vec::new();
        if let (Some(schema), Some(status)) = (self.properties.get("status"), new.get("status")) {
            errors = schema.validate_schema(&Path::new("status"), status, old.get("status"));
        }
        errors.extend(self.validate_lists_update(new, old));
        errors
    }

    /// Validates the lists of type set or map of an updated object, if those of the old one were valid.
    pub fn validate_lists_update(&self, new: &Value, old: &Value) -> ErrorList {
        let errors = self.validate_lists(new);
        if errors.is_empty() || self.validate_lists(old).is_empty() { errors } else { Vec::new() }
    }

    /// Validates a value by the schema alone, at a path of an object. With an old value, errors in unchanged parts are
    /// tolerated.
    pub fn validate_schema(&self, path: &Path, value: &Value, old: Option<&Value>) -> ErrorList {
        check(self, path, value, old, Mode::Resource)
    }
}

/// Validates a value by the schema alone.
pub(super) fn check(schema: &Structural, path: &Path, value: &Value, old: Option<&Value>, mode: Mode) -> ErrorList {
    let mut check = Check { mode, spent: 0, nested: false, effort: 0 };
    let mut errors = Vec::new();
    check.value(schema, value, old, &Place::ROOT, &mut errors);
    let mut errors = report::finish(errors, path);
    if check.effort > MAX_EFFORT {
        errors.push(FieldError::forbidden(path, "the value takes too many steps to validate by its schema"));
    }
    errors
}

struct Check {
    mode: Mode,
    /// Bytes of the messages reported so far.
    spent: usize,
    /// Whether the current schema can only restrict values.
    nested: bool,
    /// Number of steps so far.
    effort: u64,
}

/// Maximum number of steps of a validation: several for every byte of the largest request. Otherwise many restrictions
/// on each of many values could take hours.
const MAX_EFFORT: u64 = 10_000_000;

impl Check {
    /// Validates a value and returns the number of successful checks, counted like kube-apiserver's validator, which
    /// uses it to choose the errors to show if no alternative matches.
    fn value(
        &mut self,
        schema: &Structural,
        value: &Value,
        old: Option<&Value>,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) -> u64 {
        self.effort += 1;
        if self.is_full() {
            return 0;
        }
        let (start, spent) = (out.len(), self.spent);
        let matches = self.node(schema, value, old, place, out);
        if out.len() > start
            && let Some(old) = old
            && ratchet::same(schema, value, old)
        {
            out.truncate(start);
            self.spent = spent;
        }
        matches
    }

    fn node(
        &mut self,
        schema: &Structural,
        value: &Value,
        old: Option<&Value>,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) -> u64 {
        let formats = schema.compiled.0.as_ref().map_or_else(|| Formats::of(schema), |tables| tables.formats);
        let format = schema.validation.format.as_deref();
        let format = if self.mode == Mode::Resource && formats.stripped { None } else { format };
        let types = Types::of(schema, self.mode);
        if value.is_null() {
            let fits = types.is_empty() || schema.nullable;
            if !fits {
                self.wrong_type(place, &types.names(), "null", out);
            }
            self.allowed(schema, value, place, out);
            return u64::from(fits);
        }
        let mut matches = 1;
        if !types.is_empty() || format.is_some() {
            matches += 1 + u64::from(self.types(types, format, value, place, out));
        }
        matches += 1 + self.composite(schema, value, place, out);
        match value {
            Value::String(text) => {
                matches += 1;
                self.text(schema, text, place, out);
                if let (Some(format), Some(known)) = (format, formats.check) {
                    matches += 1;
                    if !known(text) {
                        self.wrong_type(place, format, text, out);
                    }
                }
            }
            Value::Number(number) => {
                matches += 2;
                self.number(schema, Num::of(number), format, place, out);
            }
            Value::Array(items) => matches += 2 + self.items(schema, items, old, place, out),
            _ => {}
        }
        matches += 1;
        self.allowed(schema, value, place, out);
        if let Value::Object(map) = value {
            matches += 1 + self.fields(schema, map, old, place, out);
        }
        matches
    }

    fn text(&mut self, schema: &Structural, text: &str, place: &Place<'_>, out: &mut ErrorList) {
        let validation = &schema.validation;
        if validation.max_length.is_some() || validation.min_length.is_some() {
            let length = || text.chars().count() as i64;
            // A character has between one and four bytes, so usually there is no need to count.
            if let Some(max) = validation.max_length
                && text.len() as i64 > max
                && length() > max
            {
                return self.too_long(place, max, out);
            }
            if let Some(min) = validation.min_length
                && (text.len() as i64) < min.saturating_mul(4)
                && length() < min
            {
                let detail = format!("{} in body should be at least {min} chars long", place.name());
                return self.invalid(place, crate::field::quote(text), detail, out);
            }
        }
        let Some(pattern) = validation.pattern.as_deref().filter(|pattern| !pattern.is_empty()) else { return };
        let known = schema.compiled.0.as_ref().and_then(|tables| tables.pattern.as_ref());
        if let Some(known) = known {
            self.effort = self.effort.saturating_add(known.weight().saturating_mul(text.len() as u64) / 16);
            if self.is_full() {
                return;
            }
        }
        let detail = match known {
            Some(known) if known.regex.is_match(text) => return,
            Some(_) => format!("{} in body should match '{pattern}'", place.name()),
            None => match go_regex::compile(pattern) {
                Ok(known) if known.regex.is_match(text) => return,
                Ok(_) => format!("{} in body should match '{pattern}'", place.name()),
                Err(error) => {
                    format!("{} in body should match '{pattern}, but pattern is invalid: {error}'", place.name())
                }
            },
        };
        self.invalid(place, crate::field::quote(text), detail, out);
    }

    fn allowed(&mut self, schema: &Structural, value: &Value, place: &Place<'_>, out: &mut ErrorList) {
        if schema.validation.allowed.is_empty() {
            return;
        }
        match schema.compiled.0.as_ref().and_then(|tables| tables.allowed.as_ref()) {
            Some(allowed) if allowed.contains(value) => {}
            Some(allowed) => self.not_supported(place, value, &allowed.detail, out),
            None => {
                let allowed = Allowed::of(&schema.validation.allowed);
                if !allowed.contains(value) {
                    self.not_supported(place, value, &allowed.detail, out);
                }
            }
        }
    }

    fn items(
        &mut self,
        schema: &Structural,
        items: &[Value],
        old: Option<&Value>,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) -> u64 {
        let mut matches = 0;
        if let Some(element) = schema.items.as_deref() {
            let old = ratchet::Elements::of(schema, old);
            for (index, item) in items.iter().enumerate() {
                let old = old.as_ref().and_then(|old| old.find(item));
                matches += self.value(element, item, old, &place.then(Segment::Index(index)), out);
            }
        }
        let validation = &schema.validation;
        let count = items.len() as i64;
        self.count(place, count, (validation.min_items, validation.max_items), "items", out);
        if validation.unique_items {
            let mut seen = HashSet::with_capacity(items.len());
            if !items.iter().all(|item| seen.insert(item.to_string())) {
                let detail = format!("{} in body shouldn't contain duplicates", place.name());
                self.invalid(place, "\"\"".to_owned(), detail, out);
            }
        }
        matches
    }

    /// Validates the number of items or properties.
    fn count(
        &mut self,
        place: &Place<'_>,
        count: i64,
        (min, max): (Option<i64>, Option<i64>),
        what: &str,
        out: &mut ErrorList,
    ) {
        if let Some(min) = min.filter(|min| count < *min) {
            let detail = format!("{} in body should have at least {min} {what}", place.name());
            self.invalid(place, count.to_string(), detail, out);
        }
        if let Some(max) = max.filter(|max| count > *max) {
            self.too_many(place, count, max, out);
        }
    }

    fn fields(
        &mut self,
        schema: &Structural,
        map: &Map<String, Value>,
        old: Option<&Value>,
        place: &Place<'_>,
        out: &mut ErrorList,
    ) -> u64 {
        let validation = &schema.validation;
        let count = map.len() as i64;
        self.count(place, count, (validation.min_properties, validation.max_properties), "properties", out);
        let mut matches = 0;
        let ignored = self.nested && self.mode == Mode::Default;
        match &schema.additional {
            _ if ignored => {}
            Additional::Bool(false) => {
                for name in map.keys().filter(|name| !schema.properties.contains_key(*name)) {
                    let detail = format!("{}.{name} in body is a forbidden property", place.name());
                    self.invalid(place, crate::field::quote(name), detail, out);
                }
            }
            Additional::Schema(additional) => {
                for (name, value) in map.iter().filter(|(name, _)| !schema.properties.contains_key(*name)) {
                    let old = field_of(old, name, place);
                    matches += self.value(additional, value, old, &place.then(Segment::Additional(name)), out);
                }
            }
            Additional::Absent | Additional::Bool(true) => {}
        }
        for (name, value) in map {
            if let Some(property) = schema.properties.get(name) {
                let old = field_of(old, name, place);
                matches += self.value(property, value, old, &place.then(Segment::Property(name)), out);
            }
        }
        for name in validation.required.iter().filter(|name| !map.contains_key(*name)) {
            self.required(&place.then(Segment::Additional(name)), out);
        }
        matches
    }
}

/// Returns the old value of a field. `kind` and `apiVersion` of the whole object are not compared.
fn field_of<'v>(old: Option<&'v Value>, name: &str, place: &Place<'_>) -> Option<&'v Value> {
    if place.is_root() && matches!(name, "kind" | "apiVersion") {
        return None;
    }
    old?.as_object()?.get(name)
}

/// Returns an error with an already formatted value.
fn error(kind: ErrorKind, field: String, value: Option<String>, detail: String) -> FieldError {
    FieldError { kind, field, value, detail }
}

#[cfg(test)]
mod tests;
