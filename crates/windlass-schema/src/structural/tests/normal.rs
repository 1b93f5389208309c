//! Objects that normalizing leaves as they are.

use serde_json::{Value, json};

use super::compile;
use crate::structural::Structural;

fn widgets() -> Structural {
    compile(json!({"type": "object", "properties": {
        "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "mode": {"type": "string", "default": "fast"},
            "size": {"type": "integer", "default": 1},
            "note": {"type": "string", "nullable": true},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"strict": {"type": "object", "properties": {"a": {"type": "integer"}}}}},
            "counts": {"type": "object", "additionalProperties": {"type": "integer"}},
            "ports": {"type": "array", "items": {"type": "object", "properties": {
                "port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}}}}}}}}))
}

fn object(spec: Value) -> Value {
    json!({"apiVersion": "g/v1", "kind": "Widget", "metadata": metadata(), "spec": spec})
}

fn metadata() -> Value {
    json!({
        "name": "a", "namespace": "n", "uid": "u", "resourceVersion": "7", "generation": 2,
        "creationTimestamp": "2026-01-01T00:00:00Z", "labels": {"app": "x", "empty": ""}, "finalizers": ["f"],
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "n", "uid": "u", "controller": false}],
        "managedFields": [{"manager": "m", "operation": "Update", "apiVersion": "g/v1", "time": "2026-01-01T00:00:00Z",
            "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": {".": {}, "f:x": {}}}}],
    })
}

#[test]
fn complete_objects_are_normal() {
    let is_normal = |spec| widgets().is_normal(object(spec).to_string().as_bytes());
    assert!(is_normal(json!({"mode": "fast", "size": 2})));
    assert!(is_normal(json!({"mode": "a\nb", "size": 2, "note": null, "counts": {"x": 1, "y": 2}})));
    assert!(is_normal(json!({"mode": "fast", "size": 2, "free": {"any": {"thing": [null, {"x": 1}]}, "strict": {}}})));
    assert!(is_normal(json!({"mode": "fast", "size": 2, "ports": [{"port": 80, "protocol": "UDP"}]})));
}

#[test]
fn objects_that_normalizing_changes_are_not_normal() {
    let is_normal = |spec| widgets().is_normal(object(spec).to_string().as_bytes());
    let changed = [
        json!({"mode": "fast"}),
        json!({"mode": "fast", "size": 2, "unknown": 1}),
        json!({"mode": null, "size": 2}),
        json!({"mode": "fast", "size": 2, "counts": null}),
        json!({"mode": "fast", "size": 2, "ports": [{"port": 80}]}),
        json!({"mode": "fast", "size": 2, "free": {"strict": {"b": 1}}}),
    ];
    for spec in changed {
        assert!(!is_normal(spec.clone()), "{spec}");
    }
    for text in ["null", "[]", "7", "{", r#"{"a":1}"#, ""] {
        assert!(!widgets().is_normal(text.as_bytes()), "{text}");
    }
}

#[test]
fn metadata_that_decoding_changes_is_not_normal() {
    let changes = [
        ("name", json!("")),
        ("name", Value::Null),
        ("unknown", json!(1)),
        ("generation", json!(0)),
        ("generation", json!("2")),
        ("creationTimestamp", json!("2026-01-01T00:00:00+00:00")),
        ("creationTimestamp", json!("0001-01-01T00:00:00Z")),
        ("labels", json!({})),
        ("labels", json!({"a": 1})),
        ("finalizers", json!([])),
        ("finalizers", json!([1])),
        ("ownerReferences", json!([{"kind": "Node"}])),
        ("managedFields", json!([{"manager": ""}])),
        ("managedFields", json!([{"fieldsV1": null}])),
    ];
    for (field, value) in changes {
        let mut object = object(json!({"mode": "fast", "size": 2}));
        assert!(widgets().is_normal(object.to_string().as_bytes()));
        object["metadata"][field] = value.clone();
        assert!(!widgets().is_normal(object.to_string().as_bytes()), "{field}: {value}");
    }
}

#[test]
fn embedded_resources_and_schemas_of_metadata_are_not_examined() {
    let text = json!({"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "a"}}).to_string();
    let embeds = json!({"type": "object", "properties": {"x": {"type": "object", "x-kubernetes-embedded-resource": true,
        "x-kubernetes-preserve-unknown-fields": true}}});
    let restricts = json!({"type": "object", "properties": {"metadata": {"type": "object", "properties": {
        "name": {"type": "string", "maxLength": 3}}}}});
    assert!(!compile(embeds).is_normal(text.as_bytes()));
    assert!(!compile(restricts).is_normal(text.as_bytes()));
    assert!(compile(json!({"type": "object"})).is_normal(text.as_bytes()));
}

#[test]
fn objects_with_many_defaults_are_not_examined() {
    let with = |count: usize| {
        let names = (0..count).map(|n| format!("d{n:02}"));
        let schema = names.clone().map(|name| (name, json!({"type": "integer", "default": 1}))).collect();
        let fields: serde_json::Map<_, _> = names.map(|name| (name, json!(1))).collect();
        let schema = json!({"type": "object", "properties": Value::Object(schema)});
        let mut object = json!({"apiVersion": "g/v1", "kind": "W", "metadata": {"name": "a"}});
        object.as_object_mut().unwrap().extend(fields);
        (compile(schema), object)
    };
    let is_normal = |(schema, object): (Structural, Value)| schema.is_normal(object.to_string().as_bytes());
    assert!(is_normal(with(63)) && is_normal(with(64)));
    assert!(!is_normal(with(65)));
    let (schema, mut object) = with(64);
    object.as_object_mut().unwrap().remove("d63");
    assert!(!schema.is_normal(object.to_string().as_bytes()));
}
