//! The `Content-Type` header of a body.

/// Returns the media type of a header in lower case, without parameters; `None` if either is malformed.
pub(super) fn media_type(header: &str) -> Option<String> {
    let (name, mut rest) = match header.find(';') {
        Some(end) => header.split_at(end),
        None => (header, ""),
    };
    let name = name.trim().to_ascii_lowercase();
    let (main, sub) = name.split_once('/')?;
    if !is_token(main) || !is_token(sub) {
        return None;
    }
    let mut seen: Vec<String> = Vec::new();
    while !rest.trim_start().is_empty() {
        let (param, after) = parameter(rest.trim_start())?;
        let Some(param) = param else { break };
        if seen.contains(&param) {
            return None;
        }
        seen.push(param);
        rest = after;
    }
    Some(name)
}

/// Parses `; name=value`; returns the name in lower case and the rest. A trailing semicolon is not a parameter.
fn parameter(text: &str) -> Option<(Option<String>, &str)> {
    let text = text.strip_prefix(';')?.trim_start();
    if text.is_empty() {
        return Some((None, text));
    }
    let (name, value) = text.split_once('=')?;
    let name = name.trim_end();
    if !is_token(name) {
        return None;
    }
    let value = value.trim_start();
    let rest = match value.strip_prefix('"') {
        Some(quoted) => after_quote(quoted)?,
        None => {
            let end = value.find(|c| !is_token_char(c)).unwrap_or(value.len());
            if end == 0 {
                return None;
            }
            &value[end..]
        }
    };
    Some((Some(name.to_ascii_lowercase()), rest))
}

/// Returns the text after the closing quote; a backslash escapes the next character.
fn after_quote(text: &str) -> Option<&str> {
    let mut escaped = false;
    for (position, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(&text[position + 1..]),
            _ => {}
        }
    }
    None
}

fn is_token(text: &str) -> bool {
    !text.is_empty() && text.chars().all(is_token_char)
}

fn is_token_char(c: char) -> bool {
    c.is_ascii_graphic() && !"()<>@,;:\\\"/[]?=".contains(c)
}
