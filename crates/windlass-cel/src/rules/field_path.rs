//! Paths to fields as definitions write them: `.spec.map['key']`.

use std::fmt;

use windlass_schema::field::Path;
use windlass_schema::structural::{Additional, Structural};

/// A path that a schema has.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPath<'a> {
    /// The path, relative to the schema.
    pub path: Path,
    /// The schema of what it leads to; `None` where the schema allows anything.
    pub schema: Option<&'a Structural>,
}

/// Why a text is no path to a field of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldPathError(String);

impl fmt::Display for FieldPathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for FieldPathError {}

impl<'a> FieldPath<'a> {
    /// Reads a path and follows it through a schema. Brackets are for names that are no identifiers and for keys of
    /// maps; `allow_brackets` is false where only names are allowed.
    ///
    /// # Errors
    /// If it is malformed or the schema has no such field.
    pub fn parse(text: &str, schema: &'a Structural, allow_brackets: bool) -> Result<Self, FieldPathError> {
        let mut tokens = Tokens { rest: text };
        let mut found = Self { path: Path::root(), schema: Some(schema) };
        while let Some(token) = tokens.next() {
            match token {
                "[" => {
                    if !allow_brackets {
                        return fail("array notation is not allowed");
                    }
                    let quoted = tokens.expect()?;
                    let inner = quoted.strip_prefix('\'').and_then(|rest| rest.strip_suffix('\''));
                    let Some(inner) = inner else {
                        return fail(format!("expected single quoted string but got {quoted}"));
                    };
                    found.step(&unquote(inner)?)?;
                    match tokens.expect()? {
                        "]" => {}
                        other => return fail(format!("expected ] but got {other}")),
                    }
                }
                "." => {
                    let name = tokens.expect()?;
                    found.step(name)?;
                }
                other => return fail(format!("expected [ or . but got: {other}")),
            }
        }
        Ok(found)
    }

    fn step(&mut self, name: &str) -> Result<(), FieldPathError> {
        const NO_FIELD: &str = "does not refer to a valid field";
        let Some(schema) = self.schema else { return fail(NO_FIELD) };
        if schema.properties.is_empty() {
            let values = match &schema.additional {
                Additional::Absent => return fail(NO_FIELD),
                Additional::Bool(_) => None,
                Additional::Schema(values) => Some(&**values),
            };
            self.path = self.path.key(name);
            self.schema = values;
            return Ok(());
        }
        let Some(property) = schema.properties.get(name) else { return fail(NO_FIELD) };
        self.path = self.path.child(name);
        self.schema = Some(property);
        Ok(())
    }
}

fn fail<T>(message: impl Into<String>) -> Result<T, FieldPathError> {
    Err(FieldPathError(message.into()))
}

/// Delimiters, quoted strings with their quotes, and the text between.
struct Tokens<'t> {
    rest: &'t str,
}

impl<'t> Tokens<'t> {
    fn expect(&mut self) -> Result<&'t str, FieldPathError> {
        self.next().ok_or_else(|| FieldPathError("unexpected end of JSON path".to_owned()))
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.rest.as_bytes();
        let first = *bytes.first()?;
        let end = match first {
            b'\'' => {
                let close = (1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\');
                close.map_or(bytes.len(), |at| at + 1)
            }
            b'.' | b'[' | b']' => 1,
            _ => bytes.iter().position(|b| matches!(b, b'.' | b'[' | b']')).unwrap_or(bytes.len()),
        };
        let (token, rest) = self.rest.split_at(end);
        self.rest = rest;
        Some(token)
    }
}

fn unquote(text: &str) -> Result<String, FieldPathError> {
    let mut out = String::with_capacity(text.len());
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match chars.next() {
            Some('a') => out.push('\x07'),
            Some('b') => out.push('\x08'),
            Some('f') => out.push('\x0c'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('v') => out.push('\x0b'),
            Some(c @ ('\'' | '\\')) => out.push(c),
            Some('\n') => out.push_str("\\\n"),
            Some(other) => return fail(format!("invalid string literal: invalid escape char \\{other}")),
            None => out.push('\\'),
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use windlass_schema::structural::Kind;

    use super::*;

    fn schema() -> Structural {
        let text = Structural { kind: Some(Kind::String), ..Structural::default() };
        let mut map = Structural { kind: Some(Kind::Object), ..Structural::default() };
        map.additional = Additional::Schema(Box::new(text.clone()));
        let mut spec = Structural { kind: Some(Kind::Object), ..Structural::default() };
        spec.properties.insert("map".to_owned(), map);
        spec.properties.insert("a.b".to_owned(), text);
        let mut root = Structural { kind: Some(Kind::Object), ..Structural::default() };
        root.properties.insert("spec".to_owned(), spec);
        root
    }

    fn check(text: &str) -> String {
        match FieldPath::parse(text, &schema(), true) {
            Ok(found) => found.path.as_str().to_owned(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn paths_follow_the_schema() {
        assert_eq!(check(".spec"), "spec");
        assert_eq!(check(".spec.map.x"), "spec.map[x]");
        assert_eq!(check(".spec.map['x.y']"), "spec.map[x.y]");
        assert_eq!(check("['spec']['a.b']"), "spec.a.b");
        assert_eq!(check(r".spec.map['it\'s']"), "spec.map[it's]");
        assert_eq!(check(""), "");
    }

    #[test]
    fn what_is_no_path_is_refused_with_the_reason() {
        assert_eq!(check("spec"), "error: expected [ or . but got: spec");
        assert_eq!(check(".nope"), "error: does not refer to a valid field");
        assert_eq!(check(".spec.map.x.y"), "error: does not refer to a valid field");
        assert_eq!(check("."), "error: unexpected end of JSON path");
        assert_eq!(check(".spec["), "error: unexpected end of JSON path");
        assert_eq!(check(".spec[map]"), "error: expected single quoted string but got map");
        assert_eq!(check(".spec['map'"), "error: unexpected end of JSON path");
        assert_eq!(check(".spec['map'x"), "error: expected ] but got x");
        assert_eq!(check(r".spec['\x']"), "error: invalid string literal: invalid escape char \\x");
    }
}
