//! Arithmetic and ordering.

use std::cmp::Ordering;
use std::collections::HashMap;

use windlass_schema::{sorting::Gather as _, structural::ListType};

use super::equality::{ElementSet, escaped, map_key};
use super::{EvalError, List, Outcome, Value};

fn overflow() -> EvalError {
    EvalError::new("integer overflow")
}

fn unsigned_overflow() -> EvalError {
    EvalError::new("unsigned integer overflow")
}

fn int<'a>(value: Option<i64>) -> Outcome<'a> {
    value.map(Value::Int).ok_or_else(overflow)
}

fn uint<'a>(value: Option<u64>) -> Outcome<'a> {
    value.map(Value::Uint).ok_or_else(unsigned_overflow)
}

impl<'a> Value<'a> {
    /// Returns the error for a function that the value's type does not have at all. Types with methods of their own do
    /// not report which one was called.
    pub(crate) fn unsupported(&self, function: &str) -> EvalError {
        match self {
            Value::String(_) | Value::Duration(_) | Value::Timestamp(_) => EvalError::no_such_overload(),
            _ => EvalError::new(format!("no such overload: {function}")),
        }
    }

    /// `self + other`. Lists of the object are added according to their list type.
    ///
    /// # Errors
    /// Returns an error if the values cannot be added, or the sum is too large.
    pub fn plus(self, other: &Value<'a>) -> Outcome<'a> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => int(a.checked_add(*b)),
            (Value::Uint(a), Value::Uint(b)) => uint(a.checked_add(*b)),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a + b)),
            (Value::String(a), Value::String(b)) => {
                let mut text = String::with_capacity(a.len() + b.len());
                text.push_str(&a);
                text.push_str(b);
                Ok(Value::string(text))
            }
            (Value::Bytes(a), Value::Bytes(b)) => Ok(Value::Bytes([&*a, &**b].concat().into())),
            (Value::Duration(a), Value::Duration(b)) => a.checked_add(*b).map(Value::Duration).ok_or_else(overflow),
            (Value::Duration(a), Value::Timestamp(b)) => b.add(a).map(Value::Timestamp),
            (Value::Timestamp(a), Value::Duration(b)) => a.add(*b).map(Value::Timestamp),
            (Value::List(a), Value::List(b)) => add_lists(a, b).map(Value::List),
            (
                Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
                | Value::String(_)
                | Value::Bytes(_)
                | Value::Duration(_)
                | Value::Timestamp(_)
                | Value::List(_),
                _,
            ) => Err(EvalError::no_such_overload()),
            (other, _) => Err(other.unsupported("_+_")),
        }
    }

    /// `self - other`.
    ///
    /// # Errors
    /// Returns an error if the values cannot be subtracted, or the difference is too large.
    pub fn subtract(&self, other: &Value<'a>) -> Outcome<'a> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => int(a.checked_sub(*b)),
            (Value::Uint(a), Value::Uint(b)) => uint(a.checked_sub(*b)),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a - b)),
            (Value::Duration(a), Value::Duration(b)) => a.checked_sub(*b).map(Value::Duration).ok_or_else(overflow),
            (Value::Timestamp(a), Value::Timestamp(b)) => a.since(*b).map(Value::Duration),
            (Value::Timestamp(a), Value::Duration(b)) => {
                b.checked_neg().ok_or_else(overflow).and_then(|b| a.add(b)).map(Value::Timestamp)
            }
            (Value::Int(_) | Value::Uint(_) | Value::Double(_) | Value::Duration(_) | Value::Timestamp(_), _) => {
                Err(EvalError::no_such_overload())
            }
            _ => Err(self.unsupported("_-_")),
        }
    }

    /// `self * other`.
    ///
    /// # Errors
    /// Returns an error if the values cannot be multiplied, or the product is too large.
    pub fn multiply(&self, other: &Value<'a>) -> Outcome<'a> {
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => int(a.checked_mul(*b)),
            (Value::Uint(a), Value::Uint(b)) => uint(a.checked_mul(*b)),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a * b)),
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => Err(EvalError::no_such_overload()),
            _ => Err(self.unsupported("_*_")),
        }
    }

    /// `self / other`.
    ///
    /// # Errors
    /// Returns an error if the values cannot be divided, or the divisor is zero.
    pub fn divide(&self, other: &Value<'a>) -> Outcome<'a> {
        match (self, other) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => {
                Err(EvalError::new("division by zero"))
            }
            (Value::Int(a), Value::Int(b)) => int(a.checked_div(*b)),
            (Value::Uint(a), Value::Uint(b)) => uint(a.checked_div(*b)),
            (Value::Double(a), Value::Double(b)) => Ok(Value::Double(a / b)),
            (Value::Int(_) | Value::Uint(_) | Value::Double(_), _) => Err(EvalError::no_such_overload()),
            _ => Err(self.unsupported("_/_")),
        }
    }

    /// `self % other`.
    ///
    /// # Errors
    /// Returns an error if the values cannot be divided, or the divisor is zero.
    pub fn modulo(&self, other: &Value<'a>) -> Outcome<'a> {
        match (self, other) {
            (Value::Int(_), Value::Int(0)) | (Value::Uint(_), Value::Uint(0)) => Err(EvalError::new("modulus by zero")),
            (Value::Int(a), Value::Int(b)) => int(a.checked_rem(*b)),
            (Value::Uint(a), Value::Uint(b)) => uint(a.checked_rem(*b)),
            (Value::Int(_) | Value::Uint(_), _) => Err(EvalError::no_such_overload()),
            _ => Err(self.unsupported("_%_")),
        }
    }

    /// `-self`.
    ///
    /// # Errors
    /// Returns an error if the value is not a number or duration, or is the minimum of its type.
    pub fn negate(&self) -> Outcome<'a> {
        match self {
            Value::Int(value) => int(value.checked_neg()),
            Value::Double(value) => Ok(Value::Double(-value)),
            Value::Duration(nanos) => nanos.checked_neg().map(Value::Duration).ok_or_else(overflow),
            Value::Bool(_) => Err(EvalError::no_such_overload()),
            _ => Err(self.unsupported("-_")),
        }
    }

    /// Compares two values.
    ///
    /// # Errors
    /// Returns an error if they have no order.
    pub fn compare(&self, other: &Value<'a>) -> Result<Ordering, EvalError> {
        let ordered = |order: Option<Ordering>| order.ok_or_else(|| EvalError::new("NaN values cannot be ordered"));
        match (self, other) {
            (Value::Int(a), Value::Int(b)) => Ok(a.cmp(b)),
            (Value::Uint(a), Value::Uint(b)) => Ok(a.cmp(b)),
            (Value::Double(a), Value::Double(b)) => ordered(a.partial_cmp(b)),
            (Value::Int(a), Value::Uint(b)) => Ok(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Uint(a), Value::Int(b)) => Ok(i128::from(*a).cmp(&i128::from(*b))),
            (Value::Int(a), Value::Double(b)) => ordered(int_double(*a, *b)),
            (Value::Double(a), Value::Int(b)) => ordered(int_double(*b, *a).map(Ordering::reverse)),
            (Value::Uint(a), Value::Double(b)) => ordered(uint_double(*a, *b)),
            (Value::Double(a), Value::Uint(b)) => ordered(uint_double(*b, *a).map(Ordering::reverse)),
            (Value::Bool(a), Value::Bool(b)) => Ok(a.cmp(b)),
            (Value::String(a), Value::String(b)) => Ok(a.cmp(b)),
            (Value::Bytes(a), Value::Bytes(b)) => Ok(a.cmp(b)),
            (Value::Duration(a), Value::Duration(b)) => Ok(a.cmp(b)),
            (Value::Timestamp(a), Value::Timestamp(b)) => Ok(a.cmp(b)),
            _ => Err(EvalError::no_such_overload()),
        }
    }

    /// Returns whether values of its type have an order.
    pub fn is_comparable(&self) -> bool {
        matches!(
            self,
            Value::Int(_)
                | Value::Uint(_)
                | Value::Double(_)
                | Value::Bool(_)
                | Value::String(_)
                | Value::Bytes(_)
                | Value::Duration(_)
                | Value::Timestamp(_)
        )
    }
}

fn int_double(a: i64, b: f64) -> Option<Ordering> {
    if b < i64::MIN as f64 {
        return Some(Ordering::Greater);
    }
    if b > i64::MAX as f64 {
        return Some(Ordering::Less);
    }
    (a as f64).partial_cmp(&b)
}

fn uint_double(a: u64, b: f64) -> Option<Ordering> {
    if b < 0.0 {
        return Some(Ordering::Greater);
    }
    if b > u64::MAX as f64 {
        return Some(Ordering::Less);
    }
    (a as f64).partial_cmp(&b)
}

fn add_lists<'a>(a: List<'a>, b: &List<'a>) -> Result<List<'a>, EvalError> {
    match a.list_type() {
        ListType::Absent | ListType::Atomic => {
            if !a.is_typed() && a.is_empty() && b.is_typed() {
                return Ok(b.clone());
            }
            a.append(b)
        }
        ListType::Set => {
            let mut items = a.iter().collect::<Result<Vec<_>, _>>()?;
            let mut set = ElementSet::new(items.iter().cloned());
            for other in b.iter() {
                let other = other?;
                if set.insert(&other) {
                    items.push(other);
                }
            }
            Ok(a.with_items(items))
        }
        ListType::Map(keys) => {
            let keys = escaped(keys);
            let mut items = a.iter().collect::<Result<Vec<_>, _>>()?;
            let places = items.iter().enumerate().filter_map(|(place, item)| Some((map_key(item, &keys)?, place)));
            let places: HashMap<_, _> = places.gather();
            for other in b.iter() {
                let other = other?;
                match map_key(&other, &keys).and_then(|key| places.get(&key)) {
                    Some(place) => items[*place] = other,
                    None => items.push(other),
                }
            }
            Ok(a.with_items(items))
        }
    }
}
