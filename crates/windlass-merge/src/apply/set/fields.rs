//! Sets as FieldsV1, the JSON form in `metadata.managedFields`.

use serde_json::{Map, Value};

use super::{Node, Set};
use crate::apply::path::{ElementError, PathElement, write_string};

/// Reason why a value is not valid FieldsV1.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FieldsError {
    /// The string is not valid JSON.
    #[error("{0}")]
    Json(String),
    /// A value that is neither an object nor null.
    #[error("expect {{ or n, but found {0}")]
    NoObject(&'static str),
    /// A key that is not a path element.
    #[error("parsing key as path element: {0}")]
    Element(#[from] ElementError),
}

impl Set {
    /// Parses FieldsV1. Like kube-apiserver, skips keys of a kind that this version does not support.
    pub fn from_fields(fields: &Value) -> Result<Self, FieldsError> {
        Ok(read(fields)?.children)
    }

    /// Parses the text of FieldsV1.
    pub fn from_fields_text(text: &str) -> Result<Self, FieldsError> {
        let fields: Value = serde_json::from_str(text).map_err(|error| FieldsError::Json(error.to_string()))?;
        Self::from_fields(&fields)
    }

    /// Converts to FieldsV1. A JSON map sorts its keys as strings; [`Set::write_fields`] keeps the order of the set.
    pub fn to_fields(&self) -> Value {
        let mut map = Map::new();
        self.collect_fields(&mut map);
        Value::Object(map)
    }

    /// Appends the text of FieldsV1, byte for byte as kube-apiserver writes it.
    pub fn write_fields(&self, out: &mut String) {
        self.write_level(false, out, &mut String::new());
    }

    /// Returns the text of FieldsV1, byte for byte as kube-apiserver writes it.
    pub fn to_fields_text(&self) -> String {
        let mut out = String::new();
        self.write_fields(&mut out);
        out
    }

    fn collect_fields(&self, map: &mut Map<String, Value>) {
        for node in &self.nodes {
            let mut inner = Map::new();
            if node.member && !node.children.is_empty() {
                inner.insert(".".to_owned(), Value::Object(Map::new()));
            }
            node.children.collect_fields(&mut inner);
            map.insert(node.element.to_key(), Value::Object(inner));
        }
    }

    fn write_level(&self, member: bool, out: &mut String, scratch: &mut String) {
        out.push('{');
        if member && !self.is_empty() {
            out.push_str(r#"".":{}"#);
        }
        for (position, node) in self.nodes.iter().enumerate() {
            if member || position > 0 {
                out.push(',');
            }
            scratch.clear();
            node.element.write_key(scratch);
            write_string(out, scratch);
            out.push(':');
            node.children.write_level(node.member, out, scratch);
        }
        out.push('}');
    }
}

/// The content of a FieldsV1 value for the element it belongs to.
struct Read {
    children: Set,
    member: bool,
}

fn read(fields: &Value) -> Result<Read, FieldsError> {
    let map = match fields {
        Value::Object(map) => map,
        Value::Null => return Ok(Read { children: Set::new(), member: true }),
        Value::Bool(_) => return Err(FieldsError::NoObject("a boolean")),
        Value::Number(_) => return Err(FieldsError::NoObject("a number")),
        Value::String(_) => return Err(FieldsError::NoObject("a string")),
        Value::Array(_) => return Err(FieldsError::NoObject("a list")),
    };
    let mut member = false;
    let mut sorted = true;
    let mut nodes: Vec<Node> = Vec::with_capacity(map.len());
    for (key, value) in map {
        if key == "." {
            member = true;
            continue;
        }
        let element = match PathElement::parse(key) {
            Ok(element) => element,
            Err(ElementError::Unknown) => continue,
            Err(error) => return Err(error.into()),
        };
        let inner = read(value)?;
        sorted &= nodes.last().is_none_or(|last| last.element < element);
        nodes.push(Node { element, member: inner.member, children: inner.children });
    }
    if !sorted {
        nodes.sort_by(|left, right| left.element.cmp(&right.element));
        nodes.dedup_by(|later, kept| {
            let same = later.element == kept.element;
            if same {
                kept.member |= later.member;
                if !later.children.is_empty() {
                    kept.children = std::mem::take(&mut later.children);
                }
            }
            same
        });
    }
    let member = member || nodes.is_empty();
    Ok(Read { children: Set { nodes }, member })
}
