//! Paths into a schema as written in CustomResourceDefinitions: `.spec.color`, `.spec.labels['app']`.

use super::{Additional, Structural};
use crate::field::Path;

/// Maximum length of a path element; a longer one ends the path.
const MAX_PART: usize = 64 * 1024;

/// A path that exists in a schema.
#[derive(Debug, Clone, PartialEq)]
pub struct FieldPath<S> {
    /// The path, relative to the schema, in the form of field errors.
    pub path: Path,
    /// Its first element.
    pub root: String,
    /// The schema at the end of the path; `None` if any value is allowed there.
    pub schema: Option<S>,
}

/// A schema that paths can be resolved in.
pub trait Fields: Copy {
    /// Returns the meaning of a name in values of the schema, if any.
    fn field(self, name: &str) -> Option<Field<Self>>;
}

/// The meaning of a name.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Field<S> {
    /// A property.
    Property(S),
    /// A value of a map; `None` if any value is allowed.
    Value(Option<S>),
}

/// Whether a path may contain `[...]`, for names that are not identifiers and for keys of maps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Brackets {
    /// It may.
    Allowed,
    /// It may not.
    Forbidden,
}

/// Reason why a string is not a path to a field of a schema.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct FieldPathError(String);

impl Fields for &Structural {
    fn field(self, name: &str) -> Option<Field<Self>> {
        if !self.properties.is_empty() {
            return self.properties.get(name).map(Field::Property);
        }
        match &self.additional {
            Additional::Absent => None,
            Additional::Bool(_) => Some(Field::Value(None)),
            Additional::Schema(values) => Some(Field::Value(Some(values))),
        }
    }
}

impl<S: Fields> FieldPath<S> {
    /// Parses a path and resolves it in a schema, if there is one.
    ///
    /// # Errors
    /// Returns an error if it is malformed or the schema has no such field.
    pub fn parse(text: &str, schema: Option<S>, brackets: Brackets) -> Result<Self, FieldPathError> {
        let mut tokens = Tokens(text);
        let mut found = Self { path: Path::root(), root: String::new(), schema };
        while let Some(token) = tokens.next() {
            match token {
                "[" if brackets == Brackets::Forbidden => return fail("array notation is not allowed"),
                "[" => {
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
        (self.path, self.schema) = match self.schema.and_then(|schema| schema.field(name)) {
            Some(Field::Property(property)) => (self.path.child(name), Some(property)),
            Some(Field::Value(value)) => (self.path.key(name), value),
            None => return fail("does not refer to a valid field"),
        };
        if self.root.is_empty() {
            self.root = name.to_owned();
        }
        Ok(())
    }
}

fn fail<T>(message: impl Into<String>) -> Result<T, FieldPathError> {
    Err(FieldPathError(message.into()))
}

/// Tokens of a path: the delimiters, the text between them, and strings in single quotes.
struct Tokens<'t>(&'t str);

impl<'t> Tokens<'t> {
    fn expect(&mut self) -> Result<&'t str, FieldPathError> {
        self.next().ok_or_else(|| FieldPathError("unexpected end of JSON path".to_owned()))
    }
}

impl<'t> Iterator for Tokens<'t> {
    type Item = &'t str;

    fn next(&mut self) -> Option<&'t str> {
        let bytes = self.0.as_bytes();
        let length = match bytes.first()? {
            b'\'' => {
                let close = (1..bytes.len()).find(|&at| bytes[at] == b'\'' && bytes[at - 1] != b'\\');
                close.map_or(bytes.len(), |at| at + 1)
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
    use super::*;
    use crate::structural::Kind;

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
        match FieldPath::parse(text, Some(&schema()), Brackets::Allowed) {
            Ok(found) => found.path.as_str().to_owned(),
            Err(error) => format!("error: {error}"),
        }
    }

    #[test]
    fn field_paths_are_resolved_in_the_schema() {
        assert_eq!(check(".spec"), "spec");
        assert_eq!(check(".spec.map.x"), "spec.map[x]");
        assert_eq!(check(".spec.map['x.y']"), "spec.map[x.y]");
        assert_eq!(check("['spec']['a.b']"), "spec.a.b");
        assert_eq!(check(r".spec.map['it\'s']"), "spec.map[it's]");
        assert_eq!(check(""), "");
    }

    #[test]
    fn invalid_field_paths_are_rejected_with_the_reason() {
        assert_eq!(check("spec"), "error: expected [ or . but got: spec");
        assert_eq!(check(".nope"), "error: does not refer to a valid field");
        assert_eq!(check(".spec.map.x.y"), "error: does not refer to a valid field");
        assert_eq!(check("."), "error: unexpected end of JSON path");
        assert_eq!(check(".spec["), "error: unexpected end of JSON path");
        assert_eq!(check(".spec[map]"), "error: expected single quoted string but got map");
        assert_eq!(check(".spec['map'"), "error: unexpected end of JSON path");
        assert_eq!(check(".spec['map'x"), "error: expected ] but got x");
        assert_eq!(check(&format!(".{}.spec", "x".repeat(70_000))), "error: unexpected end of JSON path");
        assert_eq!(check(r".spec['\x']"), "error: invalid string literal: invalid escape char \\x");
    }
}
