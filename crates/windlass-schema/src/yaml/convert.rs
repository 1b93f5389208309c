//! Converts the tree to JSON: expands aliases within limits, applies merge keys, and converts keys to strings.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use granit_parser::Marker;
use serde_json::{Map, Value};

use super::errors::alias_name;
use super::load::{Kind, Node, NodeId, Tree};
use super::resolve::{Scalar, resolve};
use crate::field::quote;
use crate::json::{MAX_DEPTH, format_float};

/// The bytes that the aliases of a document may expand to. An object that could be stored needs far less.
pub(super) const ALIAS_BUDGET: usize = 16 << 20;
/// The bytes charged for an expanded node in addition to its text.
const NODE_COST: usize = 64;

/// Returns the value of a document, and the errors for duplicate keys.
pub(super) fn convert(tree: &Tree, text: &str) -> Result<(Value, Vec<String>), String> {
    let mut converter = Converter {
        tree,
        text,
        duplicates: Vec::new(),
        expanding: Vec::new(),
        decoded: 0,
        aliased: 0,
        expanded: 0,
        depth: 0,
    };
    match tree.root {
        None => Ok((Value::Null, Vec::new())),
        Some(root) => converter.value(root).map(|value| (value, converter.duplicates)),
    }
}

struct Converter<'t> {
    tree: &'t Tree,
    text: &'t str,
    duplicates: Vec<String>,
    /// Anchors being expanded, innermost last.
    expanding: Vec<NodeId>,
    decoded: u64,
    aliased: u64,
    /// Bytes that come from aliases.
    expanded: usize,
    depth: usize,
}

/// Returns the share of a document that may come from aliases: the larger the document, the smaller.
fn allowed_alias_ratio(decoded: u64) -> f64 {
    match decoded {
        ..=400_000 => 0.99,
        4_000_000.. => 0.10,
        _ => 0.99 - 0.89 * ((decoded - 400_000) as f64 / 3_600_000.0),
    }
}

impl<'t> Converter<'t> {
    fn node(&self, id: NodeId) -> &'t Node {
        &self.tree.nodes[id]
    }

    /// Counts a node that is converted, and its bytes if it comes from an alias. The budget is checked before the node
    /// is copied.
    fn count(&mut self, id: NodeId) -> Result<(), String> {
        self.decoded += 1;
        if !self.expanding.is_empty() {
            self.aliased += 1;
            self.expanded += NODE_COST + self.node(id).text_length();
        }
        if self.expanded > ALIAS_BUDGET {
            return Err(format!(
                "yaml: document contains excessive aliasing: aliases expand to more than {ALIAS_BUDGET} bytes"
            ));
        }
        let ratio = self.aliased as f64 / self.decoded as f64;
        if self.aliased > 100 && self.decoded > 1000 && ratio > allowed_alias_ratio(self.decoded) {
            return Err("yaml: document contains excessive aliasing".to_owned());
        }
        Ok(())
    }

    fn expanded<T>(
        &mut self,
        target: NodeId,
        at: &Marker,
        then: impl FnOnce(&mut Self) -> Result<T, String>,
    ) -> Result<T, String> {
        if self.expanding.contains(&target) {
            let name = alias_name(at, self.text);
            return Err(format!("yaml: anchor '{name}' value contains itself"));
        }
        self.expanding.push(target);
        let result = then(self);
        self.expanding.pop();
        result
    }

    fn value(&mut self, id: NodeId) -> Result<Value, String> {
        self.count(id)?;
        if self.depth == MAX_DEPTH {
            return Err(format!("yaml: exceeded max depth of {MAX_DEPTH}"));
        }
        self.depth += 1;
        let value = match &self.node(id).kind {
            Kind::Alias { target, at } => self.expanded(*target, at, |this| this.value(*target)),
            Kind::Scalar { text, plain, tag } => scalar(text, *plain, tag.as_deref()).and_then(to_value),
            Kind::Sequence(items) => items.iter().map(|item| self.value(*item)).collect(),
            Kind::Mapping(children) => {
                let mut map = Map::new();
                self.entries(children, &mut map).map(|()| Value::Object(map))
            }
        };
        self.depth -= 1;
        value
    }

    fn entries(&mut self, children: &[NodeId], map: &mut Map<String, Value>) -> Result<(), String> {
        for pair in children.chunks_exact(2) {
            let &[key, value] = pair else { continue };
            if self.is_merge(key) {
                self.merge(value, map)?;
                continue;
            }
            let (key, shown) = self.key(key)?;
            let decoded = self.value(value)?;
            let Some(key) = key else {
                let value = show_go(&decoded);
                return Err(format!("unsupported map key of type: %!s(<nil>), key: <nil>, value: {value}"));
            };
            if map.contains_key(&key) {
                self.duplicates.push(format!("line {}: key {shown} already set in map", self.node(value).line));
            }
            map.insert(key, decoded);
        }
        Ok(())
    }

    fn is_merge(&self, key: NodeId) -> bool {
        matches!(&self.node(key).kind, Kind::Scalar { text, plain, tag }
            if text == "<<" && (*plain && tag.is_none() || tag.as_deref() == Some("!!merge")))
    }

    fn merge(&mut self, id: NodeId, map: &mut Map<String, Value>) -> Result<(), String> {
        let wrong = || Err("yaml: map merge requires map or sequence of maps as the value".to_owned());
        match &self.node(id).kind {
            Kind::Sequence(items) => items.iter().rev().try_for_each(|item| match &self.node(*item).kind {
                Kind::Mapping(_) | Kind::Alias { .. } => self.merge_one(*item, map),
                _ => wrong(),
            }),
            Kind::Mapping(_) | Kind::Alias { .. } => self.merge_one(id, map),
            Kind::Scalar { .. } => wrong(),
        }
    }

    fn merge_one(&mut self, id: NodeId, map: &mut Map<String, Value>) -> Result<(), String> {
        self.count(id)?;
        if self.depth == MAX_DEPTH {
            return Err(format!("yaml: exceeded max depth of {MAX_DEPTH}"));
        }
        self.depth += 1;
        let merged = match &self.node(id).kind {
            Kind::Mapping(children) => self.entries(children, map),
            Kind::Alias { target, at } => self.expanded(*target, at, |this| match &this.node(*target).kind {
                Kind::Mapping(children) => this.entries(children, map),
                _ => Err("yaml: map merge requires map or sequence of maps as the value".to_owned()),
            }),
            _ => Ok(()),
        };
        self.depth -= 1;
        merged
    }

    /// Returns a key as a string, and as Go shows it; no string for null, which cannot be a JSON key.
    fn key(&mut self, id: NodeId) -> Result<(Option<String>, String), String> {
        self.count(id)?;
        match &self.node(id).kind {
            Kind::Alias { target, at } => self.expanded(*target, at, |this| this.key(*target)),
            Kind::Sequence(_) | Kind::Mapping(_) => {
                let value = self.value(id)?;
                Err(format!("yaml: invalid map key: {}", show_go(&value)))
            }
            Kind::Scalar { text, plain, tag } => Ok(match scalar(text, *plain, tag.as_deref())? {
                (Scalar::Null, _) => (None, "<nil>".to_owned()),
                (Scalar::Bool(value), _) => (Some(value.to_string()), value.to_string()),
                (Scalar::Int(value), _) => (Some(value.to_string()), value.to_string()),
                (Scalar::Uint(value), _) => (Some(value.to_string()), format!("{value:#x}")),
                (Scalar::Float(value), _) => {
                    let key = match value {
                        f64::INFINITY => ".inf".to_owned(),
                        f64::NEG_INFINITY => "-.inf".to_owned(),
                        value if value.is_nan() => ".nan".to_owned(),
                        value => super::emit::format_general(value),
                    };
                    (Some(key.clone()), key)
                }
                (Scalar::Timestamp | Scalar::Text, text) => (Some(text.clone()), quote(&text)),
            }),
        }
    }
}

/// Returns the type of a scalar, with the text for strings.
fn scalar(text: &str, plain: bool, tag: Option<&str>) -> Result<(Scalar, String), String> {
    let as_text = || Ok((Scalar::Text, text.to_owned()));
    let resolved = match tag {
        None if !plain => return as_text(),
        None => resolve(text),
        Some("!!binary") => {
            let bytes = STANDARD
                .decode(text.split_ascii_whitespace().collect::<String>())
                .map_err(|_| "yaml: !!binary value contains invalid base64 data".to_owned())?;
            return Ok((Scalar::Text, String::from_utf8_lossy(&bytes).into_owned()));
        }
        Some("!!bool" | "!!int" | "!!float" | "!!null" | "!!timestamp") => resolve(text),
        Some(_) => return as_text(),
    };
    let name = match &resolved {
        Scalar::Null => "!!null",
        Scalar::Bool(_) => "!!bool",
        Scalar::Int(_) | Scalar::Uint(_) => "!!int",
        Scalar::Float(_) => "!!float",
        Scalar::Timestamp => "!!timestamp",
        Scalar::Text => "!!str",
    };
    match (tag, resolved) {
        (Some("!!float"), Scalar::Int(value)) => Ok((Scalar::Float(value as f64), String::new())),
        (Some(tag), _) if tag != name => Err(format!("yaml: cannot decode {name} `{text}` as a {tag}")),
        (_, resolved @ (Scalar::Timestamp | Scalar::Text)) => Ok((resolved, text.to_owned())),
        (_, resolved) => Ok((resolved, String::new())),
    }
}

/// Converts a scalar to what Go's JSON decoder reads after Go's encoder: whole floats are integers.
fn to_value((scalar, text): (Scalar, String)) -> Result<Value, String> {
    Ok(match scalar {
        Scalar::Null => Value::Null,
        Scalar::Bool(value) => Value::from(value),
        Scalar::Int(value) => Value::from(value),
        Scalar::Uint(value) => Value::from(value as f64),
        Scalar::Float(value) if value.is_nan() => return Err("json: unsupported value: NaN".to_owned()),
        Scalar::Float(f64::INFINITY) => return Err("json: unsupported value: +Inf".to_owned()),
        Scalar::Float(f64::NEG_INFINITY) => return Err("json: unsupported value: -Inf".to_owned()),
        Scalar::Float(value) => match format_float(value).parse::<i64>() {
            Ok(whole) => Value::from(whole),
            Err(_) => Value::from(value),
        },
        Scalar::Timestamp | Scalar::Text => Value::String(text),
    })
}

/// Formats a value in Go syntax, for messages.
fn show_go(value: &Value) -> String {
    let inner = |value: &Value| if value.is_null() { "interface {}(nil)".to_owned() } else { show_go(value) };
    match value {
        Value::Null => "<nil>".to_owned(),
        Value::String(text) => quote(text),
        Value::Array(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(inner).collect::<Vec<_>>().join(", "))
        }
        Value::Object(map) => {
            let entries: Vec<_> = map.iter().map(|(key, value)| format!("{}:{}", quote(key), inner(value))).collect();
            format!("map[interface {{}}]interface {{}}{{{}}}", entries.join(", "))
        }
        other => other.to_string(),
    }
}
