//! Literals that can only be wrong: durations, timestamps and patterns that cannot be read, and lists and maps of mixed
//! types.

use super::{Checked, format_clauses};
use crate::ast::{Expr, ExprId, ExprKind, Literal};
use crate::source::Errors;
use crate::types::Type;

/// Looks for wrong literals.
///
/// # Errors
/// If there are any: all of them.
pub(super) fn validate(checked: &Checked) -> Result<(), Errors> {
    let mut validator = Validator { checked, found: Vec::new(), formats: 0 };
    validator.walk(&checked.expr);
    if validator.found.is_empty() {
        return Ok(());
    }
    let mut errors = Errors::new(checked.source.clone());
    for (id, message) in validator.found {
        errors.report(checked.location(id), message);
    }
    Err(errors)
}

struct Validator<'a> {
    checked: &'a Checked,
    found: Vec<(ExprId, String)>,
    /// How many calls of `format` are around: within them, lists and maps may be mixed.
    formats: usize,
}

impl Validator<'_> {
    fn walk(&mut self, expr: &Expr) {
        match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => {}
            ExprKind::Select { operand, .. } => self.walk(operand),
            ExprKind::Call { target, function, args } => {
                if let Some(Expr { id, kind: ExprKind::Literal(literal) }) = args.first()
                    && !is_readable(function, literal)
                {
                    self.found.push((*id, format!("invalid {function} argument")));
                }
                if let Some(wrong) = format_clauses::check(self.checked, expr) {
                    self.found.push(wrong);
                }
                let formats = usize::from(function == "format");
                self.formats += formats;
                target.iter().for_each(|target| self.walk(target));
                args.iter().for_each(|arg| self.walk(arg));
                self.formats -= formats;
            }
            ExprKind::List { elements, optional } => {
                let mut first = None;
                for (index, element) in elements.iter().enumerate() {
                    if !self.same(element.id, optional.contains(&index), &mut first) {
                        break;
                    }
                }
                elements.iter().for_each(|element| self.walk(element));
            }
            ExprKind::Map(entries) => {
                let (mut key, mut value) = (None, None);
                for entry in entries {
                    self.same(entry.key.id, false, &mut key);
                    self.same(entry.value.id, entry.optional, &mut value);
                }
                for entry in entries {
                    self.walk(&entry.key);
                    self.walk(&entry.value);
                }
            }
            ExprKind::Struct { entries, .. } => entries.iter().for_each(|entry| self.walk(&entry.value)),
            ExprKind::Comprehension(fold) => {
                for part in [&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result] {
                    self.walk(part);
                }
            }
        }
    }

    /// Whether an element has the type of the first one.
    fn same(&mut self, id: ExprId, optional: bool, first: &mut Option<Type>) -> bool {
        if self.formats > 0 {
            return true;
        }
        let mut current = self.checked.type_of(id);
        if optional {
            current = current.optional_value().unwrap_or(current);
        }
        match first {
            None => *first = Some(current.clone()),
            Some(first) if first == current => {}
            Some(first) => {
                self.found.push((id, format!("expected type '{first}' but found '{current}'")));
                return false;
            }
        }
        true
    }
}

fn is_readable(function: &str, literal: &Literal) -> bool {
    match (function, literal) {
        ("duration" | "timestamp", Literal::Null) => false,
        ("duration", Literal::String(text)) => is_duration(text),
        ("timestamp", Literal::String(text)) => is_timestamp(text),
        ("timestamp", Literal::Int(seconds)) => (-62_135_596_800..=253_402_300_799).contains(seconds),
        ("matches", Literal::String(pattern)) => regex::Regex::new(pattern).is_ok(),
        _ => true,
    }
}

/// Whether a text is a duration: numbers with units, such as `1h30m` or `-1.5s`, of at most 292 years.
fn is_duration(text: &str) -> bool {
    let unsigned = text.strip_prefix(['-', '+']).unwrap_or(text);
    if unsigned == "0" {
        return true;
    }
    let mut rest = unsigned;
    let mut nanoseconds = 0f64;
    while !rest.is_empty() {
        let number_end = rest.find(|character: char| !character.is_ascii_digit() && character != '.').unwrap_or(rest.len());
        let number = &rest[..number_end];
        let tail = &rest[number_end..];
        let unit_end = tail.find(|character: char| character.is_ascii_digit() || character == '.').unwrap_or(tail.len());
        let scale = match &tail[..unit_end] {
            "ns" => 1f64,
            "us" | "\u{b5}s" | "\u{3bc}s" => 1e3,
            "ms" => 1e6,
            "s" => 1e9,
            "m" => 6e10,
            "h" => 3.6e12,
            _ => return false,
        };
        let Ok(number) = number.parse::<f64>() else { return false };
        nanoseconds += number * scale;
        rest = &tail[unit_end..];
    }
    !unsigned.is_empty() && nanoseconds <= i64::MAX as f64
}

/// Whether a text is a timestamp of RFC 3339 of a year from 1 to 9999.
fn is_timestamp(text: &str) -> bool {
    let bytes = text.as_bytes();
    let shaped = bytes.len() >= 20
        && bytes[10] == b'T'
        && bytes.iter().enumerate().take(19).all(|(index, byte)| match index {
            4 | 7 => *byte == b'-',
            10 => true,
            13 | 16 => *byte == b':',
            _ => byte.is_ascii_digit(),
        });
    shaped && !text.starts_with("0000") && !text.contains("[") && text.parse::<jiff::Timestamp>().is_ok()
}
