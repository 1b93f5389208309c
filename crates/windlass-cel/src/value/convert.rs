//! Conversions between types.

use windlass_schema::go_format;

use super::{EvalError, Opaque, Outcome, Timestamp, Value, time};

impl<'a> Value<'a> {
    /// Converts with `int(x)`, `string(x)` and so on, given the name of the function.
    ///
    /// # Errors
    /// Returns an error if there is no such conversion, or the value is out of range.
    pub fn convert(&self, function: &str) -> Outcome<'a> {
        match function {
            "bool" => self.to_bool(),
            "bytes" => self.to_bytes(),
            "double" => self.to_double(),
            "duration" => self.to_duration(),
            "int" => self.to_int(),
            "string" => self.to_text(),
            "timestamp" => self.to_timestamp(),
            "uint" => self.to_uint(),
            _ => Err(self.no_conversion(function)),
        }
    }

    /// `type(x)`
    pub fn type_of(&self) -> Value<'a> {
        Value::Type(self.type_name().into())
    }

    fn no_overload(&self, function: &str) -> EvalError {
        EvalError::new(format!("no such overload: {function}({})", self.type_name()))
    }

    fn no_conversion(&self, target: &str) -> EvalError {
        EvalError::new(format!("type conversion error from '{}' to '{target}'", self.type_name()))
    }

    fn to_bool(&self) -> Outcome<'a> {
        match self {
            Value::Bool(value) => Ok(Value::Bool(*value)),
            Value::String(text) => {
                go_format::parse_bool(text).map(Value::Bool).ok_or_else(|| self.no_conversion("bool"))
            }
            _ => Err(self.no_overload("bool")),
        }
    }

    fn to_bytes(&self) -> Outcome<'a> {
        match self {
            Value::Bytes(_) => Ok(self.clone()),
            Value::String(text) => Ok(Value::Bytes(text.as_bytes().into())),
            _ => Err(self.no_overload("bytes")),
        }
    }

    fn to_double(&self) -> Outcome<'a> {
        match self {
            Value::Double(value) => Ok(Value::Double(*value)),
            Value::Int(value) => Ok(Value::Double(*value as f64)),
            Value::Uint(value) => Ok(Value::Double(*value as f64)),
            Value::String(text) => parse_double(text).map(Value::Double).ok_or_else(|| self.no_conversion("double")),
            _ => Err(self.no_overload("double")),
        }
    }

    fn to_duration(&self) -> Outcome<'a> {
        match self {
            Value::Duration(nanos) => Ok(Value::Duration(*nanos)),
            Value::String(text) => windlass_schema::time::parse_duration(text)
                .map(Value::Duration)
                .map_err(|_| self.no_conversion("google.protobuf.Duration")),
            Value::Int(_) => Err(self.no_conversion("google.protobuf.Duration")),
            _ => Err(self.no_overload("duration")),
        }
    }

    fn to_int(&self) -> Outcome<'a> {
        let overflow = || EvalError::new("integer overflow");
        match self {
            Value::Int(value) => Ok(Value::Int(*value)),
            Value::Uint(value) => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
            Value::Double(value) => {
                if *value > i64::MIN as f64 && *value < i64::MAX as f64 {
                    Ok(Value::Int(*value as i64))
                } else {
                    Err(overflow())
                }
            }
            Value::Duration(nanos) => Ok(Value::Int(*nanos)),
            Value::Timestamp(time) => Ok(Value::Int(time.unix_seconds())),
            Value::String(text) => text.parse().map(Value::Int).map_err(|_| self.no_conversion("int")),
            _ => Err(self.no_overload("int")),
        }
    }

    fn to_uint(&self) -> Outcome<'a> {
        let overflow = || EvalError::new("unsigned integer overflow");
        match self {
            Value::Uint(value) => Ok(Value::Uint(*value)),
            Value::Int(value) => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
            Value::Double(value) => {
                if *value >= 0.0 && *value < u64::MAX as f64 {
                    Ok(Value::Uint(*value as u64))
                } else {
                    Err(overflow())
                }
            }
            Value::String(text) if !text.starts_with('+') => {
                text.parse().map(Value::Uint).map_err(|_| self.no_conversion("uint"))
            }
            Value::String(_) => Err(self.no_conversion("uint")),
            _ => Err(self.no_overload("uint")),
        }
    }

    fn to_timestamp(&self) -> Outcome<'a> {
        match self {
            Value::Timestamp(time) => Ok(Value::Timestamp(*time)),
            Value::Int(seconds) => Timestamp::from_unix(*seconds).map(Value::Timestamp),
            Value::String(text) => match Timestamp::parse_in_range(text) {
                Some(time) => time.map(Value::Timestamp),
                None => Err(self.no_conversion("google.protobuf.Timestamp")),
            },
            _ => Err(self.no_overload("timestamp")),
        }
    }

    /// `string(x)`
    fn to_text(&self) -> Outcome<'a> {
        Ok(Value::string(match self {
            Value::String(_) => return Ok(self.clone()),
            Value::Bool(value) => value.to_string(),
            Value::Int(value) => value.to_string(),
            Value::Uint(value) => value.to_string(),
            Value::Double(value) => go_format::float(*value),
            Value::Bytes(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => text.to_owned(),
                Err(_) => return Err(EvalError::new("invalid UTF-8 in bytes, cannot convert to string")),
            },
            Value::Duration(nanos) => format!("{}s", time::duration_seconds(*nanos)),
            Value::Timestamp(time) => time.to_rfc3339_nano(),
            Value::Opaque(value) => match &**value {
                Opaque::Ip(ip) => ip.to_string(),
                Opaque::Cidr(cidr) => format!("{}/{}", cidr.address, cidr.bits),
                _ => return Err(self.no_overload("string")),
            },
            _ => return Err(self.no_overload("string")),
        }))
    }
}

/// Parses a number like Go: decimal or hexadecimal, infinities and not-a-number by name.
fn parse_double(text: &str) -> Option<f64> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let lower = digits.to_ascii_lowercase();
    let magnitude = match lower.as_str() {
        "inf" | "infinity" => f64::INFINITY,
        "nan" if digits.len() == text.len() => f64::NAN,
        "nan" => return None,
        _ if lower.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'+' | b'-')) => {
            let value: f64 = lower.parse().ok()?;
            if value.is_infinite() {
                return None;
            }
            value
        }
        _ => return None,
    };
    Some(if negative { -magnitude } else { magnitude })
}
