use expect_test::{Expect, expect};
use serde_json::{Value, json};
use windlass_schema::structural::{Additional, Kind, ListType, Structural};
use windlass_schema::types::{Struct, StructId, TypeTable};

use super::*;
use crate::apply::schema::TypeRef;
use crate::apply::set::Set;

mod properties;

/// A custom resource with every kind of list, map and scalar.
struct Fixture {
    schema: Structural,
    table: TypeTable,
}

impl Fixture {
    fn new() -> Self {
        let meta = Struct {
            name: "ObjectMeta".into(),
            go_name: "ObjectMeta".into(),
            fields: Vec::new(),
            atomic: false,
            inlines: Vec::new(),
        };
        Self { schema: object(&[("spec", spec())]), table: TypeTable { structs: vec![meta] } }
    }

    fn ty(&self) -> TypeRef<'_> {
        TypeRef::custom(&self.schema, &self.table, StructId(0))
    }
}

fn kind(kind: Kind) -> Structural {
    Structural { kind: Some(kind), ..Structural::default() }
}

fn object(properties: &[(&str, Structural)]) -> Structural {
    let properties = properties.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect();
    Structural { properties, ..kind(Kind::Object) }
}

fn list(list_type: ListType, items: Structural) -> Structural {
    Structural { items: Some(Box::new(items)), list_type, ..kind(Kind::Array) }
}

fn spec() -> Structural {
    let string = || kind(Kind::String);
    let pair = || object(&[("a", string()), ("b", string())]);
    let strings = || Additional::Schema(Box::new(kind(Kind::String)));
    let keys = |names: &[&str]| ListType::Map(names.iter().map(|name| (*name).to_owned()).collect());
    let protocol = Structural { default: Some(json!("TCP")), ..string() };
    let port = object(&[("port", kind(Kind::Integer)), ("proto", protocol), ("note", string())]);
    let item = object(&[
        ("name", string()),
        ("value", kind(Kind::Integer)),
        ("sub", pair()),
        ("tags", list(ListType::Set, string())),
    ]);
    object(&[
        ("n", kind(Kind::Integer)),
        ("s", string()),
        ("b", kind(Kind::Boolean)),
        ("set", list(ListType::Set, string())),
        ("atomic", list(ListType::Atomic, string())),
        ("items", list(keys(&["name"]), item)),
        ("ports", list(keys(&["port", "proto"]), port)),
        ("map", Structural { additional: strings(), ..kind(Kind::Object) }),
        ("amap", Structural { additional: strings(), atomic_map: true, ..kind(Kind::Object) }),
        ("any", Structural { preserve_unknown_fields: true, ..Structural::default() }),
    ])
}

fn set(text: &str) -> Set {
    Set::from_fields_text(text).expect("the text is FieldsV1")
}

#[track_caller]
fn check_errors(spec: Value, options: ValidateOptions, expected: Expect) {
    let fixture = Fixture::new();
    let result = validate(&json!({"spec": spec}), fixture.ty(), options);
    expected.assert_eq(&result.map_or_else(|errors| errors.to_string(), |()| "fits".to_owned()));
}

#[test]
fn errors_match_kube_apiserver() {
    let strict = ValidateOptions::default();
    check_errors(json!({"n": "x"}), strict, expect![".spec.n: expected numeric (int or float), got string"]);
    check_errors(json!({"s": 1}), strict, expect![".spec.s: expected string, got &value.valueUnstructured{Value:1}"]);
    check_errors(
        json!({"s": {"a": [1, "x", null]}}),
        strict,
        expect![[
            r#".spec.s: expected string, got &value.valueUnstructured{Value:map[string]interface {}{"a":[]interface {}{1, "x", interface {}(nil)}}}"#
        ]],
    );
    check_errors(json!({"b": "x"}), strict, expect![".spec.b: expected boolean, got &{x}"]);
    check_errors(json!({"set": {"a": 1}}), strict, expect![".spec.set: expected list, got &{map[a:1]}"]);
    check_errors(json!({"map": [1, 2]}), strict, expect![".spec.map: expected map, got &{[1 2]}"]);
    check_errors(json!({"foo": 1}), strict, expect![".spec.foo: field not declared in schema"]);
    check_errors(json!({"set": ["a", "b", "a"]}), strict, expect![[r#".spec.set: duplicate entries for key [="a"]"#]]);
    check_errors(
        json!({"ports": [{"port": 1}, {"port": 1, "proto": "TCP"}]}),
        strict,
        expect![[r#".spec.ports: duplicate entries for key [port=1,proto="TCP"]"#]],
    );
    check_errors(
        json!({"items": [{"value": 1}]}),
        strict,
        expect![[
            r#".spec.items: element 0: associative list with keys has an element that omits all key fields ["name"] (and doesn't have default values for any key fields)"#
        ]],
    );
    check_errors(
        json!({"atomic": ["a", 1], "items": [{"name": "x", "value": "y"}, null]}),
        strict,
        expect![[r#"
            errors:
              .spec.atomic[1]: expected string, got &value.valueUnstructured{Value:1}
              .spec.items[name="x"].value: expected numeric (int or float), got string
              .spec.items: element 1: associative list with keys may not have a null element"#]],
    );
}

#[test]
fn null_is_valid_for_every_type_and_duplicates_may_be_allowed() {
    check_errors(
        json!({"n": null, "set": null, "map": null, "any": null}),
        ValidateOptions::default(),
        expect!["fits"],
    );
    check_errors(json!({"set": ["a", "a"]}), ValidateOptions { allow_duplicates: true }, expect!["fits"]);
}

#[track_caller]
fn check_field_set(spec: Value, expected: &str) {
    let fixture = Fixture::new();
    let found = to_field_set(&json!({"spec": spec}), fixture.ty()).expect("the value is valid");
    assert_eq!(
        found.with_prefix(&crate::apply::path::PathElement::field("spec")).cloned().unwrap_or_default(),
        set(expected)
    );
}

#[test]
fn leaves_items_and_keys_of_maps_are_owned() {
    check_field_set(json!({"n": 1, "atomic": ["a"], "amap": {"a": "b"}}), r#"{"f:n":{},"f:atomic":{},"f:amap":{}}"#);
    check_field_set(json!({"map": {"a": "b"}, "set": ["x"]}), r#"{"f:map":{"f:a":{}},"f:set":{"v:\"x\"":{}}}"#);
    check_field_set(
        json!({"items": [{"name": "x", "sub": {"a": "1"}}]}),
        r#"{"f:items":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:sub":{"f:a":{}}}}}"#,
    );
    check_field_set(json!({"any": {"a": {"b": [1]}}}), r#"{"f:any":{"f:a":{".":{},"f:b":{}}}}"#);
}

#[test]
fn empty_maps_and_nulls_are_owned_but_empty_lists_are_not() {
    check_field_set(json!({"map": {}, "n": null, "set": null}), r#"{"f:map":{},"f:n":{},"f:set":{}}"#);
    check_field_set(json!({"set": [], "items": []}), "{}");
}

#[test]
fn only_the_item_of_duplicates_is_owned() {
    check_field_set(
        json!({"items": [{"name": "x", "value": 1}, {"name": "y"}, {"name": "x"}]}),
        r#"{"f:items":{"k:{\"name\":\"x\"}":{},"k:{\"name\":\"y\"}":{".":{},"f:name":{}}}}"#,
    );
}

#[track_caller]
fn check_comparison(old: Value, new: Value, removed: &str, modified: &str, added: &str) {
    let fixture = Fixture::new();
    let found = compare(&json!({"spec": old}), &json!({"spec": new}), fixture.ty()).expect("the values are valid");
    let spec = |text: &str| if text == "{}" { Set::new() } else { set(&format!(r#"{{"f:spec":{text}}}"#)) };
    let expected = Comparison { removed: spec(removed), modified: spec(modified), added: spec(added) };
    assert_eq!(found, expected);
}

#[test]
fn a_comparison_lists_added_removed_and_modified_fields() {
    check_comparison(
        json!({"n": 1, "s": "a"}),
        json!({"n": 2, "b": true}),
        r#"{"f:s":{}}"#,
        r#"{"f:n":{}}"#,
        r#"{"f:b":{}}"#,
    );
    check_comparison(json!({"n": 1}), json!({"n": 1.0}), "{}", "{}", "{}");
    check_comparison(json!({"amap": {"a": "1"}}), json!({"amap": {"a": "2"}}), "{}", r#"{"f:amap":{}}"#, "{}");
    check_comparison(
        json!({"items": [{"name": "x", "value": 1}, {"name": "y"}]}),
        json!({"items": [{"name": "y"}, {"name": "x", "value": 2}, {"name": "z", "value": 1}]}),
        "{}",
        r#"{"f:items":{"k:{\"name\":\"x\"}":{"f:value":{}}}}"#,
        r#"{"f:items":{"k:{\"name\":\"z\"}":{".":{},"f:name":{},"f:value":{}}}}"#,
    );
}

#[test]
fn empty_and_null_differ() {
    check_comparison(json!({"map": null}), json!({"map": {}}), "{}", r#"{"f:map":{}}"#, "{}");
    check_comparison(json!({"set": []}), json!({"set": ["a"]}), "{}", "{}", r#"{"f:set":{"v:\"a\"":{}}}"#);
}

#[test]
fn a_value_of_another_form_removes_the_old_fields() {
    check_comparison(json!({"any": {"a": 1}}), json!({"any": 2}), r#"{"f:any":{"f:a":{}}}"#, r#"{"f:any":{}}"#, "{}");
    check_comparison(json!({"any": null}), json!({"any": {"a": 1}}), "{}", "{}", r#"{"f:any":{"f:a":{}}}"#);
}

#[test]
fn added_or_removed_duplicates_change_ownership() {
    let (one, two) = (json!({"items": [{"name": "x", "value": 1}]}), json!({"items": [{"name": "x"}, {"name": "x"}]}));
    let (whole, item) = (
        r#"{"f:items":{"k:{\"name\":\"x\"}":{".":{},"f:name":{},"f:value":{}}}}"#,
        r#"{"f:items":{"k:{\"name\":\"x\"}":{}}}"#,
    );
    check_comparison(one.clone(), two.clone(), whole, "{}", item);
    check_comparison(two.clone(), one, item, "{}", whole);
    let changed = json!({"items": [{"name": "x"}, {"name": "x", "value": 2}]});
    check_comparison(two, changed, "{}", item, "{}");
}

#[track_caller]
fn check_merge(old: Value, new: Value, expected: Value) {
    let fixture = Fixture::new();
    let merged = merge(&json!({"spec": old}), &json!({"spec": new}), fixture.ty()).expect("the values are valid");
    assert_eq!(merged, json!({"spec": expected}));
}

#[test]
fn merging_removes_nothing() {
    check_merge(
        json!({"n": 1, "map": {"a": "1"}}),
        json!({"n": 2, "map": {"b": "2"}}),
        json!({"n": 2, "map": {"a": "1", "b": "2"}}),
    );
    check_merge(
        json!({"map": {"a": "1"}, "n": 1}),
        json!({"map": null, "n": null}),
        json!({"map": {"a": "1"}, "n": null}),
    );
    check_merge(
        json!({"atomic": ["a"], "amap": {"a": "1"}}),
        json!({"atomic": ["b"], "amap": {}}),
        json!({"atomic": ["b"], "amap": {}}),
    );
    check_merge(json!({"any": {"a": 1}}), json!({"any": [1]}), json!({"any": [1]}));
}

#[test]
fn merged_lists_follow_the_order_of_the_new_one() {
    let set = |items: &[&str]| json!({"set": items});
    check_merge(set(&["a", "b", "c"]), set(&["c", "a"]), set(&["b", "c", "a"]));
    check_merge(set(&["a", "b"]), set(&["x", "b"]), set(&["a", "x", "b"]));
    check_merge(set(&["a", "b", "c"]), set(&["b", "x", "c"]), set(&["a", "b", "x", "c"]));
    check_merge(set(&[]), set(&["b", "a"]), set(&["b", "a"]));
    check_merge(set(&["a", "b"]), json!({"set": []}), set(&["a", "b"]));
    check_merge(
        json!({"ports": [{"port": 1, "note": "x"}, {"port": 2, "proto": "UDP"}]}),
        json!({"ports": [{"port": 2, "proto": "UDP", "note": "y"}, {"port": 1, "proto": "TCP"}]}),
        json!({"ports": [{"port": 2, "proto": "UDP", "note": "y"}, {"port": 1, "proto": "TCP", "note": "x"}]}),
    );
}

#[test]
fn old_duplicates_are_kept_unless_the_new_list_has_the_item() {
    let items = |items: Value| json!({"items": items});
    let old = items(json!([{"name": "x", "value": 1}, {"name": "x", "value": 2}]));
    check_merge(
        old.clone(),
        items(json!([{"name": "y"}])),
        items(json!([{"name": "x", "value": 1}, {"name": "x", "value": 2}, {"name": "y"}])),
    );
    check_merge(old, items(json!([{"name": "x"}])), items(json!([{"name": "x"}])));
}

#[test]
fn removing_everything_leaves_null() {
    let fixture = Fixture::new();
    let value = json!({"spec": {"n": 1, "set": ["a", "b"], "map": {"a": "1"}, "atomic": ["x"]}});
    let items = set(r#"{"f:spec":{"f:n":{},"f:set":{"v:\"a\"":{}},"f:map":{"f:a":{}},"f:atomic":{"i:0":{}}}}"#);
    assert_eq!(
        remove_items(&value, fixture.ty(), &items),
        json!({"spec": {"set": ["b"], "map": null, "atomic": null}})
    );
}

#[test]
fn extracting_includes_key_fields_only_on_request() {
    let fixture = Fixture::new();
    let value = json!({"spec": {"n": 1, "items": [{"name": "x", "value": 1, "sub": {"a": "1"}}, {"name": "y"}]}});
    let items = set(r#"{"f:spec":{"f:items":{"k:{\"name\":\"x\"}":{"f:value":{}}}}}"#);
    let extract = |key_fields| extract_items(&value, fixture.ty(), &items, ExtractOptions { key_fields });
    assert_eq!(extract(false), json!({"spec": {"items": [{"value": 1}]}}));
    assert_eq!(extract(true), json!({"spec": {"items": [{"name": "x", "value": 1}]}}));
}

#[test]
fn sets_follow_a_type_that_became_atomic() {
    let fixture = Fixture::new();
    let reconcile = |text| reconcile_field_set(&set(text), fixture.ty()).expect("the type must be complete");
    assert_eq!(
        reconcile(r#"{"f:spec":{"f:amap":{"f:a":{}},"f:atomic":{".":{},"v:\"x\"":{}},"f:n":{}}}"#),
        Some(set(r#"{"f:spec":{"f:amap":{},"f:atomic":{},"f:n":{}}}"#))
    );
    assert_eq!(
        reconcile(r#"{"f:spec":{"f:amap":{},"f:map":{"f:a":{}},"f:any":{"f:x":{"f:y":{}}},"f:gone":{"f:z":{}}}}"#),
        None
    );
}
