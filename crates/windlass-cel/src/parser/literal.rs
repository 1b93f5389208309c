//! Values of literals.

use crate::ast::Literal;

const INVALID: &str = "unable to unescape string";

/// Parses an integer, with its sign.
///
/// # Errors
/// Returns an error if it is out of range.
pub(super) fn integer(text: &str, negative: bool) -> Result<Literal, &'static str> {
    let magnitude = magnitude(text).ok_or("invalid int literal")?;
    let value = if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() };
    value.map(Literal::Int).ok_or("invalid int literal")
}

/// Parses an unsigned integer, including its suffix.
///
/// # Errors
/// Returns an error if it is out of range.
pub(super) fn unsigned(text: &str) -> Result<Literal, &'static str> {
    magnitude(&text[..text.len() - 1]).map(Literal::Uint).ok_or("invalid uint literal")
}

/// Parses a number with a fraction or exponent.
///
/// # Errors
/// Returns an error if it is out of range.
pub(super) fn double(text: &str, negative: bool) -> Result<Literal, &'static str> {
    let value: f64 = text.parse().map_err(|_| "invalid double literal")?;
    if value.is_infinite() {
        return Err("invalid double literal");
    }
    Ok(Literal::Double(if negative { -value } else { value }))
}

fn magnitude(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Parses a string, including its quotes and prefix.
///
/// # Errors
/// Returns an error if an escape is not a valid character.
pub(super) fn string(text: &str) -> Result<String, &'static str> {
    String::from_utf8(unescape(text, false)?).map_err(|_| INVALID)
}

/// Parses a byte string, including its quotes and prefixes.
///
/// # Errors
/// Returns an error if an escape is above 255.
pub(super) fn bytes(text: &str) -> Result<Vec<u8>, &'static str> {
    unescape(&text[1..], true)
}

fn unescape(text: &str, bytes: bool) -> Result<Vec<u8>, &'static str> {
    let text = if text.contains('\r') { text.replace("\r\n", "\n").replace('\r', "\n") } else { text.to_owned() };
    let raw = text.starts_with(['r', 'R']);
    let quoted = &text[raw as usize..];
    let quotes = if quoted.len() >= 6 && (quoted.starts_with("'''") || quoted.starts_with("\"\"\"")) { 3 } else { 1 };
    let inner = quoted.get(quotes..quoted.len() - quotes).ok_or(INVALID)?;
    if raw || !inner.contains('\\') {
        return Ok(inner.as_bytes().to_vec());
    }
    let mut value = Vec::with_capacity(inner.len());
    let mut rest = inner;
    while let Some(at) = rest.find('\\') {
        value.extend_from_slice(&rest.as_bytes()[..at]);
        rest = escape(&rest[at + 1..], bytes, &mut value)?;
    }
    value.extend_from_slice(rest.as_bytes());
    Ok(value)
}

/// Appends the value of an escape and returns the text after it.
fn escape<'a>(text: &'a str, bytes: bool, value: &mut Vec<u8>) -> Result<&'a str, &'static str> {
    let kind = *text.as_bytes().first().ok_or("unable to unescape string, found '\\' as last character")?;
    let simple = match kind {
        b'a' => Some(0x07),
        b'b' => Some(0x08),
        b'f' => Some(0x0c),
        b'n' => Some(b'\n'),
        b'r' => Some(b'\r'),
        b't' => Some(b'\t'),
        b'v' => Some(0x0b),
        b'\\' | b'\'' | b'"' | b'`' | b'?' => Some(kind),
        _ => None,
    };
    if let Some(byte) = simple {
        value.push(byte);
        return Ok(&text[1..]);
    }
    let (start, length, radix, failure) = match kind {
        b'x' | b'X' => (1, 2, 16, INVALID),
        b'u' if !bytes => (1, 4, 16, INVALID),
        b'U' if !bytes => (1, 8, 16, INVALID),
        b'0'..=b'3' => (0, 3, 8, "unable to unescape octal sequence in string"),
        _ => return Err(INVALID),
    };
    let digits = text.get(start..start + length).ok_or(failure)?;
    let code = u32::from_str_radix(digits, radix).map_err(|_| failure)?;
    if bytes {
        value.push(code as u8);
    } else {
        let character = char::from_u32(code).ok_or("invalid unicode code point")?;
        value.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
    }
    Ok(&text[start + length..])
}
