//! JSONPath as Kubernetes has it: `.spec.tags[0]`, `.status.conditions[?(@.type=="Ready")].status`, `..name`.
//!
//! A path is parsed once and found in many objects. What it means, and what is wrong with it, follows the dialect of
//! client-go with missing keys allowed: a path that leads nowhere finds nothing. Neither parsing nor finding panics, and
//! both are bounded: a path that multiplies what it finds ends with an error.
//!
//! The one thing left out are the loops of templates, `{range}` and `{end}`: they parse, and fail when evaluated.

use serde_json::Value;

mod compare;
mod evaluate;
mod parse;
mod quote;

pub use evaluate::{EvaluateError, Item};

/// Why a text is no path.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParseError(pub String);

/// A parsed path.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath {
    roots: Vec<Node>,
    /// The names of a path that is nothing but fields, which most are.
    fields: Option<Vec<String>>,
}

/// A step of a path.
#[derive(Debug, Clone, PartialEq)]
enum Node {
    Text(String),
    Int(i64),
    Float(f64),
    Bool(bool),
    /// `range` and `end`, or a word that means nothing.
    Identifier(String),
    /// Steps one after the other.
    List(Vec<Node>),
    Field(String),
    Wildcard,
    Recursive,
    Slice(Slice),
    Union(Vec<Vec<Node>>),
    Filter {
        left: Vec<Node>,
        /// Empty for `[?(@.a)]`, which asks whether there is something on the left.
        operator: String,
        right: Vec<Node>,
    },
}

/// `[start:end:step]`; of a single index, `end` follows from `start`.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Slice {
    start: Option<i64>,
    end: Option<i64>,
    single: bool,
    step: Option<i64>,
}

impl JsonPath {
    /// Parses a path as definitions have it, without braces around it.
    ///
    /// # Errors
    /// When it is no path.
    pub fn expression(path: &str) -> Result<Self, ParseError> {
        Self::template(&format!("{{{path}}}"))
    }

    /// Parses a template: text with paths in braces.
    ///
    /// # Errors
    /// When what stands in braces is no path.
    pub fn template(text: &str) -> Result<Self, ParseError> {
        let roots = parse::template(text)?;
        let fields = match roots.as_slice() {
            [Node::List(steps)] => steps.iter().map(field_name).collect(),
            _ => None,
        };
        Ok(Self { roots, fields })
    }

    /// What the path finds: a list for each piece of the template.
    ///
    /// # Errors
    /// When a step does not fit what it meets, such as an index into an object, or when there is too much to look at.
    pub fn find<'a>(&'a self, value: &'a Value) -> Result<Vec<Vec<Item<'a>>>, EvaluateError> {
        let mut left = usize::MAX;
        evaluate::find(&self.roots, value, &mut left)
    }

    /// The first thing that the first piece finds.
    ///
    /// # Errors
    /// As [`JsonPath::find`].
    pub fn first<'a>(&'a self, value: &'a Value) -> Result<Option<Item<'a>>, EvaluateError> {
        let mut left = usize::MAX;
        self.first_within(value, &mut left)
    }

    /// As [`JsonPath::first`]; takes the number of values looked at from what is left.
    ///
    /// # Errors
    /// As [`JsonPath::find`], and when nothing is left.
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
