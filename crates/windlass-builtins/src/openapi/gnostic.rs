//! `/openapi/v2` as protobuf: the messages of gnostic's `openapi.v2.Document`, as far as our documents use them.

use std::borrow::Borrow;

use serde_json::Value;

use crate::protobuf::wire::{put_bytes, put_fixed64, put_varint};

/// Encodes a document.
pub(super) fn encode(document: &Value) -> Vec<u8> {
    encode_pieces(document, entries(document.get("paths")), entries(document.get("definitions")))
}

/// Encodes a document from an iterator of paths and one of definitions.
pub(super) fn encode_pieces<N: AsRef<str>, V: Borrow<Value>>(
    head: &Value,
    paths: impl Iterator<Item = (N, V)>,
    definitions: impl Iterator<Item = (N, V)>,
) -> Vec<u8> {
    let mut into = Vec::new();
    texts(&mut into, head, &[(1, "swagger")]);
    if let Some(info) = head.get("info") {
        let mut written = Vec::new();
        texts(&mut written, info, &[(1, "title"), (2, "version"), (3, "description")]);
        put_bytes(&mut into, 2, &written);
    }
    let mut written = Vec::new();
    named(&mut written, 2, paths, path_item);
    put_bytes(&mut into, 8, &written);
    written.clear();
    named(&mut written, 1, definitions, schema);
    put_bytes(&mut into, 9, &written);
    written.clear();
    named(&mut written, 1, entries(head.get("parameters")), parameter);
    put_bytes(&mut into, 10, &written);
    for requirement in list(head, "security") {
        written.clear();
        named(&mut written, 1, entries(Some(requirement)), |scopes| {
            let mut into = Vec::new();
            strings(&mut into, 1, Some(scopes));
            into
        });
        put_bytes(&mut into, 12, &written);
    }
    written.clear();
    named(&mut written, 1, entries(head.get("securityDefinitions")), security_definition);
    put_bytes(&mut into, 13, &written);
    into
}

fn path_item(item: &Value) -> Vec<u8> {
    let mut into = Vec::new();
    for (number, method) in
        [(2, "get"), (3, "put"), (4, "post"), (5, "delete"), (6, "options"), (7, "head"), (8, "patch")]
    {
        if let Some(one) = item.get(method) {
            put_bytes(&mut into, number, &operation(one));
        }
    }
    parameters(&mut into, 9, item);
    extensions(&mut into, 10, item);
    into
}

fn operation(operation: &Value) -> Vec<u8> {
    let mut into = Vec::new();
    strings(&mut into, 1, operation.get("tags"));
    texts(&mut into, operation, &[(3, "description"), (5, "operationId")]);
    strings(&mut into, 6, operation.get("produces"));
    strings(&mut into, 7, operation.get("consumes"));
    parameters(&mut into, 8, operation);
    let mut responses = Vec::new();
    named(&mut responses, 1, entries(operation.get("responses")), |one| {
        let mut written = Vec::new();
        texts(&mut written, one, &[(1, "description")]);
        if let Some(one) = one.get("schema") {
            put_bytes(&mut written, 2, &wrapped(1, &schema(one)));
        }
        wrapped(1, &written)
    });
    put_bytes(&mut into, 9, &responses);
    strings(&mut into, 10, operation.get("schemes"));
    extensions(&mut into, 13, operation);
    into
}

fn parameters(into: &mut Vec<u8>, number: u32, of: &Value) {
    for one in list(of, "parameters") {
        let item = match one.get("$ref") {
            Some(_) => {
                let mut reference = Vec::new();
                texts(&mut reference, one, &[(1, "$ref")]);
                wrapped(2, &reference)
            }
            None => wrapped(1, &parameter(one)),
        };
        put_bytes(into, number, &item);
    }
}

fn parameter(parameter: &Value) -> Vec<u8> {
    let mut into = Vec::new();
    let place = parameter.get("in").and_then(Value::as_str);
    if place == Some("body") {
        texts(&mut into, parameter, &[(1, "description"), (2, "name"), (3, "in")]);
        flag(&mut into, 4, parameter, "required");
        if let Some(one) = parameter.get("schema") {
            put_bytes(&mut into, 5, &schema(one));
        }
        return wrapped(1, &into);
    }
    // A query parameter has one more field than a path parameter before its type.
    let (choice, ty, unique) = if place == Some("path") { (4, 5, 19) } else { (3, 6, 20) };
    flag(&mut into, 1, parameter, "required");
    texts(&mut into, parameter, &[(2, "in"), (3, "description"), (4, "name"), (ty, "type")]);
    flag(&mut into, unique, parameter, "uniqueItems");
    wrapped(2, &wrapped(choice, &into))
}

fn security_definition(definition: &Value) -> Vec<u8> {
    let mut into = Vec::new();
    texts(&mut into, definition, &[(1, "type"), (2, "name"), (3, "in"), (4, "description")]);
    wrapped(2, &into)
}

fn schema(of: &Value) -> Vec<u8> {
    let mut into = Vec::new();
    texts(&mut into, of, &[(1, "$ref"), (2, "format"), (3, "title"), (4, "description")]);
    if let Some(default) = of.get("default") {
        put_bytes(&mut into, 5, &any(default));
    }
    for (number, name) in [(6, "multipleOf"), (7, "maximum"), (9, "minimum")] {
        if let Some(float) = of.get(name).and_then(Value::as_f64) {
            put_fixed64(&mut into, number, float.to_bits());
        }
    }
    flag(&mut into, 8, of, "exclusiveMaximum");
    flag(&mut into, 10, of, "exclusiveMinimum");
    texts(&mut into, of, &[(13, "pattern")]);
    for (number, name) in [
        (11, "maxLength"),
        (12, "minLength"),
        (14, "maxItems"),
        (15, "minItems"),
        (17, "maxProperties"),
        (18, "minProperties"),
    ] {
        if let Some(integer) = of.get(name).and_then(Value::as_i64) {
            put_varint(&mut into, number, integer as u64);
        }
    }
    flag(&mut into, 16, of, "uniqueItems");
    strings(&mut into, 19, of.get("required"));
    for one in list(of, "enum") {
        put_bytes(&mut into, 20, &any(one));
    }
    match of.get("additionalProperties") {
        Some(Value::Bool(allowed)) => {
            let mut boolean = Vec::new();
            put_varint(&mut boolean, 2, u64::from(*allowed));
            put_bytes(&mut into, 21, &boolean);
        }
        Some(values) => put_bytes(&mut into, 21, &wrapped(1, &schema(values))),
        None => {}
    }
    if let Some(Value::String(ty)) = of.get("type") {
        put_bytes(&mut into, 22, &wrapped(1, ty.as_bytes()));
    }
    if let Some(items) = of.get("items") {
        put_bytes(&mut into, 23, &wrapped(1, &schema(items)));
    }
    for one in list(of, "allOf") {
        put_bytes(&mut into, 24, &schema(one));
    }
    if let Some(properties) = of.get("properties") {
        let mut written = Vec::new();
        named(&mut written, 1, entries(Some(properties)), schema);
        put_bytes(&mut into, 25, &written);
    }
    extensions(&mut into, 31, of);
    into
}

/// Encodes a value of any type, which gnostic stores as YAML: JSON is YAML.
fn any(value: &Value) -> Vec<u8> {
    wrapped(2, value.to_string().as_bytes())
}

fn extensions(into: &mut Vec<u8>, number: u32, of: &Value) {
    for (name, value) in entries(Some(of)).filter(|(name, _)| name.starts_with("x-")) {
        put_bytes(into, number, &pair(name, &any(value)));
    }
}

fn entries(object: Option<&Value>) -> impl Iterator<Item = (&String, &Value)> {
    object.and_then(Value::as_object).into_iter().flatten()
}

/// Encodes entries as messages of name and value.
fn named<N: AsRef<str>, V: Borrow<Value>>(
    into: &mut Vec<u8>,
    number: u32,
    entries: impl Iterator<Item = (N, V)>,
    one: impl Fn(&Value) -> Vec<u8>,
) {
    for (name, value) in entries {
        put_bytes(into, number, &pair(name.as_ref(), &one(value.borrow())));
    }
}

fn pair(name: &str, value: &[u8]) -> Vec<u8> {
    let mut into = Vec::with_capacity(name.len() + value.len() + 8);
    put_bytes(&mut into, 1, name.as_bytes());
    put_bytes(&mut into, 2, value);
    into
}

fn wrapped(number: u32, message: &[u8]) -> Vec<u8> {
    let mut into = Vec::with_capacity(message.len() + 6);
    put_bytes(&mut into, number, message);
    into
}

fn texts(into: &mut Vec<u8>, of: &Value, fields: &[(u32, &str)]) {
    for (number, name) in fields {
        if let Some(text) = of.get(name).and_then(Value::as_str).filter(|text| !text.is_empty()) {
            put_bytes(into, *number, text.as_bytes());
        }
    }
}

fn flag(into: &mut Vec<u8>, number: u32, of: &Value, name: &str) {
    if of.get(name).and_then(Value::as_bool) == Some(true) {
        put_varint(into, number, 1);
    }
}

fn strings(into: &mut Vec<u8>, number: u32, of: Option<&Value>) {
    for text in of.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str) {
        put_bytes(into, number, text.as_bytes());
    }
}

fn list<'a>(of: &'a Value, name: &str) -> &'a [Value] {
    of.get(name).and_then(Value::as_array).map_or(&[], Vec::as_slice)
}
