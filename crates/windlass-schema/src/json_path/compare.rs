//! Comparisons in filters, with the behavior of Go templates.

use std::cmp::Ordering;

use serde_json::Value;

use super::evaluate::Item;

const NOT_COMPARABLE: &str = "invalid type for comparison";
const DIFFERENT: &str = "incompatible types for comparison";

/// A value that can be compared.
enum Basic<'a> {
    Bool(bool),
    Int(i64),
    Byte(u8),
    Float(f64),
    Text(&'a str),
}

fn basic<'a>(item: &'a Item<'_>) -> Result<Basic<'a>, String> {
    Ok(match item {
        Item::Json(Value::Bool(value)) => Basic::Bool(*value),
        Item::Json(Value::String(text)) => Basic::Text(text),
        Item::Json(Value::Number(number)) => match number.as_i64() {
            Some(int) => Basic::Int(int),
            None => Basic::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Item::Text(text) => Basic::Text(text),
        Item::Bool(value) => Basic::Bool(*value),
        Item::Int(int) => Basic::Int(*int),
        Item::Float(float) => Basic::Float(*float),
        Item::Byte(byte) => Basic::Byte(*byte),
        Item::Json(_) => return Err(NOT_COMPARABLE.to_owned()),
    })
}

/// Returns whether the comparison holds.
pub(super) fn compare(left: &Item<'_>, operator: &str, right: &Item<'_>) -> Result<bool, String> {
    if !matches!(operator, "<" | ">" | "==" | "!=" | "<=" | ">=") {
        return Err(format!("unrecognized filter operator {operator}"));
    }
    let (left, right) = (basic(left)?, basic(right)?);
    // NaN is not comparable, so there are four outcomes.
    let order = match (&left, &right) {
        (Basic::Bool(left), Basic::Bool(right)) => {
            return match operator {
                "==" => Ok(left == right),
                "!=" => Ok(left != right),
                _ => Err(NOT_COMPARABLE.to_owned()),
            };
        }
        (Basic::Int(left), Basic::Int(right)) => Some(left.cmp(right)),
        (Basic::Byte(left), Basic::Byte(right)) => Some(left.cmp(right)),
        (Basic::Int(left), Basic::Byte(right)) => Some(left.cmp(&i64::from(*right))),
        (Basic::Byte(left), Basic::Int(right)) => Some(i64::from(*left).cmp(right)),
        (Basic::Float(left), Basic::Float(right)) => left.partial_cmp(right),
        (Basic::Text(left), Basic::Text(right)) => Some(left.cmp(right)),
        _ => return Err(DIFFERENT.to_owned()),
    };
    let (less, equal) = (order == Some(Ordering::Less), order == Some(Ordering::Equal));
    Ok(match operator {
        "<" => less,
        "<=" => less || equal,
        ">" => !(less || equal),
        ">=" => !less,
        "==" => equal,
        _ => !equal,
    })
}
