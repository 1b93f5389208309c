//! Properties of any schema and any value.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{NormalizeOptions, ROOT, meta, types};
use crate::structural::Structural;
use crate::structural::prune_and_default::Steps;

fn name() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "metadata", "kind", "apiVersion"]).prop_map(str::to_owned)
}

fn scalar() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        (-5..20_i64).prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ]
}

fn value() -> impl Strategy<Value = Value> {
    scalar().prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(name(), inner, 0..4)
                .prop_map(|map| map.into_iter().collect::<Map<_, _>>().into()),
        ]
    })
}

/// Generates restricting keywords.
fn keyword() -> impl Strategy<Value = (String, Value)> {
    let pick = |name: &'static str, value: BoxedStrategy<Value>| value.prop_map(move |v| (name.to_owned(), v)).boxed();
    let small = || (0..4_i64).prop_map(Value::from).boxed();
    let flag = || Just(Value::Bool(true)).boxed();
    let number = || prop_oneof![(-3..10_i64).prop_map(Value::from), any::<f64>().prop_map(Value::from)].boxed();
    let formats = vec!["date", "int32", "float", "uri", "email", "hostname", "duration", "none", "uuid", "cidr"];
    prop_oneof![
        pick("minimum", number()),
        pick("maximum", number()),
        pick("multipleOf", number()),
        pick("exclusiveMinimum", flag()),
        pick("maxLength", small()),
        pick("minLength", small()),
        pick("minItems", small()),
        pick("maxProperties", small()),
        pick("uniqueItems", flag()),
        pick("nullable", flag()),
        pick("pattern", prop::sample::select(vec!["^a", r"\d", "[b-c]"]).prop_map(Value::from).boxed()),
        pick("format", prop::sample::select(formats).prop_map(Value::from).boxed()),
        pick("enum", prop::collection::vec(scalar(), 1..4).prop_map(Value::from).boxed()),
        pick("required", prop::collection::vec(name(), 0..2).prop_map(Value::from).boxed()),
        pick("default", value().boxed()),
        pick("x-kubernetes-int-or-string", flag()),
        pick("x-kubernetes-preserve-unknown-fields", flag()),
        pick("x-kubernetes-embedded-resource", flag()),
        pick("x-kubernetes-list-type", prop::sample::select(vec!["set", "map"]).prop_map(Value::from).boxed()),
        pick("x-kubernetes-list-map-keys", Just(json!(["a"])).boxed()),
        pick(
            "type",
            prop::sample::select(vec!["object", "array", "string", "integer", "number", "boolean"])
                .prop_map(Value::from)
                .boxed()
        ),
    ]
}

fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop::collection::vec(keyword(), 0..4).prop_map(|words| Value::Object(words.into_iter().collect()));
    leaf.prop_recursive(4, 24, 4, |inner| {
        let words = prop::collection::vec(keyword(), 0..3);
        let below = prop_oneof![
            prop::collection::btree_map(name(), inner.clone(), 1..4)
                .prop_map(|map| ("properties", map.into_iter().collect::<Map<_, _>>().into())),
            inner.clone().prop_map(|schema| ("additionalProperties", schema)),
            any::<bool>().prop_map(|flag| ("additionalProperties", Value::Bool(flag))),
            inner.clone().prop_map(|schema| ("items", schema)),
            inner.clone().prop_map(|schema| ("not", schema)),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| ("anyOf", schemas.into())),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|schemas| ("oneOf", schemas.into())),
            prop::collection::vec(inner, 1..3).prop_map(|schemas| ("allOf", schemas.into())),
        ];
        (words, prop::collection::vec(below, 1..3)).prop_map(|(words, below)| {
            let below = below.into_iter().map(|(name, schema)| (name.to_owned(), schema));
            Value::Object(words.into_iter().chain(below).collect())
        })
    })
}

fn compiled() -> impl Strategy<Value = Structural> {
    schema().prop_map(|schema| Structural::compile(&schema).expect("the schema must compile"))
}

/// Generates object schemas whose defaults are pruned, as required for use.
fn in_use() -> impl Strategy<Value = Structural> {
    prop::collection::btree_map(name(), schema(), 1..4).prop_map(|properties| {
        let properties: Map<_, _> = properties.into_iter().collect();
        let schema = json!({"type": "object", "properties": properties});
        let mut schema = Structural::compile(&schema).expect("the schema must compile");
        schema.prune_defaults(meta(&types())).expect("defaults below the root are in an object");
        schema.build_tables().expect("the patterns must compile again");
        schema
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn validation_always_returns(schema in compiled(), new in value(), old in value()) {
        schema.validate(&new);
        schema.validate_update(&new, &old);
        schema.validate_status_update(&new, &old);
    }

    #[test]
    fn a_schema_built_by_hand_behaves_the_same(schema in schema(), new in value(), old in value()) {
        let sealed = Structural::compile(&schema).expect("the schema must compile");
        let bare = without_tables(sealed.clone());
        prop_assert_eq!(sealed.validate(&new), bare.validate(&new));
        prop_assert_eq!(sealed.validate_update(&new, &old), bare.validate_update(&new, &old));
    }

    #[test]
    fn an_update_without_changes_has_no_more_errors_than_a_create(schema in compiled(), value in value()) {
        let (created, updated) = (schema.validate(&value), schema.validate_update(&value, &value));
        prop_assert!(updated.iter().all(|error| created.contains(error)));
    }

    #[test]
    fn pruning_is_idempotent(schema in compiled(), mut value in value()) {
        schema.prune(&mut value, ROOT);
        let once = value.clone();
        prop_assert_eq!(schema.prune(&mut value, ROOT), Vec::<String>::new());
        prop_assert_eq!(value, once);
    }

    #[test]
    fn defaulting_and_dropping_nulls_are_idempotent(schema in in_use(), mut value in value()) {
        let _ = schema.apply_defaults(&mut value);
        let once = value.clone();
        let _ = schema.apply_defaults(&mut value);
        prop_assert_eq!(&value, &once);
        schema.drop_nulls(&mut value);
        let once = value.clone();
        schema.drop_nulls(&mut value);
        prop_assert_eq!(value, once);
    }

    #[test]
    fn one_walk_is_equivalent_to_three(schema in in_use(), value in value()) {
        let mut together = value.clone();
        let unknown = schema.prune_and_default(&mut together, Steps::ALL, ROOT);
        let mut apart = value;
        prop_assert_eq!(unknown, schema.prune(&mut apart, ROOT));
        schema.drop_nulls(&mut apart);
        let _ = schema.apply_defaults(&mut apart);
        prop_assert_eq!(together, apart);
    }

    #[test]
    fn an_object_that_is_recognized_as_normal_is_not_changed(schema in in_use(), mut object in object()) {
        let table = types();
        let options = NormalizeOptions { default: true, drop_invalid_metadata: true, unknown_fields: false };
        for _ in 0..2 {
            let before = object.clone();
            let _ = schema.normalize(&mut object, meta(&table), options);
            if schema.is_normal(before.to_string().as_bytes()) {
                prop_assert_eq!(&object, &before);
            }
        }
    }

    #[test]
    fn a_body_without_metadata_is_accepted(schema in in_use(), value in value()) {
        let table = types();
        let mut object = value;
        if let Value::Object(map) = &mut object {
            map.remove("metadata");
        }
        let options = NormalizeOptions { default: true, drop_invalid_metadata: true, unknown_fields: true };
        prop_assert!(schema.normalize(&mut object, meta(&table), options).is_ok());
    }
}

/// Generates objects with apiVersion, kind and a name.
fn object() -> impl Strategy<Value = Value> {
    prop::collection::btree_map(name(), value(), 0..4).prop_map(|fields| {
        let mut object: Map<_, _> = fields.into_iter().collect();
        object.insert("apiVersion".to_owned(), json!("g/v1"));
        object.insert("kind".to_owned(), json!("Kind"));
        object.insert("metadata".to_owned(), json!({"name": "a"}));
        object.into()
    })
}

fn without_tables(mut schema: Structural) -> Structural {
    use crate::structural::Additional;
    schema.compiled = Default::default();
    schema.properties = schema.properties.into_iter().map(|(name, schema)| (name, without_tables(schema))).collect();
    if let Additional::Schema(inner) = schema.additional {
        schema.additional = Additional::Schema(Box::new(without_tables(*inner)));
    }
    schema.items = schema.items.map(|inner| Box::new(without_tables(*inner)));
    let all = |schemas: Vec<Structural>| schemas.into_iter().map(without_tables).collect();
    let validation = &mut schema.validation;
    validation.all_of = all(std::mem::take(&mut validation.all_of));
    validation.any_of = all(std::mem::take(&mut validation.any_of));
    validation.one_of = all(std::mem::take(&mut validation.one_of));
    validation.not = validation.not.take().map(|inner| Box::new(without_tables(*inner)));
    schema
}
