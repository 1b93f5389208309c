//! `'%s'.format([..])`

use windlass_schema::go_format::quote;

use super::{Call, Table};
use crate::value::{EvalError, List, Map, Outcome, Value};

pub(crate) const FUNCTIONS: &Table = &[("format", format)];

const DEFAULT_PRECISION: usize = 6;

fn format<'a>(call: Call<'_, 'a>) -> Outcome<'a> {
    match &*call.arguments {
        [Value::String(template), Value::List(arguments)] => {
            fill(template, arguments).map(Value::string).map_err(EvalError::new)
        }
        _ => Err(call.mismatch()),
    }
}

fn fill(template: &str, arguments: &List<'_>) -> Result<String, String> {
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    let mut index = 0;
    while let Some(at) = rest.find('%') {
        out.push_str(&rest[..at]);
        rest = &rest[at + 1..];
        if let Some(after) = rest.strip_prefix('%') {
            out.push('%');
            rest = after;
            continue;
        }
        let argument = match arguments.get(index) {
            Some(argument) => argument.map_err(|error| error.to_string())?,
            None => return Err(format!("index {index} out of range")),
        };
        if rest.is_empty() {
            return Err("unexpected end of string".to_owned());
        }
        let clause = Clause::parse(&mut rest).map_err(|error| format!("could not parse formatting clause: {error}"))?;
        out.push_str(&clause.apply(&argument).map_err(|error| format!("error during formatting: {error}"))?);
        index += 1;
    }
    out.push_str(rest);
    Ok(out)
}

/// The clause after a percent sign.
struct Clause {
    verb: char,
    precision: usize,
}

impl Clause {
    fn parse(rest: &mut &str) -> Result<Clause, String> {
        let mut precision = DEFAULT_PRECISION;
        if let Some(after) = rest.strip_prefix('.') {
            let Some(end) = after.find(|c: char| !c.is_ascii_digit()) else {
                return Err("error while parsing precision: could not find end of precision specifier".to_owned());
            };
            precision = after[..end].parse().map_err(|_| {
                format!(
                    "error while parsing precision: error while converting precision to integer: strconv.Atoi: \
                     parsing {}: invalid syntax",
                    quote(&after[..end])
                )
            })?;
            *rest = &after[end..];
        }
        let verb = rest.chars().next().ok_or_else(|| "unexpected end of string".to_owned())?;
        if !matches!(verb, 's' | 'd' | 'f' | 'e' | 'b' | 'x' | 'X' | 'o') {
            return Err(format!("unrecognized formatting clause \"{verb}\""));
        }
        *rest = &rest[1..];
        Ok(Clause { verb, precision: precision.min(1000) })
    }

    fn apply(&self, value: &Value<'_>) -> Result<String, String> {
        let given = value.type_name();
        match (self.verb, value) {
            ('s', value) => text(value),
            ('d', Value::Int(_) | Value::Uint(_)) => Ok(value.display()),
            ('d', _) => Err(format!("decimal clause can only be used on integers, was given {given}")),
            ('f' | 'e', Value::Double(number)) => Ok(self.number(*number)),
            ('f' | 'e', Value::String(name)) => match &**name {
                "NaN" => Ok(self.number(f64::NAN)),
                "Infinity" => Ok(self.number(f64::INFINITY)),
                "-Infinity" => Ok(self.number(f64::NEG_INFINITY)),
                _ => Err(self.not_a_double(given)),
            },
            ('f' | 'e', _) => Err(self.not_a_double(given)),
            ('b', Value::Int(number)) => Ok(signed(*number, |magnitude| format!("{magnitude:b}"))),
            ('b', Value::Uint(number)) => Ok(format!("{number:b}")),
            ('b', Value::Bool(value)) => Ok(if *value { "1" } else { "0" }.to_owned()),
            ('b', _) => Err(format!("only integers and bools can be formatted as binary, was given {given}")),
            ('o', Value::Int(number)) => Ok(signed(*number, |magnitude| format!("{magnitude:o}"))),
            ('o', Value::Uint(number)) => Ok(format!("{number:o}")),
            ('o', _) => Err(format!("octal clause can only be used on integers, was given {given}")),
            (_, value) => {
                let digits = match value {
                    Value::Int(number) => signed(*number, |magnitude| format!("{magnitude:x}")),
                    Value::Uint(number) => format!("{number:x}"),
                    Value::String(text) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
                    Value::Bytes(bytes) => bytes.iter().map(|byte| format!("{byte:02x}")).collect(),
                    _ => {
                        return Err(format!(
                            "only integers, byte buffers, and strings can be formatted as hex, was given {given}"
                        ));
                    }
                };
                Ok(if self.verb == 'X' { digits.to_uppercase() } else { digits })
            }
        }
    }

    fn not_a_double(&self, given: &str) -> String {
        let name = if self.verb == 'f' { "fixed-point" } else { "scientific" };
        format!("{name} clause can only be used on doubles, was given {given}")
    }

    /// Formats a number with thousands separators, or in scientific notation, as in English.
    fn number(&self, number: f64) -> String {
        if number.is_nan() {
            return "NaN".to_owned();
        }
        if number.is_infinite() {
            return if number < 0.0 { "-∞" } else { "∞" }.to_owned();
        }
        if self.verb == 'e' {
            let scientific = format!("{number:.*e}", DEFAULT_PRECISION);
            let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
            let (sign, digits) = exponent.strip_prefix('-').map_or(("", exponent), |digits| ("-", digits));
            let digits: String = digits.chars().map(superscript).collect();
            let sign = if sign.is_empty() { "" } else { "⁻" };
            let digits = if digits.chars().count() < 2 { format!("⁰{digits}") } else { digits };
            return format!("{mantissa}×10{sign}{digits}");
        }
        let plain = format!("{number:.*}", self.precision);
        let (sign, digits) = plain.strip_prefix('-').map_or(("", &*plain), |digits| ("-", digits));
        let (whole, fraction) = digits.split_once('.').map_or((digits, None), |(w, f)| (w, Some(f)));
        let mut grouped = String::new();
        for (index, digit) in whole.chars().enumerate() {
            if index > 0 && (whole.len() - index).is_multiple_of(3) {
                grouped.push(',');
            }
            grouped.push(digit);
        }
        match fraction {
            Some(fraction) => format!("{sign}{grouped}.{fraction}"),
            None => format!("{sign}{grouped}"),
        }
    }
}

fn superscript(digit: char) -> char {
    match digit {
        '0' => '⁰',
        '1' => '¹',
        '2' => '²',
        '3' => '³',
        '4' => '⁴',
        '5' => '⁵',
        '6' => '⁶',
        '7' => '⁷',
        '8' => '⁸',
        _ => '⁹',
    }
}

fn signed(number: i64, digits: impl Fn(u64) -> String) -> String {
    let sign = if number < 0 { "-" } else { "" };
    format!("{sign}{}", digits(number.unsigned_abs()))
}

fn text(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::List(list) => list_text(list),
        Value::Map(map) => map_text(map),
        Value::Null => Ok("null".to_owned()),
        Value::Type(name) => Ok(name.to_string()),
        Value::Int(_)
        | Value::Uint(_)
        | Value::Double(_)
        | Value::Bool(_)
        | Value::String(_)
        | Value::Timestamp(_)
        | Value::Bytes(_)
        | Value::Duration(_) => match value.convert("string") {
            Ok(text) => Ok(text.display()),
            Err(error) => Err(format!("could not convert argument {} to string", quote(&error.to_string()))),
        },
        _ => Err(format!(
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, \
             and timestamps, was given {}",
            value.type_name()
        )),
    }
}

/// Formats a value within a list or map.
fn member_text(value: &Value<'_>) -> Result<String, String> {
    match value {
        Value::Int(_) | Value::Uint(_) => Ok(value.display()),
        Value::Double(number) if number.is_nan() => Ok("\"NaN\"".to_owned()),
        Value::Double(number) if number.is_infinite() => {
            Ok(if *number < 0.0 { "\"-Inf\"" } else { "\"+Inf\"" }.to_owned())
        }
        Value::Double(number) => Ok(format!("{number:.6}")),
        Value::String(text) => Ok(quote(text)),
        Value::Bytes(_) => text(value).map(|text| format!("b{}", quote(&text))),
        Value::Bool(_) | Value::Null | Value::Type(_) => text(value),
        Value::Timestamp(_) => text(value).map(|text| format!("timestamp({})", quote(&text))),
        Value::Duration(_) => text(value).map(|text| format!("duration({})", quote(&text))),
        Value::List(list) => list_text(list),
        Value::Map(map) => map_text(map),
        _ => Err(format!("no formatting function for {}", value.type_name())),
    }
}

fn list_text(list: &List<'_>) -> Result<String, String> {
    let mut members = Vec::with_capacity(list.len());
    for item in list.iter() {
        members.push(member_text(&item.map_err(|error| error.to_string())?)?);
    }
    Ok(format!("[{}]", members.join(", ")))
}

fn map_text(map: &Map<'_>) -> Result<String, String> {
    let mut members = Vec::with_capacity(map.len());
    for key in map.keys() {
        let name = match &key {
            Value::String(text) => quote(text),
            Value::Bool(_) | Value::Int(_) | Value::Uint(_) => key.display(),
            other => return Err(format!("no formatting function for map key of type {}", other.type_name())),
        };
        let value = map.find(&key).map_err(|error| error.to_string())?;
        let value = value.ok_or_else(|| format!("could not find key: {}", quote(&key.display())))?;
        members.push((name, member_text(&value)?));
    }
    members.sort();
    let members: Vec<_> = members.into_iter().map(|(key, value)| format!("{key}:{value}")).collect();
    Ok(format!("{{{}}}", members.join(", ")))
}
