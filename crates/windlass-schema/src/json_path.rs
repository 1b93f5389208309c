//! JSONPath as in Kubernetes: `.spec.tags[0]`, `.status.conditions[?(@.type=="Ready")].status`, `..name`.
//!
//! A path is parsed once and evaluated on many objects. Its meaning and its errors follow the dialect of client-go with
//! missing keys allowed: a path that matches nothing finds nothing. Neither parsing nor evaluation panics, and both are
//! bounded: a path that multiplies its results fails with an error.
//!
//! Only the loops of templates, `{range}` and `{end}`, are not supported: they parse, and fail when evaluated.

use serde_json::Value;

mod compare;
mod evaluate;
mod parse;
mod quote;

pub use evaluate::{EvaluateError, Item};

/// Reason why a string is not a path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    roots: Vec<Node>,
    /// The names of a path that consists only of fields, as most do.
    fields: Option<Vec<String>>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// `range` and `end`, or a word without meaning.
    Identifier(String),
    /// Consecutive steps.
    List(Vec<Node>),
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Node>>),
    Filter {
        left: Vec<Node>,
        /// Empty for `[?(@.a)]`, which checks that the left side exists.
        operator: String,
        right: Vec<Node>,
    },
}

/// `[start:end:step]`; for a single index, `end` follows from `start`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    single: bool,
    step: Option<i64>,
}

impl JsonPath {
    /// Parses a path as in CustomResourceDefinitions, without braces around it.
    ///
    /// # Errors
    /// Returns an error if the path is invalid.
    pub fn expression(path: &str) -> Result<Self, ParseError> {
        Self::template(&format!("{{{path}}}"))
    }

    /// Parses a template: text with paths in braces.
    ///
    /// # Errors
    /// Returns an error if the text in braces is not a path.
    pub fn template(text: &str) -> Result<Self, ParseError> {
        let roots = parse::template(text)?;
        let fields = match roots.as_slice() {
            [Node::List(steps)] => steps.iter().map(field_name).collect(),
            _ => None,
        };
        Ok(Self { roots, fields })
    }

    /// Evaluates the path; returns a list of results for each piece of the template.
    ///
    /// # Errors
    /// Returns an error if a step does not fit the value, such as an index into an object, or if there are too many
    /// values.
    pub fn find<'a>(&'a self, value: &'a Value) -> Result<Vec<Vec<Item<'a>>>, EvaluateError> {
        let mut left = usize::MAX;
        evaluate::find(&self.roots, value, &mut left)
    }

    /// Returns the first result of the first piece.
    ///
    /// # Errors
    /// See [`JsonPath::find`].
    pub fn first<'a>(&'a self, value: &'a Value) -> Result<Option<Item<'a>>, EvaluateError> {
        let mut left = usize::MAX;
        self.first_within(value, &mut left)
    }

    /// Like [`JsonPath::first`]; subtracts the number of visited values from `left`.
    ///
    /// # Errors
    /// See [`JsonPath::find`]; also returns an error if `left` is used up.
    pub fn first_within<'a>(&'a self, value: &'a Value, left: &mut usize) -> Result<Option<Item<'a>>, EvaluateError> {
        match &self.fields {
            Some(fields) => Ok(fields.iter().try_fold(value, |value, field| value.get(field)).map(Item::Json)),
            None => {
                let found = evaluate::find(&self.roots, value, left)?;
                Ok(found.into_iter().next().and_then(|found| found.into_iter().next()))
            }
        }
    }
}

fn field_name(node: &Node) -> Option<String> {
    if let Node::Field(name) = node { Some(name.clone()) } else { None }
}

#[cfg(test)]
mod tests;
