//! Paths into a schema: `.spec.color`, `.spec.labels['app']`.

use windlass_schema::field::Path;

use super::schema::Props;

/// The longest part of a path.
const MAX_PART: usize = 64 * 1024;

/// A path that a schema knows.
pub(super) struct Found<'a> {
    /// The path in the form of field errors.
    pub(super) path: Path,
    /// Its first part.
    pub(super) root: String,
    /// What the schema says of the values there; `None` where it allows anything.
    pub(super) schema: Option<Props<'a>>,
}

/// Whether `[...]` may stand in a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Brackets {
    Allowed,
    Forbidden,
}

/// Follows a path in a schema, if there is one; the error is what the real server says.
pub(super) fn find<'a>(text: &str, schema: Option<Props<'a>>, brackets: Brackets) -> Result<Found<'a>, String> {
    let mut found = Found { path: Path::root(), root: String::new(), schema };
    let mut tokens = Tokens(text);
    let end = || "unexpected end of JSON path".to_owned();
    while let Some(token) = tokens.next() {
        match token {
            "[" if brackets == Brackets::Forbidden => return Err("array notation is not allowed".to_owned()),
            "[" => {
                let token = tokens.next().ok_or_else(end)?;
                let quoted = token.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                let quoted = quoted.ok_or_else(|| format!("expected single quoted string but got {token}"))?;
                let name = unescape(quoted).map_err(|error| format!("invalid string literal: {error}"))?;
                found.step(&name)?;
                match tokens.next().ok_or_else(end)? {
                    "]" => {}
                    other => return Err(format!("expected ] but got {other}")),
                }
            }
            "." => {
                let name = tokens.next().ok_or_else(end)?;
                found.step(name)?;
            }
            other => return Err(format!("expected [ or . but got: {other}")),
        }
    }
    Ok(found)
}

impl Found<'_> {
    fn step(&mut self, name: &str) -> Result<(), String> {
        let unknown = || "does not refer to a valid field".to_owned();
        let schema = self.schema.ok_or_else(unknown)?;
        if !schema.map("properties").is_empty() {
            self.path = self.path.child(name);
            self.schema = Some(schema.property(name).ok_or_else(unknown)?);
        } else {
            let additional = schema.props_or_bool("additionalProperties").ok_or_else(unknown)?;
            self.path = self.path.key(name);
            self.schema = additional.schema;
        }
        if self.root.is_empty() {
            self.root = name.to_owned();
        }
        Ok(())
    }
}

/// The parts of a path: the delimiters, what stands between them, and texts in single quotes.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let bytes = self.0.as_bytes();
        let length = match bytes.first()? {
            b'\'' => {
                let is_end = |index: &usize| bytes[*index] == b'\'' && bytes[*index - 1] != b'\\';
                (1..bytes.len()).find(is_end).map_or(bytes.len(), |end| end + 1)
            }
            b'.' | b'[' | b']' => 1,
            _ => bytes.iter().position(|b| matches!(b, b'.' | b'[' | b']')).unwrap_or(bytes.len()),
        };
        if length > MAX_PART {
            return None;
        }
        let (token, rest) = self.0.split_at(length);
        self.0 = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut out = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(c) = characters.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match characters.next() {
            None => out.push('\\'),
            Some('a') => out.push('\u{7}'),
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\u{b}'),
            Some(plain @ ('\'' | '\\')) => out.push(plain),
            Some(other) => return Err(format!("invalid escape char \\{other}")),
        }
    }
    Ok(out)
}
