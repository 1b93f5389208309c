//! Decoding of messages to JSON.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::Timestamp;
use serde_json::{Map, Value};
use windlass_schema::types::{Field, Scalar, StructId, Type};

use super::wire::{Payload, Reader};
use super::{Decoded, MAX_DEPTH, Member, Message, PREFIX, ProtobufError, duration, schema_props, zero};
use crate::resource::Table;

/// Decodes a body with its envelope.
pub(super) fn body(bytes: &[u8], table: &Table, depth: usize) -> Result<Decoded, ProtobufError> {
    let mut reader = Reader::new(bytes.strip_prefix(PREFIX).ok_or(ProtobufError::Prefix)?);
    let (mut api_version, mut kind) = (String::new(), String::new());
    let mut message: &[u8] = &[];
    while let Some((number, payload)) = reader.next()? {
        match (number, payload) {
            (1, Payload::Bytes(type_meta)) => {
                let mut reader = Reader::new(type_meta);
                while let Some((number, payload)) = reader.next()? {
                    match (number, payload) {
                        (1, Payload::Bytes(bytes)) => api_version = text(bytes),
                        (2, Payload::Bytes(bytes)) => kind = text(bytes),
                        _ => {}
                    }
                }
            }
            (2, Payload::Bytes(bytes)) => message = bytes,
            _ => {}
        }
    }
    if kind.is_empty() {
        return Err(ProtobufError::MissingKind);
    }
    if api_version.is_empty() {
        return Err(ProtobufError::MissingVersion);
    }
    let Some(ty) = table.kind(&api_version, &kind) else {
        return Err(ProtobufError::UnknownKind { api_version, kind });
    };
    let mut object = Map::new();
    structure(message, ty, table, depth, &mut object)?;
    object.insert("apiVersion".to_owned(), Value::String(api_version.clone()));
    object.insert("kind".to_owned(), Value::String(kind.clone()));
    Ok(Decoded { api_version, kind, value: Value::Object(object) })
}

/// Decodes the message of a struct and merges it into an object.
pub(super) fn structure(
    bytes: &[u8],
    id: StructId,
    table: &Table,
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    if depth > MAX_DEPTH {
        return Err(ProtobufError::TooDeep);
    }
    message(bytes, Message::of(id, table), table, depth, object)?;
    zero::fill(object, table.types.get(id), table);
    Ok(())
}

fn message(
    bytes: &[u8],
    of: Message<'_>,
    table: &Table,
    depth: usize,
    object: &mut Map<String, Value>,
) -> Result<(), ProtobufError> {
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        let Some(member) = of.member(number) else { continue };
        match (member, payload) {
            (Member::Inline(inline), Payload::Bytes(bytes)) => message(bytes, inline, table, depth, object)?,
            (Member::Inline(_), payload) => {
                return Err(ProtobufError::WireType { wire_type: payload.wire_type(), field: number.to_string() });
            }
            (Member::Field(field), payload) => {
                Context { field, owner: of.id, table, depth: depth + 1 }.add(payload, object)?;
            }
        }
    }
    Ok(())
}

/// The position of a value.
pub(super) struct Context<'a> {
    pub(super) field: &'a Field,
    /// The struct that contains the field.
    pub(super) owner: StructId,
    pub(super) table: &'a Table,
    pub(super) depth: usize,
}

impl Context<'_> {
    /// Adds one occurrence of the field to the object.
    fn add(&self, payload: Payload<'_>, object: &mut Map<String, Value>) -> Result<(), ProtobufError> {
        let name = &*self.field.name;
        match &self.field.ty {
            Type::List(_) if &*self.field.go_type == super::VERBS => {
                let list = self.value(&self.field.ty, payload)?;
                object.insert(name.to_owned(), list);
            }
            Type::List(element) => {
                let list = object.entry(name).or_insert_with(|| Value::Array(Vec::new()));
                let Value::Array(list) = list else { return Err(self.bad_value()) };
                self.elements(element, payload, list)?;
            }
            Type::Map(element) => {
                let map = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(map) = map else { return Err(self.bad_value()) };
                let (key, value) = self.entry(element, self.bytes(payload)?)?;
                map.insert(key, value);
            }
            Type::Struct(id) => {
                let nested = object.entry(name).or_insert_with(|| Value::Object(Map::new()));
                let Value::Object(nested) = nested else { return Err(self.bad_value()) };
                structure(self.bytes(payload)?, *id, self.table, self.depth, nested)?;
            }
            Type::Scalar(scalar) => {
                let value = self.scalar(*scalar, payload)?;
                if zero::is_left_out(self.field, &value) {
                    object.remove(name);
                } else {
                    object.insert(name.to_owned(), value);
                }
            }
        }
        Ok(())
    }

    /// Decodes an item of a list, or several packed numbers.
    fn elements(&self, element: &Type, payload: Payload<'_>, list: &mut Vec<Value>) -> Result<(), ProtobufError> {
        if let (Type::Scalar(scalar @ (Scalar::Int32 | Scalar::Int64 | Scalar::Bool)), Payload::Bytes(packed)) =
            (element, payload)
        {
            let mut reader = Reader::new(packed);
            while !reader.at_end() {
                list.push(self.scalar(*scalar, Payload::Varint(reader.varint()?))?);
            }
            return Ok(());
        }
        list.push(self.value(element, payload)?);
        Ok(())
    }

    /// Decodes the key and value of a map entry; both may be absent.
    fn entry(&self, ty: &Type, bytes: &[u8]) -> Result<(String, Value), ProtobufError> {
        let mut reader = Reader::new(bytes);
        let (mut key, mut value) = (String::new(), None);
        while let Some((number, payload)) = reader.next()? {
            match number {
                1 => key = text(self.bytes(payload)?),
                2 => value = Some(self.value(ty, payload)?),
                _ => {}
            }
        }
        let value = value.unwrap_or_else(|| match ty {
            Type::Scalar(Scalar::Bytes) => Value::String(String::new()),
            Type::List(_) => Value::Array(Vec::new()),
            _ => windlass_schema::decode::zero(&self.table.types, ty),
        });
        Ok((key, value))
    }

    fn value(&self, ty: &Type, payload: Payload<'_>) -> Result<Value, ProtobufError> {
        match ty {
            Type::Struct(id) => {
                let mut object = Map::new();
                structure(self.bytes(payload)?, *id, self.table, self.depth, &mut object)?;
                Ok(Value::Object(object))
            }
            // A list that is a message has its items in field 1.
            Type::List(element) => {
                let mut reader = Reader::new(self.bytes(payload)?);
                let mut list = Vec::new();
                while let Some((number, payload)) = reader.next()? {
                    if number == 1 {
                        self.elements(element, payload, &mut list)?;
                    }
                }
                Ok(Value::Array(list))
            }
            Type::Map(_) => Err(self.bad_value()),
            Type::Scalar(scalar) => self.scalar(*scalar, payload),
        }
    }

    fn scalar(&self, scalar: Scalar, payload: Payload<'_>) -> Result<Value, ProtobufError> {
        Ok(match scalar {
            Scalar::String => Value::String(text(self.bytes(payload)?)),
            Scalar::Bool => Value::Bool(self.varint(payload)? != 0),
            Scalar::Int32 => Value::from(self.varint(payload)? as i32),
            Scalar::Int64 => Value::from(self.varint(payload)? as i64),
            Scalar::Float64 => {
                let Payload::Fixed64(bits) = payload else { return Err(self.wrong_type(payload)) };
                self.float(f64::from_bits(bits))?
            }
            Scalar::Bytes => Value::String(STANDARD.encode(self.bytes(payload)?)),
            Scalar::Quantity => {
                let quantity = self.only_bytes(1, self.bytes(payload)?)?.unwrap_or(b"0");
                Value::String(text(quantity))
            }
            Scalar::IntOrString => self.int_or_string(self.bytes(payload)?)?,
            Scalar::Time | Scalar::MicroTime => self.time(scalar, self.bytes(payload)?)?,
            Scalar::Duration => {
                let [nanoseconds, _] = self.two_numbers(self.bytes(payload)?)?;
                Value::String(duration::format(nanoseconds))
            }
            Scalar::RawExtension => match self.only_bytes(1, self.bytes(payload)?)? {
                Some(raw) if raw.starts_with(PREFIX) => {
                    if self.depth > MAX_DEPTH {
                        return Err(ProtobufError::TooDeep);
                    }
                    body(raw, self.table, self.depth + 1)?.value
                }
                raw => self.json(raw)?,
            },
            Scalar::FieldsV1 => self.json(self.only_bytes(1, self.bytes(payload)?)?)?,
            Scalar::Json => schema_props::decode(self, self.bytes(payload)?)?,
        })
    }

    fn int_or_string(&self, bytes: &[u8]) -> Result<Value, ProtobufError> {
        let mut reader = Reader::new(bytes);
        let (mut is_string, mut number, mut string) = (false, 0, "".into());
        while let Some((field, payload)) = reader.next()? {
            match field {
                1 => is_string = self.varint(payload)? == 1,
                2 => number = self.varint(payload)? as i32,
                3 => string = text(self.bytes(payload)?),
                _ => {}
            }
        }
        Ok(if is_string { Value::String(string) } else { Value::from(number) })
    }

    fn time(&self, scalar: Scalar, bytes: &[u8]) -> Result<Value, ProtobufError> {
        if bytes.is_empty() {
            return Ok(Value::Null);
        }
        let [seconds, nanoseconds] = self.two_numbers(bytes)?;
        let nanoseconds = if scalar == Scalar::Time { 0 } else { nanoseconds as i32 / 1000 * 1000 };
        let time = Timestamp::new(seconds, nanoseconds).map_err(|_| self.bad_value())?;
        Ok(Value::String(if scalar == Scalar::Time { time.to_string() } else { format!("{time:.6}") }))
    }

    /// Returns fields 1 and 2 of a message of numbers.
    fn two_numbers(&self, bytes: &[u8]) -> Result<[i64; 2], ProtobufError> {
        let mut reader = Reader::new(bytes);
        let mut numbers = [0; 2];
        while let Some((field, payload)) = reader.next()? {
            if let 1 | 2 = field {
                numbers[field as usize - 1] = self.varint(payload)? as i64;
            }
        }
        Ok(numbers)
    }

    fn float(&self, float: f64) -> Result<Value, ProtobufError> {
        if float.fract() == 0.0 && float.abs() < 1e15 {
            return Ok(Value::from(float as i64));
        }
        serde_json::Number::from_f64(float).map(Value::Number).ok_or_else(|| self.bad_value())
    }

    /// Returns the bytes of one field of a message; `None` if it is absent.
    pub(super) fn only_bytes<'b>(&self, number: u32, bytes: &'b [u8]) -> Result<Option<&'b [u8]>, ProtobufError> {
        let mut reader = Reader::new(bytes);
        let mut found = None;
        while let Some((field, payload)) = reader.next()? {
            if field == number {
                found = Some(self.bytes(payload)?);
            }
        }
        Ok(found)
    }

    /// Parses JSON text; null if it is absent.
    pub(super) fn json(&self, raw: Option<&[u8]>) -> Result<Value, ProtobufError> {
        match raw {
            None | Some(b"") => Ok(Value::Null),
            Some(raw) => serde_json::from_slice(raw).map_err(|_| self.bad_value()),
        }
    }

    pub(super) fn bytes<'b>(&self, payload: Payload<'b>) -> Result<&'b [u8], ProtobufError> {
        if let Payload::Bytes(bytes) = payload { Ok(bytes) } else { Err(self.wrong_type(payload)) }
    }

    pub(super) fn varint(&self, payload: Payload<'_>) -> Result<u64, ProtobufError> {
        if let Payload::Varint(number) = payload { Ok(number) } else { Err(self.wrong_type(payload)) }
    }

    fn wrong_type(&self, payload: Payload<'_>) -> ProtobufError {
        ProtobufError::WireType { wire_type: payload.wire_type(), field: self.field.name.to_string() }
    }

    fn bad_value(&self) -> ProtobufError {
        ProtobufError::Value { field: self.field.name.to_string() }
    }
}

/// Decodes a string. Like Go, this does not reject invalid UTF-8: JSON replaces it.
pub(super) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
