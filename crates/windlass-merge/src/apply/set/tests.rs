use serde_json::json;

use super::*;

mod properties;

fn set(text: &str) -> Set {
    Set::from_fields_text(text).expect("the text is FieldsV1")
}

#[test]
fn members_may_be_nested() {
    let set = set(r#"{"f:a":{".":{},"f:b":{}},"f:c":{"f:d":{}}}"#);
    assert_eq!(set.len(), 3);
    assert_eq!(set.to_string(), ".a\n.a.b\n.c.d");
    assert!(set.has(&Path::fields(["a"])));
    assert!(!set.has(&Path::fields(["c"])));
    assert!(!set.has(&Path::default()));
    assert_eq!(set.leaves().to_string(), ".a.b\n.c.d");
}

#[test]
fn members_of_a_level_come_before_those_below_it() {
    let set = set(r#"{"f:a":{"f:x":{}},"f:b":{}}"#);
    assert_eq!(set.to_string(), ".b\n.a.x");
}

#[test]
fn a_difference_keeps_fields_below_a_member_unless_it_is_recursive() {
    let left = set(r#"{"f:a":{".":{},"f:b":{}},"f:c":{}}"#);
    let right = set(r#"{"f:a":{}}"#);
    assert_eq!(left.difference(&right), set(r#"{"f:a":{"f:b":{}},"f:c":{}}"#));
    assert_eq!(left.recursive_difference(&right), set(r#"{"f:c":{}}"#));
    let below = set(r#"{"f:a":{"f:b":{}}}"#);
    assert_eq!(left.recursive_difference(&below), set(r#"{"f:a":{},"f:c":{}}"#));
}

#[test]
fn fields_are_written_in_the_order_of_the_set() {
    let text = r#"{"f:ports":{"k:{\"port\":80}":{".":{},"f:port":{}},"k:{\"port\":443}":{},"v:\"x\"":{},"i:2":{}}}"#;
    assert_eq!(set(text).to_fields_text(), text);
    assert_eq!(Set::from_fields(&set(text).to_fields()), Ok(set(text)));
    assert_eq!(Set::new().to_fields_text(), "{}");
}

#[test]
fn reading_fields_skips_unknown_elements_and_rejects_invalid_ones() {
    assert_eq!(set(r#"{"x:y":{},"f:a":{"z:":{}},"f:b":null}"#), set(r#"{"f:a":{},"f:b":{}}"#));
    assert_eq!(set("null"), Set::new());
    assert!(matches!(Set::from_fields(&json!({"f:a": 1})), Err(FieldsError::NoObject(_))));
    assert!(matches!(Set::from_fields(&json!({"name": {}})), Err(FieldsError::Element(_))));
    assert!(matches!(Set::from_fields_text("{"), Err(FieldsError::Json(_))));
}

#[test]
fn elements_written_differently_are_equal() {
    assert_eq!(set(r#"{"v:1":{},"v:1.0":{"f:a":{}}}"#), set(r#"{"v:1":{".":{},"f:a":{}}}"#));
}
