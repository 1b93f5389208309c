//! Operators, conversions and string functions of the standard library.

use std::cmp::Ordering;

use super::{Call, Table};
use crate::value::{EvalError, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("!_", not),
    ("-_", negate),
    ("@not_strictly_false", not_strictly_false),
    ("_+_", add),
    ("_-_", subtract),
    ("_*_", multiply),
    ("_/_", divide),
    ("_%_", modulo),
    ("_<_", less),
    ("_<=_", less_equals),
    ("_>_", greater),
    ("_>=_", greater_equals),
    ("@in", contains_element),
    ("size", size),
    ("type", type_of),
    ("dyn", identity),
    ("bool", convert),
    ("bytes", convert),
    ("double", convert),
    ("duration", convert),
    ("int", convert),
    ("string", convert),
    ("timestamp", convert),
    ("uint", convert),
    ("contains", contains),
    ("startsWith", starts_with),
    ("endsWith", ends_with),
];

fn not<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match call.arguments {
        [Value::Bool(value)] => Ok(Value::Bool(!*value)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn negate<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[0].negate()
}

fn not_strictly_false<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::Bool(call.arguments[0].as_bool().unwrap_or(true)))
}

fn add<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [left, right] = call.arguments else { return Err(call.mismatch()) };
    std::mem::replace(left, Value::Null).plus(right)
}

fn subtract<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[0].subtract(&call.arguments[1])
}

fn multiply<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[0].multiply(&call.arguments[1])
}

fn divide<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[0].divide(&call.arguments[1])
}

fn modulo<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[0].modulo(&call.arguments[1])
}

fn order<'a>(call: &Call<'_, 'a>) -> Result<Ordering, EvalError> {
    if !call.arguments[0].is_comparable() {
        return Err(call.arguments[0].unsupported(call.function));
    }
    call.arguments[0].compare(&call.arguments[1])
}

fn less<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::Bool(order(&call)?.is_lt()))
}

fn less_equals<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::Bool(order(&call)?.is_le()))
}

fn greater<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::Bool(order(&call)?.is_gt()))
}

fn greater_equals<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::Bool(order(&call)?.is_ge()))
}

fn contains_element<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[1].contains(&call.arguments[0]).map(Value::Bool)
}

fn size<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &call.arguments[0] {
        value @ (Value::String(_) | Value::Bytes(_) | Value::List(_) | Value::Map(_)) => {
            Ok(Value::Int(value.size().unwrap_or_default()))
        }
        other => Err(other.unsupported("size")),
    }
}

fn type_of<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &call.arguments[0] {
        Value::Preserved(_) => Err(EvalError::new(
            "type conversion to 'type' not supported for values preserved by x-kubernetes-preserve-unknown-fields",
        )),
        value => Ok(value.type_of()),
    }
}

fn identity<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(call.arguments[0].clone())
}

fn convert<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    call.arguments[0].convert(call.function)
}

fn strings<'c>(call: &'c Call<'_, '_>) -> Result<(&'c str, &'c str), EvalError> {
    match &*call.arguments {
        [Value::String(text), Value::String(part)] => Ok((text, part)),
        _ => Err(EvalError::no_such_overload()),
    }
}

fn contains<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    strings(&call).map(|(text, part)| Value::Bool(text.contains(part)))
}

fn starts_with<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    strings(&call).map(|(text, part)| Value::Bool(text.starts_with(part)))
}

fn ends_with<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    strings(&call).map(|(text, part)| Value::Bool(text.ends_with(part)))
}
