//! Overloads that can only be chosen, or must be checked, when the arguments are there.

use crate::checker::{Checked, Environment};
use crate::types::Type;
use crate::value::Value;

/// Functions that take whatever they are given, and say themselves if it does not fit.
const UNGUARDED: [&str; 5] = ["contains", "startsWith", "endsWith", "flatten", "@not_strictly_false"];

/// An overload that a call may be of.
#[derive(Debug, Clone)]
pub(super) struct Guard {
    pub(super) overload: &'static str,
    arguments: Vec<Type>,
}

impl Guard {
    /// The overloads to try at evaluation; none if the types of the arguments are known to fit.
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

    /// Whether it takes such arguments.
    pub(super) fn admits(&self, arguments: &[Value<'_>]) -> bool {
        self.arguments.iter().zip(arguments).all(|(kind, value)| admits(kind, value))
    }
}

/// The types of the receiver and the arguments of a call.
pub(super) fn argument_types<'c>(
    checked: &'c Checked,
    arguments: impl Iterator<Item = &'c crate::ast::Expr>,
) -> Vec<&'c Type> {
    arguments.map(|argument| checked.type_of(argument.id)).collect()
}

/// Whether nothing about a type is left to evaluation.
fn is_known(kind: &Type) -> bool {
    match kind {
        Type::Dyn | Type::Error | Type::Param(_) => false,
        Type::List(element) => is_known(element),
        Type::Map(key, value) => is_known(key) && is_known(value),
        _ => true,
    }
}

/// Whether a value is of a type, as far as its first element tells.
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
