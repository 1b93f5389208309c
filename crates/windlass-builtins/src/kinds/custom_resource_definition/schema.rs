//! Field-by-field access to a JSON schema of a CRD.
//!
//! Parts of a schema (`items`, `additionalProperties`) may be any JSON, so reading never fails: a field that is absent,
//! null or of the wrong type reads as its zero value.

use std::sync::LazyLock;

use serde_json::{Map, Value};
use windlass_schema::structural::field_path::{self, Fields};

static EMPTY: LazyLock<Map<String, Value>> = LazyLock::new(Map::new);

/// A schema, or a part of one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Props<'a>(&'a Map<String, Value>);

/// The value of `items`.
#[derive(Debug, Clone)]
pub(super) enum Items<'a> {
    /// The field is absent.
    Absent,
    /// One schema for all items.
    Schema(Props<'a>),
    /// One schema per item, which is not supported. May be empty.
    Schemas(Vec<Props<'a>>),
}

/// The value of `additionalProperties`.
#[derive(Debug, Clone, Copy)]
pub(super) struct PropsOrBool<'a> {
    /// The boolean; true if there is a schema.
    pub(super) allows: bool,
    /// The schema.
    pub(super) schema: Option<Props<'a>>,
}

impl<'a> Props<'a> {
    /// Reads a schema; anything but an object is an empty schema.
    pub(super) fn new(value: &'a Value) -> Self {
        Self(value.as_object().unwrap_or(&EMPTY))
    }

    /// Returns a field that is present and not null.
    pub(super) fn value(self, name: &str) -> Option<&'a Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// Returns a string; empty if it is absent.
    pub(super) fn text(self, name: &str) -> &'a str {
        self.optional_text(name).unwrap_or_default()
    }

    /// Returns a string that may be present and empty.
    pub(super) fn optional_text(self, name: &str) -> Option<&'a str> {
        self.0.get(name).and_then(Value::as_str)
    }

    /// Returns a boolean; false if it is absent.
    pub(super) fn flag(self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or_default()
    }

    /// Returns a boolean that may be present and false.
    pub(super) fn optional_flag(self, name: &str) -> Option<bool> {
        self.0.get(name).and_then(Value::as_bool)
    }

    /// Returns a list; empty if it is absent.
    pub(super) fn list(self, name: &str) -> &'a [Value] {
        self.0.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
    }

    /// Returns a list of strings.
    pub(super) fn texts(self, name: &str) -> impl Iterator<Item = &'a str> + use<'a> {
        self.list(name).iter().map(|value| value.as_str().unwrap_or_default())
    }

    /// Returns the schemas of a list such as `allOf`.
    pub(super) fn schemas(self, name: &str) -> impl Iterator<Item = Props<'a>> + use<'a> {
        self.list(name).iter().map(Props::new)
    }

    /// Returns the schema of a field such as `not`.
    pub(super) fn schema(self, name: &str) -> Option<Props<'a>> {
        self.value(name).filter(|value| value.is_object()).map(Props::new)
    }

    /// Returns a map of schemas or other values; empty if it is absent.
    pub(super) fn map(self, name: &str) -> &'a Map<String, Value> {
        self.0.get(name).and_then(Value::as_object).unwrap_or(&EMPTY)
    }

    /// Returns the schemas of a map such as `properties`, by name.
    pub(super) fn named(self, name: &str) -> impl Iterator<Item = (&'a str, Props<'a>)> + use<'a> {
        self.map(name).iter().map(|(name, value)| (name.as_str(), Props::new(value)))
    }

    /// Returns the property with this name.
    pub(super) fn property(self, name: &str) -> Option<Props<'a>> {
        self.map("properties").get(name).map(Props::new)
    }

    /// Returns the value of `items`.
    pub(super) fn items(self) -> Items<'a> {
        match self.value("items") {
            None => Items::Absent,
            Some(Value::Array(schemas)) => Items::Schemas(schemas.iter().map(Props::new).collect()),
            Some(object @ Value::Object(_)) => Items::Schema(Props::new(object)),
            Some(_) => Items::Schemas(Vec::new()),
        }
    }

    /// Returns the schema of all items, if `items` is a single schema.
    pub(super) fn item(self) -> Option<Props<'a>> {
        match self.items() {
            Items::Schema(schema) => Some(schema),
            Items::Absent | Items::Schemas(_) => None,
        }
    }

    /// Returns the value of `additionalProperties` or `additionalItems`.
    pub(super) fn props_or_bool(self, name: &str) -> Option<PropsOrBool<'a>> {
        match self.value(name)? {
            object @ Value::Object(_) => Some(PropsOrBool { allows: true, schema: Some(Props::new(object)) }),
            value => Some(PropsOrBool { allows: value.as_bool().unwrap_or_default(), schema: None }),
        }
    }

    /// Returns the schemas directly within this one, of all fields, in the order in which kube-apiserver visits them.
    pub(super) fn children(self) -> Vec<Props<'a>> {
        let mut all = Vec::new();
        match self.items() {
            Items::Absent => {}
            Items::Schema(schema) => all.push(schema),
            Items::Schemas(schemas) => all.extend(schemas),
        }
        for field in ["allOf", "anyOf", "oneOf"] {
            all.extend(self.schemas(field));
        }
        all.extend(self.schema("not"));
        all.extend(self.named("properties").map(|(_, schema)| schema));
        all.extend(self.props_or_bool("additionalProperties").and_then(|either| either.schema));
        all.extend(self.named("patternProperties").map(|(_, schema)| schema));
        all.extend(self.props_or_bool("additionalItems").and_then(|either| either.schema));
        all.extend(self.named("definitions").map(|(_, schema)| schema));
        all.extend(self.map("dependencies").values().filter(|value| value.is_object()).map(Props::new));
        all
    }

    /// Returns whether this schema or one within it, at any depth, satisfies a predicate. Visits them depth first in
    /// the order of [`Props::children`], with an explicit stack.
    pub(super) fn any(self, mut is_such: impl FnMut(Props<'a>) -> bool) -> bool {
        let mut waiting = vec![self];
        while let Some(schema) = waiting.pop() {
            if is_such(schema) {
                return true;
            }
            waiting.extend(schema.children().into_iter().rev());
        }
        false
    }

    /// Returns whether schemas are nested deeper than this.
    pub(super) fn is_deeper_than(self, limit: usize) -> bool {
        let mut level = vec![self];
        for _ in 0..=limit {
            if level.is_empty() {
                return false;
            }
            level = level.into_iter().flat_map(Props::children).collect();
        }
        !level.is_empty()
    }

    /// Returns whether a field has a value other than its zero value.
    pub(super) fn has(self, field: &Field) -> bool {
        match self.value(field.name) {
            None => false,
            Some(_) if field.pointer => true,
            Some(Value::Bool(flag)) => *flag,
            Some(Value::String(text)) => !text.is_empty(),
            Some(Value::Array(list)) => !list.is_empty(),
            Some(Value::Object(map)) => !map.is_empty(),
            Some(_) => false,
        }
    }

    /// Returns whether only these fields are set.
    pub(super) fn has_only(self, names: &[&str]) -> bool {
        FIELDS.iter().filter(|field| !names.contains(&field.name)).all(|field| !self.has(field))
    }
}

impl Fields for Props<'_> {
    fn field(self, name: &str) -> Option<field_path::Field<Self>> {
        if !self.map("properties").is_empty() {
            return self.property(name).map(field_path::Field::Property);
        }
        self.props_or_bool("additionalProperties").map(|additional| field_path::Field::Value(additional.schema))
    }
}

/// A field of a schema.
#[derive(Debug)]
pub(super) struct Field {
    /// Name in JSON.
    pub(super) name: &'static str,
    /// Name in kube-apiserver's internal version, which some messages show.
    pub(super) inner: &'static str,
    /// Whether a zero value differs from an absent one.
    pub(super) pointer: bool,
    /// Type of the value.
    pub(super) form: Form,
}

/// The type of a field's value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    Text,
    Flag,
    Number,
    Texts,
    Json,
    JsonList,
    Schema,
    Schemas,
    SchemaMap,
    Items,
    OrBool,
    Dependencies,
    Docs,
    Rules,
}

const fn field(name: &'static str, inner: &'static str, form: Form) -> Field {
    Field { name, inner, pointer: false, form }
}

const fn pointer(name: &'static str, inner: &'static str, form: Form) -> Field {
    Field { name, inner, pointer: true, form }
}

/// Fields of a schema, in the order of kube-apiserver's internal version.
pub(super) const FIELDS: &[Field] = &[
    field("id", "ID", Form::Text),
    field("$schema", "Schema", Form::Text),
    pointer("$ref", "Ref", Form::Text),
    field("description", "Description", Form::Text),
    field("type", "Type", Form::Text),
    field("nullable", "Nullable", Form::Flag),
    field("format", "Format", Form::Text),
    field("title", "Title", Form::Text),
    pointer("default", "Default", Form::Json),
    pointer("maximum", "Maximum", Form::Number),
    field("exclusiveMaximum", "ExclusiveMaximum", Form::Flag),
    pointer("minimum", "Minimum", Form::Number),
    field("exclusiveMinimum", "ExclusiveMinimum", Form::Flag),
    pointer("maxLength", "MaxLength", Form::Number),
    pointer("minLength", "MinLength", Form::Number),
    field("pattern", "Pattern", Form::Text),
    pointer("maxItems", "MaxItems", Form::Number),
    pointer("minItems", "MinItems", Form::Number),
    field("uniqueItems", "UniqueItems", Form::Flag),
    pointer("multipleOf", "MultipleOf", Form::Number),
    field("enum", "Enum", Form::JsonList),
    pointer("maxProperties", "MaxProperties", Form::Number),
    pointer("minProperties", "MinProperties", Form::Number),
    field("required", "Required", Form::Texts),
    pointer("items", "Items", Form::Items),
    field("allOf", "AllOf", Form::Schemas),
    field("oneOf", "OneOf", Form::Schemas),
    field("anyOf", "AnyOf", Form::Schemas),
    pointer("not", "Not", Form::Schema),
    field("properties", "Properties", Form::SchemaMap),
    pointer("additionalProperties", "AdditionalProperties", Form::OrBool),
    field("patternProperties", "PatternProperties", Form::SchemaMap),
    field("dependencies", "Dependencies", Form::Dependencies),
    pointer("additionalItems", "AdditionalItems", Form::OrBool),
    field("definitions", "Definitions", Form::SchemaMap),
    pointer("externalDocs", "ExternalDocs", Form::Docs),
    pointer("example", "Example", Form::Json),
    pointer("x-kubernetes-preserve-unknown-fields", "XPreserveUnknownFields", Form::Flag),
    field("x-kubernetes-embedded-resource", "XEmbeddedResource", Form::Flag),
    field("x-kubernetes-int-or-string", "XIntOrString", Form::Flag),
    field("x-kubernetes-list-map-keys", "XListMapKeys", Form::Texts),
    pointer("x-kubernetes-list-type", "XListType", Form::Text),
    pointer("x-kubernetes-map-type", "XMapType", Form::Text),
    field("x-kubernetes-validations", "XValidations", Form::Rules),
];
