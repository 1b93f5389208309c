//! Regular expressions: `matches`, `find` and `findAll`, in Go's syntax.

use ::regex::Regex;
use windlass_schema::go_regex::{self, Pattern};

use super::{Call, Table};
use crate::value::{EvalError, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[("matches", matches), ("find", find), ("findAll", find_all)];

/// Compiles a regular expression of Go's syntax.
///
/// # Errors
/// Go's message for one it cannot read.
pub(crate) fn compile(pattern: &str) -> Result<Pattern, String> {
    go_regex::compile(pattern).map_err(|error| error.to_string())
}

/// Compiles one that is known only when it is needed.
fn compile_passing(pattern: &str) -> Result<Regex, String> {
    go_regex::compile_passing(pattern).map(|pattern| pattern.regex).map_err(|error| error.to_string())
}

/// How many times its cost a match takes whose expression is large for its text.
pub(crate) fn dearness(pattern: &Pattern) -> u64 {
    (pattern.weight() / 8).max(1)
}

/// What it costs to compile an expression that is known only when it is needed, beyond what its length costs.
pub(crate) fn surcharge(pattern: &str) -> u64 {
    if pattern.contains('{') || pattern.contains("\\p") || pattern.contains("\\P") { 200 } else { 0 }
}

/// A call of one of these functions with its expression compiled already.
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
            let regex = compile_passing(pattern).map_err(EvalError::new)?;
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
            let regex = compile_passing(pattern).map_err(|error| EvalError::new(format!("Illegal regex: {error}")))?;
            self::call(call, &regex)
        }
        _ => Err(call.mismatch()),
    }
}

fn find_all<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    find(call)
}

/// The matches that do not overlap; an empty one right after another does not count.
fn found<'a>(regex: &Regex, text: &str, limit: i64) -> Value<'a> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    Value::list(regex.find_iter(text).take(limit).map(|found| Value::string(found.as_str())).collect())
}
