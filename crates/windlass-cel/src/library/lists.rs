//! The list libraries: sums, order, slices, flattening, sorting.

use std::cmp::Ordering;

use windlass_schema::sorting;

use super::{Call, Table};
use crate::value::{EvalError, List, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("isSorted", is_sorted),
    ("sum", sum),
    ("max", extreme),
    ("min", extreme),
    ("slice", slice),
    ("flatten", flatten),
    ("sort", sort),
    ("@sortByAssociatedKeys", sort_by_keys),
    ("lists.range", range),
    ("reverse", reverse),
    ("distinct", distinct),
];

fn the_list<'c, 'a>(call: &'c Call<'_, 'a>) -> Result<&'c List<'a>, EvalError> {
    match &*call.arguments {
        [Value::List(list)] => Ok(list),
        _ => Err(call.mismatch()),
    }
}

/// Returns the first or last position of an item in a list, or -1.
pub(super) fn position<'a>(list: &List<'a>, item: &Value<'a>, last: bool) -> i64 {
    let equal = |index: &usize| matches!(list.get(*index), Some(Ok(value)) if value.equals_value(item) == Ok(true));
    let found = if last { (0..list.len()).rev().find(equal) } else { (0..list.len()).find(equal) };
    found.map_or(-1, |index| index as i64)
}

fn is_sorted<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let mut previous: Option<Value<'a>> = None;
    for item in the_list(&call)?.iter() {
        let item = item?;
        if !item.is_comparable() {
            return Err(EvalError::no_such_overload());
        }
        if let Some(previous) = previous
            && previous.compare(&item) == Ok(Ordering::Greater)
        {
            return Ok(Value::Bool(false));
        }
        previous = Some(item);
    }
    Ok(Value::Bool(true))
}

fn sum<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let mut total = match call.overload {
        "list_uint_sum_uint" => Value::Uint(0),
        "list_double_sum_double" => Value::Double(0.0),
        "list_duration_sum_duration" => Value::Duration(0),
        _ => Value::Int(0),
    };
    for item in the_list(&call)?.iter() {
        total = total.plus(&item?)?;
    }
    Ok(total)
}

fn extreme<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let replaced_by = if call.function == "max" { Ordering::Less } else { Ordering::Greater };
    let mut best: Option<Value<'a>> = None;
    for item in the_list(&call)?.iter() {
        let item = item?;
        if !item.is_comparable() {
            return Err(EvalError::no_such_overload());
        }
        if best.as_ref().is_none_or(|best| best.compare(&item) == Ok(replaced_by)) {
            best = Some(item);
        }
    }
    best.ok_or_else(|| EvalError::new(format!("{} called on empty list", call.function)))
}

fn slice<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = &*call.arguments else {
        return Err(call.mismatch());
    };
    let fail = |reason: String| Err(EvalError::new(format!("cannot slice({start}, {end}), {reason}")));
    if *start < 0 || *end < 0 {
        return fail("negative indexes not supported".to_owned());
    }
    if start > end {
        return fail("start index must be less than or equal to end index".to_owned());
    }
    if (list.len() as i64) < *end {
        return fail(format!("list is length {}", list.len()));
    }
    let items = (*start as usize..*end as usize).filter_map(|index| list.get(index));
    items.collect::<Result<Vec<_>, _>>().map(Value::list)
}

fn flatten<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let (list, depth) = match &*call.arguments {
        [Value::List(list)] => (list, 1),
        [Value::List(list), Value::Int(depth)] => (list, *depth),
        [value] => return Err(EvalError::new(format!("no such overload: {}.flatten()", value.type_name()))),
        [value, depth, ..] => {
            let types = (value.type_name(), depth.type_name());
            return Err(EvalError::new(format!("no such overload: {}.flatten({})", types.0, types.1)));
        }
        [] => return Err(call.mismatch()),
    };
    if depth < 0 {
        return Err(EvalError::new("level must be non-negative"));
    }
    let mut items = Vec::new();
    flatten_into(list, depth, &mut items)?;
    Ok(Value::list(items))
}

fn flatten_into<'a>(list: &List<'a>, depth: i64, out: &mut Vec<Value<'a>>) -> Result<(), EvalError> {
    for item in list.iter() {
        match item? {
            Value::List(nested) if depth > 0 => flatten_into(&nested, depth - 1, out)?,
            item => out.push(item),
        }
    }
    Ok(())
}

fn sort<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::List(list)] => sorted(list, list),
        [other, ..] => Err(other.unsupported("sort")),
        [] => Err(call.mismatch()),
    }
}

fn sort_by_keys<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::List(list), Value::List(keys)] => sorted(list, keys),
        [other, ..] => Err(other.unsupported("@sortByAssociatedKeys")),
        [] => Err(call.mismatch()),
    }
}

fn sorted<'a>(list: &List<'a>, keys: &List<'a>) -> Outcome<'a> {
    if list.len() != keys.len() {
        return Err(EvalError::new(format!(
            "@sortByAssociatedKeys() expected a list of the same size as the associated keys list, but got {} and {} \
             elements respectively",
            list.len(),
            keys.len()
        )));
    }
    if list.is_empty() {
        return Ok(Value::List(list.clone()));
    }
    let keys = keys.iter().collect::<Result<Vec<_>, _>>()?;
    if !keys[0].is_comparable() {
        return Err(EvalError::new("list elements must be comparable"));
    }
    if keys.iter().any(|key| key.type_name() != keys[0].type_name()) {
        return Err(EvalError::new("list elements must have the same type"));
    }
    let mut places: Vec<usize> = (0..keys.len()).collect();
    sorting::sort_by(&mut places, |a, b| keys[*a].compare(&keys[*b]).unwrap_or(Ordering::Equal));
    let items = places.into_iter().filter_map(|index| list.get(index));
    items.collect::<Result<Vec<_>, _>>().map(Value::list)
}

/// Maximum length of a range; longer ones cost more than any expression may, and are not built.
pub(crate) const LONGEST_RANGE: i64 = 1_000_000;

fn range<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::Int(end)] if *end > LONGEST_RANGE => Err(EvalError::CostLimitExceeded),
        [Value::Int(end)] => Ok(Value::list((0..*end).map(Value::Int).collect())),
        _ => Err(call.mismatch()),
    }
}

fn reverse<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let mut items = the_list(&call)?.iter().collect::<Result<Vec<_>, _>>()?;
    items.reverse();
    Ok(Value::list(items))
}

fn distinct<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let list = the_list(&call)?;
    if list.is_empty() {
        return Ok(Value::List(list.clone()));
    }
    let mut items: Vec<Value<'a>> = Vec::new();
    for item in list.iter() {
        let item = item?;
        if !items.iter().any(|other| item.equals_value(other) == Ok(true)) {
            items.push(item);
        }
    }
    Ok(Value::list(items))
}
