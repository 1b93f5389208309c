//! The metadata of resources, decoded by the built-in type regardless of the schema.

use serde_json::{Map, Value};

use super::prune_and_default::{DefaultsBudget, PruneOptions, Steps};
use super::{Additional, Structural};
use crate::decode::{self, Decoded, Storage};
use crate::field::{ErrorKind, FieldError, Path, show};
use crate::go_format;
use crate::sorting::Gather as _;
use crate::types::{StructId, TypeTable};

/// The type of `ObjectMeta`.
#[derive(Debug, Clone, Copy)]
pub struct ObjectMetaType<'t> {
    /// The table of built-in types.
    pub table: &'t TypeTable,
    /// The struct `ObjectMeta` in the table.
    pub id: StructId,
}

/// PruneOptions for coercing metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct CoerceOptions {
    /// Drop fields of the wrong type, as for objects read from storage, instead of returning an error.
    pub drop_invalid: bool,
    /// Return the paths of unknown fields.
    pub unknown_fields: bool,
}

/// PruneOptions for turning a body into an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct NormalizeOptions {
    /// Drop metadata of the wrong type, as for objects read from storage, instead of returning an error.
    pub drop_invalid_metadata: bool,
    /// Return the paths of unknown fields.
    pub unknown_fields: bool,
    /// Apply defaults.
    pub default: bool,
}

impl Structural {
    /// Turns a body into an object of this schema: decodes metadata, removes unknown fields and nulls, coerces embedded
    /// resources and applies defaults. Returns the paths of unknown fields if requested, in the order in which
    /// kube-apiserver reports them.
    ///
    /// `apiVersion` and `kind` must be strings.
    ///
    /// # Errors
    /// Returns kube-apiserver's error if metadata, of the object or of an embedded resource, has a wrong type.
    pub fn normalize(
        &self,
        object: &mut Value,
        meta: ObjectMetaType<'_>,
        options: NormalizeOptions,
    ) -> Result<Vec<String>, String> {
        let coerce =
            CoerceOptions { drop_invalid: options.drop_invalid_metadata, unknown_fields: options.unknown_fields };
        let mut unknown = Vec::new();
        if let Value::Object(map) = object
            && let Some(value) = map.get_mut("metadata")
        {
            let decoded = object_meta(value.take(), meta, coerce, &mut unknown, "metadata")?;
            *value = decoded;
        }
        let embeds = self.may_embed();
        let steps = Steps { prune: true, drop_nulls: true, default: options.default && !embeds };
        let read = PruneOptions { resource_root: true, unknown_fields: options.unknown_fields };
        let mut budget = DefaultsBudget::default();
        unknown.extend(self.prune_and_default_within(&mut budget, object, steps, read));
        budget.check()?;
        if embeds {
            let root = Path::root();
            unknown.extend(self.coerce(&root, object, false, meta, coerce).map_err(|error| error.to_string())?);
            if options.default {
                self.apply_defaults(object)?;
            }
        }
        Ok(unknown)
    }

    /// Coerces the metadata of embedded resources, and of the value itself if it is one. Returns the sorted paths of
    /// unknown fields if requested.
    ///
    /// # Errors
    /// Returns an error if a field has a wrong type and is not to be dropped.
    pub fn coerce(
        &self,
        path: &Path,
        value: &mut Value,
        resource_root: bool,
        meta: ObjectMetaType<'_>,
        options: CoerceOptions,
    ) -> Result<Vec<String>, FieldError> {
        let mut coercion = Coercion { meta, options, unknown: Vec::new() };
        coercion.value(path, value, self, resource_root)?;
        coercion.unknown.sort_unstable();
        Ok(coercion.unknown)
    }
}

struct Coercion<'t> {
    meta: ObjectMetaType<'t>,
    options: CoerceOptions,
    unknown: Vec<String>,
}

impl Coercion<'_> {
    fn value(&mut self, path: &Path, value: &mut Value, schema: &Structural, root: bool) -> Result<(), FieldError> {
        if !root && !schema.may_embed() {
            return Ok(());
        }
        match value {
            Value::Object(map) => {
                if root || schema.embedded_resource {
                    self.resource(path, map)?;
                }
                for (name, value) in map {
                    if !(value.is_object() || value.is_array()) {
                        continue;
                    }
                    if let Some(property) = schema.properties.get(name) {
                        self.value(&path.child(name), value, property, false)?;
                    } else if let Additional::Schema(schema) = &schema.additional {
                        self.value(&path.key(name), value, schema, false)?;
                    }
                }
            }
            Value::Array(items) => {
                if let Some(element) = &schema.items {
                    for (index, item) in items.iter_mut().enumerate() {
                        self.value(&path.index(index), item, element, false)?;
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn resource(&mut self, path: &Path, map: &mut Map<String, Value>) -> Result<(), FieldError> {
        for name in ["apiVersion", "kind"] {
            match map.get(name) {
                None | Some(Value::String(_)) => {}
                Some(_) if self.options.drop_invalid => drop(map.remove(name)),
                Some(other) => return Err(invalid(&path.child(name), show(other), "must be a string")),
            }
        }
        let Some(value) = map.get_mut("metadata") else { return Ok(()) };
        let place = path.child("metadata");
        // The previous value is shown in the error, or kept if nothing of it is valid.
        let before = value.take();
        match object_meta(before.clone(), self.meta, self.options, &mut self.unknown, place.as_str()) {
            Ok(decoded) => *value = decoded,
            Err(error) => {
                let shown = (!self.options.drop_invalid).then(|| show(&before));
                *value = before;
                if let Some(shown) = shown {
                    return Err(invalid(&place, shown, &error));
                }
            }
        }
        Ok(())
    }
}

fn invalid(path: &Path, shown: String, detail: &str) -> FieldError {
    let value = Some(shown);
    FieldError { kind: ErrorKind::Invalid, field: path.to_string(), value, detail: detail.to_owned() }
}

/// Decodes metadata. A field of a wrong type is an error or dropped.
fn object_meta(
    value: Value,
    meta: ObjectMetaType<'_>,
    options: CoerceOptions,
    unknown: &mut Vec<String>,
    place: &str,
) -> Result<Value, String> {
    let spare = options.drop_invalid.then(|| value.clone());
    let decoded = decode_meta(value, meta);
    let Some(error) = decoded.error else {
        if options.unknown_fields {
            unknown.extend(paths(&decoded.strict, place));
        }
        return Ok(without_zero_time(decoded.value));
    };
    let Some(Value::Object(fields)) = spare else {
        return Err(match spare {
            Some(other) => format!("invalid metadata: expected object, got {}", go_type(&other)),
            None => error,
        });
    };
    let mut kept = Map::new();
    for (name, value) in fields {
        let alone = decode_meta(Value::Object([(name, value)].into_iter().gather()), meta);
        if alone.error.is_none() {
            if options.unknown_fields {
                unknown.extend(paths(&alone.strict, place));
            }
            if let Value::Object(fields) = alone.value {
                kept.extend(fields);
            }
        }
    }
    Ok(without_zero_time(Value::Object(kept)))
}

fn decode_meta(value: Value, meta: ObjectMetaType<'_>) -> Decoded {
    decode::decode(value, meta.id, meta.table, Storage::Json)
}

/// A zero time is not written.
fn without_zero_time(mut value: Value) -> Value {
    if let Value::Object(map) = &mut value
        && map.get("creationTimestamp").is_some_and(Value::is_null)
    {
        map.remove("creationTimestamp");
    }
    value
}

fn go_type(value: &Value) -> &'static str {
    if value.is_null() { "<nil>" } else { go_format::type_name(value) }
}

/// Returns the paths in strict decoding errors.
fn paths<'a>(strict: &'a [String], place: &'a str) -> impl Iterator<Item = String> + 'a {
    strict.iter().filter_map(move |message| {
        let quoted = message.strip_prefix("unknown field \"")?.strip_suffix('"')?;
        Some(format!("{place}.{}", quoted.replace("\\\"", "\"").replace("\\\\", "\\")))
    })
}
