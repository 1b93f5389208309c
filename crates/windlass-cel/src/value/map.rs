//! Maps: objects seen through their schema, and computed maps.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};

use serde_json::Value as Json;
use windlass_schema::sorting::Gather as _;
use windlass_schema::structural::{Additional, Kind, Structural};

use super::{EvalError, Outcome, Text, Value, escape, unescape};

/// A map, or an object with fields.
#[derive(Debug, Clone)]
pub enum Map<'a> {
    /// An object.
    Json {
        /// The fields.
        fields: &'a serde_json::Map<String, Json>,
        /// The schema, if there is one.
        schema: Option<&'a Structural>,
        /// Whether it has `apiVersion`, `kind` and `metadata` regardless of the schema.
        resource: bool,
    },
    /// A computed map.
    Values(Arc<BTreeMap<Key<'a>, Value<'a>>>),
}

/// A key of a computed map.
#[derive(Debug, Clone)]
pub enum Key<'a> {
    /// A `bool`.
    Bool(bool),
    /// An `int`.
    Int(i64),
    /// A `uint`.
    Uint(u64),
    /// A `double`.
    Double(f64),
    /// A `string`.
    String(Text<'a>),
}

impl<'a> Key<'a> {
    /// Converts a value to a key.
    pub fn from_value(value: &Value<'a>) -> Option<Key<'a>> {
        Some(match value {
            Value::Bool(value) => Key::Bool(*value),
            Value::Int(value) => Key::Int(*value),
            Value::Uint(value) => Key::Uint(*value),
            Value::Double(value) => Key::Double(*value),
            Value::String(text) => Key::String(text.clone()),
            _ => return None,
        })
    }

    /// Converts a key to a value.
    pub fn to_value(&self) -> Value<'a> {
        match self {
            Key::Bool(value) => Value::Bool(*value),
            Key::Int(value) => Value::Int(*value),
            Key::Uint(value) => Value::Uint(*value),
            Key::Double(value) => Value::Double(*value),
            Key::String(text) => Value::String(text.clone()),
        }
    }

    fn rank(&self) -> u8 {
        match self {
            Key::Bool(_) => 0,
            Key::Int(_) => 1,
            Key::Uint(_) => 2,
            Key::Double(_) => 3,
            Key::String(_) => 4,
        }
    }

    /// Returns the keys of other numeric types that represent the same number.
    fn equivalents(&self) -> [Option<Key<'a>>; 2] {
        match self {
            Key::Int(value) => [u64::try_from(*value).ok().map(Key::Uint), None],
            Key::Uint(value) => [i64::try_from(*value).ok().map(Key::Int), None],
            Key::Double(value) if value.fract() == 0.0 && value.abs() < 9.2e18 => {
                let int = *value as i64;
                [Some(Key::Int(int)), u64::try_from(int).ok().map(Key::Uint)]
            }
            _ => [None, None],
        }
    }
}

impl Ord for Key<'_> {
    fn cmp(&self, other: &Self) -> Ordering {
        match (self, other) {
            (Key::Bool(a), Key::Bool(b)) => a.cmp(b),
            (Key::Int(a), Key::Int(b)) => a.cmp(b),
            (Key::Uint(a), Key::Uint(b)) => a.cmp(b),
            (Key::Double(a), Key::Double(b)) => a.total_cmp(b),
            (Key::String(a), Key::String(b)) => a.cmp(b),
            (a, b) => a.rank().cmp(&b.rank()),
        }
    }
}

impl PartialOrd for Key<'_> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Key<'_> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Key<'_> {}

impl<'a> From<BTreeMap<Key<'a>, Value<'a>>> for Map<'a> {
    fn from(entries: BTreeMap<Key<'a>, Value<'a>>) -> Self {
        Map::Values(Arc::new(entries))
    }
}

/// Returns the schema of `metadata`, `apiVersion` or `kind` in embedded resources.
fn resource_field(name: &str) -> Option<&'static Structural> {
    static TEXT: OnceLock<Structural> = OnceLock::new();
    static METADATA: OnceLock<Structural> = OnceLock::new();
    let text = || TEXT.get_or_init(|| Structural { kind: Some(Kind::String), ..Structural::default() });
    match name {
        "apiVersion" | "kind" => Some(text()),
        "metadata" => Some(METADATA.get_or_init(|| Structural {
            kind: Some(Kind::Object),
            properties: ["name", "generateName"].iter().map(|name| (name.to_string(), text().clone())).gather(),
            ..Structural::default()
        })),
        _ => None,
    }
}

/// Returns whether a schema itself declares the fields that every resource has.
fn declares_resource(schema: &Structural) -> bool {
    let kind = |name: &str, kind| schema.properties.get(name).is_some_and(|field| field.kind == Some(kind));
    kind("kind", Kind::String)
        && kind("apiVersion", Kind::String)
        && kind("metadata", Kind::Object)
        && schema.properties.get("metadata").is_some_and(|metadata| {
            ["name", "generateName"]
                .iter()
                .all(|name| metadata.properties.get(*name).is_some_and(|field| field.kind == Some(Kind::String)))
        })
}

/// Returns the schema of a field of an object; `None` if there is no such field.
fn field_schema<'a>(schema: &'a Structural, resource: bool, name: &str) -> Option<&'a Structural> {
    if resource || !schema.properties.is_empty() {
        let declared = schema.properties.get(name);
        if resource
            && let Some(field) = resource_field(name)
            && (declared.is_none() || !declares_resource(schema))
        {
            return Some(field);
        }
        return declared;
    }
    match &schema.additional {
        Additional::Schema(values) => Some(values),
        _ => None,
    }
}

impl<'a> Map<'a> {
    /// Returns the number of entries, including fields of an object that are not in its schema.
    pub fn len(&self) -> usize {
        match self {
            Map::Json { fields, .. } => fields.len(),
            Map::Values(entries) => entries.len(),
        }
    }

    /// Returns whether it is empty.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns whether it is an object that has a schema.
    pub fn is_typed(&self) -> bool {
        matches!(self, Map::Json { schema: Some(_), .. })
    }

    /// Looks up a key.
    ///
    /// # Errors
    /// Returns an error if the key has the wrong type, or the entry's value does not match its schema.
    pub fn find(&self, key: &Value<'a>) -> Result<Option<Value<'a>>, EvalError> {
        match (self, key) {
            (Map::Json { .. }, Value::String(name)) => self.find_str(name).transpose(),
            (Map::Json { schema: Some(_), .. }, _) => Err(EvalError::no_such_overload()),
            (Map::Json { .. }, _) => Ok(None),
            (Map::Values(entries), key) => {
                let Some(key) = Key::from_value(key) else { return Ok(None) };
                if let Some(value) = entries.get(&key) {
                    return Ok(Some(value.clone()));
                }
                Ok(key.equivalents().into_iter().flatten().find_map(|key| entries.get(&key).cloned()))
            }
        }
    }

    /// Looks up a string key in the form of field names in expressions.
    pub fn find_str(&self, name: &str) -> Option<Outcome<'a>> {
        match self {
            Map::Json { fields, schema: Some(schema), resource } => {
                let object = *resource || !schema.properties.is_empty();
                let name = if object { unescape(name)? } else { name.into() };
                let value = fields.get(&*name)?;
                if object && value.is_null() {
                    return None;
                }
                Some(Value::typed(value, field_schema(schema, *resource, &name)?))
            }
            Map::Json { fields, schema: None, .. } => fields.get(name).map(|value| Ok(Value::untyped(value))),
            Map::Values(entries) => {
                let entries: &BTreeMap<Key<'_>, Value<'a>> = entries;
                entries.get(&Key::String(Text::Borrowed(name))).cloned().map(Ok)
            }
        }
    }

    /// Returns the keys in order.
    pub fn keys(&self) -> Vec<Value<'a>> {
        match self {
            Map::Json { fields, schema: None, .. } => {
                fields.keys().map(|key| Value::String(Text::Borrowed(key))).collect()
            }
            Map::Json { fields, schema: Some(schema), resource } => {
                let object = *resource || !schema.properties.is_empty();
                fields
                    .keys()
                    .filter(|key| field_schema(schema, *resource, key).is_some())
                    .map(|key| {
                        let written = if object { escape(key) } else { None };
                        match written {
                            Some(std::borrow::Cow::Owned(text)) => Value::string(text),
                            _ => Value::String(Text::Borrowed(key)),
                        }
                    })
                    .collect()
            }
            Map::Values(entries) => entries.keys().map(Key::to_value).collect(),
        }
    }

    /// Returns whether a field of the object is in its schema.
    pub(super) fn knows(&self, name: &str) -> bool {
        match self {
            Map::Json { schema: Some(schema), resource, .. } => field_schema(schema, *resource, name).is_some(),
            _ => true,
        }
    }

    /// Returns the map with an additional entry; changed in place if it is not shared.
    ///
    /// # Errors
    /// Returns an error if the key already exists, or the value cannot be a key.
    pub fn insert(self, key: &Value<'a>, value: Value<'a>) -> Result<Map<'a>, EvalError> {
        if self.find(key)?.is_some() {
            return Err(EvalError::new(format!("insert failed: key {} already exists", key.display())));
        }
        let Some(new) = Key::from_value(key) else {
            return Err(EvalError::new(format!("unsupported map key type: {}", key.type_name())));
        };
        let mut entries = match self {
            Map::Values(entries) => entries,
            json => {
                let mut entries = BTreeMap::new();
                for key in json.keys() {
                    if let (Some(new), Some(value)) = (Key::from_value(&key), json.find(&key)?) {
                        entries.insert(new, value);
                    }
                }
                Arc::new(entries)
            }
        };
        Arc::make_mut(&mut entries).insert(new, value);
        Ok(Map::Values(entries))
    }
}
