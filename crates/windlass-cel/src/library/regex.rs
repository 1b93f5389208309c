//! Regular expressions in Go syntax: `matches`, `find` and `findAll`.

use ::regex::Regex;
use windlass_schema::go_regex::{self, Pattern};

use super::{Call, Table};
use crate::value::{EvalError, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[("matches", matches), ("find", find), ("findAll", find_all)];

/// Compiles a regular expression in Go syntax.
///
/// # Errors
/// Returns Go's message for an invalid expression.
pub(crate) fn compile(pattern: &str) -> Result<Pattern, String> {
    go_regex::compile(pattern).map_err(|error| error.to_string())
}

/// Compiles a regular expression that is known only at run time.
fn compile_dynamic(pattern: &str) -> Result<Regex, String> {
    go_regex::compile_dynamic(pattern).map(|pattern| pattern.regex).map_err(|error| error.to_string())
}

/// Returns the factor by which a match costs more if the expression is large for its text.
pub(crate) fn cost_factor(pattern: &Pattern) -> u64 {
    (pattern.weight() / 8).max(1)
}

/// Returns the cost of compiling an expression that is known only at run time, beyond the cost of its length.
pub(crate) fn compile_cost(pattern: &str) -> u64 {
    if pattern.contains('{') || pattern.contains("\\p") || pattern.contains("\\P") { 200 } else { 0 }
}

/// Calls one of these functions with an already compiled expression.
pub(crate) fn call<'a>(call: Call<'_, 'a>, regex: &Regex) -> Outcome<'a> {
    let Value::String(text) = &call.arguments[0] else { return Err(EvalError::no_such_overload()) };
    match (call.function, call.arguments.get(2)) {
        ("matches", None) => Ok(Value::Bool(regex.is_match(text))),
        ("find", None) => Ok(Value::string(regex.find(text).map_or("", |found| found.as_str()))),
        ("findAll", None) => Ok(found(regex, text, -1)),
        ("findAll", Some(Value::Int(limit))) => Ok(found(regex, text, *limit)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn matches<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(_), Value::String(pattern)] => {
            let regex = compile_dynamic(pattern).map_err(EvalError::new)?;
            self::call(call, &regex)
        }
        [Value::String(_), _] => Err(EvalError::no_such_overload()),
        [other, ..] => Err(other.unsupported("matches")),
        [] => Err(call.mismatch()),
    }
}

fn find<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(_), Value::String(pattern)] | [Value::String(_), Value::String(pattern), Value::Int(_)] => {
            let regex = compile_dynamic(pattern).map_err(|error| EvalError::new(format!("Illegal regex: {error}")))?;
            self::call(call, &regex)
        }
        _ => Err(call.mismatch()),
    }
}

fn find_all<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    find(call)
}

/// Returns the non-overlapping matches; an empty match right after another one is skipped.
fn found<'a>(regex: &Regex, text: &str, limit: i64) -> Value<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Value::list(regex.find_iter(text).take(limit).map(|found| Value::string(found.as_str())).collect())
}
