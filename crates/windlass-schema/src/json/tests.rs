use std::fmt::Write;

use expect_test::expect;
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn error(text: &str) -> String {
    parse(text.as_bytes()).map_or_else(|e| e.0, |d| format!("fine: {}", String::from_utf8_lossy(&encode(&d.value))))
}

#[test]
fn syntax_errors_match_go() {
    let mut out = String::new();
    for text in BAD {
        let _ = writeln!(out, "{} | {}", text.escape_default(), error(text));
    }
    expect![[r#"
         | unexpected end of JSON input
          | unexpected end of JSON input
        { | unexpected end of JSON input
        {}x | invalid character 'x' after top-level value
        [1,] | invalid character ']' looking for beginning of value
        [1 2] | invalid character '2' after array element
        {\"a\"} | invalid character '}' after object key
        {\"a\":} | invalid character '}' looking for beginning of value
        {\"a\":1,} | invalid character '}' looking for beginning of object key string
        {a:1} | invalid character 'a' looking for beginning of object key string
        {\"a\":1 \"b\":2} | invalid character '"' after object key:value pair
        tru | invalid character ' ' in literal true (expecting 'e')
        trux | invalid character 'x' in literal true (expecting 'e')
        nul! | invalid character '!' in literal null (expecting 'l')
        fals\n | invalid character '\n' in literal false (expecting 'e')
        01 | invalid character '1' after top-level value
        - | invalid character ' ' in numeric literal
        -x | invalid character 'x' in numeric literal
        1. | invalid character ' ' after decimal point in numeric literal
        1.x | invalid character 'x' after decimal point in numeric literal
        1e | invalid character ' ' in exponent of numeric literal
        1e+ | invalid character ' ' in exponent of numeric literal
        1ex | invalid character 'x' in exponent of numeric literal
        \"a | unexpected end of JSON input
        \"a\nb\" | invalid character '\n' in string literal
        \"\\x\" | invalid character 'x' in string escape code
        \"\\u12g4\" | invalid character 'g' in \u hexadecimal character escape
        \"\\u12 | invalid character ' ' in \u hexadecimal character escape
        \'a\' | invalid character '\'' looking for beginning of value
        \\ | invalid character '\\' looking for beginning of value
        \u{e9} | invalid character 'Ã' looking for beginning of value
        1e999 | json: cannot unmarshal number 1e999 into Go value of type float64
        [ | unexpected end of JSON input
        [1 | unexpected end of JSON input
        {\"a\":1 | unexpected end of JSON input
        } | invalid character '}' looking for beginning of value
        1 2 | invalid character '2' after top-level value
        \u{7f} | invalid character '\x7f' looking for beginning of value
        -0 | fine: 0
        1E5 | fine: 100000
        \"\\ud83d\\ude00\" | fine: "😀"
        \"\\ud83dx\" | fine: "�x"
        \"\\ud83d\\u0041\" | fine: "�A"
        \"\\b\\f\\n\\r\\t\\/\\\"\\\\\" | fine: "\b\f\n\r\t/\"\\"
        9223372036854775808 | fine: 9223372036854776000
    "#]]
    .assert_eq(&out);
}

pub(super) const BAD: &[&str] = &[
    "",
    " ",
    "{",
    "{}x",
    "[1,]",
    "[1 2]",
    "{\"a\"}",
    "{\"a\":}",
    "{\"a\":1,}",
    "{a:1}",
    "{\"a\":1 \"b\":2}",
    "tru",
    "trux",
    "nul!",
    "fals\n",
    "01",
    "-",
    "-x",
    "1.",
    "1.x",
    "1e",
    "1e+",
    "1ex",
    "\"a",
    "\"a\nb\"",
    "\"\\x\"",
    "\"\\u12g4\"",
    "\"\\u12",
    "'a'",
    "\\",
    "é",
    "1e999",
    "[",
    "[1",
    "{\"a\":1",
    "}",
    "1 2",
    "\u{7f}",
    "-0",
    "1E5",
    "\"\\ud83d\\ude00\"",
    "\"\\ud83dx\"",
    "\"\\ud83d\\u0041\"",
    "\"\\b\\f\\n\\r\\t\\/\\\"\\\\\"",
    "9223372036854775808",
];

#[test]
fn duplicates_are_named_by_their_paths_in_the_order_of_the_text() {
    let text = br#"{"b":{"x":1,"y":2,"x":3},"a":[{"k":1,"k":2,"k":3}],"b":1}"#;
    let document = parse(text).expect("the text is JSON");
    assert_eq!(document.value, json!({"a": [{"k": 3}], "b": 1}));
    expect![[r#"duplicate field "b.x", duplicate field "a[0].k", duplicate field "b""#]]
        .assert_eq(&document.duplicates().join(", "));
    assert!(parse(b"{\"a\":1}").expect("the text is JSON").duplicates().is_empty());
}

#[test]
fn nesting_is_limited_before_the_stack_overflows() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(parse(deep(MAX_DEPTH).as_bytes()).is_ok());
    expect!["invalid character '[' exceeded max depth"].assert_eq(&error(&deep(MAX_DEPTH + 1)));
    expect!["invalid character '[' exceeded max depth"].assert_eq(&error(&"[".repeat(1_000_000)));
}

#[test]
fn invalid_utf8_bytes_are_replaced_one_by_one() {
    let document = parse(b"\"a\xff\xe2\x82b\"").expect("strings may have any bytes");
    assert_eq!(document.value, json!("a\u{fffd}\u{fffd}\u{fffd}b"));
}

#[test]
fn objects_are_written_with_their_type_first() {
    let value = json!({"a": 1.0, "apiVersion": "v1", "kind": "K", "metadata": {"name": "<n>"}, "z": [1e21, 0.5, 1e-7]});
    let text = String::from_utf8(encode_object(&value)).expect("JSON is text");
    expect![[r#"{"kind":"K","apiVersion":"v1","metadata":{"name":"<n>"},"a":1,"z":[1e+21,0.5,1e-7]}"#]]
        .assert_eq(&text);
    assert_eq!(encode_object(&json!([1])), b"[1]");
}

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite() && f.fract() != 0.0).prop_map(Value::from),
        "\\PC{0,12}|[\\x00-\\x20\"\\\\]{0,4}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map("\\PC{0,6}", inner, 0..5).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn any_bytes_parse_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn near_json_is_accepted_exactly_when_serde_accepts_it(text in "[\\[\\]{}:,\"a0-9.eE+\\- tfn\\\\u]{0,24}") {
        let ours = parse(text.as_bytes()).is_ok();
        let theirs = serde_json::from_str::<Value>(&text);
        // Serde rejects unpaired surrogates, which Go replaces.
        prop_assert!(ours == theirs.is_ok() || text.contains("\\u"), "{text}");
    }

    #[test]
    fn values_round_trip(value in any_json()) {
        prop_assert_eq!(&parse(&encode(&value)).expect("encoded JSON must parse").value, &value);
        prop_assert_eq!(&parse(&encode_object(&value)).expect("encoded JSON must parse").value, &value);
        prop_assert_eq!(&parse(&encode_pretty(&value)).expect("encoded JSON must parse").value, &value);
    }
}
