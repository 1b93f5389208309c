//! Strategic merge patches, case by case.

use serde_json::{Value, json};
use windlass_merge::{
    json_patch::Checks,
    strategic::{self, Error},
};

use crate::types;

fn patched(doc: Value, patch: Value) -> Result<Value, Error> {
    strategic::apply(doc, patch, types::OBJECT, &types::table())
}

/// Patches the spec of an object.
#[track_caller]
fn spec(doc: Value, patch: Value, expected: Value) {
    assert_eq!(patched(json!({"spec": doc}), json!({"spec": patch})), Ok(json!({"spec": expected})));
}

#[track_caller]
fn spec_fails(doc: Value, patch: Value, status: u16, expected: &str) {
    let error = patched(json!({"spec": doc}), json!({"spec": patch})).expect_err("the patch must fail");
    assert_eq!((error.status(), error.to_string().as_str()), (status, expected));
}

#[test]
fn lists_with_a_merge_key_merge_element_by_element() {
    spec(
        json!({"containers": [{"name": "a", "image": "a:1"}, {"name": "b", "image": "b:1"}]}),
        json!({"containers": [{"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"}]}),
        json!({"containers": [
            {"name": "a", "image": "a:1"}, {"name": "b", "image": "b:2"}, {"name": "c", "image": "c:1"},
        ]}),
    );
}

#[test]
fn merge_keys_may_be_numbers() {
    spec(
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81}]}]}),
        json!({"containers": [{"name": "a", "ports": [{"containerPort": 81, "name": "x"}, {"containerPort": 82}]}]}),
        json!({"containers": [
            {"name": "a", "ports": [{"containerPort": 80}, {"containerPort": 81, "name": "x"}, {"containerPort": 82}]},
        ]}),
    );
}

#[test]
fn new_elements_precede_old_ones_that_the_patch_omits() {
    spec(
        json!({"secrets": [{"name": "one"}]}),
        json!({"secrets": [{"name": "two"}]}),
        json!({"secrets": [{"name": "two"}, {"name": "one"}]}),
    );
    let doc = json!({"metadata": {"finalizers": ["example.com/b"]}});
    let patch = json!({"metadata": {"finalizers": ["example.com/c", "example.com/b", "example.com/c"]}});
    assert_eq!(patched(doc, patch), Ok(json!({"metadata": {"finalizers": ["example.com/c", "example.com/b"]}})));
}

#[test]
fn lists_without_a_strategy_are_replaced() {
    spec(
        json!({"tolerations": [{"name": "k"}], "containers": [{"name": "a", "args": ["1", "2"]}]}),
        json!({"tolerations": [{"name": "other"}], "containers": [{"name": "a", "args": ["only"]}]}),
        json!({"tolerations": [{"name": "other"}], "containers": [{"name": "a", "args": ["only"]}]}),
    );
}

#[test]
fn an_order_directive_orders_and_applies_deletions() {
    spec(
        json!({"containers": [
            {"name": "a", "env": [{"name": "X", "value": "1"}, {"name": "Y", "value": "2"}]}, {"name": "b"}, {"name": "c"},
        ]}),
        json!({
            "$setElementOrder/containers": [{"name": "c"}, {"name": "a"}, {"name": "b"}],
            "containers": [{
                "name": "a",
                "$setElementOrder/env": [{"name": "Z"}, {"name": "Y"}],
                "env": [{"name": "Z", "value": "3"}, {"name": "X", "$patch": "delete"}],
            }],
        }),
        json!({"containers": [
            {"name": "c"},
            {"name": "a", "env": [{"name": "Z", "value": "3"}, {"name": "Y", "value": "2"}]},
            {"name": "b"},
        ]}),
    );
}

#[test]
fn an_order_directive_alone_reorders_and_keeps_server_only_elements() {
    spec(
        json!({"secrets": [{"name": "a"}, {"name": "mine"}, {"name": "b"}]}),
        json!({"$setElementOrder/secrets": [{"name": "b"}, {"name": "a"}]}),
        json!({"secrets": [{"name": "mine"}, {"name": "b"}, {"name": "a"}]}),
    );
    let doc = json!({"metadata": {"finalizers": ["a", "b", "c"]}});
    let patch = json!({"metadata": {
        "$setElementOrder/finalizers": ["d", "c"], "finalizers": ["d"], "$deleteFromPrimitiveList/finalizers": ["a"],
    }});
    assert_eq!(patched(doc, patch), Ok(json!({"metadata": {"finalizers": ["d", "b", "c"]}})));
}

#[test]
fn an_order_directive_on_a_new_list_orders_it() {
    spec(
        json!({}),
        json!({"$setElementOrder/secrets": [{"name": "a"}, {"name": "b"}], "secrets": [{"name": "a"}, {"name": "b"}]}),
        json!({"secrets": [{"name": "a"}, {"name": "b"}]}),
    );
    spec(json!({}), json!({"$setElementOrder/secrets": [{"name": "a"}]}), json!({}));
}

#[test]
fn elements_are_deleted_and_lists_replaced_by_directive() {
    spec(
        json!({"containers": [{"name": "a"}, {"name": "c"}]}),
        json!({"containers": [{"name": "c", "$patch": "delete"}, {"name": "gone", "$patch": "delete"}]}),
        json!({"containers": [{"name": "a"}]}),
    );
    spec(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "z", "image": "z:1"}, {"$patch": "replace"}]}),
        json!({"containers": [{"name": "z", "image": "z:1"}]}),
    );
}

#[test]
fn maps_are_replaced_and_emptied_by_directive() {
    assert_eq!(
        patched(json!({"data": {"x": "1"}}), json!({"data": {"$patch": "replace", "y": "1"}})),
        Ok(json!({"data": {"y": "1"}}))
    );
    assert_eq!(patched(json!({"data": {"x": "1"}}), json!({"data": {"$patch": "delete"}})), Ok(json!({"data": {}})));
    assert_eq!(patched(json!({}), json!({"data": {"$patch": "replace", "y": "1"}})), Ok(json!({})));
}

#[test]
fn retained_keys_drop_all_others() {
    spec(
        json!({"volumes": [{"name": "v", "emptyDir": {}}, {"name": "w"}]}),
        json!({"volumes": [{"$retainKeys": ["name", "configMap"], "name": "v", "configMap": {"name": "cfg"}}]}),
        json!({"volumes": [{"name": "v", "configMap": {"name": "cfg"}}, {"name": "w"}]}),
    );
    spec(
        json!({"strategy": {"type": "RollingUpdate", "rolling": {"name": "x"}}}),
        json!({"strategy": {"$retainKeys": ["type"], "type": "Recreate"}}),
        json!({"strategy": {"type": "Recreate"}}),
    );
    let message = "invalid patch format of retainKeys";
    let doc = json!({"strategy": {"type": "x"}});
    spec_fails(doc.clone(), json!({"strategy": {"$retainKeys": ["rolling"], "type": "y"}}), 400, message);
    spec_fails(doc, json!({"strategy": {"$retainKeys": "type"}}), 400, message);
}

#[test]
fn nulls_delete_and_are_dropped_from_new_values() {
    let doc = json!({"metadata": {"labels": {"a": "1", "b": "2"}, "finalizers": ["x"]}});
    let patch =
        json!({"metadata": {"labels": {"a": null, "c": null}, "finalizers": null}, "data": {"k": null, "l": "1"}});
    assert_eq!(patched(doc, patch), Ok(json!({"metadata": {"labels": {"b": "2"}}, "data": {"l": "1"}})));
}

#[test]
fn deletion_lists_remove_scalars() {
    let doc = || json!({"metadata": {"finalizers": ["a", "b"]}});
    let patch = |key: &str, list: Value| json!({"metadata": {key: list}});
    let key = "$deleteFromPrimitiveList/finalizers";
    assert_eq!(patched(doc(), patch(key, json!(["a", "z"]))), Ok(json!({"metadata": {"finalizers": ["b"]}})));
    assert_eq!(patched(doc(), patch(key, json!("a"))), Ok(doc()));
    assert_eq!(patched(doc(), patch("$deleteFromPrimitiveList/none", json!(["a"]))), Ok(doc()));
    let error = patched(doc(), patch("$deleteFromPrimitiveList", json!(["a"]))).expect_err("it names no field");
    assert_eq!((error.status(), error.to_string().as_str()), (400, "invalid patch format of primitive list"));
}

#[test]
fn unknown_fields_are_kept_unchanged() {
    assert_eq!(patched(json!({"data": {}}), json!({"foo": {"bar": 1}})), Ok(json!({"data": {}, "foo": {"bar": 1}})));
}

#[test]
fn missing_merge_keys_and_unknown_directives_are_named() {
    spec_fails(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"image": "noname"}]}),
        500,
        "map: map[image:noname] does not contain declared merge key: name",
    );
    let error = patched(json!({"data": {}}), json!({"data": {"$patch": "explode"}})).expect_err("no such directive");
    assert_eq!(error.to_string(), "unknown patch type: explode in map: map[$patch:explode]");
    spec_fails(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "a", "$patch": "explode"}]}),
        500,
        "unknown patch type: explode in map: map[$patch:explode name:a]",
    );
    spec_fails(
        json!({"containers": [{"name": "a"}]}),
        json!({"containers": [{"name": "a", "$patch": "merge"}]}),
        500,
        "merging lists cannot yet be specified in the patch",
    );
}

#[test]
fn paths_unknown_to_the_types_are_named() {
    spec_fails(
        json!({"other": {"a": 1}}),
        json!({"other": {"a": 2}}),
        500,
        "unable to find api field in struct PodSpec for the json field \"other\"",
    );
    spec_fails(
        json!({"nested": {"a": {"b": "1"}}}),
        json!({"nested": {"a": {"b": "2"}}}),
        500,
        "merging an object in json but data type is not struct, instead is: map",
    );
    spec_fails(
        json!({"raw": {"a": {"b": 1}}}),
        json!({"raw": {"a": {"b": 2}}}),
        500,
        "unable to find api field in struct RawExtension for the json field \"a\"",
    );
    spec_fails(
        json!({"replicas": [1]}),
        json!({"replicas": [2]}),
        500,
        "expected slice or array type, but got: struct",
    );
}

#[test]
fn lists_that_cannot_merge_are_rejected() {
    spec_fails(json!({"secrets": [["a"]]}), json!({"secrets": [["b"]]}), 422, "lists of lists are not supported");
    spec_fails(
        json!({"secrets": [{"name": "a"}]}),
        json!({"secrets": ["b"]}),
        500,
        "list element types are not identical: [[map[name:a]] [b]]",
    );
    spec_fails(
        json!({"secrets": ["a"]}),
        json!({"secrets": ["b"]}),
        500,
        "expected a map[string]interface {}, but received a string",
    );
    spec_fails(
        json!({"keyless": [{"name": "a"}]}),
        json!({"keyless": [{"name": "b"}]}),
        500,
        "cannot merge lists without merge key for struct",
    );
}

#[test]
fn order_directives_that_contradict_the_patch_are_rejected() {
    let doc = || json!({"secrets": [{"name": "a"}]});
    spec_fails(
        doc(),
        json!({"$setElementOrder/secrets": [{"name": "a"}, {"name": "b"}], "secrets": [{"name": "b"}, {"name": "a"}]}),
        500,
        "The order in patch list:\n[map[name:b] map[name:a]]\n doesn't match $setElementOrder list:\n[map[name:a] map[name:b]]\n",
    );
    spec_fails(doc(), json!({"$setElementOrder": []}), 400, "invalid patch format of setElementOrder list");
    spec_fails(
        doc(),
        json!({"$setElementOrder/secrets": "a"}),
        500,
        "expected a []interface {}, but received a string",
    );
    spec_fails(doc(), json!({"$setElementOrder/secrets": ["a"]}), 500, "value for key 0 is not a map");
    spec_fails(
        json!({"secrets": []}),
        json!({"$setElementOrder/secrets": []}),
        500,
        "no elements in any of the given slices",
    );
}

#[test]
fn bodies_must_be_objects() {
    let decoded = |body: &str| strategic::decode(body.as_bytes(), Checks::Strict);
    let message = |body: &str| decoded(body).expect_err("the body must not be a patch").to_string();
    assert_eq!(message("[]"), "json: cannot unmarshal array into Go value of type map[string]interface {}");
    assert_eq!(message("{"), "unexpected end of JSON input");
    assert_eq!(decoded("null").map(|decoded| decoded.value), Ok(json!({})));
}

#[test]
fn patches_that_are_nested_too_deeply_are_rejected() {
    let deep = (0..200).fold(json!({}), |inner, _| json!({"a": inner}));
    assert_eq!(patched(json!({}), deep).expect_err("the body must be nested too deeply").status(), 400);
}
