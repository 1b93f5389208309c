//! Encoding of JSON to messages.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::sorting;
use windlass_schema::types::{Field, Scalar, StructId, Type};

use super::wire::{put_bytes, put_fixed64, put_varint};
use super::{Member, Message, ProtobufError, duration, schema_props};
use crate::resource::Table;

/// Encodes the message of a struct, without an envelope. Fields that the struct does not have are omitted.
///
/// # Errors
/// Returns an error if a value does not match its type.
pub fn encode(value: &Value, ty: StructId, table: &Table) -> Result<Vec<u8>, ProtobufError> {
    let mut into = Vec::new();
    message(value, Message::of(ty, table), table, &mut into)?;
    Ok(into)
}

fn message(value: &Value, of: Message<'_>, table: &Table, into: &mut Vec<u8>) -> Result<(), ProtobufError> {
    if !matches!(value, Value::Object(_) | Value::Null) {
        return Err(ProtobufError::DoesNotFit { field: of.structure.go_name.to_string() });
    }
    let mut members: Vec<_> = of.members().collect();
    sorting::sort_by_key(&mut members, |(number, _)| *number);
    for (number, member) in members {
        match member {
            Member::Inline(inline) => {
                let mut nested = Vec::new();
                message(value, inline, table, &mut nested)?;
                put_bytes(into, number, &nested);
            }
            Member::Field(field) => {
                let value = value.get(&*field.name).unwrap_or(&Value::Null);
                if !(field.pointer && value.is_null()) {
                    Context { field, owner: of.id, table }.put(&field.ty, number, value, into)?;
                }
            }
        }
    }
    Ok(())
}

/// The position of a value.
struct Context<'a> {
    field: &'a Field,
    /// The struct that contains the field.
    owner: StructId,
    table: &'a Table,
}

impl Context<'_> {
    fn put(&self, ty: &Type, number: u32, value: &Value, into: &mut Vec<u8>) -> Result<(), ProtobufError> {
        match ty {
            Type::Struct(id) => put_bytes(into, number, &encode(value, *id, self.table)?),
            // A list type that is a message of its own, like lists within maps.
            Type::List(_) if &*self.field.go_type == super::VERBS && number == self.field.proto && !value.is_null() => {
                let mut items = Vec::new();
                self.put(ty, 1, value, &mut items)?;
                put_bytes(into, number, &items);
            }
            Type::List(element) => {
                for value in self.list(value)? {
                    self.put(element, number, value, into)?;
                }
            }
            Type::Map(element) => {
                let map = match value {
                    Value::Object(map) => map,
                    Value::Null => return Ok(()),
                    _ => return Err(self.does_not_fit()),
                };
                let mut entries: Vec<_> = map.iter().collect();
                entries.sort_by_key(|(key, _)| *key);
                for (key, value) in entries {
                    let mut entry = Vec::new();
                    put_bytes(&mut entry, 1, key.as_bytes());
                    if let Type::List(_) = **element {
                        let mut items = Vec::new();
                        self.put(element, 1, value, &mut items)?;
                        put_bytes(&mut entry, 2, &items);
                    } else {
                        self.put(element, 2, value, &mut entry)?;
                    }
                    put_bytes(into, number, &entry);
                }
            }
            Type::Scalar(scalar) => self.scalar(*scalar, number, value, into)?,
        }
        Ok(())
    }

    fn scalar(&self, scalar: Scalar, number: u32, value: &Value, into: &mut Vec<u8>) -> Result<(), ProtobufError> {
        match scalar {
            Scalar::String => put_bytes(into, number, self.text(value)?.as_bytes()),
            Scalar::Bool => {
                let bool = if value.is_null() { Some(false) } else { value.as_bool() };
                put_varint(into, number, u64::from(bool.ok_or_else(|| self.does_not_fit())?));
            }
            Scalar::Int32 => {
                let int = i32::try_from(self.integer(value)?).map_err(|_| self.does_not_fit())?;
                put_varint(into, number, int as u64);
            }
            Scalar::Int64 => put_varint(into, number, self.integer(value)? as u64),
            Scalar::Float64 => {
                let float = if value.is_null() { Some(0.0) } else { value.as_f64() };
                put_fixed64(into, number, float.ok_or_else(|| self.does_not_fit())?.to_bits());
            }
            Scalar::Bytes => {
                if !value.is_null() {
                    let bytes = STANDARD.decode(self.text(value)?).map_err(|_| self.does_not_fit())?;
                    put_bytes(into, number, &bytes);
                }
            }
            Scalar::Json => {
                let message = schema_props::encode(value, self.field, self.owner, self.table)?;
                put_bytes(into, number, &message);
            }
            _ => {
                let mut message = Vec::new();
                self.message_scalar(scalar, value, &mut message)?;
                put_bytes(into, number, &message);
            }
        }
        Ok(())
    }

    /// Encodes a scalar whose protobuf form is a message.
    fn message_scalar(&self, scalar: Scalar, value: &Value, message: &mut Vec<u8>) -> Result<(), ProtobufError> {
        match (scalar, value) {
            (Scalar::Quantity, Value::Number(number)) => put_bytes(message, 1, number.to_string().as_bytes()),
            (Scalar::Quantity, Value::Null) => put_bytes(message, 1, b"0"),
            (Scalar::Quantity, value) => put_bytes(message, 1, self.text(value)?.as_bytes()),
            (Scalar::IntOrString, value) => {
                let string = value.as_str();
                let int = if string.is_some() { 0 } else { self.integer(value)? };
                let int = i32::try_from(int).map_err(|_| self.does_not_fit())?;
                put_varint(message, 1, u64::from(string.is_some()));
                put_varint(message, 2, int as u64);
                put_bytes(message, 3, string.unwrap_or_default().as_bytes());
            }
            (Scalar::Time | Scalar::MicroTime, Value::Null) => {}
            (Scalar::Time | Scalar::MicroTime, value) => self.time(scalar, self.text(value)?, message)?,
            (Scalar::Duration, Value::Null) => put_varint(message, 1, 0),
            (Scalar::Duration, value) => {
                let nanoseconds = duration::parse(self.text(value)?).ok_or_else(|| self.does_not_fit())?;
                put_varint(message, 1, nanoseconds as u64);
            }
            // Raw JSON; null is encoded as no bytes.
            (_, Value::Null) => {}
            (_, value) => put_bytes(message, 1, value.to_string().as_bytes()),
        }
        Ok(())
    }

    fn time(&self, scalar: Scalar, text: &str, message: &mut Vec<u8>) -> Result<(), ProtobufError> {
        let time: Timestamp = text.parse().map_err(|_| self.does_not_fit())?;
        let (mut seconds, mut nanoseconds) = (time.as_second(), time.subsec_nanosecond());
        if nanoseconds < 0 {
            (seconds, nanoseconds) = (seconds - 1, nanoseconds + 1_000_000_000);
        }
        if (seconds, nanoseconds) == (ZERO_TIME, 0) {
            return Ok(());
        }
        put_varint(message, 1, seconds as u64);
        let nanoseconds = if scalar == Scalar::Time { 0 } else { nanoseconds / 1000 * 1000 };
        put_varint(message, 2, nanoseconds as u64);
        Ok(())
    }

    fn list<'v>(&self, value: &'v Value) -> Result<&'v [Value], ProtobufError> {
        match value {
            Value::Array(list) => Ok(list),
            Value::Null => Ok(&[]),
            _ => Err(self.does_not_fit()),
        }
    }

    fn text<'v>(&self, value: &'v Value) -> Result<&'v str, ProtobufError> {
        if value.is_null() { Ok("") } else { value.as_str().ok_or_else(|| self.does_not_fit()) }
    }

    fn integer(&self, value: &Value) -> Result<i64, ProtobufError> {
        let whole = |float: f64| (float.fract() == 0.0 && float.abs() < 9.2e18).then_some(float as i64);
        match value {
            Value::Null => Ok(0),
            Value::Number(number) => {
                let integer = number.as_i64().or_else(|| number.as_f64().and_then(whole));
                integer.ok_or_else(|| self.does_not_fit())
            }
            _ => Err(self.does_not_fit()),
        }
    }

    fn does_not_fit(&self) -> ProtobufError {
        ProtobufError::DoesNotFit { field: self.field.name.to_string() }
    }
}

/// Go's zero time, January 1 of year 1, in seconds since 1970.
const ZERO_TIME: i64 = -62_135_596_800;
