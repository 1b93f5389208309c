//! Overloads that must be selected or checked at run time, based on the actual arguments.

use crate::checker::{Checked, Environment};
use crate::types::Type;
use crate::value::Value;

/// Functions that accept any arguments and report mismatches themselves.
const UNGUARDED: [&str; 5] = ["contains", "startsWith", "endsWith", "flatten", "@not_strictly_false"];

/// A candidate overload of a call.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) overload: &'static str,
    arguments: Vec<Type>,
}

impl Guard {
    /// Returns the overloads to try at run time; empty if the types of the arguments are known to match.
    pub(super) fn for_call(function: &str, overload: &str, arguments: &[&Type]) -> Vec<Guard> {
        if UNGUARDED.contains(&function) || (!overload.is_empty() && arguments.iter().all(|kind| is_known(kind))) {
            return Vec::new();
        }
        let declared = Environment::standard_kubernetes().declarations.function(function);
        declared
            .into_iter()
            .flat_map(|function| &function.overloads)
            .filter(|candidate| candidate.arguments.len() == arguments.len())
            .filter(|candidate| overload.is_empty() || candidate.id == overload)
            .map(|candidate| Guard { overload: candidate.id, arguments: candidate.arguments.clone() })
            .collect()
    }

    /// Returns whether it accepts these arguments.
    pub(super) fn admits(&self, arguments: &[Value<'_>]) -> bool {
        self.arguments.iter().zip(arguments).all(|(kind, value)| admits(kind, value))
    }
}

/// Returns the types of the receiver and the arguments of a call.
pub(super) fn argument_types<'c>(
    checked: &'c Checked,
    arguments: impl Iterator<Item = &'c crate::ast::Expr>,
) -> Vec<&'c Type> {
    arguments.map(|argument| checked.type_of(argument.id)).collect()
}

/// Returns whether a type is fully known before evaluation.
fn is_known(kind: &Type) -> bool {
    match kind {
        Type::Dyn | Type::Error | Type::Param(_) => false,
        Type::List(element) => is_known(element),
        Type::Map(key, value) => is_known(key) && is_known(value),
        _ => true,
    }
}

/// Returns whether a value has a type, judging by its first element.
fn admits(kind: &Type, value: &Value<'_>) -> bool {
    let name = match kind {
        Type::Dyn | Type::Error | Type::Param(_) => return true,
        Type::List(element) => {
            return match value {
                Value::List(list) => list.get(0).is_none_or(|first| first.is_ok_and(|first| admits(element, &first))),
                _ => false,
            };
        }
        Type::Map(key, element) => {
            let Value::Map(map) = value else { return false };
            let Some(first) = map.keys().into_iter().next() else { return true };
            return admits(key, &first) && map.find(&first).ok().flatten().is_some_and(|first| admits(element, &first));
        }
        other => other.name(),
    };
    value.type_name() == name
}
