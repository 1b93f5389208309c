//! Regular expressions: `matches`, `find` and `findAll`, in Go's syntax.

use ::regex::{Regex, RegexBuilder};

use super::{Call, Table};
use crate::value::{EvalError, Outcome, Value};

mod syntax;

pub(crate) const FUNCTIONS: &Table = &[("matches", matches), ("find", find), ("findAll", find_all)];

/// The memory a compiled expression may take.
const SIZE_LIMIT: usize = 8 << 20;

/// Compiles a regular expression of Go's syntax.
///
/// # Errors
/// Go's message for one it cannot read.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    let translated = syntax::translate(pattern).map_err(|error| format!("error parsing regexp: {error}"))?;
    RegexBuilder::new(&translated)
        .size_limit(SIZE_LIMIT)
        .build()
        .map_err(|_| format!("error parsing regexp: invalid regular expression: `{pattern}`"))
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
            let regex = compile(pattern).map_err(EvalError::new)?;
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
            let regex = compile(pattern).map_err(|error| EvalError::new(format!("Illegal regex: {error}")))?;
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
