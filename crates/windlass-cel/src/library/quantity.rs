//! Resource quantities. Some of these functions also compare versions.

use std::cmp::Ordering;

use windlass_schema::quantity::{Format, Quantity};

use super::{Call, Table};
use crate::value::{EvalError, Opaque, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[
    ("quantity", quantity),
    ("isQuantity", is_quantity),
    ("sign", sign),
    ("asInteger", as_integer),
    ("isInteger", is_integer),
    ("asApproximateFloat", as_approximate_float),
    ("isGreaterThan", is_greater_than),
    ("isLessThan", is_less_than),
    ("compareTo", compare_to),
    ("add", add),
    ("sub", sub),
];

fn of<'v>(value: &'v Value<'_>) -> Option<&'v Quantity> {
    match value {
        Value::Opaque(value) => match &**value {
            Opaque::Quantity { value, .. } => Some(value),
            _ => None,
        },
        _ => None,
    }
}

fn receiver<'c>(call: &'c Call<'_, '_>) -> Result<&'c Quantity, EvalError> {
    of(&call.arguments[0]).ok_or_else(|| call.mismatch())
}

fn quantity<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => match Quantity::parse(text) {
            Ok(value) => Ok(Value::opaque(Opaque::Quantity { value, computed: false })),
            Err(error) => Err(EvalError::new(error.to_string())),
        },
        _ => Err(call.mismatch()),
    }
}

fn is_quantity<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(text)] => Ok(Value::Bool(Quantity::parse(text).is_ok())),
        _ => Err(call.mismatch()),
    }
}

fn sign<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|quantity| Value::Int(quantity.sign().into()))
}

fn is_integer<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|quantity| Value::Bool(quantity.as_i64().is_some()))
}

fn as_integer<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    let value = receiver(&call)?.as_i64();
    value.map(Value::Int).ok_or_else(|| EvalError::new("cannot convert value to integer"))
}

fn as_approximate_float<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    receiver(&call).map(|quantity| Value::Double(quantity.as_f64()))
}

/// Compares two quantities or two versions.
fn order(call: &Call<'_, '_>) -> Result<Ordering, EvalError> {
    let [Value::Opaque(a), Value::Opaque(b)] = &*call.arguments else { return Err(call.mismatch()) };
    match (&**a, &**b) {
        (Opaque::Quantity { value: a, .. }, Opaque::Quantity { value: b, .. }) => Ok(a.cmp(b)),
        (Opaque::Semver(a), Opaque::Semver(b)) => Ok(a.cmp(b)),
        _ => Err(call.mismatch()),
    }
}

fn is_greater_than<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    order(&call).map(|order| Value::Bool(order.is_gt()))
}

fn is_less_than<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    order(&call).map(|order| Value::Bool(order.is_lt()))
}

fn compare_to<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    order(&call).map(|order| Value::Int(order as i64))
}

fn combine<'a>(call: &Call<'_, 'a>, operation: fn(&mut Quantity, &Quantity)) -> Outcome<'a> {
    let mut value = receiver(call)?.clone();
    match call.arguments.get(1) {
        Some(Value::Int(other)) => operation(&mut value, &Quantity::new(*other, Format::DecimalExponent)),
        Some(other) => operation(&mut value, of(other).ok_or_else(|| call.mismatch())?),
        None => return Err(call.mismatch()),
    }
    Ok(Value::opaque(Opaque::Quantity { value, computed: true }))
}

fn add<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    combine(&call, Quantity::add)
}

fn sub<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    combine(&call, Quantity::sub)
}
