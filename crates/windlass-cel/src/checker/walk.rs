//! The type checking rules, one kind of expression after the other.

use std::sync::Arc;

use super::substitution::{Substitution, most_general};
use super::{Environment, Reference};
use crate::ast::{Comprehension, Entry, Expr, ExprId, ExprKind, Literal};
use crate::source::{Errors, Location, Source};
use crate::types::Type;

/// Maximum number of parts of a type. Comprehensions that build maps of maps could otherwise double it repeatedly.
const MAXIMUM_TYPE_SIZE: usize = 1000;

/// Checks a single expression.
pub(super) struct Checker<'a> {
    pub(super) environment: &'a Environment,
    pub(super) source: &'a Source,
    pub(super) positions: &'a [u32],
    pub(super) errors: Errors,
    pub(super) types: Vec<Option<Type>>,
    pub(super) references: Vec<Option<Reference>>,
    pub(super) substitution: Substitution,
    /// Variables of comprehensions, innermost last.
    pub(super) locals: Vec<(String, Type)>,
    pub(super) variables: usize,
}

impl Checker<'_> {
    /// Assigns types to an expression and its subexpressions, and resolves names to their full names.
    pub(super) fn check(&mut self, expr: &mut Expr) {
        match &mut expr.kind {
            ExprKind::Literal(literal) => {
                let literal = literal_type(literal);
                self.set_type(expr.id, literal);
            }
            ExprKind::Ident(_) => self.ident(expr),
            ExprKind::Select { .. } => self.select(expr),
            ExprKind::Call { .. } => self.call(expr),
            ExprKind::List { elements, optional } => {
                let list = self.list(elements, optional);
                self.set_type(expr.id, list);
            }
            ExprKind::Map(entries) => {
                let map = self.map(entries);
                self.set_type(expr.id, map);
            }
            ExprKind::Struct { .. } => self.structure(expr),
            ExprKind::Comprehension(fold) => {
                let result = self.comprehension(fold);
                self.set_type(expr.id, result);
            }
        }
    }

    fn ident(&mut self, expr: &mut Expr) {
        let ExprKind::Ident(name) = &mut expr.kind else { return };
        match self.lookup(name) {
            Some((full, found)) => {
                *name = full.to_owned();
                let reference = Reference::Ident(name.clone());
                self.set_type(expr.id, found);
                self.references[expr.id as usize] = Some(reference);
            }
            None => {
                let message = format!("undeclared reference to '{name}' (in container '')");
                self.set_type(expr.id, Type::Error);
                self.report(expr.id, message);
            }
        }
    }

    fn select(&mut self, expr: &mut Expr) {
        let found = qualified_name(expr).and_then(|name| {
            let (full, found) = self.lookup(&name)?;
            Some((full.to_owned(), found))
        });
        if let Some((full, found)) = found {
            self.set_type(expr.id, found);
            self.references[expr.id as usize] = Some(Reference::Ident(full.clone()));
            expr.kind = ExprKind::Ident(full);
            return;
        }
        let ExprKind::Select { operand, field, test_only } = &mut expr.kind else { return };
        let selected = self.select_field(expr.id, operand, field, false);
        let selected = if *test_only { Type::Bool } else { self.substitution.apply(&selected) };
        self.set_type(expr.id, selected);
    }

    /// Returns the type of a field of an operand, which is checked first.
    pub(super) fn select_field(&mut self, id: ExprId, operand: &mut Expr, field: &str, optional: bool) -> Type {
        self.check(operand);
        let operand = self.substitution.apply(self.type_of(operand.id));
        let (target, is_optional) = match operand.optional_value() {
            Some(value) => (value, true),
            None => (&operand, false),
        };
        let selected = match target {
            Type::Map(_, value) => (**value).clone(),
            Type::Object(name) => self.field(id, name, field).unwrap_or(Type::Error),
            Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            _ => {
                self.report(id, format!("type '{target}' does not support field selection"));
                Type::Dyn
            }
        };
        if is_optional || optional { Type::optional(selected) } else { selected }
    }

    fn field(&mut self, id: ExprId, object: &str, field: &str) -> Option<Type> {
        let provider = self.environment.provider.as_deref();
        let is_time = matches!(object, "google.protobuf.Duration" | "google.protobuf.Timestamp");
        if is_time && matches!(field, "seconds" | "nanos") {
            return Some(Type::Int);
        }
        if !is_time && provider.is_none_or(|provider| provider.find_type(object).is_none()) {
            self.report(id, format!("unexpected failed resolution of '{object}'"));
            return None;
        }
        let found = provider.and_then(|provider| provider.find_field(object, field));
        if found.is_none() {
            self.report(id, format!("undefined field '{field}'"));
        }
        found
    }

    fn list(&mut self, elements: &mut [Expr], optional: &[usize]) -> Type {
        let mut joined = None;
        for (index, element) in elements.iter_mut().enumerate() {
            self.check(element);
            let mut current = self.type_of(element.id).clone();
            if optional.contains(&index) {
                current = self.unwrap_optional(element.id, current);
            }
            joined = Some(self.join(joined, current));
        }
        Type::list(joined.unwrap_or_else(|| self.fresh()))
    }

    fn map(&mut self, entries: &mut [Entry]) -> Type {
        let mut keys = None;
        let mut values = None;
        for entry in entries {
            self.check(&mut entry.key);
            let key = self.type_of(entry.key.id).clone();
            keys = Some(self.join(keys, key));
            self.check(&mut entry.value);
            let mut value = self.type_of(entry.value.id).clone();
            if entry.optional {
                value = self.unwrap_optional(entry.value.id, value);
            }
            values = Some(self.join(values, value));
        }
        match (keys, values) {
            (Some(keys), Some(values)) => Type::map(keys, values),
            _ => {
                let keys = self.fresh();
                Type::map(keys, self.fresh())
            }
        }
    }

    fn structure(&mut self, expr: &mut Expr) {
        let ExprKind::Struct { name, entries } = &mut expr.kind else { return };
        let Some((full, found)) = self.lookup(name) else {
            let message = format!("undeclared reference to '{name}' (in container '')");
            self.report(expr.id, message);
            self.set_type(expr.id, Type::Error);
            return;
        };
        *name = full.to_owned();
        self.references[expr.id as usize] = Some(Reference::Ident(name.clone()));
        let (constructed, object) = match &found {
            Type::Error => (Type::Error, name.clone()),
            Type::Type(of) => match &**of {
                Type::Object(object) => ((**of).clone(), object.to_string()),
                Type::Timestamp | Type::Duration | Type::Null => ((**of).clone(), of.name().to_owned()),
                _ => {
                    self.report(expr.id, format!("'{}' is not a message type", of.name()));
                    (Type::Error, name.clone())
                }
            },
            _ => {
                self.report(expr.id, format!("'{}' is not a type", found.name()));
                (Type::Error, name.clone())
            }
        };
        self.set_type(expr.id, constructed);
        for entry in entries {
            let ExprKind::Literal(Literal::String(field)) = &entry.key.kind else { continue };
            self.check(&mut entry.value);
            let wanted = self.field(entry.id, &object, field).unwrap_or(Type::Error);
            let mut given = self.type_of(entry.value.id).clone();
            if entry.optional {
                given = self.unwrap_optional(entry.value.id, given);
            }
            if !self.substitution.assignable(&wanted, &given) {
                let message = format!("expected type of field '{field}' is '{wanted}' but provided type is '{given}'");
                self.report(entry.id, message);
            }
        }
    }

    fn comprehension(&mut self, fold: &mut Comprehension) -> Type {
        self.check(&mut fold.range);
        self.check(&mut fold.init);
        let range = self.substitution.apply(self.type_of(fold.range.id));
        let accumulator = self.type_of(fold.init.id).clone();
        let scope = self.locals.len();
        self.locals.push((fold.accumulator.clone(), accumulator.clone()));
        let (first, second) = match &range {
            Type::List(element) if fold.second.is_some() => (Type::Int, (**element).clone()),
            Type::List(element) => ((**element).clone(), Type::Error),
            Type::Map(key, value) => ((**key).clone(), (**value).clone()),
            Type::Dyn | Type::Error | Type::Param(_) => {
                self.substitution.assignable(&Type::Dyn, &range);
                (Type::Dyn, Type::Dyn)
            }
            _ => {
                let message = format!(
                    "expression of type '{range}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(fold.range.id, message);
                (Type::Error, Type::Error)
            }
        };
        self.locals.push((fold.variable.clone(), first));
        if let Some(name) = &fold.second {
            self.locals.push((name.clone(), second));
        }
        self.check(&mut fold.condition);
        self.assert_type(fold.condition.id, &Type::Bool);
        self.check(&mut fold.step);
        self.assert_type(fold.step.id, &accumulator);
        self.locals.truncate(scope + 1);
        self.check(&mut fold.result);
        self.locals.truncate(scope);
        self.substitution.apply(self.type_of(fold.result.id))
    }

    fn unwrap_optional(&mut self, id: ExprId, given: Type) -> Type {
        if let Some(value) = given.optional_value() {
            return value.clone();
        }
        if !given.is_dyn() {
            self.mismatch(id, &Type::optional(given.clone()), &given);
        }
        given
    }

    /// Joins the type of the previous elements with that of the next one.
    fn join(&mut self, previous: Option<Type>, current: Type) -> Type {
        match previous {
            None => current,
            Some(previous) if self.substitution.assignable(&previous, &current) => {
                most_general(&previous, &current).clone()
            }
            Some(_) => Type::Dyn,
        }
    }

    fn assert_type(&mut self, id: ExprId, wanted: &Type) {
        let given = self.type_of(id).clone();
        if !self.substitution.assignable(wanted, &given) {
            self.mismatch(id, wanted, &given);
        }
    }

    /// Reports a type mismatch.
    pub(super) fn mismatch(&mut self, id: ExprId, wanted: &Type, given: &Type) {
        self.report(id, format!("expected type '{wanted}' but found '{given}'"));
    }

    /// Returns a fresh type variable.
    pub(super) fn fresh(&mut self) -> Type {
        self.variables += 1;
        Type::param(&format!("_var{}", self.variables - 1))
    }

    /// Returns the full name and type of a name.
    fn lookup<'n>(&self, name: &'n str) -> Option<(&'n str, Type)> {
        let full = name.strip_prefix('.').unwrap_or(name);
        if let Some((_, local)) = self.locals.iter().rev().find(|(local, _)| local == full) {
            return Some((full, local.clone()));
        }
        self.environment.lookup(full).map(|found| (full, found))
    }

    /// Records the type of an expression.
    pub(super) fn set_type(&mut self, id: ExprId, is: Type) {
        let mut room = MAXIMUM_TYPE_SIZE;
        let fits = fits(&is, &mut room);
        if !fits {
            self.report(id, "type of the expression is too large".to_owned());
        }
        self.types[id as usize] = Some(if fits { is } else { Type::Error });
    }

    /// Returns the type of a checked expression.
    pub(super) fn type_of(&self, id: ExprId) -> &Type {
        self.types[id as usize].as_ref().unwrap_or(&Type::Error)
    }

    /// Records an error.
    pub(super) fn report(&mut self, id: ExprId, message: String) {
        let location: Location = crate::parser::location(self.source, self.positions, id);
        self.errors.report(location, message);
    }
}

/// Returns whether a type has no more parts than `room` allows.
fn fits(part: &Type, room: &mut usize) -> bool {
    if *room == 0 {
        return false;
    }
    *room -= 1;
    match part {
        Type::List(inner) | Type::Type(inner) => fits(inner, room),
        Type::Map(key, value) => fits(key, room) && fits(value, room),
        Type::Opaque(_, inner) => inner.iter().all(|inner| fits(inner, room)),
        _ => true,
    }
}

fn literal_type(literal: &Literal) -> Type {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// Returns the dotted name that selections from a name form, if the expression consists only of these.
pub(super) fn qualified_name(expr: &Expr) -> Option<String> {
    fn append(expr: &Expr, name: &mut String) -> bool {
        match &expr.kind {
            ExprKind::Ident(ident) => name.push_str(ident),
            ExprKind::Select { operand, field, test_only: false } => {
                if !append(operand, name) {
                    return false;
                }
                name.push('.');
                name.push_str(field);
            }
            _ => return false,
        }
        true
    }
    let mut name = String::new();
    append(expr, &mut name).then_some(name)
}

impl Environment {
    /// Returns the type of a variable, or of another target of a full name.
    fn lookup(&self, name: &str) -> Option<Type> {
        if let Some((_, variable)) = self.variables.iter().find(|(variable, _)| &**variable == name) {
            return Some(variable.clone());
        }
        let named = self.declarations.named_type(name).cloned();
        let named = named.or_else(|| self.provider.as_ref()?.find_type(name));
        named.map(|named| Type::Type(Arc::new(named)))
    }
}
