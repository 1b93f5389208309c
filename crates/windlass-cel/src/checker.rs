//! Type checking: resolves names, selects overloads, and assigns a type to every expression.

use crate::ast::{Expr, ExprId, Literal};
use crate::parser::Parsed;
use crate::source::{Errors, Location, Source};
use crate::types::Type;

pub use environment::{Environment, TypeProvider};

mod environment;
mod format_clauses;
mod literals;
mod overloads;
mod substitution;
mod walk;

/// The target of a name or call.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// A variable or a type, by its full name.
    Ident(String),
    /// A constant (an enum value) with this name.
    Constant(String, Literal),
    /// A function, with the overloads that may apply; several if the type of an argument is only known at run time.
    Overloads(Vec<&'static str>),
}

/// A checked expression. Names in it are full names; calls of namespaced functions (`a.b.f(x)`) have no target.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The expression.
    pub expr: Expr,
    /// The source text.
    pub source: Source,
    /// Code point offset of every expression, indexed by its ID.
    pub positions: Vec<u32>,
    /// Type of every expression, indexed by its ID; `None` for unused IDs.
    pub types: Vec<Option<Type>>,
    /// Targets of names and calls, indexed by ID.
    pub references: Vec<Option<Reference>>,
}

impl Checked {
    /// Returns the type of the whole expression.
    pub fn result_type(&self) -> &Type {
        self.type_of(self.expr.id)
    }

    /// Returns the type of an expression.
    pub fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }

    /// Returns the target of a name or call.
    pub fn reference(&self, id: ExprId) -> Option<&Reference> {
        self.references.get(id as usize).and_then(Option::as_ref)
    }

    /// Returns the candidate overloads of a call; empty if the expression is not a call.
    pub fn overloads(&self, id: ExprId) -> &[&'static str] {
        match self.reference(id) {
            Some(Reference::Overloads(ids)) => ids,
            _ => &[],
        }
    }

    /// Returns whether the expression refers to a variable with this name.
    pub fn refers_to(&self, name: &str) -> bool {
        self.references.iter().flatten().any(|reference| matches!(reference, Reference::Ident(ident) if ident == name))
    }

    /// Returns the location of an expression.
    pub fn location(&self, id: ExprId) -> Location {
        crate::parser::location(&self.source, &self.positions, id)
    }
}

/// Checks a parsed expression.
///
/// # Errors
/// Returns all errors: undeclared names and type mismatches.
pub fn check(parsed: &Parsed, environment: &Environment) -> Result<Checked, Errors> {
    let Parsed { expr, source, positions } = parsed;
    let mut expr = expr.clone();
    let mut checker = walk::Checker {
        environment,
        source,
        positions,
        errors: Errors::new(source.clone()),
        types: vec![None; positions.len()],
        references: vec![None; positions.len()],
        substitution: substitution::Substitution::default(),
        locals: Vec::new(),
        variables: 0,
    };
    checker.check(&mut expr);
    if !checker.errors.is_empty() {
        return Err(checker.errors);
    }
    let walk::Checker { mut types, references, substitution, .. } = checker;
    for known in types.iter_mut().flatten() {
        if !matches!(known, Type::Bool | Type::Int | Type::String | Type::Object(_)) {
            *known = substitution.finish(known);
        }
    }
    let checked = Checked { expr, source: source.clone(), positions: positions.clone(), types, references };
    literals::validate(&checked)?;
    Ok(checked)
}

#[cfg(test)]
mod tests;
