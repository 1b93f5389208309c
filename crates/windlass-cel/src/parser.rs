//! From text to expressions, macros expanded.
//!
//! Correct texts take one pass of recursive descent. Wrong ones are read again with recovery after each mistake, so
//! that all of them are found and described as other implementations of the language describe them. Nesting, length
//! and the number of errors are bounded.

use crate::ast::{Expr, ExprId};
use crate::source::{Errors, Location, Source};

mod build;
mod descent;
mod literal;
mod macros;
mod recovery;
mod token;
mod tree;

/// How many code points an expression may have.
const MAXIMUM_LENGTH: usize = 100_000;

/// What the parser accepts beyond the core language.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// `a.?b`, `a[?b]`, `[?a]`, `{?a: b}`, `optMap` and `optFlatMap`.
    pub optionals: bool,
    /// Names in backquotes after a dot.
    pub quoted_identifiers: bool,
    /// The macros of comprehensions with two variables.
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
    /// The text it comes from.
    pub source: Source,
    /// The code point offset of every expression, by its number; `u32::MAX` for numbers not in use. Its length is one
    /// more than the greatest number.
    pub positions: Vec<u32>,
}

impl Options {
    /// What Kubernetes accepts.
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
    /// Where an expression is.
    pub fn location(&self, id: ExprId) -> Location {
        location(&self.source, &self.positions, id)
    }
}

/// Where an expression is.
pub(crate) fn location(source: &Source, positions: &[u32], id: ExprId) -> Location {
    match positions.get(id as usize) {
        Some(&offset) if offset != u32::MAX => source.location(offset),
        // What is nowhere is before the first column.
        _ => Location { line: 1, column: -1 },
    }
}

/// Parses a text.
///
/// # Errors
/// If it is not an expression: every mistake that was found.
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
