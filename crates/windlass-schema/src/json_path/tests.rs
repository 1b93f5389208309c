use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Item, JsonPath};

fn object() -> Value {
    json!({
        "spec": {
            "title": "Emma", "pages": 474, "price": 9.5, "lent": true, "none": null, "a.b": "dotted", "tags": ["x", "y", "z"],
            "nested": [[1, 2], [3, 4]],
            "ports": [{"name": "http", "port": 80}, {"name": "https", "port": 443, "tls": true}],
        },
        "status": {"conditions": [{"type": "Old", "status": "False"}, {"type": "Ready", "status": "True"}]},
    })
}

/// Returns the results as JSON, or the error message.
fn found(path: &str) -> String {
    let path = match JsonPath::expression(path) {
        Ok(path) => path,
        Err(error) => return format!("parse: {error}"),
    };
    let object = object();
    let found = match path.find(&object) {
        Ok(found) => found,
        Err(error) => return format!("evaluate: {error}"),
    };
    let first = path.first(&object).expect("a non-empty result must have a first element");
    assert_eq!(first, found.first().and_then(|found| found.first().copied()), "both ways must agree");
    let text = |item: &Item<'_>| match item {
        Item::Json(value) => value.to_string(),
        other => format!("{other:?}"),
    };
    found.iter().map(|found| found.iter().map(text).collect::<Vec<_>>().join(" ")).collect::<Vec<_>>().join(" | ")
}

fn check(path: &str, expected: &str) {
    assert_eq!(found(path), expected, "{path}");
}

#[test]
fn fields_select_from_objects() {
    check(".spec.title", r#""Emma""#);
    check("$.spec.title", r#""Emma""#);
    check(".spec['title']", r#""Emma""#);
    check(r".spec.a\.b", r#""dotted""#);
    check(r".spec['a\.b']", r#""dotted""#);
    check(".spec['a.b']", "");
    check(".spec.none", "null");
    check(".spec.none.further", "");
    check(".spec.absent.further", "");
    check(".spec.title.further", "");
    check(".", "");
}

#[test]
fn indices_and_slices_select_from_lists() {
    check(".spec.tags[0]", r#""x""#);
    check(".spec.tags[]", r#""x""#);
    check(".spec.tags[-1]", r#""z""#);
    check(".spec.tags[*]", r#""x" "y" "z""#);
    check(".spec.tags[1:]", r#""y" "z""#);
    check(".spec.tags[:-1]", r#""x" "y""#);
    check(".spec.tags[::2]", r#""x" "z""#);
    check(".spec.tags[2:2]", "");
    check(".spec.tags[0,2]", r#""x" "z""#);
    check(".spec['title','pages']", r#""Emma" 474"#);
    check(".spec.nested[*][1]", "2 4");
    check(".spec.tags[3]", "evaluate: array index out of bounds: index 3, length 3");
    check(".spec.tags[-4]", "evaluate: array index out of bounds: index -1, length 3");
    check(".spec.tags[2:1]", "evaluate: starting index 2 is greater than ending index 1");
    check(".spec.tags[0:2:0]", "evaluate: step must be > 0");
    check(".spec.title[0]", "evaluate: value is not array or slice");
    check(".spec.none[0]", "");
}

#[test]
fn wildcards_and_descent_find_everything() {
    check(".spec.ports[*].name", r#""http" "https""#);
    check(".spec.ports[0].*", r#""http" 80"#);
    check("..port", "80 443");
    check(".spec.ports..tls", "true");
    check(".spec.title.*", "Byte(69) Byte(109) Byte(109) Byte(97)");
}

#[test]
fn filters_compare_values_of_the_same_type() {
    check(r#".status.conditions[?(@.type=="Ready")].status"#, r#""True""#);
    check(r#".status.conditions[?(@.type!='Ready')].status"#, r#""False""#);
    check(".spec.ports[?(@.port>80)].name", r#""https""#);
    check(".spec.ports[?(@.port>=80)].name", r#""http" "https""#);
    check(".spec.ports[?(@.tls)].name", r#""https""#);
    check(".spec.ports[?(@.tls==true)].name", r#""https""#);
    check(".spec.ports[?(@.port==80.0)].name", "evaluate: incompatible types for comparison");
    check(".spec.ports[?(@.port=~80)].name", "parse: unrecognized character in action: U+007E '~'");
    check(".spec.ports[?(@.port=<80)].name", "evaluate: unrecognized filter operator =<");
    check(".spec.ports[?(@.*==80)].name", "evaluate: can only compare one element at a time");
    check(".spec.title[?(@.a)]", "evaluate: value is not array or slice and cannot be filtered");
}

#[test]
fn errors_of_invalid_paths_match_client_go() {
    check(".x[", "parse: unterminated array");
    check(".x[a]", "parse: invalid array index a");
    check(".x[-]", "parse: array index - is not a number");
    check(".x[1:2:3:4]", "parse: invalid array index 1:2:3:4");
    check(".x[?(@.a", "parse: unterminated filter");
    check(".x[?(@.a)", "parse: unclosed array expect ]");
    check("....a", "parse: invalid multiple recursive descent");
    check(".a\n", "parse: unclosed action");
    check(".a 'b", "parse: unterminated quoted string");
    check(r#".a "\q""#, r#"parse: unquote string "\q" error invalid syntax"#);
    check(".a 1.2.3", "parse: cannot parse number 1.2.3");
    check(".a !", "parse: unrecognized character in action: U+0021 '!'");
    check("words", "evaluate: unrecognized identifier words");
    check("end", "evaluate: not in range, nothing to end");
}

#[test]
fn templates_may_contain_text_and_paths() {
    check(".spec.pages}-{.spec.title", r#"474 | Text("-") | "Emma""#);
    check(r#"'it\'s \u00e9\x41'"#, r#"Text("it's éA")"#);
    check(".spec.tags[*] 7", "Int(7) Int(7) Int(7)");
}

#[test]
fn a_path_that_multiplies_its_results_is_stopped() {
    let list = Value::Array(vec![json!([0]); 10]);
    let path = format!("[{}]", ["*"; 10].join(",")).repeat(12);
    let path = JsonPath::expression(&path).expect("a path");
    assert_eq!(path.find(&list).expect_err("too much").to_string(), "value is not array or slice");
    let deep = (0..200).fold(json!({"a": 1}), |inner, _| json!({"a": inner, "b": [inner_leaf()]}));
    let path = JsonPath::expression(&"...*".repeat(20)).expect("a path");
    assert_eq!(path.find(&deep).expect_err("too much").to_string(), "the path finds too many values");
    let path = JsonPath::expression(&"[0,0]".repeat(40)).expect("a path");
    let nested = (0..40).fold(json!(1), |inner, _| json!([inner]));
    assert_eq!(path.find(&nested).expect_err("too much").to_string(), "the path finds too many values");
}

fn inner_leaf() -> Value {
    json!({"c": "d"})
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[a-c]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 5, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            prop::collection::btree_map("[a-c]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

/// Generates strings that are nearly paths.
fn paths() -> impl Strategy<Value = String> {
    let pieces = prop::sample::select(vec![
        ".a",
        ".b",
        ".c",
        "..",
        "*",
        ".*",
        "[0]",
        "[-1]",
        "[*]",
        "[",
        "]",
        "[?(",
        ")]",
        "@",
        "$",
        "==",
        "<",
        "!=",
        "'",
        "\"",
        "\\",
        "1",
        "-",
        ":",
        ",",
        "{",
        "}",
        " ",
        "\n",
        "true",
        "é",
        "[1:]",
        "[?(@.a)]",
        "[?(@.a==1)]",
        "['b']",
        "[0,1]",
    ]);
    prop_oneof![prop::collection::vec(pieces, 0..12).prop_map(|pieces| pieces.concat()), any::<String>()]
}

proptest! {
    #[test]
    fn no_path_panics_on_any_object(path in paths(), value in values()) {
        if let Ok(path) = JsonPath::expression(&path)
            && let Ok(found) = path.find(&value)
        {
            prop_assert_eq!(path.first(&value).expect("there must be a first element"), found.first().and_then(|f| f.first().copied()));
        }
    }
}
