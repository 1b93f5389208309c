//! From the `openAPIV3Schema` of a definition to a structural schema.

use serde_json::{Map, Number, Value};

use super::pattern::PatternError;
use super::{Additional, Kind, ListType, Rule, Structural, Validation};

/// How deep schemas may nest: beyond what anybody writes, and little enough for the stack of whoever walks them.
pub const MAX_DEPTH: usize = 200;

/// Why a schema cannot be compiled. Validation of definitions refuses most of these before.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompileError {
    /// A keyword that structural schemas do not have.
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Unsupported(&'static str),
    /// `items` with a schema for each element.
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    /// `x-kubernetes-preserve-unknown-fields: false`.
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
    /// A type that does not exist.
    #[error("unknown type {0:?}")]
    Type(String),
    /// Too many levels.
    #[error("schema nests deeper than {MAX_DEPTH} levels")]
    TooDeep,
    /// A pattern that does not compile.
    #[error(transparent)]
    Pattern(#[from] PatternError),
}

const UNSUPPORTED: [&str; 5] = ["id", "$schema", "$ref", "patternProperties", "dependencies"];

impl Structural {
    /// Compiles a schema as it stands in a definition. Anything but an object is an empty schema.
    ///
    /// # Errors
    /// If the schema is not structural in a way that makes it meaningless.
    pub fn compile(schema: &Value) -> Result<Self, CompileError> {
        let mut out = read(schema, 0)?;
        out.seal()?;
        Ok(out)
    }
}

fn read(schema: &Value, depth: usize) -> Result<Structural, CompileError> {
    let Value::Object(map) = schema else { return Ok(Structural::default()) };
    if depth >= MAX_DEPTH {
        return Err(CompileError::TooDeep);
    }
    refuse_unsupported(map)?;
    let nested = |value: &Value| read(value, depth + 1);
    let items = match map.get("items") {
        Some(Value::Array(_)) => return Err(CompileError::ItemsArray),
        Some(items @ Value::Object(_)) => Some(Box::new(nested(items)?)),
        _ => None,
    };
    let mut properties = std::collections::BTreeMap::new();
    for (name, property) in map.get("properties").and_then(Value::as_object).into_iter().flatten() {
        properties.insert(name.clone(), nested(property)?);
    }
    let additional = match map.get("additionalProperties") {
        Some(Value::Bool(flag)) => Additional::Bool(*flag),
        Some(schema @ Value::Object(_)) => Additional::Schema(Box::new(nested(schema)?)),
        _ => Additional::Absent,
    };
    if map.get("x-kubernetes-preserve-unknown-fields") == Some(&Value::Bool(false)) {
        return Err(CompileError::PreserveFalse);
    }
    Ok(Structural {
        kind: kind(map)?,
        nullable: flag(map, "nullable"),
        default: map.get("default").filter(|value| !value.is_null()).cloned(),
        properties,
        additional,
        items,
        preserve_unknown_fields: flag(map, "x-kubernetes-preserve-unknown-fields"),
        embedded_resource: flag(map, "x-kubernetes-embedded-resource"),
        int_or_string: flag(map, "x-kubernetes-int-or-string"),
        list_type: list_type(map),
        atomic_map: map.get("x-kubernetes-map-type").and_then(Value::as_str) == Some("atomic"),
        validation: validation(map, depth)?,
        rules: list(map, "x-kubernetes-validations").iter().map(rule).collect(),
        ..Structural::default()
    })
}

fn refuse_unsupported(map: &Map<String, Value>) -> Result<(), CompileError> {
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

fn validation(map: &Map<String, Value>, depth: usize) -> Result<Validation, CompileError> {
    let all = |key| list(map, key).iter().map(|schema| read(schema, depth + 1)).collect::<Result<Vec<_>, _>>();
    let not = match map.get("not") {
        Some(schema @ Value::Object(_)) => Some(Box::new(read(schema, depth + 1)?)),
        _ => None,
    };
    Ok(Validation {
        format: text(map, "format"),
        maximum: number(map, "maximum"),
        exclusive_maximum: flag(map, "exclusiveMaximum"),
        minimum: number(map, "minimum"),
        exclusive_minimum: flag(map, "exclusiveMinimum"),
        multiple_of: number(map, "multipleOf"),
        max_length: integer(map, "maxLength"),
        min_length: integer(map, "minLength"),
        pattern: text(map, "pattern"),
        max_items: integer(map, "maxItems"),
        min_items: integer(map, "minItems"),
        unique_items: flag(map, "uniqueItems"),
        max_properties: integer(map, "maxProperties"),
        min_properties: integer(map, "minProperties"),
        required: strings(map, "required"),
        allowed: list(map, "enum").to_vec(),
        all_of: all("allOf")?,
        any_of: all("anyOf")?,
        one_of: all("oneOf")?,
        not,
    })
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
