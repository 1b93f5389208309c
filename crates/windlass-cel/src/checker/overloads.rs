//! Checks calls: which function is called, and which of its overloads match the arguments.

use super::Reference;
use super::substitution::Substitution;
use super::walk::{Checker, qualified_name};
use crate::ast::{Expr, ExprId, ExprKind, Literal};
use crate::declarations::{Function, Overload};
use crate::types::Type;

impl Checker<'_> {
    /// Checks a call.
    pub(super) fn call(&mut self, expr: &mut Expr) {
        let id = expr.id;
        let ExprKind::Call { target, function, args } = &mut expr.kind else { return };
        if function == "_?._" {
            return self.optional_select(id, args);
        }
        for arg in args.iter_mut() {
            self.check(arg);
        }
        let declarations = self.environment.declarations.clone();
        let Some(receiver) = target else {
            let full = function.strip_prefix('.').unwrap_or(function);
            return match declarations.function(full) {
                Some(found) => {
                    *function = found.name.to_owned();
                    self.resolve(id, found, None, args);
                }
                None => self.undeclared(id, function),
            };
        };
        if let Some(namespace) = qualified_name(receiver) {
            let name = format!("{}.{function}", namespace.strip_prefix('.').unwrap_or(&namespace));
            if let Some(found) = declarations.function(&name) {
                *target = None;
                *function = found.name.to_owned();
                return self.resolve(id, found, None, args);
            }
        }
        self.check(receiver);
        match declarations.function(function) {
            Some(found) => {
                let receiver = receiver.id;
                self.resolve(id, found, Some(receiver), args);
            }
            None => self.undeclared(id, function),
        }
    }

    fn undeclared(&mut self, id: ExprId, function: &str) {
        self.set_type(id, Type::Error);
        self.report(id, format!("undeclared reference to '{function}' (in container '')"));
    }

    fn optional_select(&mut self, id: ExprId, args: &mut [Expr]) {
        let [operand, Expr { kind: ExprKind::Literal(Literal::String(field)), .. }] = args else { return };
        let selected = self.select_field(id, operand, field, true);
        let selected = self.substitution.apply(&selected);
        self.set_type(id, selected);
        self.references[id as usize] = Some(Reference::Overloads(vec!["select_optional_field"]));
    }

    fn resolve(&mut self, id: ExprId, function: &Function, receiver: Option<ExprId>, args: &[Expr]) {
        let ids = receiver.into_iter().chain(args.iter().map(|arg| arg.id));
        let given: Vec<Type> = ids.map(|id| self.type_of(id).clone()).collect();
        if let "_&&_" | "_||_" = function.name {
            return self.resolve_logic(id, function, args, &given);
        }
        let mut matched: Vec<&'static str> = Vec::new();
        let mut result: Option<Type> = None;
        for overload in function.overloads.iter().filter(|overload| overload.member == receiver.is_some()) {
            let instance = self.instantiate(overload);
            let (wanted, returned) = match &instance {
                Some((wanted, returned)) => (wanted, returned),
                None => (&overload.arguments, &overload.result),
            };
            if given.len() != wanted.len() || !self.substitution.assignable_all(given.iter().zip(wanted)) {
                continue;
            }
            matched.push(overload.id);
            let returned = self.substitution.apply(returned);
            result = match result {
                Some(result) if result.is_dyn() || result == returned => Some(result),
                Some(_) => Some(Type::Dyn),
                None => Some(returned),
            };
        }
        match result {
            Some(result) => {
                self.set_type(id, result);
                self.references[id as usize] = Some(Reference::Overloads(matched));
            }
            None => {
                let given: Vec<String> =
                    given.iter().map(|given| self.substitution.finish(given).to_string()).collect();
                let signature = match receiver {
                    Some(_) => format!("{}.({})", given[0], given[1..].join(", ")),
                    None => format!("({})", given.join(", ")),
                };
                let name = function.name;
                self.report(id, format!("found no matching overload for '{name}' applied to '{signature}'"));
                self.set_type(id, Type::Error);
            }
        }
    }

    fn resolve_logic(&mut self, id: ExprId, function: &Function, args: &[Expr], given: &[Type]) {
        let mut fits = true;
        for (arg, given) in args.iter().zip(given) {
            if !self.substitution.assignable(given, &Type::Bool) {
                self.mismatch(arg.id, &Type::Bool, given);
                fits = false;
            }
        }
        if fits {
            self.set_type(id, Type::Bool);
            let overloads = function.overloads.iter().map(|overload| overload.id).collect();
            self.references[id as usize] = Some(Reference::Overloads(overloads));
        } else {
            self.set_type(id, Type::Error);
        }
    }

    /// Returns a generic overload's types with fresh type variables.
    fn instantiate(&mut self, overload: &Overload) -> Option<(Vec<Type>, Type)> {
        if overload.parameters.is_empty() {
            return None;
        }
        let mut instance = Substitution::default();
        for parameter in &overload.parameters {
            let fresh = self.fresh();
            instance.bind(parameter.clone(), fresh);
        }
        let arguments = overload.arguments.iter().map(|argument| instance.apply(argument)).collect();
        Some((arguments, instance.apply(&overload.result)))
    }
}
