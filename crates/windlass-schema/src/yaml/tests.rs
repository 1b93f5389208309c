use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::*;

fn check(text: &str, expected: Expect) {
    let report = match parse(text.as_bytes()) {
        Ok(document) => {
            document.duplicates().into_iter().fold(document.value.to_string(), |all, d| format!("{all}\n{d}"))
        }
        Err(error) => error.to_string(),
    };
    expected.assert_eq(&report);
}

#[test]
fn plain_scalars_follow_yaml_1_1() {
    check(
        "a: [y, Yes, on, n, No, OFF, true, ~, null, '', 'y', \"5\"]\nb: [1, 0o17, 017, 0x1F, 0b11, 1_000, +5, -3, 08]",
        expect![[
            r#"{"a":[true,true,true,false,false,false,true,null,null,"","y","5"],"b":[1,15,15,31,3,1000,5,-3,8]}"#
        ]],
    );
    check(
        "- 1e3\n- 1.0\n- 1.5\n- .5\n- 1e999\n- 2024-01-01\n- 12:30:45\n- 18446744073709551615\n- 1.2.3\n- 0.1\n- -\n- 1e-7\n-",
        expect![[
            r#"[1000,1,1.5,0.5,"1e999","2024-01-01","12:30:45",1.8446744073709552e+19,"1.2.3",0.1,[null],1e-7,null]"#
        ]],
    );
    check(
        "y: 1\non: 2\n5: 3\n1.5: 4\n",
        expect![[r#"
        {"1.5":4,"5":3,"true":2}
        yaml: unmarshal errors:
          line 2: key true already set in map"#]],
    );
    check("- !!str 5\n- !!int \"5\"\n- !!float 5\n- !!binary aGk=\n- !custom x\n", expect![[r#"["5",5,5,"hi","x"]"#]]);
}

#[test]
fn anchors_and_merge_keys_are_expanded() {
    check(
        "base: &b {a: 1, b: 2}\nx:\n  <<: *b\n  b: 3\ny: {<<: [*b, {c: 4}]}\nz: *b\n",
        expect![[r#"
        {"base":{"a":1,"b":2},"true":{"a":1,"b":2,"c":4},"x":{"a":1,"b":3},"z":{"a":1,"b":2}}
        yaml: unmarshal errors:
          line 4: key "b" already set in map"#]],
    );
    check("a: &a [*a]\n", expect!["yaml: anchor 'a' value contains itself"]);
    check("a: {<<: 5}\n", expect!["yaml: map merge requires map or sequence of maps as the value"]);
    check("a: *nowhere\n", expect!["yaml: unknown anchor 'nowhere' referenced"]);
}

#[test]
fn a_billion_laughs_are_rejected() {
    let mut text = String::from("a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n");
    for n in 1..10 {
        let refs = vec![format!("*a{}", n - 1); 9].join(", ");
        text.push_str(&format!("a{n}: &a{n} [{refs}]\n"));
    }
    check(&text, expect!["yaml: document contains excessive aliasing"]);
}

/// Returns a document that refers to one scalar of this length in many places: as a value, as a key, and through a merge.
fn aliases(length: usize, count: usize, form: &str) -> String {
    let text = "x".repeat(length);
    match form {
        "value" => format!("a: &a {text}\nb: [{}]\n", vec!["*a"; count].join(", ")),
        "key" => format!("a: &a {text}\nb: [{}]\n", vec!["{*a : 1}"; count].join(", ")),
        _ => format!("a: &a {{k: {text}}}\nb: [{}]\n", vec!["{<<: *a}"; count].join(", ")),
    }
}

#[test]
fn aliases_expand_within_a_budget_of_bytes() {
    let fitting = super::convert::ALIAS_BUDGET / (1 << 20) - 1;
    for form in ["value", "key", "merge"] {
        assert!(parse(aliases(1 << 20, fitting, form).as_bytes()).is_ok(), "{form}");
        for (length, count) in [(1 << 20, fitting + 2), (500_000, 30_000), (1000, 60_000)] {
            let error = parse(aliases(length, count, form).as_bytes()).unwrap_err().to_string();
            expect!["yaml: document contains excessive aliasing: aliases expand to more than 16777216 bytes"]
                .assert_eq(&error);
        }
    }
    // A long scalar that is not an alias is not charged.
    assert!(parse(format!("a: {}\n", "x".repeat(20 << 20)).as_bytes()).is_ok());
}

#[test]
fn only_the_first_document_is_parsed() {
    check("a: 1\n---\nb: [\n", expect![[r#"{"a":1}"#]]);
    check("", expect!["null"]);
    check("# nothing\n", expect!["null"]);
    check("---\n...\n", expect!["null"]);
}

#[test]
fn duplicate_keys_are_reported_with_their_lines() {
    check(
        "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: yam2\ndata:\n  a: b\n  a: c\n",
        expect![[r#"
        {"apiVersion":"v1","data":{"a":"c"},"kind":"ConfigMap","metadata":{"name":"yam2"}}
        yaml: unmarshal errors:
          line 7: key "a" already set in map"#]],
    );
    check(
        "a: 1\na: 2\n5: 1\n5: 2\n",
        expect![[r#"
        {"5":2,"a":2}
        yaml: unmarshal errors:
          line 2: key "a" already set in map
          line 4: key 5 already set in map"#]],
    );
}

#[test]
fn errors_match_the_library_of_kube_apiserver() {
    check("apiVersion: [\n", expect!["yaml: line 1: did not find expected node content"]);
    check("a: [", expect!["yaml: line 1: did not find expected node content"]);
    check("a: b: c\n", expect!["yaml: mapping values are not allowed in this context"]);
    check("a: 1\n b: 2\n", expect!["yaml: line 2: mapping values are not allowed in this context"]);
    check("a: {b: 1\n", expect!["yaml: line 1: did not find expected ',' or '}'"]);
    check("a: [1\n", expect!["yaml: line 1: did not find expected ',' or ']'"]);
    check("a: [1,\n", expect!["yaml: line 1: did not find expected node content"]);
    check("a: [1}\n", expect!["yaml: did not find expected ',' or ']'"]);
    check("a: \"x\n", expect!["yaml: line 2: found unexpected end of stream"]);
    check("a:\n\t- b\n", expect!["yaml: line 2: found character that cannot start any token"]);
    check("a: @x\n", expect!["yaml: found character that cannot start any token"]);
    check("- a\nb: c\n", expect!["yaml: line 1: did not find expected '-' indicator"]);
    check(
        "{{ .Values.x }}: 1\n",
        expect![[r#"yaml: invalid map key: map[interface {}]interface {}{".Values.x":interface {}(nil)}"#]],
    );
    check("~: 1\n", expect!["unsupported map key of type: %!s(<nil>), key: <nil>, value: 1"]);
    check("a: .inf\n", expect!["json: unsupported value: +Inf"]);
    check("a: !!int x\n", expect!["yaml: cannot decode !!str `x` as a !!int"]);
}

#[test]
fn brackets_and_quotes_may_have_any_indentation() {
    check("a: [\n1,\n2, # x\n]\nb: 'x\ny'\n", expect![[r#"{"a":[1,2],"b":"x y"}"#]]);
    check(
        "- k: \"a\n  \\\" b\n\n  c\"\n  m: {x: [\n'it''s'\n], y: 1}\n",
        expect![[r#"[{"k":"a \" b\nc","m":{"true":1,"x":["it's"]}}]"#]],
    );
    check("a:\t1\nb: |\n  [\nc: 2\n", expect![[r#"{"a":1,"b":"[\n","c":2}"#]]);
}

#[test]
fn nesting_is_limited() {
    assert!(parse("[".repeat(100_000).as_bytes()).is_err());
    let block: String = (0..5000).map(|n| format!("{}a:\n", " ".repeat(n))).collect();
    assert!(parse(block.as_bytes()).is_err());
}

#[test]
fn output_has_the_layout_of_kube_apiserver() {
    let value = json!({
        "kind": "ConfigMap",
        "apiVersion": "v1",
        "metadata": {"name": "dry", "creationTimestamp": "2024-01-01T00:00:00Z", "uid": "a-b", "labels": {}, "f:x": {".": {}}},
        "data": {"b": "true", "a": "multi\nline\n", "c": "no end\nhere", "d": "\nleading", "e": "two\n\n", "f": " pad", "g": "a: b", "h": "#x", "i": "it's", "j": "tab\there", "k": "-", "l": "- a", "m": "", "n": "y", "o": "12:30", "p": "1_000", "q": "é😀", "r": "trailing \nspace", "s": "!x", "t": "a #b", "u": "0x1f", "v": "null", "w": "<<", "x": "1.5e3", "y": "=", "z": "\n"},
        "list": [1, [2, [3]], {"a": 1, "b": [1]}, [], {}, null, "x\ny", 1.5, 1000.0, 1e21],
        "keys": {"a10": 1, "a2": 1, "A": 1, "_": 1, "true": 1, "5": 1, "a b": 1},
        "long": "word ".repeat(30).trim(),
        "longer": "it's 'quoted': ".repeat(10),
    });
    expect![[r#"
        apiVersion: v1
        data:
          a: |
            multi
            line
          b: "true"
          c: |-
            no end
            here
          d: |2-

            leading
          e: |+
            two

          f: ' pad'
          g: 'a: b'
          h: '#x'
          i: it's
          j: "tab\there"
          k: '-'
          l: '- a'
          m: ""
          "n": "y"
          o: "12:30"
          p: "1_000"
          q: "é\U0001F600"
          r: "trailing \nspace"
          s: '!x'
          t: 'a #b'
          u: "0x1f"
          v: "null"
          w: <<
          x: "1.5e3"
          "y": =
          z: |2+

        keys:
          _: 1
          "5": 1
          A: 1
          a b: 1
          a2: 1
          a10: 1
          "true": 1
        kind: ConfigMap
        list:
        - 1
        - - 2
          - - 3
        - a: 1
          b:
          - 1
        - []
        - {}
        - null
        - |-
          x
          y
        - 1.5
        - 1000
        - 1e+21
        long: word word word word word word word word word word word word word word word word
          word word word word word word word word word word word word word word
        longer: 'it''s ''quoted'': it''s ''quoted'': it''s ''quoted'': it''s ''quoted'': it''s
          ''quoted'': it''s ''quoted'': it''s ''quoted'': it''s ''quoted'': it''s ''quoted'':
          it''s ''quoted'': '
        metadata:
          creationTimestamp: "2024-01-01T00:00:00Z"
          f:x:
            .: {}
          labels: {}
          name: dry
          uid: a-b
    "#]]
    .assert_eq(&to_yaml(&value));
    assert_eq!(to_json_value(&to_yaml(&value)), Ok(json::normal(value)));
}

mod json {
    use super::*;
    use crate::json::format_float;

    /// Converts whole floats to integers, as they are after YAML.
    pub(super) fn normal(value: Value) -> Value {
        match value {
            Value::Number(number) => match number.as_f64().filter(|_| number.is_f64()) {
                Some(float) => format_float(float).parse::<i64>().map_or(Value::Number(number), Value::from),
                None => Value::Number(number),
            },
            Value::Array(items) => items.into_iter().map(normal).collect(),
            Value::Object(map) => map.into_iter().map(|(key, value)| (key, normal(value))).collect(),
            other => other,
        }
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let text = prop_oneof![
        "\\PC{0,20}",
        "[ \\n\\t:#'\"\\-?a-c]{0,12}",
        "[0-9_.:xobe+\\-]{1,8}",
        "([a-z]{1,9}[ ]{1,2}){10,20}",
        "[\\x00-\\x20\u{85}\u{2028}\u{feff}]{0,3}",
        prop::sample::select(vec!["y", "null", "~", "2024-01-01", ".inf", "---", "...", "<<", "=", "!!str"])
            .prop_map(str::to_owned),
    ];
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_filter("finite", |f| f.is_finite()).prop_map(Value::from),
        text.clone().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map(text.clone(), inner, 0..5).prop_map(|m| m.into_iter().collect()),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    #[test]
    fn values_round_trip(value in any_value()) {
        let text = to_yaml(&value);
        let again = to_json_value(&text).map(json::normal);
        prop_assert_eq!(again, Ok(json::normal(value)), "{}", text);
    }

    #[test]
    fn any_bytes_parse_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100)) {
        let _ = parse(&bytes);
    }

    #[test]
    fn near_yaml_parses_without_panic(text in "[a-c \\n:\\-\\[\\]{},&*!|>'\"%@#?<~0-9.\\t]{0,60}") {
        let _ = parse(text.as_bytes());
    }
}
