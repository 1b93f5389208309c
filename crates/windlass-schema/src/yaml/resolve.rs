//! The meaning of a plain scalar in YAML 1.1, as in kube-apiserver's library.

/// A scalar.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Scalar {
    Null,
    Bool(bool),
    Int(i64),
    /// An integer beyond the signed range.
    Uint(u64),
    Float(f64),
    /// A date or time; it remains a string.
    Timestamp,
    Text,
}

/// Resolves the type of an unquoted scalar.
pub(super) fn resolve(text: &str) -> Scalar {
    let Some(first) = text.bytes().next() else { return Scalar::Null };
    match first {
        b'y' | b'Y' | b'n' | b'N' | b't' | b'T' | b'f' | b'F' | b'o' | b'O' | b'~' => match text {
            "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => Scalar::Bool(true),
            "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => Scalar::Bool(false),
            "~" | "null" | "Null" | "NULL" => Scalar::Null,
            _ => Scalar::Text,
        },
        b'.' => match text {
            ".nan" | ".NaN" | ".NAN" => Scalar::Float(f64::NAN),
            ".inf" | ".Inf" | ".INF" => Scalar::Float(f64::INFINITY),
            _ if is_float(text) => float(text),
            _ => Scalar::Text,
        },
        b'+' | b'-' | b'0'..=b'9' => number(text),
        _ => Scalar::Text,
    }
}

fn float(text: &str) -> Scalar {
    text.parse().ok().filter(|value: &f64| value.is_finite()).map_or(Scalar::Text, Scalar::Float)
}

fn number(text: &str) -> Scalar {
    match text {
        "+.inf" | "+.Inf" | "+.INF" => return Scalar::Float(f64::INFINITY),
        "-.inf" | "-.Inf" | "-.INF" => return Scalar::Float(f64::NEG_INFINITY),
        _ if is_timestamp(text) => return Scalar::Timestamp,
        _ => {}
    }
    let plain = text.replace('_', "");
    if let Some(whole) = integer(&plain) {
        return whole;
    }
    if is_float(&plain) { float(&plain) } else { Scalar::Text }
}

/// Parses an integer with Go's prefixes: `0x`, `0o`, `0b`, and a bare `0` for octal.
fn integer(text: &str) -> Option<Scalar> {
    let (negative, digits) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let signed = digits.len() != text.len();
    let (radix, digits) = match digits.get(..2).map(str::to_ascii_lowercase).as_deref() {
        Some("0x") => (16, &digits[2..]),
        Some("0o") => (8, &digits[2..]),
        Some("0b") => (2, &digits[2..]),
        _ if digits.len() > 1 && digits.starts_with('0') => (8, &digits[1..]),
        _ => (10, digits),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let value = i128::from_str_radix(digits, radix).ok()?;
    let value = if negative { -value } else { value };
    match i64::try_from(value) {
        Ok(value) => Some(Scalar::Int(value)),
        Err(_) if signed => None,
        Err(_) => u64::try_from(value).ok().map(Scalar::Uint),
    }
}

/// `[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?`
fn is_float(text: &str) -> bool {
    let rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let whole = rest.bytes().take_while(u8::is_ascii_digit).count();
    let mut rest = &rest[whole..];
    if let Some(after) = rest.strip_prefix('.') {
        let fraction = after.bytes().take_while(u8::is_ascii_digit).count();
        if whole + fraction == 0 {
            return false;
        }
        rest = &after[fraction..];
    } else if whole == 0 {
        return false;
    }
    match rest.strip_prefix(['e', 'E']) {
        None => rest.is_empty(),
        Some(exponent) => {
            let digits = exponent.strip_prefix(['-', '+']).unwrap_or(exponent);
            !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit())
        }
    }
}

/// Parses a number of one or two digits within bounds; also returns the rest.
fn part(text: &str, bounds: std::ops::RangeInclusive<u32>) -> Option<(u32, &str)> {
    let length = text.bytes().take(2).take_while(u8::is_ascii_digit).count();
    let value: u32 = text[..length].parse().ok()?;
    bounds.contains(&value).then(|| (value, &text[length..]))
}

/// Returns whether the text is a date, or a date and a time, in a form that the library supports.
pub(super) fn is_timestamp(text: &str) -> bool {
    timestamp(text).is_some()
}

fn timestamp(text: &str) -> Option<()> {
    let year: i64 = text.get(..4).filter(|y| y.bytes().all(|b| b.is_ascii_digit()))?.parse().ok()?;
    let (month, rest) = part(text[4..].strip_prefix('-')?, 1..=12)?;
    let (day, rest) = part(rest.strip_prefix('-')?, 1..=31)?;
    if i64::from(day) > crate::time::days_in(i64::from(month), year) {
        return None;
    }
    let Some(separator) = rest.chars().next() else { return Some(()) };
    if !matches!(separator, 'T' | 't' | ' ') {
        return None;
    }
    let (_, rest) = part(&rest[1..], 0..=23)?;
    let (_, rest) = part(rest.strip_prefix(':')?, 0..=59)?;
    let (_, mut rest) = part(rest.strip_prefix(':')?, 0..=59)?;
    if let Some(after) = rest.strip_prefix(['.', ',']) {
        let digits = after.bytes().take_while(u8::is_ascii_digit).count();
        if digits == 0 {
            return None;
        }
        rest = &after[digits..];
    }
    let ends = match separator {
        ' ' => rest.is_empty(),
        _ => rest == "Z" || is_offset(rest),
    };
    ends.then_some(())
}

fn is_offset(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.len() == 6
        && matches!(bytes[0], b'+' | b'-')
        && bytes[3] == b':'
        && part(&text[1..3], 0..=24).is_some_and(|(_, rest)| rest.is_empty())
        && part(&text[4..], 0..=60).is_some_and(|(_, rest)| rest.is_empty())
}
