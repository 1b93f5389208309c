//! Structural schemas of custom resources: compiled once per version of a definition, then walked for every object.
//!
//! [`Structural::admit`] makes a body an object (metadata, pruning, nulls, defaults), [`Structural::validate`] and
//! [`Structural::validate_update`] judge one, [`defaults::validate`] judges the schema's own defaults.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

mod coerce;
mod compile;
mod compiled;
mod complete;
pub mod defaults;
mod embedded;
pub mod field_path;
mod list_type;
mod number;
mod unfold;
mod validate;

pub use coerce::{AdmitOptions, CoerceOptions, ObjectMetaType};
pub use compile::{CompileError, MAX_DEPTH};
pub use compiled::Compiled;
pub use complete::{Options, Steps, TOO_MANY_DEFAULTS};

/// A structural schema, or a part of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Structural {
    /// The type; `None` with `int_or_string` and for values that may be anything.
    pub kind: Option<Kind>,
    /// Whether null is a value.
    pub nullable: bool,
    /// What stands in when the field is absent; pruned and defaulted itself.
    pub default: Option<Value>,
    /// The fields of an object.
    pub properties: BTreeMap<String, Structural>,
    /// What other fields may hold.
    pub additional: Additional,
    /// The elements of a list.
    pub items: Option<Box<Structural>>,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown_fields: bool,
    /// `x-kubernetes-embedded-resource`: the object has apiVersion, kind and metadata.
    pub embedded_resource: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    /// `x-kubernetes-list-type`, `x-kubernetes-list-map-keys`.
    pub list_type: ListType,
    /// Whether `x-kubernetes-map-type` is `atomic`.
    pub atomic_map: bool,
    /// What values must fulfil.
    pub validation: Validation,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// What was worked out from the rest, to make walks fast. Nothing in a schema that was put together by hand.
    pub compiled: Compiled,
}

/// The type of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// `object`
    Object,
    /// `array`
    Array,
    /// `string`
    String,
    /// `integer`
    Integer,
    /// `number`
    Number,
    /// `boolean`
    Boolean,
}

/// What `additionalProperties` says.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Additional {
    /// Nothing.
    #[default]
    Absent,
    /// `true` or `false`.
    Bool(bool),
    /// Every other field fits a schema.
    Schema(Box<Structural>),
}

/// How the elements of a list are told apart.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    /// Not said; behaves as atomic.
    #[default]
    Absent,
    /// The list is one value.
    Atomic,
    /// Elements are unique.
    Set,
    /// Objects told apart by these keys.
    Map(Vec<String>),
}

/// The keywords that only restrict values.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Validation {
    /// `format`
    pub format: Option<String>,
    /// `maximum`
    pub maximum: Option<Number>,
    /// `exclusiveMaximum`
    pub exclusive_maximum: bool,
    /// `minimum`
    pub minimum: Option<Number>,
    /// `exclusiveMinimum`
    pub exclusive_minimum: bool,
    /// `multipleOf`
    pub multiple_of: Option<Number>,
    /// `maxLength`
    pub max_length: Option<i64>,
    /// `minLength`
    pub min_length: Option<i64>,
    /// `pattern`
    pub pattern: Option<String>,
    /// `maxItems`
    pub max_items: Option<i64>,
    /// `minItems`
    pub min_items: Option<i64>,
    /// `uniqueItems`
    pub unique_items: bool,
    /// `maxProperties`
    pub max_properties: Option<i64>,
    /// `minProperties`
    pub min_properties: Option<i64>,
    /// `required`
    pub required: Vec<String>,
    /// `enum`
    pub allowed: Vec<Value>,
    /// `allOf`, whose schemas only restrict.
    pub all_of: Vec<Structural>,
    /// `anyOf`
    pub any_of: Vec<Structural>,
    /// `oneOf`
    pub one_of: Vec<Structural>,
    /// `not`
    pub not: Option<Box<Structural>>,
}

/// A rule of `x-kubernetes-validations`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rule {
    /// The expression.
    pub rule: String,
    /// What to say when it is false.
    pub message: String,
    /// An expression that says it better.
    pub message_expression: String,
    /// The machine-readable reason; empty means `FieldValueInvalid`.
    pub reason: String,
    /// The field to blame, relative to the place of the rule.
    pub field_path: String,
    /// Whether `oldSelf` is an optional and the rule runs on creation too; `None` if not said.
    pub optional_old_self: Option<bool>,
}

#[cfg(test)]
mod tests;
