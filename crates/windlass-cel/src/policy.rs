//! Expressions of admission policies: validations, messages, audit annotations, mutations, match conditions, and the
//! variables that they are composed of.
//!
//! A [`Compiler`] compiles the expressions of one policy, its variables first. An [`Activation`] has the inputs of one
//! request and evaluates compiled expressions, each within [`PER_CALL_LIMIT`] and together within a budget.

mod activation;
mod environment;
mod patch;
mod request_types;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use windlass_schema::go_regex;

pub use activation::{Activation, Inputs, OutOfBudget};
pub use environment::ObjectTypes;
pub use patch::{apply_configuration, json_patch};

use crate::checker;
use crate::interpreter::{ComposedVariable, Program};
use crate::parser;
use crate::types::Type;
use environment::Names;

/// Maximum cost of an expression.
pub use crate::rules::PER_CALL_LIMIT;

/// Cost budget: one for a policy's validations and messages, one for its audit annotations, one per mutation.
pub const POLICY_BUDGET: i64 = 10_000_000;
/// Maximum cost of all match conditions of a policy or webhook.
pub const CONDITIONS_BUDGET: i64 = 2_500_000;

/// Result type of an expression.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// A condition or validation.
    Bool,
    /// A message.
    Text,
    /// An audit annotation, which null omits.
    TextOrNull,
    /// A partial object to merge.
    ApplyConfiguration,
    /// A list of operations.
    JsonPatch,
    /// A variable.
    Anything,
}

impl Returns {
    /// Returns the possible types; empty if any type is possible.
    fn types(self) -> Vec<Type> {
        match self {
            Self::Bool => vec![Type::Bool],
            Self::Text => vec![Type::String],
            Self::TextOrNull => vec![Type::String, Type::Null],
            Self::ApplyConfiguration => vec![Type::object(crate::value::OBJECT)],
            Self::JsonPatch => vec![Type::list(Type::object(crate::value::PATCH))],
            Self::Anything => Vec::new(),
        }
    }
}

/// Reasons why an expression does not compile, with kube-apiserver's message.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct CompileError {
    /// The message.
    pub detail: String,
    /// Whether kube-apiserver reports it as an internal error.
    pub internal: bool,
}

/// A compiled expression.
#[derive(Debug)]
pub struct Expression {
    text: String,
    program: Program,
}

impl Expression {
    /// Returns the source text.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Returns whether it uses a variable such as `request`; `authorizer` includes `authorizer.requestResource`.
    pub fn uses(&self, variable: &str) -> bool {
        uses(&self.program, variable)
    }
}

/// Returns whether a program uses a variable.
pub fn uses(program: &Program, variable: &str) -> bool {
    program.variables().any(|name| name.split('.').next() == Some(variable))
}

/// Compiles the expressions of a policy.
#[derive(Debug, Clone)]
pub struct Compiler {
    names: Names,
}

impl Compiler {
    /// Returns a compiler of expressions without variables of their own. `params` can be used if there are any.
    pub fn new(has_params: bool) -> Self {
        Self { names: Names { has_params, variables: None, object: None, params: None } }
    }

    /// Returns this compiler, for expressions that can use `variables`.
    #[must_use]
    pub fn with_variables(mut self) -> Self {
        self.names.variables = Some(BTreeMap::new());
        self
    }

    /// Returns this compiler, for checking expressions against the types of objects and parameters; types that are
    /// unknown remain dynamic.
    #[must_use]
    pub fn with_types(mut self, object: Option<ObjectTypes>, params: Option<ObjectTypes>) -> Self {
        self.names.object = object;
        self.names.params = params;
        self
    }

    /// Compiles a variable, which expressions after it can use.
    ///
    /// # Errors
    /// Returns kube-apiserver's error for an invalid expression. The variable is declared anyway.
    pub fn variable(&mut self, name: &str, text: &str) -> Result<ComposedVariable, CompileError> {
        let compiled = self.compile_checked(text, Returns::Anything, true);
        let declared = compiled.as_ref().map_or(Type::Dyn, |(_, of)| declared(of));
        self.names.variables.get_or_insert_default().insert(name.to_owned(), declared);
        compiled.map(|(program, _)| ComposedVariable { name: name.to_owned(), program: Ok(program) })
    }

    /// Compiles an expression; `authorizer` selects whether it can use the variable `authorizer`.
    ///
    /// # Errors
    /// Returns kube-apiserver's error for an invalid expression.
    pub fn compile(&self, text: &str, returns: Returns, authorizer: bool) -> Result<Expression, CompileError> {
        let (program, _) = self.compile_checked(text, returns, authorizer)?;
        Ok(Expression { text: text.to_owned(), program })
    }

    /// Checks the types of an expression, without compiling it.
    ///
    /// # Errors
    /// Returns what is wrong with the types.
    pub fn check(&self, text: &str) -> Result<(), String> {
        self.checked(text, Returns::Anything, true).map(drop)
    }

    /// Declares a variable without compiling it, as type checking does.
    pub fn declare(&mut self, name: &str, text: &str) {
        let checked = self.checked(text, Returns::Anything, true);
        let declared = checked.map_or(Type::Dyn, |checked| declared(checked.result_type()));
        self.names.variables.get_or_insert_default().insert(name.to_owned(), declared);
    }

    fn checked(&self, text: &str, returns: Returns, authorizer: bool) -> Result<checker::Checked, String> {
        let environment = self.names.environment(returns, authorizer);
        let parsed = parser::parse(text, parser::Options::KUBERNETES).map_err(|issues| issues.to_string())?;
        checker::check(&parsed, &environment).map_err(|issues| issues.to_string())
    }

    fn compile_checked(&self, text: &str, returns: Returns, authorizer: bool) -> Result<(Program, Type), CompileError> {
        let invalid = |detail: String| CompileError { detail, internal: false };
        let checked = self.checked(text, returns, authorizer);
        let checked = checked.map_err(|issues| invalid(format!("compilation failed: {issues}")))?;
        let (result, wanted) = (checked.result_type(), returns.types());
        if !wanted.is_empty() && !wanted.contains(result) {
            let given = go_name(result);
            let names: Vec<String> = wanted.iter().map(go_name).collect();
            return Err(invalid(match &names[..] {
                [one] => format!("must evaluate to {one} but got {given}"),
                many => format!("must evaluate to one of [{}] but got {given}", many.join(" ")),
            }));
        }
        let program = go_regex::with_shared_limits(|| Program::new(&checked));
        let program = program.map_err(|error| CompileError {
            detail: format!("program instantiation failed: {error}"),
            internal: true,
        })?;
        Ok((program, result.clone()))
    }
}

/// Returns the type of a variable whose expression has this type: objects are dynamic.
fn declared(of: &Type) -> Type {
    match of {
        Type::List(element) => Type::list(declared(element)),
        Type::Map(key, value) => Type::map(declared(key), declared(value)),
        Type::Object(_) | Type::Opaque(..) | Type::Type(_) | Type::Param(_) | Type::Error => Type::Dyn,
        plain => plain.clone(),
    }
}

/// Returns the name of a type as cel-go formats it outside of the checker.
fn go_name(of: &Type) -> String {
    match of {
        Type::List(element) => format!("list({})", go_name(element)),
        Type::Map(key, value) => format!("map({}, {})", go_name(key), go_name(value)),
        Type::Null | Type::Timestamp | Type::Duration => of.name().to_owned(),
        other => other.to_string(),
    }
}
