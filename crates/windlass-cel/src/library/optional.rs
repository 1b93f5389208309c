//! Optional values. The interpreter implements `or` and `orValue`, which evaluate their argument only if needed.

use super::{Call, Table};
use crate::value::{EvalError, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("optional.of", of),
    ("optional.ofNonZeroValue", of_non_zero),
    ("optional.none", none),
    ("optional.unwrap", unwrap),
    ("unwrapOpt", unwrap),
    ("value", value),
    ("hasValue", has_value),
    ("first", first),
    ("last", last),
];

fn of<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::some(call.arguments[0].clone()))
}

fn of_non_zero<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let value = &call.arguments[0];
    Ok(if value.is_zero() { Value::NONE } else { Value::some(value.clone()) })
}

fn none<'a>(_: Call<'_, 'a>) -> Outcome<'a> {
    Ok(Value::NONE)
}

fn unwrap<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::List(list)] = &*call.arguments else { return Err(call.mismatch()) };
    let mut items = Vec::new();
    for item in list.iter() {
        match item? {
            Value::Optional(Some(value)) => items.push((*value).clone()),
            Value::Optional(None) => {}
            other => return Err(EvalError::new(format!("value {} is not optional", other.display()))),
        }
    }
    Ok(Value::list(items))
}

fn value<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::Optional(Some(value))] => (**value).clone().or_lost(),
        [Value::Optional(None)] => Err(EvalError::new("optional.none() dereference")),
        _ => Err(call.mismatch()),
    }
}

fn has_value<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(call.mismatch()),
    }
}

fn first<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::List(list)] = &*call.arguments else { return Err(call.mismatch()) };
    list.get(0).transpose().map(|item| item.map_or(Value::NONE, Value::some))
}

fn last<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::List(list)] = &*call.arguments else { return Err(call.mismatch()) };
    let last = list.len().checked_sub(1).and_then(|index| list.get(index));
    last.transpose().map(|item| item.map_or(Value::NONE, Value::some))
}
