use serde_json::json;

use super::*;

fn patched(doc: Value, patch: Value) -> Result<Value, Error> {
    apply(doc, patch.to_string().as_bytes())
}

#[track_caller]
fn gives(doc: Value, patch: Value, expected: Value) {
    assert_eq!(patched(doc, patch), Ok(expected));
}

#[track_caller]
fn rejects(doc: Value, patch: Value) {
    let error = patched(doc, patch).expect_err("the patch must not apply");
    assert_eq!((error.status(), error.client_message().as_str()), (422, Error::REJECTED), "{error}");
}

#[track_caller]
fn undecodable(body: &str, expected: &str) {
    assert_eq!(apply(json!({}), body.as_bytes()), Err(Error::Decode(expected.to_owned())));
}

#[test]
fn all_operations_in_one_patch_apply_in_order() {
    gives(
        json!({"spec": {"size": "s", "tags": ["red", "blue"], "map": {"from": "v", "keep": "w"}}}),
        json!([
            {"op": "test", "path": "/spec/size", "value": "s"},
            {"op": "replace", "path": "/spec/size", "value": "m"},
            {"op": "add", "path": "/spec/tags/-", "value": "green"},
            {"op": "remove", "path": "/spec/tags/0"},
            {"op": "move", "from": "/spec/map/from", "path": "/spec/map/to"},
            {"op": "copy", "from": "/spec/size", "path": "/spec/map/size"},
        ]),
        json!({"spec": {"size": "m", "tags": ["blue", "green"], "map": {"keep": "w", "to": "v", "size": "m"}}}),
    );
}

#[test]
fn replacing_a_missing_map_key_sets_it() {
    gives(json!({"a": {}}), json!([{"op": "replace", "path": "/a/b", "value": 1}]), json!({"a": {"b": 1}}));
}

#[test]
fn the_root_can_be_replaced_only_by_objects_and_lists() {
    gives(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": {"b": 2}}]), json!({"b": 2}));
    rejects(json!({"a": 1}), json!([{"op": "replace", "path": "", "value": "x"}]));
    rejects(json!({"a": 1}), json!([{"op": "replace", "path": ""}]));
}

#[test]
fn negative_indices_count_from_the_end() {
    gives(json!({"l": [1, 2]}), json!([{"op": "add", "path": "/l/-1", "value": 3}]), json!({"l": [1, 2, 3]}));
    gives(json!({"l": [1, 2]}), json!([{"op": "replace", "path": "/l/-1", "value": 3}]), json!({"l": [1, 3]}));
    gives(json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/-2"}]), json!({"l": [2]}));
    rejects(json!({"l": [1, 2]}), json!([{"op": "remove", "path": "/l/-3"}]));
    rejects(json!({"l": [1, 2]}), json!([{"op": "add", "path": "/l/-4", "value": 3}]));
}

#[test]
fn indices_out_of_range_are_rejected() {
    rejects(json!({"l": [1]}), json!([{"op": "remove", "path": "/l/1"}]));
    rejects(json!({"l": [1]}), json!([{"op": "add", "path": "/l/2", "value": 1}]));
    rejects(json!({"l": [1]}), json!([{"op": "replace", "path": "/l/1", "value": 1}]));
    rejects(json!({"l": [1]}), json!([{"op": "add", "path": "/l/x", "value": 1}]));
    rejects(json!({"l": [1]}), json!([{"op": "test", "path": "/l/9", "value": 1}]));
    rejects(json!({"l": []}), json!([{"op": "remove", "path": "/l/-1"}]));
}

#[test]
fn paths_through_missing_or_scalar_values_are_rejected() {
    rejects(json!({"a": 1}), json!([{"op": "add", "path": "/b/c", "value": 1}]));
    rejects(json!({"a": 1}), json!([{"op": "add", "path": "/a/c", "value": 1}]));
    rejects(json!({"a": null}), json!([{"op": "add", "path": "/a/c", "value": 1}]));
    rejects(json!({"a": 1}), json!([{"op": "remove", "path": "/b"}]));
    rejects(json!({"a": 1}), json!([{"op": "add", "path": "", "value": {}}]));
    rejects(json!({"a": 1}), json!([{"op": "move", "from": "/b", "path": "/c"}]));
}

#[test]
fn anything_before_the_first_slash_is_ignored() {
    gives(json!({}), json!([{"op": "add", "path": "spec/a", "value": 1}]), json!({"a": 1}));
    rejects(json!({}), json!([{"op": "add", "path": "a", "value": 1}]));
}

#[test]
fn tildes_and_slashes_are_unescaped() {
    gives(
        json!({"m": {}}),
        json!([
            {"op": "add", "path": "/m/example.com~1x", "value": 1},
            {"op": "add", "path": "/m/a~01~0", "value": 2},
            {"op": "add", "path": "/m/~2~", "value": 3},
            {"op": "add", "path": "/m/", "value": 4},
        ]),
        json!({"m": {"example.com/x": 1, "a~1~": 2, "~2~": 3, "": 4}}),
    );
}

#[test]
fn a_missing_key_tests_and_copies_as_null() {
    gives(json!({"a": 1}), json!([{"op": "test", "path": "/b", "value": null}]), json!({"a": 1}));
    gives(json!({"a": 1}), json!([{"op": "test", "path": "/b"}]), json!({"a": 1}));
    gives(json!({"a": 1}), json!([{"op": "copy", "from": "/b", "path": "/c"}]), json!({"a": 1, "c": null}));
    gives(json!({"a": 1}), json!([{"op": "add", "path": "/c"}]), json!({"a": 1, "c": null}));
}

#[test]
fn tests_compare_whole_values() {
    let doc = json!({"a": {"b": [1, {"c": null}]}});
    gives(doc.clone(), json!([{"op": "test", "path": "/a", "value": {"b": [1, {"c": null}]}}]), doc.clone());
    gives(doc.clone(), json!([{"op": "test", "path": "", "value": doc.clone()}]), doc.clone());
    rejects(doc.clone(), json!([{"op": "test", "path": "/a", "value": {"b": [1, {}]}}]));
    rejects(doc.clone(), json!([{"op": "test", "path": "/a/b/0", "value": 1.0}]));
    rejects(doc, json!([{"op": "test", "path": "/a/b/0"}]));
}

#[test]
fn unknown_operations_are_rejected_when_applied() {
    rejects(json!({}), json!([{"op": "frob", "path": "/a"}]));
    rejects(json!({}), json!([{"path": "/a"}]));
    rejects(json!({}), json!([null]));
    rejects(json!({}), json!([{"op": "add", "value": 1}]));
}

#[test]
fn an_empty_patch_changes_nothing() {
    gives(json!({"a": 1}), json!([]), json!({"a": 1}));
    gives(json!({"a": 1}), json!(null), json!({"a": 1}));
}

#[test]
fn bodies_that_are_not_a_patch_are_rejected_with_gos_errors() {
    undecodable(
        r#"{"op":"remove"}"#,
        "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp",
    );
    undecodable(
        r#"["x"]"#,
        "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp",
    );
    undecodable(
        r#"[{"op":1}]"#,
        "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
    );
    undecodable("[{", "error decoding patch: unexpected end of JSON input");
    let lenient = Patch::decode(b"{}", Checks::Lenient).expect_err("an object must not decode as a patch");
    assert_eq!(lenient.to_string(), "json: cannot unmarshal object into Go value of type jsonpatch.Patch");
}

#[test]
fn unknown_and_duplicate_fields_are_listed_under_strict_checks_only() {
    let body = br#"[{"op":"add","op":"add","path":"/a","value":{"x":1,"x":2},"foo":"bar"}]"#;
    let patch = Patch::decode(body, Checks::Strict).expect("the body must be a patch");
    assert_eq!(
        patch.strict_errors(),
        [
            "json patch duplicate field \"[0].op\"",
            "json patch duplicate field \"[0].value.x\"",
            "json patch unknown field \"[0].foo\""
        ]
    );
    assert!(Patch::decode(body, Checks::Lenient).expect("the body must be a patch").strict_errors().is_empty());
}

#[test]
fn too_many_operations_make_the_request_too_large() {
    let operation = r#"{"op":"test","path":"/a"}"#;
    let body = |count| format!("[{}]", vec![operation; count].join(","));
    assert!(apply(json!({}), body(MAX_OPERATIONS).as_bytes()).is_ok());
    let error = apply(json!({}), body(MAX_OPERATIONS + 1).as_bytes()).expect_err("the patch must be too long");
    assert_eq!(error.status(), 413);
    assert_eq!(error.to_string(), "The allowed maximum operations in a JSON patch is 10000, got 10001");
}

#[test]
fn copies_may_not_grow_the_document_without_bound() {
    let bomb: Vec<_> = (0..200).map(|step| json!({"op": "copy", "from": "/a", "path": format!("/a/{step}")})).collect();
    rejects(json!({"a": {"x": "0123456789"}}), Value::Array(bomb));
}

#[test]
fn a_patch_may_not_nest_deeper_than_can_be_stored() {
    let deeper: Vec<_> =
        (0..500).map(|level| json!({"op": "add", "path": "/a".repeat(level + 1), "value": {}})).collect();
    rejects(json!({}), Value::Array(deeper));
}

#[test]
fn excessive_moves_are_stopped() {
    let doc = json!({"a": vec![0; 200_000]});
    let moves: Vec<_> = (0..5_000)
        .flat_map(|_| {
            [json!({"op": "move", "from": "/a", "path": "/b"}), json!({"op": "move", "from": "/b", "path": "/a"})]
        })
        .collect();
    rejects(doc, Value::Array(moves));
}
