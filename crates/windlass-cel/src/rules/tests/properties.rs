//! Any schema, rules and objects give a result in bounded time.

use std::sync::Arc;

use proptest::prelude::*;
use serde_json::{Value, json};
use windlass_schema::field::Path;
use windlass_schema::structural::Structural;

use super::super::{CrdRulesOptions, OBJECT_BUDGET, compile, validate_crd_rules};

const PIECES: [&str; 48] = [
    "self",
    "oldSelf",
    ".a",
    ".b",
    "[0]",
    "['a']",
    "==",
    "<",
    "+",
    "-",
    "&&",
    "||",
    "!",
    "?",
    ":",
    "(",
    ")",
    "[",
    "]",
    "{",
    "}",
    ",",
    "1",
    "2.5",
    "'a'",
    "b'x'",
    "null",
    "true",
    "has(self.a)",
    ".all(x, ",
    ".map(x, ",
    ".exists_one(x, ",
    "x",
    ".size()",
    ".matches('a+')",
    ".sum()",
    "quantity(",
    "ip(",
    "in",
    ".?a",
    "dyn(",
    "string(",
    ".join(',')",
    ".filter(x, ",
    ".transformMap(k, v, ",
    "lists.range(100000)",
    ".orValue(",
    "type(",
];

fn expression() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::collection::vec(prop::sample::select(&PIECES[..]), 0..14).prop_map(|pieces| pieces.concat()),
        1 => "[ -~]{0,30}",
        1 => prop::sample::select(vec![
            "self == self", "size(self) > 1", "self.a > 1", "self.all(x, x == self[0])", "self.b.a == oldSelf.b.a",
            "self.all(x, self.all(y, self.all(z, x == z)))", "self.exists(k, v, k == v)", "true", "1", "self.a.matches(self.b)",
        ])
        .prop_map(str::to_owned),
    ]
}

fn any_schema() -> impl Strategy<Value = Value> {
    let rules = prop::collection::vec((expression(), expression(), any::<Option<bool>>()), 0..3)
        .prop_map(|rules| {
            let rules = rules.into_iter().map(|(rule, message, optional)| {
            json!({"rule": rule, "messageExpression": message, "optionalOldSelf": optional, "fieldPath": ".a"})
        });
            Value::Array(rules.collect())
        })
        .boxed();
    let kinds = prop::sample::select(vec!["string", "integer", "number", "boolean", "object", "array", ""]);
    let leaf = (kinds, rules.clone(), any::<Option<i32>>()).prop_map(|(kind, rules, max)| {
        json!({"type": kind, "x-kubernetes-validations": rules, "maxLength": max, "maxItems": max, "maxProperties": max})
    });
    leaf.prop_recursive(4, 24, 4, move |inner| {
        let list = (inner.clone(), rules.clone(), any::<Option<u16>>()).prop_map(|(items, rules, max)| {
            json!({"type": "array", "items": items, "maxItems": max, "x-kubernetes-validations": rules})
        });
        let map = (inner.clone(), rules.clone()).prop_map(|(values, rules)| {
            json!({"type": "object", "additionalProperties": values, "x-kubernetes-validations": rules})
        });
        let object =
            (inner.clone(), inner.clone(), rules.clone(), any::<bool>()).prop_map(|(a, b, rules, embedded)| {
                json!({"type": "object", "properties": {"a": a, "b": b, "x-y": {"type": "string"}}, "required": ["a"],
                "x-kubernetes-embedded-resource": embedded, "x-kubernetes-validations": rules})
            });
        let parts = (inner.clone(), inner).prop_map(|(mut whole, part)| {
            whole["allOf"] = json!([part]);
            whole
        });
        prop_oneof![list, map, object, parts]
    })
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-z%é]{0,5}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map("a|b|x-y|kind", inner, 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_panics_or_runs_forever(schema in any_schema(), new in any_value(), old in prop::option::of(any_value())) {
        if let Ok(schema) = Structural::compile(&schema) {
            let schema = Arc::new(schema);
            validate_crd_rules(&schema, &Path::new("s"), CrdRulesOptions::default());
            if let Some(rules) = compile(&schema, true) {
                let mut budget = OBJECT_BUDGET;
                rules.validate(&Path::root(), &new, old.as_ref(), &mut budget);
                prop_assert!(budget <= OBJECT_BUDGET);
            }
        }
    }
}
