//! Text that is hard to serialize.

use expect_test::expect;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::manifests::{OperatorManifests, Part, to_yaml};

/// Returns the YAML of a value.
fn yaml(value: Value) -> String {
    let operator = OperatorManifests::new("name", "namespace", "image");
    let resource = ("", "v1", "ConfigMap", "configmaps");
    let text = to_yaml(&[operator.manifest(Part::Deployment, resource, None, "name", json!({ "value": value }))]);
    text[text.find("value:").unwrap()..].to_owned()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_survives_a_round_trip(
        texts in prop::collection::vec("([ab1 \n\t\r:#'\"\\\\\\-{}\\[\\]|>&*!%@,.ü]|word | {2}|\n {2}){0,80}", 1..4),
    ) {
        let written = json!({ "list": texts, "last": texts.last() });
        let read: Value = serde_saphyr::from_str(&yaml(written.clone())).unwrap();
        prop_assert_eq!(&read["value"], &written);
    }
}

/// kubectl reads YAML 1.1, in which more words are not strings than in 1.2.
#[test]
fn strings_that_look_like_something_else_are_quoted() {
    let texts = [
        "yes",
        "no",
        "on",
        "off",
        "y",
        "n",
        "true",
        "null",
        "~",
        "",
        " ",
        "1",
        "1.0",
        "1e3",
        "0x1F",
        "0o17",
        "0755",
        "1_000",
        "1:30",
        "2026-11-15",
        ".inf",
        "=",
        "<<",
        "-",
        "- a",
        "a: b",
        "a #b",
        "#a",
        "&a",
        "*a",
        "!a",
        "%a",
        "@a",
        "`a`",
        "'a'",
        "\"a\"",
        "{a}",
        "[a]",
        "a\nb",
        "a\nb\n",
        "\ta",
        "a ",
        "\u{7}",
        "\u{85}",
        "\u{2028}",
        "ü",
        "?",
        "? a",
        "|",
        ">",
        ",",
    ];
    let text = yaml(json!(texts.as_slice()));
    expect![[r##"
        value:
        - "yes"
        - "no"
        - "on"
        - "off"
        - "y"
        - "n"
        - "true"
        - "null"
        - "~"
        - ""
        - " "
        - "1"
        - "1.0"
        - "1e3"
        - "0x1F"
        - "0o17"
        - "0755"
        - "1_000"
        - "1:30"
        - "2026-11-15"
        - ".inf"
        - "="
        - "<<"
        - '-'
        - "- a"
        - "a: b"
        - "a #b"
        - "#a"
        - "&a"
        - "*a"
        - "!a"
        - "%a"
        - "@a"
        - "`a`"
        - "'a'"
        - "\"a\""
        - "{a}"
        - "[a]"
        - |-
          a
          b
        - |
          a
          b
        - "\ta"
        - "a "
        - "\a"
        - "\N"
        - "\L"
        - ü
        - "?"
        - "? a"
        - "|"
        - ">"
        - ","
    "##]]
    .assert_eq(&text);
}

#[test]
fn long_descriptions_are_unchanged() {
    let words =
        "A long description of a field, with `code`, a colon: and more words than fit on one line of a terminal. ";
    let text = yaml(
        json!({ "folded": words.repeat(3).trim_end(), "lines": format!("{}\n  indented\nlast", words.trim_end()), "unbroken": "x".repeat(200) }),
    );
    expect![[r#"
        value:
          folded: "A long description of a field, with `code`, a colon: and more words than fit on one line of a terminal. A long description of a field, with `code`, a colon: and more words than fit on one line of a terminal. A long description of a field, with `code`, a colon: and more words than fit on one line of a terminal."
          lines: |-
            A long description of a field, with `code`, a colon: and more words than fit on one line of a terminal.
              indented
            last
          unbroken: >-
            xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx
    "#]].assert_eq(&text);
}
