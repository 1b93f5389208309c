//! Values in the order of the text, with all duplicate keys and number literals. Used only for messages.

use std::collections::HashMap;

use serde_json::Value;
use windlass_json::Build;

use crate::field::quote;

/// Maximum number of messages about one body, as in kube-apiserver.
const MAX_STRICT: usize = 100;

/// A value that preserves how it was written.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Node {
    Null,
    Bool(bool),
    String(String),
    Number(Box<str>),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Build for Node {
    type Entries = Vec<(String, Node)>;

    fn null() -> Self {
        Self::Null
    }

    fn boolean(value: bool) -> Self {
        Self::Bool(value)
    }

    fn string(value: String) -> Self {
        Self::String(value)
    }

    fn number(literal: &str) -> Option<Self> {
        Some(Self::Number(literal.into()))
    }

    fn array(items: Vec<Self>) -> Self {
        Self::Array(items)
    }

    fn object(object: Vec<(String, Node)>) -> Self {
        Self::Object(object)
    }

    fn insert(object: &mut Vec<(String, Node)>, key: String, value: Self) -> bool {
        object.push((key, value));
        false
    }
}

impl Node {
    /// Returns the value; for a duplicate key, the last one.
    pub(crate) fn to_value(&self) -> Value {
        match self {
            Self::Null => Value::Null,
            Self::Bool(value) => Value::Bool(*value),
            Self::String(value) => Value::String(value.clone()),
            Self::Number(literal) => Value::number(literal).unwrap_or(Value::Null),
            Self::Array(items) => items.iter().map(Self::to_value).collect(),
            Self::Object(entries) => entries.iter().map(|(key, node)| (key.clone(), node.to_value())).collect(),
        }
    }

    /// Returns the entries of an object; empty for any other value.
    pub(crate) fn entries(&self) -> &[(String, Node)] {
        if let Self::Object(entries) = self { entries } else { &[] }
    }

    /// Returns the element of a list.
    pub(crate) fn item(&self, index: usize) -> Option<&Node> {
        if let Self::Array(items) = self { items.get(index) } else { None }
    }

    /// Returns the messages for duplicate keys.
    pub(super) fn duplicates(&self) -> Vec<String> {
        let mut out = Vec::new();
        self.find_duplicates(&mut String::new(), &mut out);
        out
    }

    /// Long keys and large lists cost no more than their length: the path is one buffer, formatted only for messages,
    /// and a key that occurs a hundred thousand times has one message.
    fn find_duplicates(&self, path: &mut String, out: &mut Vec<String>) {
        let length = path.len();
        match self {
            Self::Array(items) => {
                for (index, item) in items.iter().enumerate() {
                    path.push_str(&format!("[{index}]"));
                    item.find_duplicates(path, out);
                    path.truncate(length);
                }
            }
            Self::Object(entries) => {
                let mut counts: HashMap<&str, u32> = HashMap::with_capacity(entries.len());
                for (key, node) in entries {
                    if length > 0 {
                        path.push('.');
                    }
                    path.push_str(key);
                    let count = counts.entry(key).or_default();
                    *count = count.saturating_add(1);
                    if *count == 2 && out.len() < MAX_STRICT {
                        push_strict(out, format!("duplicate field {}", quote(path)));
                    }
                    node.find_duplicates(path, out);
                    path.truncate(length);
                }
            }
            _ => {}
        }
    }
}

/// Adds a message unless it is already present or there are a hundred.
pub(crate) fn push_strict(out: &mut Vec<String>, message: String) {
    if out.len() < MAX_STRICT && !out.contains(&message) {
        out.push(message);
    }
}
