use std::collections::BTreeSet;

use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{CustomSubject, Dialect, Sources, schema, v2_parts, v2_protobuf, v2_text, v3_document};
use crate::openapi::{
    NoDescriptions,
    tests::{Named, references},
    v2_document, v2_to_protobuf,
};
use crate::table;

fn definition(schema: Value) -> Value {
    json!({"spec": {
        "group": "openapi.example.com",
        "scope": "Namespaced",
        "names": {"plural": "cups", "singular": "cup", "kind": "Cup", "listKind": "CupList"},
        "versions": [{
            "name": "v1",
            "schema": {"openAPIV3Schema": schema},
            "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"}},
            "selectableFields": [{"jsonPath": ".spec.size"}],
        }],
    }})
}

fn subject(definition: &Value) -> CustomSubject<'_> {
    CustomSubject::of_definition(definition, "v1").expect("the CRD must have the version")
}

/// Checks what both versions publish for a field of `spec`.
fn check(field: Value, v3: Expect, v2: Expect) {
    let definition = definition(json!({
        "type": "object",
        "properties": {"spec": {"type": "object", "required": ["field", "other"], "properties": {"field": field}}},
    }));
    for (dialect, expected) in [(Dialect::V3, v3), (Dialect::V2, v2)] {
        let schema = schema::of_object(&subject(&definition), dialect, &NoDescriptions);
        let spec = &schema["properties"]["spec"];
        expected.assert_eq(&format!("{} required {}", spec["properties"]["field"], spec["required"]));
    }
}

#[test]
fn common_keywords_are_published_in_both_versions() {
    check(
        json!({"type": "integer", "format": "int32", "minimum": 1.0, "maximum": 2.5, "exclusiveMaximum": true, "title": ""}),
        expect![[
            r#"{"exclusiveMaximum":true,"format":"int32","maximum":2.5,"minimum":1,"type":"integer"} required ["field","other"]"#
        ]],
        expect![[
            r#"{"exclusiveMaximum":true,"format":"int32","maximum":2.5,"minimum":1,"type":"integer"} required ["field","other"]"#
        ]],
    );
    check(
        json!({"type": "array", "items": {"type": "object", "properties": {"a": {"type": "string"}}},
            "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"]}),
        expect![[
            r#"{"items":{"properties":{"a":{"type":"string"}},"type":"object"},"type":"array","x-kubernetes-list-map-keys":["a"],"x-kubernetes-list-type":"map"} required ["field","other"]"#
        ]],
        expect![[
            r#"{"items":{"properties":{"a":{"type":"string"}},"type":"object"},"type":"array","x-kubernetes-list-map-keys":["a"],"x-kubernetes-list-type":"map"} required ["field","other"]"#
        ]],
    );
}

#[test]
fn version_two_has_neither_null_nor_defaults_nor_alternatives() {
    check(
        json!({"type": "object", "nullable": true, "properties": {"a": {"type": "string"}}}),
        expect![[
            r#"{"nullable":true,"properties":{"a":{"type":"string"}},"type":"object"} required ["field","other"]"#
        ]],
        expect![[r#"{} required ["other"]"#]],
    );
    check(
        json!({"type": "string", "default": "x", "oneOf": [{"minLength": 1}], "not": {"enum": ["y"]}}),
        expect![[
            r#"{"default":"x","not":{"enum":["y"]},"oneOf":[{"minLength":1}],"type":"string"} required ["field","other"]"#
        ]],
        expect![[r#"{"type":"string"} required ["field","other"]"#]],
    );
    check(
        json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}, "required": ["k"]}),
        expect![[
            r#"{"additionalProperties":{"nullable":true,"type":"string"},"required":["k"],"type":"object"} required ["field","other"]"#
        ]],
        expect![[r#"{"additionalProperties":{},"type":"object"} required ["field","other"]"#]],
    );
}

#[test]
fn version_two_leaves_extensible_types_open() {
    check(
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {"type": "string"}}}),
        expect![[
            r#"{"properties":{"a":{"type":"string"}},"type":"object","x-kubernetes-preserve-unknown-fields":true} required ["field","other"]"#
        ]],
        expect![[r#"{"x-kubernetes-preserve-unknown-fields":true} required ["field","other"]"#]],
    );
    check(
        json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}}),
        expect![[
            r#"{"items":{"type":"object"},"type":"array","x-kubernetes-preserve-unknown-fields":true} required ["field","other"]"#
        ]],
        expect![[r#"{"x-kubernetes-preserve-unknown-fields":true} required ["field","other"]"#]],
    );
    let definition = definition(json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true}));
    let schema = schema::of_object(&subject(&definition), Dialect::V2, &NoDescriptions);
    let keys: Vec<_> = schema.as_object().expect("a schema").keys().cloned().collect();
    assert_eq!(keys, ["type", "x-kubernetes-group-version-kind", "x-kubernetes-selectable-fields"]);
}

#[test]
fn integers_or_strings_are_alternatives_in_version_three() {
    check(
        json!({"x-kubernetes-int-or-string": true}),
        expect![[
            r#"{"anyOf":[{"type":"integer"},{"type":"string"}],"x-kubernetes-int-or-string":true} required ["field","other"]"#
        ]],
        expect![[r#"{"x-kubernetes-int-or-string":true} required ["field","other"]"#]],
    );
    check(
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"minimum": 1}, {"maxLength": 2}]}),
        expect![[
            r#"{"allOf":[{"anyOf":[{"type":"integer"},{"type":"string"}]}],"anyOf":[{"minimum":1},{"maxLength":2}],"x-kubernetes-int-or-string":true} required ["field","other"]"#
        ]],
        expect![[r#"{"x-kubernetes-int-or-string":true} required ["field","other"]"#]],
    );
    check(
        json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}], "pattern": "a"}),
        expect![[
            r#"{"anyOf":[{"type":"integer"},{"type":"string"}],"pattern":"a","x-kubernetes-int-or-string":true} required ["field","other"]"#
        ]],
        expect![[r#"{"pattern":"a","x-kubernetes-int-or-string":true} required ["field","other"]"#]],
    );
}

#[test]
fn an_embedded_resource_has_what_every_object_has() {
    let field = json!({"type": "object", "x-kubernetes-embedded-resource": true, "required": ["apiVersion"]});
    let definition = definition(json!({"type": "object", "properties": {"field": field}}));
    for (dialect, reference) in [(Dialect::V3, "/allOf/0/$ref"), (Dialect::V2, "/$ref")] {
        let schema = schema::of_object(&subject(&definition), dialect, &Named);
        let field = &schema["properties"]["field"];
        assert_eq!(field["required"], json!(["apiVersion", "kind"]));
        let reference =
            field["properties"]["metadata"].pointer(reference).and_then(Value::as_str).expect("a reference");
        assert!(reference.ends_with("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"), "{reference}");
        assert_eq!(field["properties"]["metadata"]["description"], "Its metadata.");
        assert_eq!(schema["properties"]["apiVersion"]["description"], "A version.");
        assert_ne!(field["properties"]["apiVersion"]["description"], "A version.");
    }
}

fn check_references(document: &Value) {
    let mut all = BTreeSet::new();
    references(document, &mut all);
    assert!(all.len() > 5);
    for reference in all {
        let pointer = reference.strip_prefix('#').expect("references must be within the document");
        assert!(document.pointer(pointer).is_some(), "{reference} must be there");
    }
}

#[test]
fn a_group_version_has_a_document_with_all_it_refers_to() {
    let definition =
        definition(json!({"type": "object", "description": "A cup.", "properties": {"spec": {"type": "object"}}}));
    let document = v3_document("openapi.example.com", "v1", &[subject(&definition)], Sources::plain(table()));
    check_references(&document);
    let cup = &document["components"]["schemas"]["com.example.openapi.v1.Cup"];
    assert_eq!(cup["description"], "A cup.");
    assert_eq!(cup["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.size"}]));
    let list = &document["components"]["schemas"]["com.example.openapi.v1.CupList"];
    assert_eq!(list["description"], "CupList is a list of Cup");
    let paths = document["paths"].as_object().expect("paths");
    let operations: Vec<String> = paths
        .iter()
        .flat_map(|(path, item)| item.as_object().into_iter().flatten().map(move |(method, of)| (path, method, of)))
        .filter(|(_, method, _)| *method != "parameters")
        .map(|(path, method, of)| {
            let text = |name: &str| of[name].as_str().expect("a text");
            let codes: Vec<_> = of["responses"].as_object().expect("responses").keys().map(String::as_str).collect();
            let path = path.strip_prefix("/apis/openapi.example.com/v1/").expect("a path of the group version");
            format!("{method} {path}: {}, {} {}", text("operationId"), text("description"), codes.join(" "))
        })
        .collect();
    expect![[r#"
        get cups: listOpenapiExampleComV1CupForAllNamespaces, list objects of kind Cup 200 401
        delete namespaces/{namespace}/cups: deleteOpenapiExampleComV1CollectionNamespacedCup, delete collection of Cup 200 401
        get namespaces/{namespace}/cups: listOpenapiExampleComV1NamespacedCup, list objects of kind Cup 200 401
        post namespaces/{namespace}/cups: createOpenapiExampleComV1NamespacedCup, create a Cup 200 201 202 401
        delete namespaces/{namespace}/cups/{name}: deleteOpenapiExampleComV1NamespacedCup, delete a Cup 200 202 401
        get namespaces/{namespace}/cups/{name}: readOpenapiExampleComV1NamespacedCup, read the specified Cup 200 401
        patch namespaces/{namespace}/cups/{name}: patchOpenapiExampleComV1NamespacedCup, partially update the specified Cup 200 401
        put namespaces/{namespace}/cups/{name}: replaceOpenapiExampleComV1NamespacedCup, replace the specified Cup 200 201 401
        get namespaces/{namespace}/cups/{name}/scale: readOpenapiExampleComV1NamespacedCupScale, read scale of the specified Cup 200 401
        patch namespaces/{namespace}/cups/{name}/scale: patchOpenapiExampleComV1NamespacedCupScale, partially update scale of the specified Cup 200 401
        put namespaces/{namespace}/cups/{name}/scale: replaceOpenapiExampleComV1NamespacedCupScale, replace scale of the specified Cup 200 201 401
        get namespaces/{namespace}/cups/{name}/status: readOpenapiExampleComV1NamespacedCupStatus, read status of the specified Cup 200 401
        patch namespaces/{namespace}/cups/{name}/status: patchOpenapiExampleComV1NamespacedCupStatus, partially update status of the specified Cup 200 401
        put namespaces/{namespace}/cups/{name}/status: replaceOpenapiExampleComV1NamespacedCupStatus, replace status of the specified Cup 200 201 401"#]]
    .assert_eq(&operations.join("\n"));
}

#[test]
fn the_whole_document_has_custom_and_built_in_resources() {
    let definition = definition(json!({"type": "object"}));
    let mut parts = v2_parts(&[subject(&definition)], Sources::plain(table()));
    // Built-in schemas cannot be overridden.
    parts.definitions.insert("io.k8s.api.core.v1.Pod".to_owned(), json!({}));
    parts.paths.insert("/api/v1/pods".to_owned(), json!({}));
    let document: Value =
        serde_json::from_slice(&v2_text(parts.clone(), Sources::plain(table()))).expect("the text must be JSON");
    check_references(&document);
    let built_in = v2_document(Sources::plain(table()));
    assert_eq!(document["definitions"]["io.k8s.api.core.v1.Pod"], built_in["definitions"]["io.k8s.api.core.v1.Pod"]);
    assert_eq!(document["paths"]["/api/v1/pods"], built_in["paths"]["/api/v1/pods"]);
    let count = |of: &Value, name: &str| of[name].as_object().map_or(0, serde_json::Map::len);
    assert_eq!(count(&document, "definitions"), count(&built_in, "definitions") + 2);
    assert_eq!(count(&document, "paths"), count(&built_in, "paths") + 5);
    let protobuf = v2_protobuf(parts, Sources::plain(table()));
    assert_eq!(protobuf.len(), v2_to_protobuf(&document).len());
}

fn schemas() -> impl Strategy<Value = Value> {
    let keyword = prop::sample::select(vec![
        "type",
        "properties",
        "items",
        "additionalProperties",
        "nullable",
        "required",
        "enum",
        "allOf",
        "anyOf",
        "not",
        "default",
        "maximum",
        "x-kubernetes-int-or-string",
        "x-kubernetes-embedded-resource",
        "x-kubernetes-preserve-unknown-fields",
        "x-kubernetes-validations",
        "externalDocs",
    ]);
    let leaf = prop_oneof![
        Just(json!(true)),
        Just(json!(null)),
        Just(json!("object")),
        Just(json!("array")),
        Just(json!(7.0)),
        Just(json!(["a", 1, null])),
    ];
    leaf.prop_recursive(5, 60, 6, move |inner| {
        prop_oneof![
            prop::collection::btree_map(keyword.clone(), inner.clone(), 0..6)
                .prop_map(|map| map.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
            prop::collection::vec(inner, 0..3).prop_map(Value::from),
        ]
    })
}

proptest! {
    #[test]
    fn any_json_can_be_published(schema in schemas()) {
        let definition = definition(schema);
        v3_document("openapi.example.com", "v1", &[subject(&definition)], Sources::plain(table()));
        v2_parts(&[subject(&definition)], Sources::plain(table()));
    }
}
