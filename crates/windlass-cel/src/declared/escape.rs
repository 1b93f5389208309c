//! Names of properties as identifiers of expressions.

use std::borrow::Cow;

/// Words that are no identifiers.
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

/// Whether a word is reserved, and as a property needs escaping.
pub fn is_reserved(word: &str) -> bool {
    RESERVED.contains(&word)
}

/// The identifier of a property: `__`, `.`, `-`, `/` and reserved words are escaped; `None` if the name has other
/// characters or begins with a digit and so cannot be an identifier.
pub fn escape(name: &str) -> Option<Cow<'_, str>> {
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() {
        return None;
    }
    if is_reserved(name) {
        return Some(Cow::Owned(format!("__{name}__")));
    }
    if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-' | b'/')) {
        return None;
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(Cow::Borrowed(name));
    }
    let mut out = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(c) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix("__") {
            out.push_str("__underscores__");
            rest = after;
            continue;
        }
        match c {
            '.' => out.push_str("__dot__"),
            '-' => out.push_str("__dash__"),
            '/' => out.push_str("__slash__"),
            c => out.push(c),
        }
        rest = &rest[1..];
    }
    Some(Cow::Owned(out))
}

/// The property an identifier stands for; `None` if it holds an unknown escape.
pub fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    if !identifier.contains("__") {
        return Some(Cow::Borrowed(identifier));
    }
    let mut out = String::with_capacity(identifier.len());
    let mut rest = identifier;
    loop {
        let Some((start, inner, end)) = next_escape(rest) else {
            out.push_str(rest);
            return Some(Cow::Owned(out));
        };
        out.push_str(&rest[..start]);
        match inner {
            "underscores" => out.push_str("__"),
            "dot" => out.push('.'),
            "dash" => out.push('-'),
            "slash" => out.push('/'),
            word if is_reserved(word) && word.len() + 4 == identifier.len() => out.push_str(word),
            _ => return None,
        }
        rest = &rest[end..];
    }
}

/// The first `__word__` of a text: where it begins, the word without underscores, where it ends.
fn next_escape(text: &str) -> Option<(usize, &str, usize)> {
    let mut from = 0;
    while let Some(found) = text[from..].find("__") {
        let start = from + found;
        let word_start = start + 2;
        let word_len = text[word_start..].find('_').unwrap_or(text.len() - word_start);
        if word_len > 0 && text[word_start + word_len..].starts_with("__") {
            return Some((start, &text[word_start..word_start + word_len], word_start + word_len + 2));
        }
        from = start + 1;
    }
    None
}
