//! The functions that expressions may call: the standard ones, and those of the Kubernetes libraries.
//!
//! A function is looked up by name once, when a program is planned, and checks the types of its arguments itself.

use crate::value::{EvalError, Outcome, Value};

pub(crate) mod authorization;
pub(crate) mod cidr;
pub(crate) mod format;
pub(crate) mod ip;
pub(crate) mod json_patch;
pub(crate) mod lists;
pub(crate) mod optional;
pub(crate) mod quantity;
pub(crate) mod regex;
pub(crate) mod semver;
pub(crate) mod sets;
pub(crate) mod standard;
pub(crate) mod string_format;
pub(crate) mod strings;
pub(crate) mod time;
pub(crate) mod two_variables;
pub(crate) mod url;

/// A call: the function's name, and its arguments, starting with the receiver. A function may consume the arguments.
pub(crate) struct Call<'c, 'a> {
    pub(crate) function: &'static str,
    /// The overload; empty if it is only known at run time.
    pub(crate) overload: &'c str,
    pub(crate) arguments: &'c mut [Value<'a>],
}

/// The implementation of a function.
pub(crate) type Implementation = for<'a> fn(Call<'_, 'a>) -> Outcome<'a>;

/// A function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) implementation: Implementation,
}

/// The functions of a library, by name.
pub(crate) type Table = [(&'static str, Implementation)];

const LIBRARIES: [&Table; 17] = [
    standard::FUNCTIONS,
    time::FUNCTIONS,
    strings::FUNCTIONS,
    string_format::FUNCTIONS,
    regex::FUNCTIONS,
    lists::FUNCTIONS,
    sets::FUNCTIONS,
    optional::FUNCTIONS,
    two_variables::FUNCTIONS,
    url::FUNCTIONS,
    ip::FUNCTIONS,
    cidr::FUNCTIONS,
    quantity::FUNCTIONS,
    semver::FUNCTIONS,
    format::FUNCTIONS,
    authorization::FUNCTIONS,
    json_patch::FUNCTIONS,
];

/// Returns the function with a name.
pub(crate) fn function(name: &str) -> Option<Function> {
    LIBRARIES
        .iter()
        .flat_map(|library| library.iter())
        .find(|(candidate, _)| *candidate == name)
        .map(|(name, implementation)| Function { name, implementation: *implementation })
}

impl Call<'_, '_> {
    /// Returns the error for arguments of these types.
    pub(crate) fn mismatch(&self) -> EvalError {
        let types: Vec<_> = self.arguments.iter().map(Value::type_name).collect();
        EvalError::new(format!("no such overload: {}({})", self.function, types.join(", ")))
    }
}
