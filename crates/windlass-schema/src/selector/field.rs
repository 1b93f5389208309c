//! Field selectors: `metadata.name=x,spec.nodeName!=y`.

use std::fmt;

use super::Error;

/// A comparison operator for fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FieldOperator {
    /// `field=value` or `field==value`
    Equals,
    /// `field!=value`
    NotEquals,
}

/// A comparison of a field with a value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    /// The path of the field.
    pub field: String,
    /// The comparison.
    pub operator: FieldOperator,
    /// The value, without escapes.
    pub value: String,
}

/// A conjunction of terms. An empty selector selects everything.
///
/// The caller must check each term against the fields that a kind supports; the terms are in the order in which
/// kube-apiserver checks them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

impl FieldSelector {
    /// Returns a selector for every object.
    pub fn everything() -> Self {
        Self::default()
    }

    /// Parses the form used in query strings. In values, commas, equal signs and backslashes are escaped with a
    /// backslash.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parts = split(text);
        parts.sort_unstable();
        let mut terms = Vec::new();
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let (field, operator, value) = split_term(part)
                .ok_or_else(|| Error(format!("invalid selector: '{text}'; can't understand '{part}'")))?;
            let value = unescape(value)?;
            // A term with neither field nor value is dropped.
            if !(field.is_empty() && value.is_empty()) {
                terms.push(FieldTerm { field: field.to_owned(), operator, value });
            }
        }
        Ok(Self { terms })
    }

    /// Returns a selector with the single term `field=value`.
    pub fn one(field: &str, value: &str) -> Self {
        let (field, value) = (field.to_owned(), value.to_owned());
        Self { terms: vec![FieldTerm { field, operator: FieldOperator::Equals, value }] }
    }

    /// Returns whether everything is selected.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// Returns the terms.
    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns the compared fields, in the order of the terms.
    pub fn fields(&self) -> impl Iterator<Item = &str> {
        self.terms.iter().map(|term| term.field.as_str())
    }

    /// Returns whether an object is selected; `field` looks up its fields, and an absent field counts as empty.
    pub fn matches<'v>(&self, field: impl Fn(&str) -> Option<&'v str>) -> bool {
        self.terms.iter().all(|term| {
            let equal = field(&term.field).unwrap_or_default() == term.value;
            equal == (term.operator == FieldOperator::Equals)
        })
    }

    /// Returns the value that a term requires of a field, if any.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        let exact = |term: &&FieldTerm| term.operator == FieldOperator::Equals && term.field == field;
        self.terms.iter().find(exact).map(|term| term.value.as_str())
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, term) in self.terms.iter().enumerate() {
            let comma = if position > 0 { "," } else { "" };
            let operator = match term.operator {
                FieldOperator::Equals => "=",
                FieldOperator::NotEquals => "!=",
            };
            write!(f, "{comma}{}{operator}{}", term.field, escape(&term.value))?;
        }
        Ok(())
    }
}

/// Splits at unescaped commas.
fn split(text: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut escaped) = (0, false);
    for (position, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                parts.push(&text[start..position]);
                start = position + 1;
            }
            _ => {}
        }
    }
    parts.push(&text[start..]);
    parts
}

/// Splits a term at its first operator.
fn split_term(term: &str) -> Option<(&str, FieldOperator, &str)> {
    for (position, byte) in term.bytes().enumerate() {
        let (operator, length) = match (byte, term.as_bytes().get(position + 1)) {
            (b'!', Some(b'=')) => (FieldOperator::NotEquals, 2),
            (b'=', Some(b'=')) => (FieldOperator::Equals, 2),
            (b'=', _) => (FieldOperator::Equals, 1),
            _ => continue,
        };
        return Some((&term[..position], operator, &term[position + length..]));
    }
    None
}

fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if matches!(c, '\\' | ',' | '=') {
            out.push('\\');
        }
        out.push(c);
    }
    out
}

fn unescape(value: &str) -> Result<String, Error> {
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                other => {
                    let sequence: String = [Some('\\'), other].into_iter().flatten().collect();
                    return Err(Error(format!("invalid field selector: invalid escape sequence: {sequence}")));
                }
            },
            // kube-apiserver prints the number of the character.
            ',' | '=' => {
                let number = u32::from(c);
                return Err(Error(format!("invalid field selector: unescaped character in value: {number}")));
            }
            c => out.push(c),
        }
    }
    Ok(out)
}
