//! Type variables: their bindings, and whether one type is assignable to another.

use std::collections::HashMap;
use std::sync::Arc;

use crate::types::Type;

/// Bindings of type variables. Failed attempts leave no trace.
#[derive(Debug, Default)]
pub(super) struct Substitution {
    bound: HashMap<Arc<str>, Type>,
    /// Previous bindings, to undo failed attempts.
    undo: Vec<(Arc<str>, Option<Type>)>,
}

impl Substitution {
    /// Binds a variable.
    pub(super) fn bind(&mut self, name: Arc<str>, to: Type) {
        let before = self.bound.insert(name.clone(), to);
        self.undo.push((name, before));
    }

    /// Returns whether all of the first types are assignable to the second ones; if so, binds variables accordingly.
    pub(super) fn assignable_all<'t>(&mut self, pairs: impl Iterator<Item = (&'t Type, &'t Type)>) -> bool {
        self.undo.clear();
        let mut pairs = pairs;
        let fits = pairs.all(|(one, other)| self.attempt(one, other));
        if !fits {
            while let Some((name, before)) = self.undo.pop() {
                match before {
                    Some(before) => self.bound.insert(name, before),
                    None => self.bound.remove(&name),
                };
            }
        }
        fits
    }

    /// Returns whether one type is assignable to another; if so, binds variables accordingly.
    pub(super) fn assignable(&mut self, one: &Type, other: &Type) -> bool {
        self.assignable_all([(one, other)].into_iter())
    }

    fn attempt(&mut self, one: &Type, other: &Type) -> bool {
        if let Type::Param(name) = other {
            let (valid, bound) = self.attempt_variable(one, other, name);
            if valid {
                return true;
            }
            if bound {
                return false;
            }
        }
        if let Type::Param(name) = one {
            return self.attempt_variable(other, one, name).0;
        }
        match (one, other) {
            (Type::Dyn | Type::Error, _) | (_, Type::Dyn | Type::Error) => true,
            (Type::Null, Type::Null) => true,
            (Type::Null, some) | (some, Type::Null) => {
                matches!(some, Type::Opaque(..) | Type::Object(_) | Type::Duration | Type::Timestamp)
            }
            (Type::Type(_), Type::Type(_)) => true,
            (Type::List(one), Type::List(other)) => self.attempt(one, other),
            (Type::Map(key, value), Type::Map(other_key, other_value)) => {
                self.attempt(key, other_key) && self.attempt(value, other_value)
            }
            (Type::Opaque(name, parameters), Type::Opaque(other_name, other_parameters)) => {
                name == other_name
                    && parameters.len() == other_parameters.len()
                    && parameters.iter().zip(other_parameters.iter()).all(|(one, other)| self.attempt(one, other))
            }
            _ => one == other,
        }
    }

    /// Returns whether a type can be the value of a variable, and whether the variable was already bound.
    fn attempt_variable(&mut self, one: &Type, variable: &Type, name: &Arc<str>) -> (bool, bool) {
        if one == variable {
            return (true, true);
        }
        if let Some(bound) = self.bound.get(name).cloned() {
            if *one == bound {
                return (true, true);
            }
            if !self.attempt(one, &bound) {
                return (false, true);
            }
            let general = most_general(one, &bound);
            if !self.occurs(variable, general) {
                self.bind(name.clone(), general.clone());
            }
            return (true, true);
        }
        if self.occurs(variable, one) {
            return (false, false);
        }
        self.bind(name.clone(), one.clone());
        (true, false)
    }

    /// Returns whether a variable equals a type or occurs within it.
    fn occurs(&self, variable: &Type, within: &Type) -> bool {
        if variable == within {
            return true;
        }
        match within {
            Type::Param(name) => self.bound.get(name).is_some_and(|bound| self.occurs(variable, bound)),
            Type::List(inner) | Type::Type(inner) => self.occurs(variable, inner),
            Type::Map(key, value) => self.occurs(variable, key) || self.occurs(variable, value),
            Type::Opaque(_, inner) => inner.iter().any(|inner| self.occurs(variable, inner)),
            _ => false,
        }
    }

    /// Replaces the variables in a type by their bindings; unbound ones are kept.
    pub(super) fn apply(&self, to: &Type) -> Type {
        self.replace(to, false)
    }

    /// Replaces the variables in a type by their bindings, or by `dyn`.
    pub(super) fn finish(&self, to: &Type) -> Type {
        self.replace(to, true)
    }

    fn replace(&self, to: &Type, finish: bool) -> Type {
        match to {
            Type::Param(name) => match self.bound.get(name) {
                Some(bound) => self.replace(bound, finish),
                None if finish => Type::Dyn,
                None => to.clone(),
            },
            Type::List(inner) => Type::list(self.replace(inner, finish)),
            Type::Map(key, value) => Type::map(self.replace(key, finish), self.replace(value, finish)),
            Type::Type(inner) => Type::Type(Arc::new(self.replace(inner, finish))),
            Type::Opaque(name, inner) if !inner.is_empty() => {
                Type::Opaque(name.clone(), inner.iter().map(|inner| self.replace(inner, finish)).collect())
            }
            _ => to.clone(),
        }
    }
}

/// Returns the less specific of two compatible types.
pub(super) fn most_general<'t>(one: &'t Type, other: &'t Type) -> &'t Type {
    if is_as_general(one, other) { one } else { other }
}

fn is_as_general(one: &Type, other: &Type) -> bool {
    match (one, other) {
        (Type::Dyn | Type::Param(_), _) => true,
        (_, Type::Dyn | Type::Param(_)) => false,
        (Type::Type(_), Type::Type(_)) => true,
        (Type::List(one), Type::List(other)) => is_as_general(one, other),
        (Type::Map(key, value), Type::Map(other_key, other_value)) => {
            is_as_general(key, other_key) && is_as_general(value, other_value)
        }
        (Type::Opaque(name, parameters), Type::Opaque(other_name, other_parameters)) => {
            name == other_name
                && parameters.len() == other_parameters.len()
                && parameters.iter().zip(other_parameters.iter()).all(|(one, other)| is_as_general(one, other))
        }
        _ => one == other,
    }
}
