//! Decoding into a built-in type: the effect of Go's decoder on a body, followed by Go's encoder.
//!
//! Unknown fields are dropped and reported, nulls and zero values disappear or appear according to the Go type,
//! quantities and times become canonical, and the first value of a wrong type is an error with Go's message. The value is
//! changed in place. Decoding is idempotent.
//!
//! Messages are in the order of the text. A valid body needs no order, so the order is determined only if there is
//! something to report: then the text is parsed again with its order preserved.

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::go_format::json_type;
use crate::json::{Document, Node, Source, push_strict};
use crate::types::{Field, Scalar, Struct, StructId, Type, TypeTable};

mod context;
mod restore;
mod scalar;
mod zero;

use context::{Context, Segment};
pub use restore::restore;
pub use zero::zero;

/// The format in which objects of the type are stored, which determines the handling of empty lists and maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Storage {
    /// Protobuf, which cannot distinguish empty from absent: `[]` becomes null unless it is omitted.
    #[default]
    Protobuf,
    /// JSON: `[]` stays. Used for CustomResourceDefinitions and APIServices.
    Json,
}

/// Maximum number of strict decoding errors that are kept.
const MAX_STRICT: usize = 100;

/// Result of decoding a body.
#[derive(Debug, Clone, PartialEq)]
pub struct Decoded {
    /// The object as the encoder would write it. Meaningless if there is an error.
    pub value: Value,
    /// Strict decoding errors, in order: `unknown field "spec.replica"`, `duplicate field "data.a"`.
    pub strict: Vec<String>,
    /// Reason why the body does not match the type, with Go's message.
    pub error: Option<String>,
}

/// Decodes a document into a struct of the table.
pub fn decode<'a>(document: impl Into<Document<'a>>, root: StructId, table: &TypeTable, storage: Storage) -> Decoded {
    let mut document = document.into();
    let mut decoder = Decoder::new(table, storage);
    let mut value = document.value.take();
    let ordered_already = matches!(document.source, Source::Json { duplicates: true, .. });
    if !ordered_already {
        decoder.root(&mut value, root, None);
    }
    if (ordered_already || decoder.wants_order())
        && let Some(node) = document.ordered()
    {
        decoder = Decoder::new(table, storage);
        value = node.to_value();
        decoder.root(&mut value, root, Some(&node));
    }
    let strict = match document.source {
        Source::Sorted { strict } if !strict.is_empty() => strict.into_iter().chain(decoder.strict).collect(),
        _ => decoder.strict,
    };
    Decoded { value, strict, error: decoder.fatal.or(decoder.saved) }
}

struct Decoder<'t> {
    table: &'t TypeTable,
    storage: Storage,
    strict: Vec<String>,
    /// The first error that did not stop decoding.
    saved: Option<String>,
    /// The error of a type with its own decoder, which stops decoding and hides the saved one.
    fatal: Option<String>,
    /// Whether the literal of a number was needed and not available.
    literal_missing: bool,
}

impl<'t> Decoder<'t> {
    fn new(table: &'t TypeTable, storage: Storage) -> Self {
        Self { table, storage, strict: Vec::new(), saved: None, fatal: None, literal_missing: false }
    }

    fn wants_order(&self) -> bool {
        self.strict.len() > 1 || self.saved.is_some() || self.fatal.is_some() || self.literal_missing
    }

    fn root(&mut self, value: &mut Value, root: StructId, node: Option<&Node>) {
        let name = format!("v1.{}", self.table.get(root).go_name);
        self.value(value, &Type::Struct(root), &name, &Context::Root, node);
    }

    /// Saves the error for a value of the wrong type, if it is the first.
    fn mismatch(&mut self, what: &str, go_type: &str, context: &Context<'_>) {
        if self.saved.is_none() {
            self.saved = Some(context.type_error(what, go_type));
        }
    }

    /// Decodes a value of any type except null, which represents the zero value.
    fn value(&mut self, value: &mut Value, ty: &Type, go_type: &str, context: &Context<'_>, node: Option<&Node>) {
        let go_type = go_type.trim_start_matches('*');
        match ty {
            Type::Scalar(scalar) => self.scalar(value, *scalar, go_type, context, node),
            _ if value.is_null() => *value = self.zero(ty),
            Type::Struct(id) => match value {
                Value::Object(map) => {
                    let entries = node.map(Node::entries);
                    self.fields(map, self.table.get(*id), context, entries);
                }
                other => self.mismatch(json_type(other), go_type, context),
            },
            Type::List(element) => match value {
                Value::Array(items) => self.items(items, element, go_type, context, node),
                other => self.mismatch(json_type(other), go_type, context),
            },
            Type::Map(element) => match value {
                Value::Object(map) => self.entries(map, element, go_type, context, node),
                other => self.mismatch(json_type(other), go_type, context),
            },
        }
    }

    fn items(
        &mut self,
        items: &mut [Value],
        element: &Type,
        go_type: &str,
        context: &Context<'_>,
        node: Option<&Node>,
    ) {
        let name = element_name(go_type, "[]", element, self.table);
        for (index, item) in items.iter_mut().enumerate() {
            if self.fatal.is_some() {
                return;
            }
            let node = node.and_then(|node| node.item(index));
            self.value(item, element, &name, &context.then(Segment::Index(index)), node);
        }
    }

    fn entries(
        &mut self,
        map: &mut Map<String, Value>,
        element: &Type,
        go_type: &str,
        context: &Context<'_>,
        node: Option<&Node>,
    ) {
        let name = element_name(go_type, "map[string]", element, self.table);
        let Some(entries) = node.map(Node::entries) else {
            for (key, value) in map.iter_mut() {
                if self.fatal.is_some() {
                    return;
                }
                self.value(value, element, &name, &context.then(Segment::Key(key)), None);
                self.no_null_bytes(value, element);
            }
            return;
        };
        let mut done = Map::new();
        let last = last_places(entries, map);
        for (index, (key, node)) in entries.iter().enumerate() {
            if self.fatal.is_some() {
                return;
            }
            if last.is_some() && done.contains_key(key) {
                self.report("duplicate", key, context);
            }
            let mut value = remove_value(map, key, index, &last).unwrap_or_else(|| node.to_value());
            self.value(&mut value, element, &name, &context.then(Segment::Key(key)), Some(node));
            self.no_null_bytes(&mut value, element);
            done.insert(key.clone(), value);
        }
        *map = done;
    }

    /// In protobuf, the values of a map of bytes cannot be null.
    fn no_null_bytes(&self, value: &mut Value, element: &Type) {
        if value.is_null() && self.storage == Storage::Protobuf && *element == Type::Scalar(Scalar::Bytes) {
            *value = Value::from("");
        }
    }

    /// Adds a strict decoding error.
    fn report(&mut self, sort: &str, key: &str, context: &Context<'_>) {
        if self.strict.len() < MAX_STRICT {
            push_strict(&mut self.strict, context.strict(sort, key));
        }
    }

    fn fields(
        &mut self,
        map: &mut Map<String, Value>,
        ty: &Struct,
        context: &Context<'_>,
        entries: Option<&[(String, Node)]>,
    ) {
        match entries {
            None => map.retain(|key, value| match ty.field(key) {
                _ if self.fatal.is_some() => true,
                Some(field) => self.field(value, ty, field, context, None),
                None => {
                    self.report("unknown", key, context);
                    false
                }
            }),
            Some(entries) => self.ordered_fields(map, ty, context, entries),
        }
        for field in ty.fields.iter().filter(|field| !field.omit_empty) {
            if !map.contains_key(&*field.name) {
                let zero = if field.pointer { Value::Null } else { self.zero(&field.ty) };
                map.insert(field.name.to_string(), zero);
            }
        }
    }

    /// Decodes fields in the order of the text. A duplicate field is decoded twice into the same place: a struct or map
    /// keeps fields that only the earlier occurrence set.
    fn ordered_fields(
        &mut self,
        map: &mut Map<String, Value>,
        ty: &Struct,
        context: &Context<'_>,
        entries: &[(String, Node)],
    ) {
        let mut done = Map::new();
        let last = last_places(entries, map);
        for (index, (key, node)) in entries.iter().enumerate() {
            if self.fatal.is_some() {
                return;
            }
            let Some(field) = ty.field(key) else {
                self.report("unknown", key, context);
                continue;
            };
            let earlier = done.remove(key);
            if let Some(earlier) = &earlier {
                self.report("duplicate", key, context);
                if *node == Node::Null && ignores_null(field) {
                    done.insert(key.clone(), earlier.clone());
                    continue;
                }
            }
            let mut value = remove_value(map, key, index, &last).unwrap_or_else(|| node.to_value());
            self.field(&mut value, ty, field, context, Some(node));
            if let (Some(Value::Object(earlier)), Value::Object(now)) = (earlier, &mut value)
                && matches!(field.ty, Type::Struct(_) | Type::Map(_))
            {
                for (key, value) in earlier {
                    now.entry(key).or_insert(value);
                }
            }
            done.insert(key.clone(), value);
        }
        done.retain(|key, value| ty.field(key).is_some_and(|field| self.keeps(value, field)));
        *map = done;
    }

    /// Decodes a field and returns whether the encoder would write it.
    fn field(
        &mut self,
        value: &mut Value,
        owner: &Struct,
        field: &Field,
        context: &Context<'_>,
        node: Option<&Node>,
    ) -> bool {
        if value.is_null() && field.pointer {
            return !field.omit_empty;
        }
        let inner = context.then(Segment::Field { owner, name: &field.name });
        self.value(value, &field.ty, &field.go_type, &inner, node);
        self.keeps(value, field)
    }
}

/// Returns whether a null leaves the current value of the field.
fn ignores_null(field: &Field) -> bool {
    use Scalar::{Bool, Float64, Int32, Int64, String};
    let plain = matches!(field.ty, Type::Struct(_) | Type::Scalar(String | Bool | Int32 | Int64 | Float64));
    plain && !field.pointer
}

/// Returns the last position of each key, if there are duplicates.
fn last_places<'a>(entries: &'a [(String, Node)], map: &Map<String, Value>) -> Option<HashMap<&'a str, usize>> {
    (entries.len() != map.len()).then(|| entries.iter().enumerate().map(|(at, (key, _))| (key.as_str(), at)).collect())
}

/// Takes the value of an entry out of the map, which holds the last value of each key, if this is the last entry.
fn remove_value(
    map: &mut Map<String, Value>,
    key: &str,
    index: usize,
    last: &Option<HashMap<&str, usize>>,
) -> Option<Value> {
    if last.as_ref().is_some_and(|last| last.get(key) != Some(&index)) {
        return None;
    }
    map.get_mut(key).map(Value::take)
}

/// Returns Go's name for the type of an element: the part after the brackets, or the name of the element's own type.
fn element_name<'a>(go_type: &'a str, prefix: &str, element: &Type, table: &TypeTable) -> std::borrow::Cow<'a, str> {
    match go_type.strip_prefix(prefix) {
        Some(name) => name.into(),
        None => match element {
            Type::Scalar(scalar) => scalar::go_name(*scalar).into(),
            Type::Struct(id) => format!("v1.{}", table.get(*id).go_name).into(),
            Type::List(_) => "[]string".into(),
            Type::Map(_) => "map[string]string".into(),
        },
    }
}

/// The `apiVersion` and `kind` of a body.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TypeMeta {
    /// The `apiVersion`, possibly empty.
    pub api_version: String,
    /// The `kind`, possibly empty.
    pub kind: String,
}

/// Reads `apiVersion` and `kind`, before the expected type of the body is known.
///
/// # Errors
/// Returns errors such as `json: cannot unmarshal array into Go value of type struct {…}`; kube-apiserver prefixes them
/// with `couldn't get version/kind; json parse error: `.
pub fn type_meta(value: &Value) -> Result<TypeMeta, String> {
    let map = match value {
        Value::Null => return Ok(TypeMeta::default()),
        Value::Object(map) => map,
        other => {
            return Err(format!(
                "json: cannot unmarshal {} into Go value of type struct {{ APIVersion string \
                 \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
                json_type(other)
            ));
        }
    };
    let text = |key: &str| match map.get(key) {
        None | Some(Value::Null) => Ok(String::new()),
        Some(Value::String(text)) => Ok(text.clone()),
        Some(other) => {
            Err(format!("json: cannot unmarshal {} into Go struct field .{key} of type string", json_type(other)))
        }
    };
    Ok(TypeMeta { api_version: text("apiVersion")?, kind: text("kind")? })
}

#[cfg(test)]
mod tests;
