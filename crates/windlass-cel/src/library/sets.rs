//! The set library: lists as sets.

use super::{Call, Table};
use crate::value::{EvalError, List, Outcome, Value};

pub(crate) const FUNCTIONS: &Table =
    &[("sets.contains", contains), ("sets.equivalent", equivalent), ("sets.intersects", intersects)];

fn both<'c, 'a>(call: &'c Call<'_, 'a>) -> Result<(&'c Value<'a>, &'c Value<'a>), EvalError> {
    match &*call.arguments {
        [a @ Value::List(_), b @ Value::List(_)] => Ok((a, b)),
        _ => Err(call.mismatch()),
    }
}

fn items<'c, 'a>(value: &'c Value<'a>) -> impl Iterator<Item = Outcome<'a>> + 'c {
    let list: Option<&List<'a>> = if let Value::List(list) = value { Some(list) } else { None };
    list.into_iter().flat_map(List::iter)
}

fn contains_all<'a>(list: &Value<'a>, part: &Value<'a>) -> Result<bool, EvalError> {
    for item in items(part) {
        if !list.contains(&item?)? {
            return Ok(false);
        }
    }
    Ok(true)
}

fn contains<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (list, part) = both(&call)?;
    contains_all(list, part).map(Value::Bool)
}

fn equivalent<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (a, b) = both(&call)?;
    Ok(Value::Bool(contains_all(a, b)? && contains_all(b, a)?))
}

fn intersects<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (a, b) = both(&call)?;
    Ok(Value::Bool(items(a).flatten().any(|item| b.contains(&item) == Ok(true))))
}
