//! Parses text to expressions with macros expanded.
//!
//! Valid strings need one pass of recursive descent. Invalid ones are parsed again with recovery after each error, so
//! that all errors are found and described as in other implementations of the language. Nesting, length and the number
//! of errors are bounded.

use crate::ast::{Expr, ExprId};
use crate::source::{Errors, Location, Source};

mod build;
mod descent;
mod literal;
mod macros;
mod recovery;
mod token;
mod tree;

/// Maximum number of code points of an expression.
const MAXIMUM_LENGTH: usize = 100_000;

/// Features that the parser accepts in addition to the core language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `a.?b`, `a[?b]`, `[?a]`, `{?a: b}`, `optMap` and `optFlatMap`.
    pub optionals: bool,
    /// Names in backquotes after a dot.
    pub quoted_identifiers: bool,
    /// Macros of comprehensions with two variables.
    pub two_variable_macros: bool,
    /// `sortBy`.
    pub sort_by: bool,
    /// `cel.bind`.
    pub bindings: bool,
}

/// A parsed expression.
#[derive(Debug, Clone, PartialEq)]
pub struct Parsed {
    /// The expression.
    pub expr: Expr,
    /// The source text.
    pub source: Source,
    /// Code point offset of every expression, indexed by its ID; `u32::MAX` for unused IDs. The length is one more than
    /// the largest ID.
    pub positions: Vec<u32>,
}

impl Options {
    /// The features that Kubernetes accepts.
    pub const KUBERNETES: Options = Options {
        optionals: true,
        quoted_identifiers: false,
        two_variable_macros: true,
        sort_by: true,
        bindings: false,
    };
}

impl Default for Options {
    fn default() -> Options {
        Options::KUBERNETES
    }
}

impl Parsed {
    /// Returns the location of an expression.
    pub fn location(&self, id: ExprId) -> Location {
        location(&self.source, &self.positions, id)
    }
}

/// Returns the location of an expression.
pub(crate) fn location(source: &Source, positions: &[u32], id: ExprId) -> Location {
    match positions.get(id as usize) {
        Some(&offset) if offset != u32::MAX => source.location(offset),
        // An unknown position is before the first column.
        _ => Location { line: 1, column: -1 },
    }
}

/// Parses a string.
///
/// # Errors
/// Returns all errors if the string is not an expression.
pub fn parse(text: &str, options: Options) -> Result<Parsed, Errors> {
    let source = Source::new(text);
    let mut errors = Errors::new(source.clone());
    let length = source.len();
    if length > MAXIMUM_LENGTH {
        let message = format!("expression code point size exceeds limit: size: {length}, limit {MAXIMUM_LENGTH}");
        errors.report(Location::NONE, message);
        return Err(errors);
    }
    let (tokens, lexical) = token::tokenize(&source);
    let tree = if lexical.is_empty() { descent::parse(&tokens) } else { None };
    let (nodes, root) = match tree {
        Some(tree) => tree,
        None => match recovery::Recovery::new(&source, &tokens, &lexical, &mut errors).parse() {
            Ok(tree) => tree,
            Err(recovery::Stopped) => return Err(errors),
        },
    };
    let positions = Vec::with_capacity(nodes.len() * 2);
    let mut builder = build::Builder {
        text,
        tokens: &tokens,
        nodes: &nodes,
        options,
        positions,
        errors: &mut errors,
        source: &source,
        depth: 0,
    };
    let built = builder.build(root);
    let positions = builder.positions;
    match built {
        Ok(expr) if errors.is_empty() => Ok(Parsed { expr, source, positions }),
        Ok(_) => Err(errors),
        Err(build::TooDeep) => {
            errors.report(Location::NONE, "max recursion depth exceeded");
            Err(errors)
        }
    }
}

#[cfg(test)]
mod tests;
