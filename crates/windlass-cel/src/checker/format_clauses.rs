//! Checks calls of `format` whose format and arguments are both literals.

use super::Checked;
use crate::ast::{Expr, ExprId, ExprKind, Literal};
use crate::types::Type;

/// Returns the error of a call of `format` with a literal format and a literal list of arguments.
pub(super) fn check(checked: &Checked, call: &Expr) -> Option<(ExprId, String)> {
    let ExprKind::Call { target: Some(target), function, args } = &call.kind else { return None };
    let (ExprKind::Literal(Literal::String(format)), [Expr { kind: ExprKind::List { elements, .. }, .. }]) =
        (&target.kind, args.as_slice())
    else {
        return None;
    };
    if function != "format" || !checked.overloads(call.id).contains(&"string_format") {
        return None;
    }
    match check_clauses(checked, format, elements) {
        Ok(used) if elements.len() > used => {
            let given = elements.len();
            let message = format!("too many arguments supplied to string.format (expected {used}, got {given})");
            Some((call.id, message))
        }
        Ok(_) => None,
        Err((id, message)) => Some((id.unwrap_or(call.id), message)),
    }
}

/// Returns the number of arguments that a format uses, or an error for an invalid clause.
fn check_clauses(checked: &Checked, format: &str, elements: &[Expr]) -> Result<usize, (Option<ExprId>, String)> {
    let wrong = |message: String| (None, message);
    let mut used = 0;
    let mut rest = format.as_bytes();
    while let Some(at) = rest.iter().position(|byte| *byte == b'%') {
        rest = &rest[at + 1..];
        if rest.first() == Some(&b'%') {
            rest = &rest[1..];
            continue;
        }
        if rest.is_empty() {
            return Err(wrong("unexpected end of string".to_owned()));
        }
        let Some(argument) = elements.get(used) else {
            return Err(wrong(format!("index {used} out of range")));
        };
        let read = read_precision(rest).map_err(|reason| {
            wrong(format!("could not parse formatting clause: error while parsing precision: {reason}"))
        })?;
        check_clause(checked, rest[read], argument)?;
        rest = &rest[read + 1..];
        used += 1;
    }
    Ok(used)
}

/// Returns the length of a clause's precision.
fn read_precision(clause: &[u8]) -> Result<usize, String> {
    if clause[0] != b'.' {
        return Ok(0);
    }
    let digits = clause[1..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    if digits + 1 == clause.len() {
        return Err("could not find end of precision specifier".to_owned());
    }
    let text = String::from_utf8_lossy(&clause[1..=digits]);
    let reason = match text.parse::<i64>() {
        Ok(_) => return Ok(digits + 1),
        Err(_) if text.is_empty() => "invalid syntax",
        Err(_) => "value out of range",
    };
    Err(format!("error while converting precision to integer: strconv.Atoi: parsing \"{text}\": {reason}"))
}

fn check_clause(checked: &Checked, clause: u8, argument: &Expr) -> Result<(), (Option<ExprId>, String)> {
    let (message, bad) = match clause {
        b's' => (
            "string clause can only be used on strings, bools, bytes, ints, doubles, maps, lists, types, durations, and \
             timestamps",
            not_shown(checked, argument),
        ),
        b'd' => ("decimal clause can only be used on integers", none_of(checked, argument, &["int", "uint"])),
        b'f' => ("fixed-point clause can only be used on doubles", none_of(checked, argument, &["double", "string"])),
        b'e' => ("scientific clause can only be used on doubles", none_of(checked, argument, &["double", "string"])),
        b'b' => {
            ("only integers and bools can be formatted as binary", none_of(checked, argument, &["int", "uint", "bool"]))
        }
        b'x' | b'X' => (
            "only integers, byte buffers, and strings can be formatted as hex",
            none_of(checked, argument, &["int", "uint", "string", "bytes"]),
        ),
        b'o' => ("octal clause can only be used on integers", none_of(checked, argument, &["int", "uint"])),
        other => {
            let clause = char::from(other);
            return Err((
                None,
                format!("could not parse formatting clause: unrecognized formatting clause \"{clause}\""),
            ));
        }
    };
    match bad {
        None => Ok(()),
        Some(id) => {
            let given = checked.type_of(id).name();
            Err((Some(id), format!("error during formatting: {message}, was given {given}")))
        }
    }
}

/// Returns the ID of the argument if its type is none of the given ones.
fn none_of(checked: &Checked, argument: &Expr, names: &[&str]) -> Option<ExprId> {
    let given = checked.type_of(argument.id);
    (!given.is_dyn() && !names.contains(&given.name())).then_some(argument.id)
}

/// Returns the ID of the argument, or of its part, that cannot be formatted as text.
fn not_shown(checked: &Checked, argument: &Expr) -> Option<ExprId> {
    if let Type::Object(_) | Type::Opaque(..) | Type::Error | Type::Param(_) = checked.type_of(argument.id) {
        return Some(argument.id);
    }
    match &argument.kind {
        ExprKind::List { elements, .. } => elements.iter().find_map(|element| not_shown(checked, element)),
        ExprKind::Map(entries) => {
            entries.iter().find_map(|entry| not_shown(checked, &entry.key).or_else(|| not_shown(checked, &entry.value)))
        }
        _ => None,
    }
}
