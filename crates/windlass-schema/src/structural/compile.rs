//! Compiles the `openAPIV3Schema` of a CustomResourceDefinition to a structural schema.

use serde_json::{Map, Number, Value};

use super::{Additional, Kind, ListType, Rule, Structural, Validation};
use crate::go_regex::PatternError;

/// Maximum nesting depth of schemas: more than any real schema has, and small enough for the stack.
pub const MAX_DEPTH: usize = 200;

/// Reason why a schema cannot be compiled. Validation of CustomResourceDefinitions rejects most of these earlier.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A keyword that is not allowed in structural schemas.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `items` with a separate schema for each element.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// `x-kubernetes-preserve-unknown-fields: false`.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
    /// An unknown type.
    #[error("unknown type {0:?}")]
    Type(String),
    /// Too many levels of nesting.
    #[error("schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A pattern that does not compile.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

const UNSUPPORTED: [&str; 5] = ["id", "$schema", "$ref", "patternProperties", "dependencies"];

impl Structural {
    /// Compiles a schema of a CustomResourceDefinition. Anything except an object is an empty schema.
    ///
    /// # Errors
    /// Returns an error if a structural violation makes the schema unusable.
    pub fn compile(schema: &Value) -> Result<Self, CompileError> {
        let mut out = read(schema, 0)?;
        out.build_tables()?;
        Ok(*out)
    }
}

/// Parses a schema into a box: nested schemas are large, and the stack is small.
fn read(schema: &Value, depth: usize) -> Result<Box<Structural>, CompileError> {
    let mut out = Box::<Structural>::default();
    let Value::Object(map) = schema else { return Ok(out) };
    if depth >= MAX_DEPTH {
        return Err(CompileError::TooDeep);
    }
    reject_unsupported(map)?;
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Err(CompileError::PreserveFalse);
    }
    out.kind = kind(map)?;
    out.nullable = flag(map, "nullable");
    out.default = map.get("default").filter(|value| !value.is_null()).cloned();
    out.preserve_unknown_fields = flag(map, "x-kubernetes-preserve-unknown-fields");
    out.embedded_resource = flag(map, "x-kubernetes-embedded-resource");
    out.int_or_string = flag(map, "x-kubernetes-int-or-string");
    out.list_type = list_type(map);
    out.atomic_map = map.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic");
    out.rules = list(map, "x-kubernetes-validations").iter().map(rule).collect();
    restrict(&mut out.validation, map);
    read_below(&mut out, map, depth + 1)?;
    Ok(out)
}

fn read_below(out: &mut Structural, map: &Map<String, Value>, depth: usize) -> Result<(), CompileError> {
    match map.get("items") {
        Some(Value::Array(_)) => return Err(CompileError::ItemsArray),
        Some(items @ Value::Object(_)) => out.items = Some(read(items, depth)?),
        _ => {}
    }
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        out.properties.insert(name.clone(), *read(property, depth)?);
    }
    match map.get("additionalProperties") {
        Some(Value::Bool(flag)) => out.additional = Additional::Bool(*flag),
        Some(schema @ Value::Object(_)) => out.additional = Additional::Schema(read(schema, depth)?),
        _ => {}
    }
    let validation = &mut out.validation;
    for (key, schemas) in
        [("allOf", &mut validation.all_of), ("anyOf", &mut validation.any_of), ("oneOf", &mut validation.one_of)]
    {
        for schema in list(map, key) {
            schemas.push(*read(schema, depth)?);
        }
    }
    if let Some(schema @ Value::Object(_)) = map.get("not") {
        validation.not = Some(read(schema, depth)?);
    }
    Ok(())
}

fn reject_unsupported(map: &Map<String, Value>) -> Result<(), CompileError> {
    let set = |value: &Value| match value {
        Value::Null => false,
        Value::String(text) => !text.is_empty(),
        Value::Object(map) => !map.is_empty(),
        _ => true,
    };
    for name in UNSUPPORTED {
        if map.get(name).is_some_and(set) {
            return Err(CompileError::Unsupported(if name == "$schema" { "schema" } else { name }));
        }
    }
    if map.get("additionalItems").is_some_and(|value| !value.is_null()) {
        return Err(CompileError::Unsupported("additionalItems"));
    }
    if map.get("definitions").is_some_and(set) {
        return Err(CompileError::Unsupported("definitions"));
    }
    Ok(())
}

fn kind(map: &Map<String, Value>) -> Result<Option<Kind>, CompileError> {
    Ok(Some(match map.get("type").and_then(Value::as_str) {
        None | Some("") => return Ok(None),
        Some("object") => Kind::Object,
        Some("array") => Kind::Array,
        Some("string") => Kind::String,
        Some("integer") => Kind::Integer,
        Some("number") => Kind::Number,
        Some("boolean") => Kind::Boolean,
        Some(other) => return Err(CompileError::Type(other.to_owned())),
    }))
}

fn list_type(map: &Map<String, Value>) -> ListType {
    match map.get("x-kubernetes-list-type").and_then(Value::as_str) {
        Some("atomic") => ListType::Atomic,
        Some("set") => ListType::Set,
        Some("map") => ListType::Map(strings(map, "x-kubernetes-list-map-keys")),
        _ => ListType::Absent,
    }
}

fn restrict(out: &mut Validation, map: &Map<String, Value>) {
    out.format = text(map, "format");
    out.maximum = number(map, "maximum");
    out.exclusive_maximum = flag(map, "exclusiveMaximum");
    out.minimum = number(map, "minimum");
    out.exclusive_minimum = flag(map, "exclusiveMinimum");
    out.multiple_of = number(map, "multipleOf");
    out.max_length = integer(map, "maxLength");
    out.min_length = integer(map, "minLength");
    out.pattern = text(map, "pattern");
    out.max_items = integer(map, "maxItems");
    out.min_items = integer(map, "minItems");
    out.unique_items = flag(map, "uniqueItems");
    out.max_properties = integer(map, "maxProperties");
    out.min_properties = integer(map, "minProperties");
    out.required = strings(map, "required");
    out.allowed = list(map, "enum").to_vec();
}

fn rule(value: &Value) -> Rule {
    let text = |key: &str| value.get(key).and_then(Value::as_str).unwrap_or_default().to_owned();
    Rule {
        rule: text("rule"),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: text("reason"),
        field_path: text("fieldPath"),
        optional_old_self: value.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

fn flag(map: &Map<String, Value>, key: &str) -> bool {
    map.get(key).and_then(Value::as_bool).unwrap_or_default()
}

fn text(map: &Map<String, Value>, key: &str) -> Option<String> {
    map.get(key).and_then(Value::as_str).filter(|text| !text.is_empty()).map(str::to_owned)
}

fn number(map: &Map<String, Value>, key: &str) -> Option<Number> {
    map.get(key).and_then(Value::as_number).cloned()
}

fn integer(map: &Map<String, Value>, key: &str) -> Option<i64> {
    let value = map.get(key)?;
    value.as_i64().or_else(|| value.as_f64().map(|f| f as i64))
}

fn list<'a>(map: &'a Map<String, Value>, key: &str) -> &'a [Value] {
    map.get(key).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}

fn strings(map: &Map<String, Value>, key: &str) -> Vec<String> {
    list(map, key).iter().filter_map(Value::as_str).map(str::to_owned).collect()
}
