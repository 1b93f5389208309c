use std::fmt::Write;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::*;
use crate::ast::ExprKind;
use crate::parser::{Options, parse};

/// Results of the reference implementation, one expression per line: its errors as printed, or the type of the whole
/// expression and, from the inside out, of every subexpression, with its location and target.
const REFERENCE: &str = include_str!("../../tests/reference/expressions.jsonl");

struct Objects;

impl TypeProvider for Objects {
    fn find_type(&self, name: &str) -> Option<Type> {
        matches!(name, "selfType" | "selfType.inner").then(|| Type::object(name))
    }

    fn find_field(&self, object: &str, field: &str) -> Option<Type> {
        Some(match (object, field) {
            ("selfType.inner", "name") | ("selfType", "s") => Type::String,
            ("selfType.inner", "port") | ("selfType", "i") => Type::Int,
            ("selfType", "d") => Type::Double,
            ("selfType", "b") => Type::Bool,
            ("selfType", "y") => Type::Bytes,
            ("selfType", "t") => Type::Timestamp,
            ("selfType", "u") => Type::Duration,
            ("selfType", "x") => Type::Dyn,
            ("selfType", "l") => Type::list(Type::Int),
            ("selfType", "ls") => Type::list(Type::String),
            ("selfType", "lo") => Type::list(Type::object("selfType.inner")),
            ("selfType", "m") => Type::map(Type::String, Type::String),
            ("selfType", "mo") => Type::map(Type::String, Type::object("selfType.inner")),
            ("selfType", "o") => Type::object("selfType.inner"),
            _ => return None,
        })
    }
}

fn environment() -> Environment {
    Environment::standard_kubernetes()
        .clone()
        .with_variable("self", Type::object("selfType"))
        .with_variable("oldSelf", Type::optional(Type::object("selfType")))
        .with_provider(Arc::new(Objects))
}

fn compile(text: &str, environment: &Environment) -> Result<Checked, Errors> {
    check(&parse(text, Options::KUBERNETES)?, environment)
}

fn describe(checked: &Checked, expr: &Expr, into: &mut Vec<String>) {
    let mut each = |exprs: &[&Expr]| exprs.iter().for_each(|expr| describe(checked, expr, into));
    match &expr.kind {
        ExprKind::Literal(_) | ExprKind::Ident(_) => {}
        ExprKind::Select { operand, .. } => each(&[operand]),
        ExprKind::Call { target, args, .. } => {
            target.iter().for_each(|target| each(&[target]));
            args.iter().for_each(|arg| each(&[arg]));
        }
        ExprKind::List { elements, .. } => elements.iter().for_each(|element| each(&[element])),
        ExprKind::Map(entries) => entries.iter().for_each(|entry| each(&[&entry.key, &entry.value])),
        ExprKind::Struct { entries, .. } => entries.iter().for_each(|entry| each(&[&entry.value])),
        ExprKind::Comprehension(fold) => each(&[&fold.range, &fold.init, &fold.condition, &fold.step, &fold.result]),
    }
    let Location { line, column } = checked.location(expr.id);
    let mut description = format!("{line}:{column} {}", checked.type_of(expr.id));
    match checked.reference(expr.id) {
        Some(Reference::Ident(name)) => write!(description, " ={name}"),
        Some(Reference::Overloads(ids)) => write!(description, " {}", ids.join("|")),
        _ => Ok(()),
    }
    .expect("writing to a string must work");
    into.push(description);
}

#[test]
fn checking_matches_the_reference_implementation() {
    let environment = environment();
    let mut wrong = Vec::new();
    for line in REFERENCE.lines() {
        let expected: Value = serde_json::from_str(line).expect("the reference must be JSON");
        let text = expected["expr"].as_str().expect("an expression must be a string");
        let (error, result, references) = match compile(text, &environment) {
            Err(errors) => (Value::String(errors.to_string()), Value::Null, Value::Null),
            Ok(checked) => {
                let mut references = Vec::new();
                describe(&checked, &checked.expr, &mut references);
                (Value::Null, Value::String(checked.result_type().to_string()), Value::from(references))
            }
        };
        for (field, actual) in [("error", error), ("type", result), ("refs", references)] {
            if expected[field] != actual {
                wrong.push(format!("{text:?}: {field}\n  expected {}\n  actual   {actual}", expected[field]));
            }
        }
    }
    assert!(REFERENCE.lines().count() > 500);
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn namespaced_functions_lose_their_target() {
    let checked = compile("sets.contains(self.ls, ['a'])", &environment()).expect("it must check");
    let ExprKind::Call { target, function, args } = &checked.expr.kind else { panic!("it must be a call") };
    assert_eq!((target.is_none(), function.as_str(), args.len()), (true, "sets.contains", 2));
    assert_eq!(checked.overloads(checked.expr.id), ["list_sets_contains_list"]);
}

#[test]
fn a_checked_expression_knows_the_variables_it_refers_to() {
    let checked = compile("self.l.all(oldSelf, oldSelf > 0)", &environment()).expect("it must check");
    assert!(checked.refers_to("self"));
    // A comprehension variable of the same name counts, too.
    assert!(checked.refers_to("oldSelf"));
    assert!(!compile("self.i > 0", &environment()).expect("it must check").refers_to("oldSelf"));
}

#[test]
fn the_deepest_expressions_that_parse_can_be_checked() {
    let environment = environment();
    for text in [
        format!("{}true{}", "self.l.all(x,".repeat(245), ")".repeat(245)),
        format!("{}1{}", "[".repeat(249), "]".repeat(249)),
        format!("1{}", "+1".repeat(250)),
        format!("{}true{}", "self.?l.orValue([]).exists(x,".repeat(120), ")".repeat(120)),
    ] {
        let parsed = parse(&text, Options::KUBERNETES).unwrap_or_else(|errors| panic!("{text}: {errors}"));
        check(&parsed, &environment).unwrap_or_else(|errors| panic!("{text}: {errors}"));
    }
}

#[test]
fn types_cannot_grow_without_bound() {
    let text = format!("[1]{}", ".map(x, {x: x})".repeat(60));
    let errors = compile(&text, &environment()).expect_err("the type must be too large");
    assert!(errors.to_string().contains("type of the expression is too large"), "{errors}");
}

#[test]
fn a_new_variable_replaces_one_of_the_same_name() {
    let environment = environment().with_variable("self", Type::Int);
    assert_eq!(compile("self", &environment).expect("it must check").result_type(), &Type::Int);
}

proptest! {
    #[test]
    fn every_parsed_expression_is_checked_without_panic(text in "(self|oldSelf|[lsimodbx]|x|1|'a'|all|map|size|has|\\.|\\.\\?|\\(|\\)|\\[|\\]|\\{|\\}|,|:|\\?| |\\+|-|==|&&|!|in ){0,20}") {
        if let Err(errors) = compile(&text, &environment()) {
            prop_assert!(!errors.is_empty());
        }
    }

    #[test]
    fn every_expression_that_checks_has_a_type(first in 0usize..400, second in 0usize..400) {
        let text = |index: usize| {
            let line = REFERENCE.lines().nth(index).expect("the reference must be long");
            let value: Value = serde_json::from_str(line).expect("the reference must be JSON");
            value["expr"].as_str().unwrap_or_default().to_owned()
        };
        let both = format!("[dyn({}), dyn({})]", text(first), text(second));
        if let Ok(checked) = compile(&both, &environment()) {
            prop_assert_eq!(checked.result_type(), &Type::list(Type::Dyn));
        }
    }
}
