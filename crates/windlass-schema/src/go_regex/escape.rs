//! Single characters: parsing escapes that represent one, and writing literal characters.

use std::fmt::Write;

use super::PatternError;
use super::parser::{INVALID_ESCAPE, error};

/// An empty class, which may be used on its own and within a class.
pub(super) const NOTHING: &str = "[^\\x{0}-\\x{10FFFF}]";

/// Writes a literal character. Surrogates never occur in a string.
pub(super) fn write_char(out: &mut String, code: u32) {
    match char::from_u32(code) {
        Some(c) if c.is_ascii_alphanumeric() || !c.is_ascii() => out.push(c),
        Some(_) => drop(write!(out, "\\x{{{code:x}}}")),
        None => out.push_str(NOTHING),
    }
}

/// Writes a range of characters as part of a class, without the surrogates.
pub(super) fn write_range(out: &mut String, low: u32, high: u32) {
    let low = if char::from_u32(low).is_none() { 0xe000 } else { low };
    let high = if char::from_u32(high).is_none() { 0xd7ff } else { high };
    match low.cmp(&high) {
        std::cmp::Ordering::Less => drop(write!(out, "\\x{{{low:x}}}-\\x{{{high:x}}}")),
        std::cmp::Ordering::Equal => write_char(out, low),
        std::cmp::Ordering::Greater => out.push_str(NOTHING),
    }
}

/// Returns the character that an escape represents, and the length of the escape.
pub(super) fn char_escape(rest: &str) -> Result<(u32, usize), PatternError> {
    let Some(c) = rest[1..].chars().next() else {
        return error("trailing backslash at end of expression", "");
    };
    let start = 1 + c.len_utf8();
    let after = &rest[start..];
    let octal = |b: &u8| matches!(b, b'0'..=b'7');
    let simple = match c {
        'a' => 7,
        'f' => 12,
        'n' => 10,
        'r' => 13,
        't' => 9,
        'v' => 11,
        '0' => return Ok(octal_escape(&rest[1..])),
        '1'..='7' if after.as_bytes().first().is_some_and(octal) => return Ok(octal_escape(&rest[1..])),
        'x' => return hex_escape(rest),
        c if c.is_ascii() && !c.is_ascii_alphanumeric() => c as u32,
        _ => return error(INVALID_ESCAPE, &rest[..start]),
    };
    Ok((simple, start))
}

fn octal_escape(digits: &str) -> (u32, usize) {
    let length = digits.bytes().take(3).take_while(|b| matches!(b, b'0'..=b'7')).count();
    (u32::from_str_radix(&digits[..length], 8).unwrap_or_default(), 1 + length)
}

fn hex_escape(rest: &str) -> Result<(u32, usize), PatternError> {
    let mut characters = rest[2..].char_indices().map(|(index, c)| (index + 2 + c.len_utf8(), c));
    let mut value = 0;
    match characters.next() {
        None => error(INVALID_ESCAPE, rest),
        Some((_, '{')) => {
            for (digits, (end, c)) in characters.enumerate() {
                match c.to_digit(16) {
                    Some(digit) if value * 16 + digit <= char::MAX as u32 => value = value * 16 + digit,
                    None if c == '}' && digits > 0 => return Ok((value, end)),
                    _ => return error(INVALID_ESCAPE, &rest[..end]),
                }
            }
            error(INVALID_ESCAPE, rest)
        }
        Some((_, first)) => match (first.to_digit(16), characters.next()) {
            (Some(high), Some((end, second))) => match second.to_digit(16) {
                Some(low) => Ok((high * 16 + low, end)),
                None => error(INVALID_ESCAPE, &rest[..end]),
            },
            (None, Some((end, _))) => error(INVALID_ESCAPE, &rest[..end]),
            (_, None) => error(INVALID_ESCAPE, rest),
        },
    }
}
