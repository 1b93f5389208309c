//! Structural schemas of custom resources: compiled once per version of a CustomResourceDefinition, then walked for
//! every object.
//!
//! [`Structural::normalize`] turns a body into an object (metadata, pruning, nulls, defaults), [`Structural::validate`] and
//! [`Structural::validate_update`] validate it, and [`defaults::validate`] validates the schema's own defaults.

use std::collections::BTreeMap;

use serde_json::{Number, Value};

mod coerce;
mod compile;
mod compiled;
pub mod defaults;
mod embedded;
pub mod field_path;
mod list_type;
mod normal;
mod normal_meta;
mod number;
mod prune_and_default;
mod unfold;
mod validate;

pub use coerce::{CoerceOptions, NormalizeOptions, ObjectMetaType};
pub use compile::{CompileError, MAX_DEPTH};
pub use compiled::Compiled;
pub use prune_and_default::{PruneOptions, Steps, TOO_MANY_DEFAULTS};

/// A structural schema, or part of one.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Structural {
    /// The type; `None` with `int_or_string` and for values of any type.
    pub kind: Option<Kind>,
    /// Whether null is allowed.
    pub nullable: bool,
    /// The value for an absent field; itself pruned and defaulted.
    pub default: Option<Value>,
    /// Declared fields of an object.
    pub properties: BTreeMap<String, Structural>,
    /// `additionalProperties`: the schema of all other fields.
    pub additional: Additional,
    /// Schema of the elements of a list.
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
    /// Keywords that only restrict values.
    pub validation: Validation,
    /// `x-kubernetes-validations`.
    pub rules: Vec<Rule>,
    /// Tables derived from the other fields, to make walks fast. Empty in a schema that was built by hand.
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

/// The value of `additionalProperties`.
#[derive(Debug, Clone, Default, PartialEq)]
pub enum Additional {
    /// Not specified.
    #[default]
    Absent,
    /// `true` or `false`.
    Bool(bool),
    /// All other fields must match a schema.
    Schema(Box<Structural>),
}

/// Identity of the elements of a list.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum ListType {
    /// Not specified; behaves like `Atomic`.
    #[default]
    Absent,
    /// The list is atomic.
    Atomic,
    /// Elements are unique.
    Set,
    /// Elements are objects identified by these keys.
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
    /// `allOf`, whose schemas can only restrict values.
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
    /// The CEL expression.
    pub rule: String,
    /// The message if the expression is false.
    pub message: String,
    /// A CEL expression that produces the message.
    pub message_expression: String,
    /// The machine-readable reason; empty means `FieldValueInvalid`.
    pub reason: String,
    /// Path of the field to report, relative to the schema of the rule.
    pub field_path: String,
    /// Whether `oldSelf` is an optional, so that the rule also runs on create; `None` if not specified.
    pub optional_old_self: Option<bool>,
}

#[cfg(test)]
mod tests;
