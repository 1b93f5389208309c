//! Macros: calls that expand to other expressions, mostly comprehensions.

use super::build::Builder;
use crate::ast::{Comprehension, Entry, Expr, ExprId, ExprKind, Literal};

/// The accumulator of comprehensions, a name that cannot be written in an expression.
const ACCUMULATOR: &str = "@result";
/// The former name of accumulators, which no variable may have.
const OLD_ACCUMULATOR: &str = "__result__";
/// The variable of comprehensions that only bind a name.
const UNUSED: &str = "#unused";

/// Maximum number of expressions before another macro is expanded. Macros that use their target twice could otherwise
/// produce exponentially many.
const MAXIMUM_EXPRESSIONS: usize = 400_000;

const NOT_A_NAME: &str = "argument must be a simple name";
const OVERWRITES: &str = "iteration variable overwrites accumulator variable";

/// Error in the arguments of a macro, with the ID of the expression.
type MacroError = (ExprId, String);
type Expanded = Result<Expr, MacroError>;

impl Builder<'_> {
    /// Returns a call, or the expansion of the macro with that name.
    pub(super) fn call_or_macro(&mut self, id: ExprId, name: String, target: Option<Expr>, args: Vec<Expr>) -> Expr {
        let Some(expander) = self.find(&name, target.as_ref(), args.len()) else {
            return Expr { id, kind: ExprKind::Call { target: target.map(Box::new), function: name, args } };
        };
        if self.positions.len() > MAXIMUM_EXPRESSIONS {
            let location = self.location(id);
            self.errors.report(location, "expression is too large after the expansion of macros");
            return self.nothing(None);
        }
        let position = self.positions[id as usize];
        let mut expansion = Expansion { builder: self, position };
        match expander(&mut expansion, target, args) {
            Ok(expr) => expr,
            Err((at, message)) => {
                let location = self.location(at);
                self.errors.report(location, message);
                let position = self.positions[at as usize];
                Expr { id: self.id_at(position), kind: ExprKind::Literal(Literal::Null) }
            }
        }
    }

    fn find(&self, name: &str, target: Option<&Expr>, count: usize) -> Option<Expander> {
        let options = self.options;
        let expander: Expander = match (name, target, count) {
            ("has", None, 1) => has,
            ("all", Some(_), 2) => all,
            ("exists", Some(_), 2) => exists,
            ("exists_one", Some(_), 2) => exists_one,
            ("map", Some(_), 2 | 3) => map,
            ("filter", Some(_), 2) => filter,
            ("optMap", Some(_), 2) if options.optionals => optional_map,
            ("optFlatMap", Some(_), 2) if options.optionals => optional_flat_map,
            ("all", Some(_), 3) if options.two_variable_macros => all,
            ("exists", Some(_), 3) if options.two_variable_macros => exists,
            ("existsOne" | "exists_one", Some(_), 3) if options.two_variable_macros => exists_one,
            ("transformList", Some(_), 3 | 4) if options.two_variable_macros => transform_list,
            ("transformMap", Some(_), 3 | 4) if options.two_variable_macros => transform_map,
            ("transformMapEntry", Some(_), 3 | 4) if options.two_variable_macros => transform_map_entry,
            ("sortBy", Some(_), 2) if options.sort_by => sort_by,
            ("bind", Some(Expr { kind: ExprKind::Ident(namespace), .. }), 3)
                if options.bindings && namespace == "cel" =>
            {
                bind
            }
            _ => return None,
        };
        Some(expander)
    }
}

type Expander = fn(&mut Expansion<'_, '_>, Option<Expr>, Vec<Expr>) -> Expanded;

/// Builds the expressions of one expansion, all located at the macro.
struct Expansion<'a, 'b> {
    builder: &'a mut Builder<'b>,
    position: u32,
}

/// The parts in which the comprehensions of macros differ.
struct Fold {
    init: Expr,
    condition: Expr,
    step: Expr,
    result: Expr,
}

impl Expansion<'_, '_> {
    fn expr(&mut self, kind: ExprKind) -> Expr {
        Expr { id: self.builder.id_at(self.position), kind }
    }

    fn literal(&mut self, literal: Literal) -> Expr {
        self.expr(ExprKind::Literal(literal))
    }

    fn ident(&mut self, name: &str) -> Expr {
        self.expr(ExprKind::Ident(name.to_owned()))
    }

    fn accumulator(&mut self) -> Expr {
        self.ident(ACCUMULATOR)
    }

    fn call(&mut self, function: &str, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call { target: None, function: function.to_owned(), args })
    }

    fn member_call(&mut self, function: &str, target: Expr, args: Vec<Expr>) -> Expr {
        self.expr(ExprKind::Call { target: Some(Box::new(target)), function: function.to_owned(), args })
    }

    fn list(&mut self, elements: Vec<Expr>) -> Expr {
        self.expr(ExprKind::List { elements, optional: Vec::new() })
    }

    fn fold(&mut self, range: Expr, variables: Variables, fold: Fold) -> Expr {
        let Fold { init, condition, step, result } = fold;
        let accumulator = ACCUMULATOR.to_owned();
        let Variables { first, second } = variables;
        let comprehension =
            Comprehension { range, variable: first, second, accumulator, init, condition, step, result };
        self.expr(ExprKind::Comprehension(Box::new(comprehension)))
    }

    /// Binds a name to a value within an expression.
    fn binding(&mut self, name: String, value: Expr, result: Expr) -> Expr {
        let range = self.list(Vec::new());
        let condition = self.literal(Literal::Bool(false));
        let step = self.ident(&name);
        let comprehension = Comprehension {
            range,
            variable: UNUSED.to_owned(),
            second: None,
            accumulator: name,
            init: value,
            condition,
            step,
            result,
        };
        self.expr(ExprKind::Comprehension(Box::new(comprehension)))
    }

    /// Returns `step`, or the unchanged accumulator if the filter is false.
    fn filtered(&mut self, filter: Option<Expr>, step: Expr) -> Expr {
        match filter {
            None => step,
            Some(filter) => {
                let accumulator = self.accumulator();
                self.call("_?_:_", vec![filter, step, accumulator])
            }
        }
    }

    /// Copies an expression with new IDs.
    fn copy(&mut self, expr: &Expr) -> Expr {
        let position = self.builder.positions.get(expr.id as usize).copied().unwrap_or(u32::MAX);
        let id = self.builder.id_at(position);
        let kind = match &expr.kind {
            ExprKind::Literal(_) | ExprKind::Ident(_) => expr.kind.clone(),
            ExprKind::Select { operand, field, test_only } => {
                ExprKind::Select { operand: Box::new(self.copy(operand)), field: field.clone(), test_only: *test_only }
            }
            ExprKind::Call { target, function, args } => ExprKind::Call {
                args: args.iter().map(|arg| self.copy(arg)).collect(),
                target: target.as_ref().map(|target| Box::new(self.copy(target))),
                function: function.clone(),
            },
            ExprKind::List { elements, optional } => ExprKind::List {
                elements: elements.iter().map(|element| self.copy(element)).collect(),
                optional: optional.clone(),
            },
            ExprKind::Map(entries) => ExprKind::Map(self.copy_entries(entries)),
            ExprKind::Struct { name, entries } => {
                ExprKind::Struct { name: name.clone(), entries: self.copy_entries(entries) }
            }
            ExprKind::Comprehension(fold) => ExprKind::Comprehension(Box::new(Comprehension {
                range: self.copy(&fold.range),
                variable: fold.variable.clone(),
                second: fold.second.clone(),
                accumulator: fold.accumulator.clone(),
                init: self.copy(&fold.init),
                condition: self.copy(&fold.condition),
                step: self.copy(&fold.step),
                result: self.copy(&fold.result),
            })),
        };
        Expr { id, kind }
    }

    fn copy_entries(&mut self, entries: &[Entry]) -> Vec<Entry> {
        let mut copies = Vec::with_capacity(entries.len());
        for entry in entries {
            let id = self.builder.id_at(self.position);
            copies.push(Entry {
                id,
                key: self.copy(&entry.key),
                value: self.copy(&entry.value),
                optional: entry.optional,
            });
        }
        copies
    }
}

/// The variables of a comprehension.
struct Variables {
    first: String,
    second: Option<String>,
}

fn name(expr: &Expr, otherwise: &str) -> Result<String, MacroError> {
    match &expr.kind {
        ExprKind::Ident(name) => Ok(name.clone()),
        _ => Err((expr.id, otherwise.to_owned())),
    }
}

fn is_accumulator(name: &str) -> bool {
    name == ACCUMULATOR || name == OLD_ACCUMULATOR
}

fn one_variable(expr: &Expr, otherwise: &str) -> Result<Variables, MacroError> {
    let first = name(expr, otherwise)?;
    if is_accumulator(&first) {
        return Err((expr.id, OVERWRITES.to_owned()));
    }
    Ok(Variables { first, second: None })
}

fn two_variables(one: &Expr, two: &Expr) -> Result<Variables, MacroError> {
    let first = name(one, NOT_A_NAME)?;
    let second = name(two, NOT_A_NAME)?;
    if first == second {
        return Err((two.id, format!("duplicate variable name: {first}")));
    }
    for (expr, name) in [(one, &first), (two, &second)] {
        if is_accumulator(name) {
            return Err((expr.id, OVERWRITES.to_owned()));
        }
    }
    Ok(Variables { first, second: Some(second) })
}

/// Returns the variables of a quantifier, one or two, and its predicate.
fn quantified(mut args: Vec<Expr>) -> Result<(Variables, Expr), MacroError> {
    let variables =
        if args.len() == 2 { one_variable(&args[0], NOT_A_NAME)? } else { two_variables(&args[0], &args[1])? };
    let predicate = args.pop().expect("a quantifier must have a predicate");
    Ok((variables, predicate))
}

/// Returns the variables of a two-variable transformation, its filter and its transform expression.
fn transformed(mut args: Vec<Expr>) -> Result<(Variables, Option<Expr>, Expr), MacroError> {
    let variables = two_variables(&args[0], &args[1])?;
    let transform = args.pop().expect("a transformation must have a result");
    let filter = if args.len() == 3 { args.pop() } else { None };
    Ok((variables, filter, transform))
}

fn receiver(target: Option<Expr>) -> Expr {
    target.expect("a receiver macro must have a target")
}

fn has(expansion: &mut Expansion<'_, '_>, _: Option<Expr>, mut args: Vec<Expr>) -> Expanded {
    let arg = args.swap_remove(0);
    match arg.kind {
        ExprKind::Select { operand, field, .. } => {
            Ok(expansion.expr(ExprKind::Select { operand, field, test_only: true }))
        }
        _ => Err((arg.id, "invalid argument to has() macro".to_owned())),
    }
}

fn all(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let (variables, predicate) = quantified(args)?;
    let init = expansion.literal(Literal::Bool(true));
    let accumulator = expansion.accumulator();
    let condition = expansion.call("@not_strictly_false", vec![accumulator]);
    let accumulator = expansion.accumulator();
    let step = expansion.call("_&&_", vec![accumulator, predicate]);
    let result = expansion.accumulator();
    Ok(expansion.fold(receiver(target), variables, Fold { init, condition, step, result }))
}

fn exists(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let (variables, predicate) = quantified(args)?;
    let init = expansion.literal(Literal::Bool(false));
    let accumulator = expansion.accumulator();
    let not = expansion.call("!_", vec![accumulator]);
    let condition = expansion.call("@not_strictly_false", vec![not]);
    let accumulator = expansion.accumulator();
    let step = expansion.call("_||_", vec![accumulator, predicate]);
    let result = expansion.accumulator();
    Ok(expansion.fold(receiver(target), variables, Fold { init, condition, step, result }))
}

fn exists_one(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let (variables, predicate) = quantified(args)?;
    let init = expansion.literal(Literal::Int(0));
    let condition = expansion.literal(Literal::Bool(true));
    let (accumulator, one) = (expansion.accumulator(), expansion.literal(Literal::Int(1)));
    let step = expansion.call("_+_", vec![accumulator, one]);
    let step = expansion.filtered(Some(predicate), step);
    let (accumulator, one) = (expansion.accumulator(), expansion.literal(Literal::Int(1)));
    let result = expansion.call("_==_", vec![accumulator, one]);
    Ok(expansion.fold(receiver(target), variables, Fold { init, condition, step, result }))
}

/// Builds a comprehension that appends to a list.
fn appending(
    expansion: &mut Expansion<'_, '_>,
    range: Expr,
    variables: Variables,
    filter: Option<Expr>,
    element: Expr,
) -> Expr {
    let init = expansion.list(Vec::new());
    let condition = expansion.literal(Literal::Bool(true));
    let (accumulator, element) = (expansion.accumulator(), expansion.list(vec![element]));
    let step = expansion.call("_+_", vec![accumulator, element]);
    let step = expansion.filtered(filter, step);
    let result = expansion.accumulator();
    expansion.fold(range, variables, Fold { init, condition, step, result })
}

fn map(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expanded {
    let variables = one_variable(&args[0], "argument is not an identifier")?;
    let element = args.pop().expect("map must have a result");
    let filter = if args.len() == 2 { args.pop() } else { None };
    Ok(appending(expansion, receiver(target), variables, filter, element))
}

fn filter(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, mut args: Vec<Expr>) -> Expanded {
    let variables = one_variable(&args[0], "argument is not an identifier")?;
    let predicate = args.pop();
    let element = args.swap_remove(0);
    Ok(appending(expansion, receiver(target), variables, predicate, element))
}

fn transform_list(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let (variables, filter, element) = transformed(args)?;
    Ok(appending(expansion, receiver(target), variables, filter, element))
}

/// Builds a comprehension that inserts into a map.
fn inserting(
    expansion: &mut Expansion<'_, '_>,
    range: Expr,
    variables: Variables,
    filter: Option<Expr>,
    inserted: Vec<Expr>,
) -> Expr {
    let mut args = vec![expansion.accumulator()];
    args.extend(inserted);
    let step = expansion.call("cel.@mapInsert", args);
    let step = expansion.filtered(filter, step);
    let init = expansion.expr(ExprKind::Map(Vec::new()));
    let condition = expansion.literal(Literal::Bool(true));
    let result = expansion.accumulator();
    expansion.fold(range, variables, Fold { init, condition, step, result })
}

fn transform_map(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let (variables, filter, value) = transformed(args)?;
    let key = expansion.ident(&variables.first);
    Ok(inserting(expansion, receiver(target), variables, filter, vec![key, value]))
}

fn transform_map_entry(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    let (variables, filter, entries) = transformed(args)?;
    Ok(inserting(expansion, receiver(target), variables, filter, vec![entries]))
}

/// Binds the value of a present optional to a name and wraps the result as the macro requires; an absent optional stays
/// absent.
fn over_optional(
    expansion: &mut Expansion<'_, '_>,
    target: Option<Expr>,
    mut args: Vec<Expr>,
    otherwise: &str,
    wrapped: bool,
) -> Expanded {
    let variable = name(&args[0], otherwise)?;
    let result = args.pop().expect("the macro must have a result");
    let target = receiver(target);
    let copy = expansion.copy(&target);
    let value = expansion.member_call("value", copy, Vec::new());
    let mut bound = expansion.binding(variable, value, result);
    if wrapped {
        bound = expansion.call("optional.of", vec![bound]);
    }
    let present = expansion.member_call("hasValue", target, Vec::new());
    let none = expansion.call("optional.none", Vec::new());
    Ok(expansion.call("_?_:_", vec![present, bound, none]))
}

fn optional_map(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    over_optional(expansion, target, args, "optMap() variable name must be a simple identifier", true)
}

fn optional_flat_map(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    over_optional(expansion, target, args, "optFlatMap() variable name must be a simple identifier", false)
}

fn sort_by(expansion: &mut Expansion<'_, '_>, target: Option<Expr>, args: Vec<Expr>) -> Expanded {
    const INPUT: &str = "@__sortBy_input__";
    let target = receiver(target);
    if matches!(target.kind, ExprKind::Literal(_) | ExprKind::Map(_) | ExprKind::Struct { .. }) {
        let message = "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
        return Err((target.id, message.to_owned()));
    }
    let range = expansion.ident(INPUT);
    let keys = map(expansion, Some(range), args)?;
    let input = expansion.ident(INPUT);
    let sorted = expansion.member_call("@sortByAssociatedKeys", input, vec![keys]);
    Ok(expansion.binding(INPUT.to_owned(), target, sorted))
}

fn bind(expansion: &mut Expansion<'_, '_>, _: Option<Expr>, mut args: Vec<Expr>) -> Expanded {
    let variable = name(&args[0], "cel.bind() variable names must be simple identifiers")?;
    let result = args.pop().expect("bind must have a result");
    let value = args.pop().expect("bind must have a value");
    Ok(expansion.binding(variable, value, result))
}
