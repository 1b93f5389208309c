//! Tables computed once from a schema to speed up walks over values.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use serde_json::Value;

use super::number::{Num, to_i64};
use super::{Additional, Kind, ListType, Structural};
use crate::field::quote;
use crate::formats::{self, Format};
use crate::go_format::marshal;
use crate::go_regex::{self, Pattern, PatternError};

/// Tables derived from a schema; empty in one that was built by hand. They contain nothing that is not in the schema.
#[derive(Clone, Default)]
pub struct Compiled(pub(super) Option<Arc<Tables>>);

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_some() { "Compiled" } else { "Absent" })
    }
}

impl PartialEq for Compiled {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Facts about a schema and its subschemas.
pub(super) struct Tables {
    pub(super) pattern: Option<Pattern>,
    pub(super) allowed: Option<Allowed>,
    pub(super) formats: Formats,
    /// Properties that have a default.
    pub(super) defaulted: Vec<String>,
    /// Whether this schema or a subschema is an embedded resource.
    pub(super) embedded: bool,
    /// Whether this schema or a subschema is a list of type set or map.
    pub(super) keyed_lists: bool,
}

/// The format of a schema, and whether it applies to values of custom resources.
#[derive(Clone, Copy, Default)]
pub(super) struct Formats {
    /// The check for strings, if the format is known.
    pub(super) check: Option<Format>,
    /// Whether the server ignores the format for its type.
    pub(super) stripped: bool,
}

impl Formats {
    pub(super) fn of(schema: &Structural) -> Self {
        let Some(name) = schema.validation.format.as_deref() else { return Self::default() };
        let stripped = match schema.kind {
            None => !formats::is_supported(name),
            _ if schema.int_or_string => !formats::is_supported(name),
            Some(Kind::String) => !formats::is_supported(name),
            Some(Kind::Integer) => !matches!(name, "int32" | "int64"),
            Some(Kind::Number) => !matches!(name, "float" | "double"),
            Some(_) => true,
        };
        Self { check: formats::find(name), stripped }
    }
}

/// The values of an `enum`, for lookups in constant time.
#[derive(Default)]
pub(super) struct Allowed {
    strings: HashSet<String>,
    integers: HashSet<i64>,
    floats: HashSet<u64>,
    truths: HashSet<bool>,
    /// Lists and objects, as text that distinguishes integers from floats.
    compounds: HashSet<String>,
    /// `supported values: "a", "b"`
    pub(super) detail: String,
}

impl Allowed {
    pub(super) fn of(values: &[Value]) -> Self {
        let mut out = Self::default();
        let mut shown = Vec::with_capacity(values.len());
        for value in values {
            match value {
                Value::String(text) => {
                    out.strings.insert(text.clone());
                    shown.push(quote(text));
                    continue;
                }
                Value::Number(number) => match Num::of(number) {
                    Num::Int(n) => drop(out.integers.insert(n)),
                    Num::Float(f) => drop(out.floats.insert(float_key(f))),
                },
                Value::Bool(flag) => drop(out.truths.insert(*flag)),
                Value::Null => {}
                other => drop(out.compounds.insert(other.to_string())),
            }
            shown.push(quote(&marshal(value)));
        }
        out.detail = format!("supported values: {}", shown.join(", "));
        out
    }

    /// Returns whether a value is in the enum after Go's conversions: a float is truncated to compare with an integer,
    /// and an integer is converted to a character to compare with a string. Null is never in it.
    pub(super) fn contains(&self, value: &Value) -> bool {
        match value {
            Value::Null => false,
            Value::String(text) => self.strings.contains(text),
            Value::Bool(flag) => self.truths.contains(flag),
            Value::Number(number) => match Num::of(number) {
                Num::Int(n) => {
                    self.integers.contains(&n)
                        || self.floats.contains(&float_key(n as f64))
                        || (!self.strings.is_empty() && self.strings.contains(character(n).encode_utf8(&mut [0; 4])))
                }
                Num::Float(f) => self.integers.contains(&to_i64(f)) || self.floats.contains(&float_key(f)),
            },
            compound => !self.compounds.is_empty() && self.compounds.contains(&compound.to_string()),
        }
    }
}

fn float_key(value: f64) -> u64 {
    if value == 0.0 { 0 } else { value.to_bits() }
}

fn character(code: i64) -> char {
    u32::try_from(code).ok().and_then(char::from_u32).unwrap_or('\u{fffd}')
}

impl Structural {
    /// Recomputes the tables of this schema and its subschemas; required after the schema was changed.
    ///
    /// # Errors
    /// Returns an error if a pattern is malformed or too large.
    pub fn build_tables(&mut self) -> Result<(), PatternError> {
        go_regex::with_shared_limits(|| self.build_tables_below())
    }

    fn build_tables_below(&mut self) -> Result<(), PatternError> {
        for child in self.children_mut() {
            child.build_tables_below()?;
        }
        let validation = &self.validation;
        let pattern = match validation.pattern.as_deref() {
            None | Some("") => None,
            Some(pattern) => Some(go_regex::compile(pattern)?),
        };
        let tables = Tables {
            pattern,
            allowed: (!validation.allowed.is_empty()).then(|| Allowed::of(&validation.allowed)),
            formats: Formats::of(self),
            defaulted: self.properties.iter().filter(|(_, s)| s.default.is_some()).map(|(k, _)| k.clone()).collect(),
            embedded: self.embedded_resource || self.structure().any(Structural::may_embed),
            keyed_lists: matches!(self.list_type, ListType::Set | ListType::Map(_))
                || self.structure().any(Structural::may_have_keyed_lists),
        };
        self.compiled = Compiled(Some(Arc::new(tables)));
        Ok(())
    }

    /// Returns the direct subschemas that define the structure of values.
    pub(super) fn structure(&self) -> impl Iterator<Item = &Structural> {
        let additional = if let Additional::Schema(schema) = &self.additional { Some(&**schema) } else { None };
        self.properties.values().chain(additional).chain(self.items.as_deref())
    }

    fn children_mut(&mut self) -> impl Iterator<Item = &mut Structural> {
        let additional = if let Additional::Schema(schema) = &mut self.additional { Some(&mut **schema) } else { None };
        let v = &mut self.validation;
        let nested = v.all_of.iter_mut().chain(&mut v.any_of).chain(&mut v.one_of).chain(v.not.as_deref_mut());
        self.properties.values_mut().chain(additional).chain(self.items.as_deref_mut()).chain(nested)
    }

    /// Returns whether this schema or a subschema may be an embedded resource.
    pub(super) fn may_embed(&self) -> bool {
        self.compiled.0.as_ref().is_none_or(|tables| tables.embedded)
    }

    /// Returns whether this schema or a subschema may be a list of type set or map.
    pub(super) fn may_have_keyed_lists(&self) -> bool {
        self.compiled.0.as_ref().is_none_or(|tables| tables.keyed_lists)
    }
}
