//! Names of fields that are not identifiers, and their form in expressions: `a-b` is `a__dash__b`.

use std::borrow::Cow;

const RESERVED: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns the form of a field name in expressions; `None` if it cannot be expressed.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    let first = name.bytes().next()?;
    if first.is_ascii_digit() {
        return None;
    }
    if RESERVED.contains(&name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/')) {
        return None;
    }
    if !name.contains("__") && !name.contains(['-', '.', '/']) {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        let (text, length) = match c {
            '_' if rest.starts_with("__") => ("__underscores__", 2),
            '.' => ("__dot__", 1),
            '-' => ("__dash__", 1),
            '/' => ("__slash__", 1),
            _ => (&rest[..1], 1),
        };
        out.push_str(text);
        rest = &rest[length..];
    }
    Some(Cow::Owned(out))
}

/// Returns the field name for its form in expressions; `None` if there is none.
pub fn unescape(escaped: &str) -> Option<Cow<'_, str>> {
    if !escaped.as_bytes().windows(2).any(|two| two == b"__") {
        return Some(Cow::Borrowed(escaped));
    }
    let mut out = String::with_capacity(escaped.len());
    let mut at = 0;
    while at < escaped.len() {
        let rest = &escaped[at..];
        let sequence = rest.strip_prefix("__").and_then(|inner| {
            let end = inner.find('_')?;
            (end > 0 && inner[end..].starts_with("__")).then(|| &inner[..end])
        });
        let Some(contents) = sequence else {
            let length = rest.chars().next().map_or(1, char::len_utf8);
            out.push_str(&rest[..length]);
            at += length;
            continue;
        };
        match contents {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if RESERVED.contains(&word) && contents.len() + 4 == escaped.len() => out.push_str(word),
            _ => return None,
        }
        at += contents.len() + 4;
    }
    Some(Cow::Owned(out))
}

#[cfg(test)]
mod tests {
    use super::{escape, unescape};

    #[test]
    fn field_names_round_trip() {
        for (name, written) in [
            ("a", "a"),
            ("a-b", "a__dash__b"),
            ("a.b/c", "a__dot__b__slash__c"),
            ("a__b", "a__underscores__b"),
            ("namespace", "__namespace__"),
            ("___", "__underscores___"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(written), "{name}");
            assert_eq!(unescape(written).as_deref(), Some(name), "{written}");
        }
    }

    #[test]
    fn some_field_names_cannot_be_escaped() {
        for name in ["", "1a", "a b", "é"] {
            assert_eq!(escape(name), None, "{name}");
        }
        assert_eq!(unescape("a__other__b"), None);
        assert_eq!(unescape("a__namespace__"), None);
    }
}
