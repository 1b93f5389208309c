//! Go string quoting.

use std::fmt::Write;
use std::sync::LazyLock;

use regex::Regex;

static UNPRINTABLE: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"[^\p{L}\p{M}\p{N}\p{P}\p{S} ]").expect("the pattern must compile"));

/// Returns whether a character is a letter, a mark, a number, punctuation, a symbol or the space.
pub fn is_printable(c: char) -> bool {
    if c.is_ascii() { matches!(c, ' '..='~') } else { !UNPRINTABLE.is_match(c.encode_utf8(&mut [0; 4])) }
}

/// Returns the index of the first unprintable character.
pub fn first_unprintable(text: &str) -> Option<usize> {
    UNPRINTABLE.find(text).map(|found| found.start())
}

/// Quotes a string like Go's `%q`.
pub fn quote(text: &str) -> String {
    quote_bytes(text.as_bytes())
}

/// Quotes bytes, which may not be UTF-8, like Go's `%q`.
pub fn quote_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len() + 2);
    out.push('"');
    for chunk in bytes.utf8_chunks() {
        write_escaped(&mut out, chunk.valid());
        for byte in chunk.invalid() {
            let _ = write!(out, "\\x{byte:02x}");
        }
    }
    out.push('"');
    out
}

fn write_escaped(out: &mut String, text: &str) {
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            '\x07' => out.push_str("\\a"),
            '\x08' => out.push_str("\\b"),
            '\x0c' => out.push_str("\\f"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\x0b' => out.push_str("\\v"),
            c if is_printable(c) => out.push(c),
            c => {
                let code = u32::from(c);
                let _ = match code {
                    0..0x80 => write!(out, "\\x{code:02x}"),
                    0x80..0x1_0000 => write!(out, "\\u{code:04x}"),
                    _ => write!(out, "\\U{code:08x}"),
                };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unprintable_characters_are_escaped() {
        let text =
            "a\"\\\x07\x08\x0c\n\r\t\x0b\0\x7f\u{85}\u{a0}é\u{ad}\u{200b}\u{2028}\u{feff}😀\u{e000}\u{10ffff}\u{e0001}";
        let expected =
            r#""a\"\\\a\b\f\n\r\t\v\x00\x7f\u0085\u00a0é\u00ad\u200b\u2028\ufeff😀\ue000\U0010ffff\U000e0001""#;
        assert_eq!(quote(text), expected);
        assert_eq!(quote_bytes(b"a\xc3\"\xe2\x82"), r#""a\xc3\"\xe2\x82""#);
        assert_eq!(first_unprintable("aé\u{a0}"), Some(3));
        assert_eq!(first_unprintable("a é"), None);
    }
}
