//! Converts values to JSON.

use serde_json::{Map as JsonMap, Value as Json};

use super::{Value, time};

impl Value<'_> {
    /// Returns the value as JSON.
    ///
    /// # Errors
    /// Returns an error if it contains a value that JSON cannot represent.
    pub fn to_json(&self) -> Result<Json, String> {
        Ok(match self {
            Value::Null => Json::Null,
            Value::Bool(value) => (*value).into(),
            Value::Int(value) => (*value).into(),
            Value::Uint(value) => (*value).into(),
            Value::Double(value) => number(*value)?,
            Value::String(text) => Json::String(text.to_string()),
            Value::Bytes(bytes) => Json::String(base64(bytes)),
            Value::Duration(nanos) => Json::String(format!("{}s", time::duration_seconds(*nanos))),
            Value::Timestamp(time) => Json::String(time.utc().to_rfc3339_nano()),
            Value::List(list) => {
                let items = list.iter().map(|item| item.map_err(|error| error.to_string())?.to_json());
                Json::Array(items.collect::<Result<_, String>>()?)
            }
            Value::Map(map) => {
                let mut fields = JsonMap::new();
                for key in map.keys() {
                    let Value::String(name) = &key else {
                        return Err(format!("map key {:?} is of type {}, not string", key.display(), key.go_type()));
                    };
                    let value = map.find(&key).map_err(|error| error.to_string())?.unwrap_or(Value::Null);
                    fields.insert(name.to_string(), value.to_json()?);
                }
                Json::Object(fields)
            }
            Value::Struct(value) => {
                let fields = value.fields.iter().map(|(name, value)| Ok((name.to_string(), value.to_json()?)));
                Json::Object(fields.collect::<Result<_, String>>()?)
            }
            Value::Optional(Some(value)) => value.to_json()?,
            Value::Preserved(json) => (*json).clone(),
            Value::Optional(None) | Value::Type(_) | Value::Opaque(_) | Value::Lost(_) => {
                return Err(format!("a value of type '{}' has no JSON form", self.type_name()));
            }
        })
    }
}

fn number(value: f64) -> Result<Json, String> {
    serde_json::Number::from_f64(value).map(Json::Number).ok_or_else(|| format!("{value} has no JSON form"))
}

/// Returns padded base64 with the standard alphabet.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for group in bytes.chunks(3) {
        let bits = group.iter().enumerate().fold(0u32, |bits, (at, byte)| bits | u32::from(*byte) << (16 - 8 * at));
        for digit in 0..4 {
            let index = (bits >> (18 - 6 * digit)) as usize & 63;
            out.push(if digit <= group.len() { char::from(ALPHABET[index]) } else { '=' });
        }
    }
    out
}
