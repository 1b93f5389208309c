//! Type checking: names resolved, overloads chosen, a type for every expression.

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

/// What a name or call stands for.
#[derive(Debug, Clone, PartialEq)]
pub enum Reference {
    /// A variable or a type, by its full name.
    Ident(String),
    /// A constant (an enum's value) of that name.
    Constant(String, Literal),
    /// A function, by the overloads that may apply; several where an argument's type is only known at evaluation.
    Overloads(Vec<&'static str>),
}

/// A checked expression. Names in it are full names; calls of namespaced functions (`a.b.f(x)`) have no target.
#[derive(Debug, Clone, PartialEq)]
pub struct Checked {
    /// The expression.
    pub expr: Expr,
    /// The text it comes from.
    pub source: Source,
    /// The code point offset of every expression, by its number.
    pub positions: Vec<u32>,
    /// The type of every expression, by its number; `None` for numbers of no expression.
    pub types: Vec<Option<Type>>,
    /// What names and calls stand for, by number.
    pub references: Vec<Option<Reference>>,
}

impl Checked {
    /// The type of the whole.
    pub fn result_type(&self) -> &Type {
        self.type_of(self.expr.id)
    }

    /// The type of an expression.
    pub fn type_of(&self, id: ExprId) -> &Type {
        self.types.get(id as usize).and_then(Option::as_ref).unwrap_or(&Type::Dyn)
    }

    /// What a name or call stands for.
    pub fn reference(&self, id: ExprId) -> Option<&Reference> {
        self.references.get(id as usize).and_then(Option::as_ref)
    }

    /// The overloads a call may be of; none if it is no call.
    pub fn overloads(&self, id: ExprId) -> &[&'static str] {
        match self.reference(id) {
            Some(Reference::Overloads(ids)) => ids,
            _ => &[],
        }
    }

    /// Whether a variable of that name is referred to.
    pub fn refers_to(&self, name: &str) -> bool {
        self.references.iter().flatten().any(|reference| matches!(reference, Reference::Ident(ident) if ident == name))
    }

    /// Where an expression is.
    pub fn location(&self, id: ExprId) -> Location {
        crate::parser::location(&self.source, &self.positions, id)
    }
}

/// Checks a parsed expression.
///
/// # Errors
/// If names are not declared or types do not fit: every mistake that was found.
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
