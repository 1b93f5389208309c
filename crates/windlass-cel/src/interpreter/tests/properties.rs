//! Evaluation returns a value or an error for any expression and object.

use proptest::prelude::*;
use serde_json::{Value as Json, json};
use windlass_schema::structural::Structural;

use super::{Fixture, answers};
use crate::interpreter::{Bindings, Program};
use crate::value::Value;

/// Generates expressions from pieces, most of which are well typed in any combination.
fn expression() -> impl Strategy<Value = String> {
    let leaf = prop_oneof![
        Just("self"),
        Just("self.spec"),
        Just("self.spec.ints"),
        Just("self.spec.items"),
        Just("self.spec.labels"),
        Just("self.spec.name"),
        Just("self.spec.at"),
        Just("self.spec.ios"),
        Just("self.spec.set"),
        Just("self.spec.ml"),
        Just("oldSelf"),
        Just("1"),
        Just("-3"),
        Just("2u"),
        Just("1.5"),
        Just("'é%s'"),
        Just("b'x'"),
        Just("null"),
        Just("true"),
        Just("[]"),
        Just("{}"),
        Just("duration('1h')"),
        Just("quantity('1')"),
        Just("optional.none()"),
    ]
    .prop_map(|leaf| format!("dyn({leaf})"));
    leaf.prop_recursive(4, 24, 3, |inner| {
        let two = (inner.clone(), inner.clone());
        let operator = prop::sample::select(vec!["+", "-", "*", "/", "%", "==", "!=", "<", ">=", "in", "&&", "||"]);
        let unary = prop::sample::select(vec![
            "size(X)",
            "!X",
            "-X",
            "type(X)",
            "string(X)",
            "int(X)",
            "X.sum()",
            "X.max()",
            "X.join()",
            "X.distinct()",
            "X.flatten()",
            "X.first()",
            "X.value()",
            "X.getHours()",
            "X.map(i, i)",
            "X.all(i, i == 1)",
            "has(X.name)",
            "X.?name",
            "X.spec",
            "X[0]",
            "X[?0]",
            "optional.of(X)",
            "X.transformMap(k, v, v)",
            "X.upperAscii()",
        ]);
        let binary = prop::sample::select(vec![
            "X[Y]",
            "X.matches(Y)",
            "X.substring(Y)",
            "X.split(Y)",
            "X.format(Y)",
            "X.replace(Y, Y)",
            "X.slice(Y, Y)",
            "X.orValue(Y)",
            "X.filter(i, i == Y)",
            "X ? X : Y",
            "sets.contains(X, Y)",
            "{X: Y}",
            "[X, Y]",
            "X.indexOf(Y)",
            "X.add(Y)",
            "X.exists(i, v, v == Y)",
            "X.findAll(Y)",
            "X.getHours(Y)",
        ]);
        prop_oneof![
            (two.clone(), operator).prop_map(|((x, y), operator)| format!("dyn({x} {operator} {y})")),
            (inner.clone(), unary).prop_map(|(x, form)| format!("dyn({})", form.replace('X', &x))),
            (two, binary).prop_map(|((x, y), form)| {
                let form: String = form
                    .chars()
                    .map(|c| match c {
                        'X' => x.clone(),
                        'Y' => y.clone(),
                        c => c.to_string(),
                    })
                    .collect();
                format!("dyn({form})")
            }),
        ]
    })
}

fn any_json() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        Just(Json::Null),
        any::<bool>().prop_map(Json::from),
        any::<i64>().prop_map(Json::from),
        any::<f64>().prop_map(Json::from),
        "[a-z0-9é:./+-]{0,12}".prop_map(Json::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        let name = prop::sample::select(vec![
            "spec", "ints", "items", "labels", "name", "at", "ios", "set", "ml", "k", "size", "tags", "other",
        ]);
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Json::from),
            prop::collection::btree_map(name.prop_map(str::to_owned), inner, 0..6)
                .prop_map(|fields| Json::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn evaluation_ends_within_its_budget_and_never_panics(
        text in expression(),
        object in any_json(),
        limit in prop::option::of(0u64..200),
    ) {
        let fixture = Fixture::shared();
        let Ok(checked) = fixture.check(&text) else { return Ok(()) };
        let Ok(program) = Program::new(&checked) else { return Ok(()) };
        let bindings = Bindings::new()
            .with("self", Value::resource(&object, &fixture.schema))
            .with("oldSelf", Value::untyped(&object));
        let evaluation = program.eval(&bindings, limit);
        let again = program.eval(&bindings, limit);
        prop_assert_eq!(evaluation.cost, again.cost);
        if let (Ok(value), Some(limit)) = (&evaluation.result, limit) {
            prop_assert!(evaluation.cost <= limit);
            let _ = value.to_literal();
        }
    }

    #[test]
    fn a_value_equals_itself_whatever_its_schema(items in prop::collection::vec("[a-c]{0,2}", 0..5)) {
        let json = json!(items);
        let reversed: Vec<_> = items.iter().rev().collect();
        let reversed = json!(reversed);
        for (list_type, unordered) in [("atomic", false), ("set", true)] {
            let schema = json!({"type": "array", "x-kubernetes-list-type": list_type, "items": {"type": "string"}});
            let schema = Structural::compile(&schema).expect("the schema must be structural");
            let list = Value::typed(&json, &schema).expect("it must fit");
            let backwards = Value::typed(&reversed, &schema).expect("it must fit");
            prop_assert_eq!(list.equals(&list), Ok(true));
            prop_assert_eq!(list.equals(&backwards), Ok(unordered || json == reversed));
            let sum = list.clone().plus(&backwards).expect("lists must add");
            let length = if unordered { items.len() } else { 2 * items.len() };
            prop_assert_eq!(sum.size(), Some(length as i64));
        }
    }
}

#[test]
fn most_generated_expressions_pass_the_checker() {
    let fixture = Fixture::new(&answers());
    let good = ["dyn(dyn(self.spec.ints).sum())", "dyn(dyn(1) in dyn([]))", "dyn(dyn(self)[dyn(1)])"];
    for text in good {
        assert!(fixture.check(text).is_ok(), "{text}");
    }
}
