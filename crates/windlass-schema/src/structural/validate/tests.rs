use expect_test::{Expect, expect};
use serde_json::{Value, json};

use crate::structural::Structural;

fn compile(schema: Value) -> Structural {
    Structural::compile(&schema).expect("the schema must compile")
}

fn check(schema: Value, object: Value, want: Expect) {
    let schema = compile(json!({"type": "object", "properties": {"spec": schema}}));
    let errors = schema.validate(&json!({"spec": object}));
    want.assert_eq(&errors.iter().map(|e| format!("{e}\n")).collect::<String>());
}

#[test]
fn type_errors_name_the_actual_type() {
    check(
        json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string"}, "c": {"type": "array"}}}),
        json!({"a": "5", "b": 5, "c": {}}),
        expect![[r#"
            spec.a: Invalid value: "string": spec.a in body must be of type integer: "string"
            spec.b: Invalid value: "integer": spec.b in body must be of type string: "integer"
            spec.c: Invalid value: "object": spec.c in body must be of type array: "object"
        "#]],
    );
    check(
        json!({"type": "integer"}),
        json!(1.5),
        expect![[r#"
            spec: Invalid value: "number": spec in body must be of type integer: "number"
            <nil>: Invalid value: "": Checked value must be of type integer (default format) in spec
        "#]],
    );
    check(json!({"type": "integer"}), json!(2.0), expect![""]);
    check(
        json!({"x-kubernetes-int-or-string": true}),
        json!(true),
        expect![[r#"
            spec: Invalid value: "boolean": spec in body must be of type integer,string: "boolean"
        "#]],
    );
}

#[test]
fn type_errors_have_their_own_reason() {
    let errors = compile(json!({"properties": {"a": {"type": "string"}}})).validate(&json!({"a": 1}));
    assert_eq!(errors[0].kind.reason(), "FieldValueTypeInvalid");
}

#[test]
fn lengths_of_strings_lists_and_maps_are_validated() {
    check(
        json!({
            "type": "object", "required": ["z"],
            "properties": {
                "long": {"type": "string", "maxLength": 3},
                "short": {"type": "string", "minLength": 3},
                "pattern": {"type": "string", "pattern": "^[a-z]+$"},
                "many": {"type": "array", "maxItems": 1},
                "few": {"type": "array", "minItems": 1},
                "map": {"type": "object", "maxProperties": 1, "additionalProperties": {"type": "integer", "maximum": 9}},
            }
        }),
        json!({"long": "äöüß", "short": "äö", "pattern": "A", "many": [1, 2], "few": [], "map": {"a": 1, "b": 10}}),
        expect![[r#"
            spec.few: Invalid value: 0: spec.few in body should have at least 1 items
            spec.long: Too long: may not be more than 3 bytes
            spec.many: Too many: 2: must have at most 1 item
            spec.map: Too many: 2: must have at most 1 item
            spec.map.b: Invalid value: 10: spec.map.b in body should be less than or equal to 9
            spec.pattern: Invalid value: "A": spec.pattern in body should match '^[a-z]+$'
            spec.short: Invalid value: "äö": spec.short in body should be at least 3 chars long
            spec.z: Required value
        "#]],
    );
}

#[test]
fn integer_bounds_are_truncated() {
    let schema = json!({"type": "number", "maximum": 2.5, "exclusiveMaximum": true});
    check(
        schema.clone(),
        json!(2),
        expect![[r#"
        spec: Invalid value: 2: spec in body should be less than 2
    "#]],
    );
    check(schema, json!(2.2), expect![""]);
    check(
        json!({"type": "integer", "format": "int32", "multipleOf": 3}),
        json!(2_147_483_648_i64),
        expect![[r#"
            <nil>: Invalid value: "": Checked value must be of type integer with format int32 in spec
            spec: Invalid value: 2147483648: spec in body should be a multiple of 3
        "#]],
    );
    check(
        json!({"type": "number", "minimum": 1e21}),
        json!(12_345_678.5),
        expect![[r#"
        spec: Invalid value: 1.23456785e+07: spec in body should be greater than or equal to 1e+21
    "#]],
    );
}

#[test]
fn enums_compare_after_conversion_and_never_contain_null() {
    let schema = json!({"nullable": true, "enum": [1, "b", null, {"a": 1}]});
    check(schema.clone(), json!(1.9), expect![""]);
    check(schema.clone(), json!(98), expect![""]);
    check(schema.clone(), json!({"a": 1}), expect![""]);
    check(
        schema,
        json!(null),
        expect![[r#"
        spec: Unsupported value: null: supported values: "1", "b", "null", "{\"a\":1}"
    "#]],
    );
}

#[test]
fn a_large_enum_is_not_searched_linearly() {
    let names: Vec<String> = (0..20_000).map(|n| format!("name-{n}")).collect();
    let schema =
        compile(json!({"properties": {"list": {"type": "array", "items": {"type": "string", "enum": names}}}}));
    let object = json!({"list": names.iter().chain(&names).collect::<Vec<_>>()});
    assert_eq!(schema.validate(&object), vec![]);
}

#[test]
fn messages_about_a_hostile_object_are_bounded() {
    let names: Vec<String> = (0..5_000).map(|n| format!("name-{n}")).collect();
    let schema = compile(json!({"properties": {"list": {"type": "array", "items": {"enum": names}}}}));
    let errors = schema.validate(&json!({"list": vec!["other"; 5_000]}));
    let bytes: usize = errors.iter().map(|error| error.detail.len()).sum();
    assert!(!errors.is_empty() && bytes < 32 << 20, "{bytes}");
}

#[test]
fn discarded_errors_of_alternatives_cost_nothing() {
    let long = "x".repeat(1000);
    let schema = compile(json!({"properties": {"list": {"type": "array", "items": {
        "anyOf": [{"type": "integer", "enum": [long]}, {"type": "string"}]}}, "z": {"type": "integer"}}}));
    let errors = schema.validate(&json!({"list": vec!["a"; 40_000], "z": "bad"}));
    assert_eq!(errors.len(), 1, "the last field is validated");
}

#[test]
fn the_best_matching_alternative_provides_the_errors() {
    check(
        json!({"anyOf": [{"type": "integer"}, {"type": "object", "required": ["a"]}]}),
        json!({}),
        expect![[r#"
            <nil>: Invalid value: "": "spec" must validate at least one schema (anyOf)
            spec.a: Required value
        "#]],
    );
    check(
        json!({"oneOf": [{"minLength": 1}, {"maxLength": 5}], "not": {"enum": ["abc"]}}),
        json!("abc"),
        expect![[r#"
            <nil>: Invalid value: "": "spec" must validate one and only one schema (oneOf). Found 2 valid alternatives
            <nil>: Invalid value: "": "spec" must not validate the schema (not)
        "#]],
    );
    check(
        json!({"allOf": [{"minLength": 5}, {"pattern": "^a"}]}),
        json!("b"),
        expect![[r#"
            spec: Invalid value: "b": spec in body should be at least 5 chars long
            spec: Invalid value: "b": spec in body should match '^a'
            <nil>: Invalid value: "": "spec" must validate all the schemas (allOf). None validated
        "#]],
    );
}

#[test]
fn formats_apply_only_to_their_type() {
    check(
        json!({"type": "string", "format": "date"}),
        json!("x"),
        expect![[r#"
        spec: Invalid value: "x": spec in body must be of type date: "x"
    "#]],
    );
    check(json!({"type": "string", "format": "int32"}), json!("x"), expect![""]);
    check(json!({"type": "string", "format": "unheard-of"}), json!("x"), expect![""]);
}

#[test]
fn sets_and_maps_reject_duplicate_elements() {
    check(
        json!({"type": "object", "properties": {
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}}}},
            "two": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k", "l"],
                    "items": {"type": "object", "properties": {"k": {"type": "string"}, "l": {"type": "string"}}}},
        }}),
        json!({"set": [1, 2, 1, 1], "map": [{"k": "a"}, {}, {"k": "a"}, {}], "two": [{"k": "a"}, {"k": "a", "l": "b"}, {"k": "a"}]}),
        expect![[r#"
            spec.map[2]: Duplicate value: {"k":"a"}
            spec.map[3]: Duplicate value: {}
            spec.set[2]: Duplicate value: 1
            spec.two[2]: Duplicate value: {"k":"a"}
        "#]],
    );
}

#[test]
fn embedded_resources_need_a_type_and_valid_metadata() {
    check(
        json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        json!({"apiVersion": "a/b/c", "metadata": {"name": "a/b", "labels": {"?": "x"}}}),
        expect![[r#"
            spec.kind: Required value
            spec.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c
            spec.metadata.name: Invalid value: "a/b": may not contain '/'
            spec.metadata.labels: Invalid value: "?": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        "#]],
    );
}

fn ratcheting() -> Structural {
    compile(json!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
        "name": {"type": "string", "pattern": "^[a-z]*$"},
        "other": {"type": "string"},
        "list": {"type": "array", "items": {"type": "string", "maxLength": 3}},
        "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "properties": {"k": {"type": "string"}, "v": {"type": "integer", "maximum": 10}}}},
        "any": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "maxProperties": 1},
        "alternatives": {"type": "string", "allOf": [{"maxLength": 1}]},
    }}}}))
}

fn updated(change: impl Fn(&mut Value)) -> String {
    let old = json!({"spec": {
        "name": "LOUD", "list": ["toolong"], "map": [{"k": "a", "v": 100}, {"k": "b", "v": 1}], "alternatives": "long",
    }});
    let mut new = old.clone();
    change(&mut new["spec"]);
    ratcheting().validate_update(&new, &old).iter().map(|e| format!("{e}\n")).collect()
}

#[test]
fn errors_in_unchanged_parts_are_tolerated() {
    assert_eq!(updated(|_| {}), "");
    assert_eq!(updated(|spec| spec["other"] = "x".into()), "");
    assert_eq!(updated(|spec| spec["map"] = json!([{"k": "b", "v": 2}, {"k": "a", "v": 100}])), "");
}

#[test]
fn changed_parts_are_validated() {
    expect![[r#"
        spec.name: Invalid value: "LOUDER": spec.name in body should match '^[a-z]*$'
    "#]]
    .assert_eq(&updated(|spec| spec["name"] = "LOUDER".into()));
    expect![[r#"
        spec.map[0].v: Invalid value: 101: spec.map[0].v in body should be less than or equal to 10
    "#]]
    .assert_eq(&updated(|spec| spec["map"][0]["v"] = 101.into()));
    expect![[r#"
        spec.list[0]: Too long: may not be more than 3 bytes
    "#]]
    .assert_eq(&updated(|spec| spec["list"] = json!(["toolong", "new"])));
}

#[test]
fn undeclared_fields_count_as_changed() {
    let old = json!({"spec": {"any": {"a": 1, "b": 2}}});
    assert_eq!(ratcheting().validate_update(&old, &old).len(), 1);
}

#[test]
fn a_status_is_validated_alone_and_with_its_own_path() {
    let schema = compile(json!({"type": "object", "required": ["spec"], "properties": {"status": {
        "type": "object", "properties": {"phase": {"type": "string", "enum": ["a"]}}}}}));
    let errors = schema.validate_status_update(&json!({"status": {"phase": "b"}}), &json!({}));
    assert_eq!(errors[0].to_string(), "status.phase: Unsupported value: \"b\": supported values: \"a\"");
    let same = json!({"status": {"phase": "b"}});
    assert_eq!(schema.validate_status_update(&same, &same), vec![]);
}

#[test]
fn invalid_sets_may_stay_invalid_and_valid_ones_must_stay_valid() {
    let schema = compile(
        json!({"properties": {"set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "integer"}}}}),
    );
    let (bad, good) = (json!({"set": [1, 1]}), json!({"set": [1]}));
    assert_eq!(schema.validate_update(&bad, &bad), vec![]);
    assert_eq!(schema.validate_update(&bad, &good).len(), 1);
}
