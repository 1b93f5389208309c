use serde_json::json;

use super::*;

fn value(json: serde_json::Value) -> PathElement {
    PathElement::Value(ItemValue::new(&json))
}

fn parse(text: &str) -> PathElement {
    PathElement::parse(text).expect("the text is an element")
}

#[test]
fn elements_order_by_form_then_content() {
    let sorted = [
        PathElement::field("a"),
        PathElement::field("a-name-longer-than-what-fits-in-place"),
        PathElement::field("b"),
        parse(r#"k:{"name":"a"}"#),
        parse(r#"k:{"name":"a","port":1}"#),
        parse(r#"k:{"port":80}"#),
        parse(r#"k:{"port":443}"#),
        value(json!(-1)),
        value(json!(1.5)),
        value(json!(2)),
        value(json!("1")),
        value(json!(false)),
        value(json!(true)),
        value(json!([1])),
        value(json!([1, 2])),
        value(json!({"a": 1})),
        value(json!(null)),
        PathElement::Index(2),
        PathElement::Index(10),
    ];
    for (position, left) in sorted.iter().enumerate() {
        for (other, right) in sorted.iter().enumerate() {
            assert_eq!(left.cmp(right), position.cmp(&other), "{left} and {right}");
        }
    }
}

#[test]
fn integers_and_floats_of_the_same_size_are_equal() {
    assert_eq!(value(json!(1)), value(json!(1.0)));
    assert!(equal_values(&json!({"a": [1]}), &json!({"a": [1.0]})));
    assert!(!equal_values(&json!([1]), &json!([1, 2])));
}

#[test]
fn items_compare_with_values_as_with_copies_of_them() {
    let values = [json!(1), json!(1.5), json!("a"), json!(true), json!([1]), json!({"a": 1}), json!(null)];
    for left in &values {
        for right in &values {
            let (item, copy) = (ItemValue::new(left), ItemValue::new(right));
            assert_eq!(item.cmp_value(right), item.cmp(&copy), "{left} and {right}");
        }
    }
}

#[test]
fn elements_are_displayed_as_in_errors() {
    let path: Path = [
        PathElement::field("spec"),
        PathElement::key([("protocol", ItemValue::String("TCP".into())), ("port", ItemValue::Int(80))]),
        value(json!("a\"b")),
        PathElement::Index(3),
        value(json!(null)),
    ]
    .into_iter()
    .collect();
    assert_eq!(path.to_string(), r#".spec[port=80,protocol="TCP"][="a\"b"][3][=null]"#);
    assert_eq!(display(&path), path.to_string());
}

#[test]
fn elements_are_written_as_by_kube_apiserver() {
    let keys = [
        ("f:a<b", "f:a<b"),
        (r#"k:{"port":80,"name":"x"}"#, r#"k:{"name":"x","port":80}"#),
        (r#"v:"a<b>&""#, r#"v:"a\u003cb\u003e\u0026""#),
        (r#"v:"\b\n\u2028""#, r#"v:"\u0008\n\u2028""#),
        ("v:1.0", "v:1"),
        ("v:1e-7", "v:1e-07"),
        ("v:1e21", "v:1e+21"),
        ("v:9007199254740993", "v:9007199254740992"),
        ("v:null", "v:null"),
        (r#"v:{"b":[1,true],"a":"<"}"#, r#"v:{"a":"\u003c","b":[1,true]}"#),
        ("i:12", "i:12"),
        ("k:{} trailing", "k:{}"),
        ("k:null", "k:{}"),
    ];
    for (text, expected) in keys {
        assert_eq!(parse(text).to_key(), expected);
    }
}

#[test]
fn invalid_elements_are_rejected() {
    for (text, error) in [
        ("f", "key must be 2 characters long:"),
        ("fx", "missing colon: fx"),
        ("x:y", "unknown path element type"),
        ("i:x", "strconv.Atoi: parsing \"x\": invalid syntax"),
    ] {
        assert_eq!(PathElement::parse(text).map_err(|error| error.to_string()), Err(error.to_owned()));
    }
    for text in ["v:", "v:{", "k:[1]", "k:{", "k:1"] {
        assert!(matches!(PathElement::parse(text), Err(ElementError::Json(_))), "{text}");
    }
    assert!(PathElement::parse("é:").is_err());
}
