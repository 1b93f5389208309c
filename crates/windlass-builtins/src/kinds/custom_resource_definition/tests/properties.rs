//! No input causes a panic or takes too long.

use std::time::{Duration, Instant};

use jiff::Timestamp;
use proptest::prelude::*;
use proptest::strategy::Strategy as _;
use serde_json::{Map, json};

use super::*;
use crate::kinds::custom_resource_definition::schema::FIELDS;
use crate::kinds::custom_resource_definition::{
    Definition, accept_names, api_approval, check_structural, conditions, establish,
};
use crate::strategy::Strategy;

/// Any JSON, with the field names that have a meaning.
fn any_json() -> impl proptest::strategy::Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<f32>().prop_map(|number| json!(number)),
        prop_oneof![Just("object"), Just("array"), Just("string"), Just("map"), Just("set"), Just("v1"), Just(".a")]
            .prop_map(Value::from),
        "[ -~é]{0,8}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        (0..FIELDS.len()).prop_map(|index| FIELDS[index].name.to_owned()),
        prop_oneof![
            Just("a"),
            Just("metadata"),
            Just("openAPIV3Schema"),
            Just("schema"),
            Just("versions"),
            Just("names"),
            Just("conversion"),
            Just("webhook"),
            Just("clientConfig"),
            Just("rule"),
            Just("fieldPath"),
            Just("name"),
            Just("storage"),
            Just("selectableFields"),
            Just("jsonPath"),
            Just("subresources"),
            Just("scale"),
        ]
        .prop_map(str::to_owned),
    ];
    leaf.prop_recursive(6, 80, 6, move |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map(name.clone(), inner, 0..6)
                .prop_map(|map| Value::Object(map.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

/// Runs every operation on a CRD.
fn exercise(mut object: Value, mut old: Value) {
    let kind = CustomResourceDefinition;
    let now = Timestamp::UNIX_EPOCH;
    kind.default(&mut old);
    let mut new = object.clone();
    kind.default(&mut new);
    kind.prepare_for_update(&mut new, &old, &WriteContext::test());
    let _ = kind.validate_update(&new, &old);
    let _ = kind.warnings(&new, Some(&old));
    let _ = kind.validate_subresource_update("status", &new, &old);
    kind.default(&mut object);
    let mut again = object.clone();
    kind.default(&mut again);
    assert_eq!(again, object, "defaulting must be idempotent");
    let decided = [
        accept_names(&object, [&old, &object], now),
        establish(&object, now),
        check_structural(&object, now),
        api_approval(&object, now),
    ];
    for mut status in decided.into_iter().flatten() {
        conditions::remove(&mut status, conditions::ESTABLISHED);
    }
    kind.prepare_for_create(&mut object, &WriteContext::test());
    let _ = kind.validate(&object);
    let _ = Definition::parse(&object);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_spec_is_validated_without_panic(spec in any_json(), old in any_json(), status in any_json()) {
        exercise(json!({"spec": spec, "status": status}), json!({"spec": old, "status": spec}));
    }

    #[test]
    fn any_schema_is_validated_without_panic(schema in any_json(), old in any_json()) {
        exercise(definition(schema), definition(old));
    }
}

#[test]
fn large_and_hostile_definitions_take_little_time() {
    let many = |count: usize, value: Value| -> Map<String, Value> {
        (0..count).map(|index| (format!("p{index}"), value.clone())).collect()
    };
    let keys: Vec<_> = (0..5_000).map(|index| format!("k{}", index % 7)).collect();
    let start = Instant::now();
    for schema in [
        json!({"type": "object", "properties": many(5_000, json!({"type": "array", "format": "x"}))}),
        json!({"type": "object", "properties": {"a": {"type": "array", "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": keys, "items": {"type": "object"}}}}),
        json!({"type": "object", "anyOf": vec![json!({"properties": {"b": {"type": "string"}}}); 5_000]}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "[[:".repeat(5_000)}}}),
        json!({"type": "object", "properties": {"a": {"type": "string", "pattern": "\\pL".repeat(500)}}}),
    ] {
        let object = created(definition(schema));
        let errors = CustomResourceDefinition.validate(&object);
        let _ = CustomResourceDefinition.validate_update(&object, &object);
        let _ = CustomResourceDefinition.warnings(&object, Some(&object));
        assert!(errors.len() < 50_000);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
}
