//! Properties of any value.

use proptest::prelude::*;

use super::*;

/// Generates objects that mostly match the toy type.
fn any_toy() -> impl Strategy<Value = Value> {
    let scalar = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3_i64..70_000).prop_map(Value::from),
        (0_u8..40).prop_map(|n| Value::from(f64::from(n) / 8.0)),
        prop::sample::select(vec!["", "1", "1000m", "YQ==", "1h", "2024-01-01T00:00:00Z", "x"]).prop_map(Value::from),
    ];
    let names = prop::sample::select(vec![
        "kind",
        "metadata",
        "spec",
        "data",
        "immutable",
        "name",
        "labels",
        "creationTimestamp",
        "replicas",
        "parts",
        "limits",
        "port",
        "wait",
        "args",
        "inner",
        "raw",
        "secret",
        "resources",
        "cpu",
        "volumes",
        "emptyDir",
        "odd",
    ]);
    scalar.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            1 => prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            4 => prop::collection::btree_map(names.clone().prop_map(str::to_owned), inner, 0..6)
                .prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn decoding_is_idempotent(value in any_toy()) {
        let once = decode(value, ROOT, &table(), Storage::Protobuf);
        if once.error.is_none() {
            let twice = decode(once.value.clone(), ROOT, &table(), Storage::Protobuf);
            prop_assert_eq!(twice, Decoded { value: once.value, strict: Vec::new(), error: None });
        }
    }

    #[test]
    fn the_order_of_the_text_does_not_affect_values(value in any_toy()) {
        let text = json::encode(&value);
        let document = json::parse(&text).expect("encoded JSON must parse");
        let node = document.ordered().expect("a document of JSON text has an order");
        // Both start from the value in the text: a float without a fraction is written as an integer.
        let sorted = decode(document.value.clone(), ROOT, &table(), Storage::Protobuf);
        let mut ordered = node.to_value();
        let table = table();
        let mut decoder = Decoder::new(&table, Storage::Protobuf);
        decoder.root(&mut ordered, ROOT, Some(&node));
        prop_assert_eq!(decoder.strict, sorted.strict);
        let error = decoder.fatal.or(decoder.saved);
        prop_assert_eq!(error.is_some(), sorted.error.is_some());
        if error.is_none() {
            prop_assert_eq!(ordered, sorted.value);
        }
    }
}
