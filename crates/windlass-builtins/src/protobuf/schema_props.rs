//! The union types within `JSONSchemaProps`: alternatives in JSON, messages in protobuf.

use serde_json::{Map, Value};

use super::ProtobufError;
use super::decode::{Context, structure, text};
use super::encode::encode as encode_struct;
use super::wire::{Reader, put_bytes, put_varint};
use windlass_schema::types::{Field, StructId};

use crate::resource::Table;

/// The union type of a field or of its items.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// `JSON`: any JSON, as text.
    Any,
    /// `JSONSchemaPropsOrArray`.
    OrArray,
    /// `JSONSchemaPropsOrBool`.
    OrBool,
    /// `JSONSchemaPropsOrStringArray`.
    OrStrings,
}

fn form(field: &Field) -> Form {
    match &*field.go_type {
        "v1.JSONSchemaPropsOrArray" => Form::OrArray,
        "v1.JSONSchemaPropsOrBool" => Form::OrBool,
        "v1.JSONSchemaDependencies" => Form::OrStrings,
        _ => Form::Any,
    }
}

/// Decodes a message of a union type. All but `JSON` occur in `JSONSchemaProps` itself, so the owner is their schema.
pub(super) fn decode(context: &Context<'_>, bytes: &[u8]) -> Result<Value, ProtobufError> {
    let form = form(context.field);
    if form == Form::Any {
        return context.json(context.only_bytes(1, bytes)?);
    }
    let schema = |bytes: &[u8]| {
        let mut object = Map::new();
        structure(bytes, context.owner, context.table, context.depth + 1, &mut object)?;
        Ok::<_, ProtobufError>(Value::Object(object))
    };
    let (mut one, mut list, mut allows) = (None, Vec::new(), false);
    let mut reader = Reader::new(bytes);
    while let Some((number, payload)) = reader.next()? {
        match (form, number) {
            (Form::OrBool, 1) => allows = context.varint(payload)? != 0,
            (Form::OrBool, 2) | (Form::OrArray | Form::OrStrings, 1) => one = Some(schema(context.bytes(payload)?)?),
            (Form::OrArray, 2) => list.push(schema(context.bytes(payload)?)?),
            (Form::OrStrings, 2) => list.push(Value::String(text(context.bytes(payload)?))),
            _ => {}
        }
    }
    Ok(match (list.is_empty(), one) {
        (false, _) => Value::Array(list),
        (true, Some(one)) => one,
        (true, None) if form == Form::OrBool => Value::Bool(allows),
        (true, None) => Value::Null,
    })
}

/// Encodes a value of a union type.
pub(super) fn encode(value: &Value, field: &Field, owner: StructId, table: &Table) -> Result<Vec<u8>, ProtobufError> {
    let form = form(field);
    let does_not_fit = || ProtobufError::DoesNotFit { field: field.name.to_string() };
    let mut message = Vec::new();
    let schema_number = if form == Form::OrBool { 2 } else { 1 };
    match (form, value) {
        (Form::Any, Value::Null) => {}
        (Form::Any, any) => put_bytes(&mut message, 1, any.to_string().as_bytes()),
        (Form::OrBool, Value::Bool(allows)) => put_varint(&mut message, 1, u64::from(*allows)),
        (_, Value::Object(_)) => {
            if form == Form::OrBool {
                put_varint(&mut message, 1, 1);
            }
            put_bytes(&mut message, schema_number, &encode_struct(value, owner, table)?);
        }
        (Form::OrArray, Value::Array(list)) => {
            for schema in list {
                put_bytes(&mut message, 2, &encode_struct(schema, owner, table)?);
            }
        }
        (Form::OrStrings, Value::Array(list)) => {
            for string in list {
                put_bytes(&mut message, 2, string.as_str().ok_or_else(does_not_fit)?.as_bytes());
            }
        }
        (Form::OrArray | Form::OrStrings, Value::Null) => {}
        _ => return Err(does_not_fit()),
    }
    Ok(message)
}
