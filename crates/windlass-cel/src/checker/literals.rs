//! Checks literals: durations, timestamps and patterns that cannot be parsed, and lists and maps of mixed types.

use super::{Checked, format_clauses};
use crate::ast::{Expr, ExprId, ExprKind, Literal};
use crate::library::regex;
use crate::source::Errors;
use crate::types::Type;
use crate::value::Timestamp;

/// Validates the literals of an expression.
///
/// # Errors
/// Returns all invalid literals.
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
    /// Number of enclosing calls of `format`, within which lists and maps may be mixed.
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

    /// Returns whether an element has the type of the first one.
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
        // A number of nanoseconds would work at run time, but other implementations reject it as a literal.
        ("duration", Literal::Null | Literal::Int(_)) | ("timestamp", Literal::Null) => false,
        ("duration", Literal::String(text)) => windlass_schema::time::parse_duration(text).is_ok(),
        ("timestamp", Literal::String(text)) => matches!(Timestamp::parse_in_range(text), Some(Ok(_))),
        ("timestamp", Literal::Int(seconds)) => Timestamp::from_unix(*seconds).is_ok(),
        ("matches", Literal::String(pattern)) => regex::compile(pattern).is_ok(),
        _ => true,
    }
}
