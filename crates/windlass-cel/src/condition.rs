//! Conditions: expressions that evaluate to a bool.

use windlass_schema::go_regex;

use crate::checker::{self, Environment};
use crate::interpreter::Program;
use crate::parser;
use crate::types::Type;

/// Compiles a condition.
///
/// # Errors
/// Returns kube-apiserver's error for an invalid expression.
pub(crate) fn compile(text: &str, environment: &Environment) -> Result<Program, String> {
    let failed = |issues: crate::source::Errors| format!("compilation failed: {issues}");
    let parsed = parser::parse(text, parser::Options::KUBERNETES).map_err(failed)?;
    let checked = checker::check(&parsed, environment).map_err(failed)?;
    let result = checked.result_type();
    if *result != Type::Bool {
        return Err(format!("must evaluate to bool but got {result}"));
    }
    let program = go_regex::with_shared_limits(|| Program::new(&checked));
    program.map_err(|error| format!("program instantiation failed: {error}"))
}
