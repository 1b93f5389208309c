//! Objects that a strategic merge patch has changed.

use serde_json::{Value, json};

use super::{ROOT, table};
use crate::decode::restore;

fn reason(object: &Value) -> String {
    restore(&mut object.clone(), ROOT, &table()).expect_err(&object.to_string())
}

#[test]
fn values_of_wrong_types_are_rejected_with_the_messages_of_the_copying_step() {
    let spec = |spec: Value| reason(&json!({ "spec": spec }));
    assert_eq!(spec(json!("x")), "cannot restore struct from: string");
    assert_eq!(spec(json!({"replicas": "x"})), "unrecognized type: int32");
    assert_eq!(spec(json!({"replicas": 1.5})), "cannot convert float64 to int32");
    assert_eq!(spec(json!({"big": true})), "unrecognized type: int64");
    assert_eq!(spec(json!({"ratio": "1"})), "unrecognized type: float64");
    assert_eq!(spec(json!({"parts": {"name": "a"}})), "cannot restore slice from map");
    assert_eq!(spec(json!({"parts": [5]})), "cannot restore struct from: int64");
    assert_eq!(spec(json!({"parts": [{"policy": 5}]})), "cannot convert int64 to v1.PullPolicy");
    assert_eq!(spec(json!({"args": [1.5]})), "unrecognized type: string");
    assert_eq!(spec(json!({"secret": "%"})), "error decoding from json: illegal base64 data at input byte 0");
    assert_eq!(spec(json!({"secret": 1})), "cannot restore slice from int64");
    assert_eq!(spec(json!({"port": true})), "json: cannot unmarshal bool into Go value of type int32");
    assert_eq!(reason(&json!({"data": ["x"]})), "cannot restore map from slice");
    assert_eq!(reason(&json!({"data": {"a": true}})), "unrecognized type: string");
    assert_eq!(reason(&json!({"immutable": "x"})), "unrecognized type: bool");
    let date = json!({"metadata": {"creationTimestamp": 5}});
    assert_eq!(reason(&date), "json: cannot unmarshal number into Go value of type string");
}

#[test]
fn the_first_error_is_that_of_the_first_field_of_the_type() {
    assert_eq!(reason(&json!({"data": 1, "kind": 5})), "cannot convert int64 to string");
}

#[test]
fn numbers_are_cut_to_the_size_of_their_fields() {
    let mut object = json!({"spec": {"replicas": 3_000_000_000_u32, "big": 2.0, "ratio": 1, "parts": null}});
    restore(&mut object, ROOT, &table()).expect("an object of the type");
    assert_eq!(object, json!({"spec": {"replicas": -1_294_967_296, "big": 2, "ratio": 1, "parts": null}}));
}
