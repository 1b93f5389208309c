//! Percent-encoding: which bytes each part of a URL may contain unescaped.

use std::fmt::Write;

use crate::go_format::{quote, quote_bytes};

/// The parts of a URL.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Part {
    User,
    Host,
    /// The zone of an IPv6 address.
    Zone,
    Path,
    Query,
    Fragment,
}

impl Part {
    /// Returns whether a byte may be unescaped.
    fn has(self, byte: u8) -> bool {
        let others: &[u8] = match self {
            Part::User => b"$&+,;=",
            Part::Host | Part::Zone => b"!$&'()*+,;=:[]<>\"",
            Part::Path => b"$&+,/:;=@",
            Part::Query => b"",
            Part::Fragment => b"$&+,/:;=?@!()*",
        };
        byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) || others.contains(&byte)
    }
}

/// Unescapes a string.
pub(super) fn unescape(text: &str, part: Part) -> Result<Vec<u8>, String> {
    let bytes = text.as_bytes();
    let mut out = Vec::with_capacity(bytes.len());
    let mut at = 0;
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        match byte {
            b'%' => {
                let fail = || {
                    let shown = &bytes[at - 1..(at + 2).min(bytes.len())];
                    Err(format!("invalid URL escape {}", quote_bytes(shown)))
                };
                let Some(value) = bytes.get(at..at + 2).and_then(hexadecimal) else { return fail() };
                let allowed = match part {
                    Part::Host => value >= 0x80,
                    Part::Zone => value == b' ' || part.has(value),
                    _ => true,
                };
                if !allowed && value != b'%' {
                    return fail();
                }
                out.push(value);
                at += 2;
            }
            b'+' if part == Part::Query => out.push(b' '),
            byte if matches!(part, Part::Host | Part::Zone) && byte.is_ascii() && !part.has(byte) => {
                return Err(format!("invalid character {} in host name", quote(&char::from(byte).to_string())));
            }
            byte => out.push(byte),
        }
    }
    Ok(out)
}

fn hexadecimal(digits: &[u8]) -> Option<u8> {
    digits.iter().try_fold(0, |value, digit| Some(value << 4 | char::from(*digit).to_digit(16)? as u8))
}

/// Escapes the bytes that are not allowed in a part.
pub(super) fn escape(bytes: &[u8], part: Part) -> String {
    let mut out = String::with_capacity(bytes.len());
    for byte in bytes {
        if part.has(*byte) {
            out.push(char::from(*byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

/// Returns whether a string is a valid encoding of a part.
pub(super) fn is_encoded(text: &str, part: Part) -> bool {
    text.bytes().all(|byte| part.has(byte) || b"!$&'()*+,;=:@[]%".contains(&byte))
}

/// Converts bytes to a string.
pub(super) fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8(bytes).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned())
}
