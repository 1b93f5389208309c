use std::collections::BTreeSet;

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn definition(spec: Value) -> Value {
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "spec": {
            "group": "example.com",
            "names": {"kind": "Foo", "plural": "foos"},
            "scope": "Namespaced",
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {"type": "object", "required": ["spec"], "properties": {"spec": spec}}},
            }],
        },
    })
}

/// Generates the module of a spec. It must be valid Rust with unique names of types and fields.
fn module(spec: &Value) -> String {
    let types = Definition::read(&definition(spec.clone())).unwrap().types("v1").unwrap();
    let file = syn::parse_file(&types.text).unwrap_or_else(|error| panic!("{error}\n{}", types.text));
    let mut names = BTreeSet::new();
    for item in &file.items {
        match item {
            syn::Item::Struct(item) => {
                assert!(names.insert(item.ident.to_string()), "{} twice\n{}", item.ident, types.text);
                let mut fields = BTreeSet::new();
                for field in &item.fields {
                    assert!(fields.insert(field.ident.clone()), "{:?} twice\n{}", field.ident, types.text);
                }
            }
            syn::Item::Enum(item) => {
                assert!(names.insert(item.ident.to_string()), "{} twice\n{}", item.ident, types.text);
                let variants: BTreeSet<_> = item.variants.iter().map(|variant| variant.ident.clone()).collect();
                assert_eq!(variants.len(), item.variants.len(), "{}", types.text);
            }
            syn::Item::Fn(item) => assert!(names.insert(item.sig.ident.to_string()), "{}", types.text),
            _ => {}
        }
    }
    types.text
}

#[test]
fn differences_that_types_cannot_express_are_reported() {
    let mut crd = definition(json!({"type": "object", "oneOf": [{"properties": {"a": {"minimum": 1}}}]}));
    let version = &mut crd["spec"]["versions"][0];
    version["schema"]["openAPIV3Schema"]["required"] = json!([]);
    version["schema"]["openAPIV3Schema"]["properties"]["status"] = json!({"type": "object"});
    let types = Definition::read(&crd).unwrap().types("v1").unwrap();
    assert_eq!(
        types.notes,
        [
            "spec: oneOf over fields is dropped: use a CEL rule instead",
            "spec: optional in the CRD, but required in the types",
            "status: becomes a subresource, unlike in the CRD",
        ]
    );
}

#[test]
fn objects_other_than_crds_are_rejected() {
    let rejected = |value: Value| Definition::read(&value).unwrap_err().to_string();
    assert_eq!(
        rejected(json!({"kind": "Pod", "apiVersion": "v1"})),
        "this is Pod of \"v1\", not a CustomResourceDefinition"
    );
    assert!(rejected(json!(null)).starts_with("this is an object without a kind"));
    let mut crd = definition(json!({}));
    crd["spec"]["versions"][0].as_object_mut().unwrap().remove("schema");
    assert_eq!(rejected(crd), "schema of version v1 of the CustomResourceDefinition does not exist");
}

#[test]
fn an_open_object_with_a_spec_has_a_spec_field() {
    let mut open = definition(json!({"type": "object", "properties": {"size": {"type": "integer"}}}));
    let root = &mut open["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    root["x-kubernetes-preserve-unknown-fields"] = true.into();
    let types = Definition::read(&open).unwrap().types("v1").unwrap();
    assert!(!types.text.contains("no_spec") && types.text.contains("pub size: Option<i64>"), "{}", types.text);
    assert!(types.notes.iter().any(|note| note.contains("other than spec and status")), "{:?}", types.notes);
}

#[test]
fn invalid_schemas_are_rejected_with_their_path() {
    let object = |inner: Value| json!({"type": "object", "properties": {"a": {"type": "array", "items": inner}}});
    let mut deep = json!({"type": "string"});
    for _ in 0..250 {
        deep = object(deep);
    }
    for (spec, why) in [
        (object(json!({"$ref": "#/definitions/b"})), "v1: spec.a: $ref refers to another schema"),
        (object(json!({"required": [true]})), "v1: spec.a: required is not a list of names"),
        (json!({"allOf": [{"required": "b"}]}), "v1: spec: required is not a list of names"),
        (object(json!([{"type": "string"}])), "v1: spec.a: items is a list of schemas"),
        (deep, "v1: the object: it nests deeper than 200 levels"),
    ] {
        let error = Definition::read(&definition(spec)).unwrap_err();
        assert_eq!(error.to_string(), why);
        assert!(error.hint().starts_with("no API server accepts"));
    }
    // A field may be named `$ref`.
    module(&json!({"type": "object", "required": null, "properties": {"$ref": {"type": "string"}}}));
}

#[test]
fn code_in_descriptions_is_not_compiled() {
    let words = "Do:\n```\nlet x = 1;\n```\n    fn f() {}\n\n~~~ yaml\na: b";
    let text = module(&json!({"type": "object", "properties": {"a": {"type": "string", "description": words}}}));
    let docs: Vec<&str> = text.lines().filter_map(|line| line.strip_prefix("    ///")).collect();
    assert_eq!(docs, [" Do:", " ```text", " let x = 1;", " ```", " fn f() {}", "", " ```text", " a: b", " ```"]);
}

fn names() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-c]{1,2}(-|_|[A-C]){0,2}[a-c0-9]{0,2}",
        prop::sample::select(vec!["type", "self", "rest", "spec", "status", "fooSpec", "", "r#x", "Kind", "1"])
            .prop_map(str::to_owned),
        ".{0,6}",
    ]
}

fn schemas() -> impl Strategy<Value = Value> {
    let words = prop::collection::vec(names(), 1..4);
    let leaf = prop_oneof![
        (prop::option::of(any::<String>()), any::<String>())
            .prop_map(|(default, pattern)| json!({"type": "string", "default": default, "pattern": pattern})),
        (words, any::<String>()).prop_map(|(words, text)| {
            json!({"type": "string", "enum": words, "default": words[0], "description": text})
        }),
        (any::<i64>(), any::<f64>())
            .prop_map(|(default, most)| json!({"type": "integer", "default": default, "maximum": most})),
        any::<u64>().prop_map(|least| json!({"type": "number", "minimum": least, "default": 0.5})),
        prop::sample::select(vec![
            json!({"type": "string", "format": "date-time"}),
            json!({"type": "string", "format": "byte", "nullable": true}),
            json!({"type": "boolean", "default": true}),
            json!({"type": "object"}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"type": "object", "x-kubernetes-embedded-resource": true}),
            json!({"type": "array"}),
            json!({"type": 3}),
        ]),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            inner.clone().prop_map(|items| json!({"type": "array", "items": items, "maxItems": 3})),
            inner.clone().prop_map(|values| json!({"type": "object", "additionalProperties": values})),
            (prop::collection::btree_map(names(), inner, 0..6), any::<bool>(), any::<bool>()).prop_map(
                |(properties, open, required)| {
                    let required: Vec<&String> = properties.keys().filter(|_| required).collect();
                    json!({
                        "type": "object", "required": required, "properties": properties,
                        "x-kubernetes-preserve-unknown-fields": open,
                    })
                }
            ),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn every_schema_becomes_valid_rust(schema in schemas()) {
        module(&schema);
        module(&json!({"type": "object", "properties": {"a": schema}}));
    }
}
