//! Server-side apply and managed fields.

use std::sync::LazyLock;

use serde_json::{Value, json};
use windlass_builtins::table;
use windlass_merge::apply::{
    field_manager::{FieldManager, SingleVersion},
    reset_fields::ResetFields,
    schema::TypeRef,
};
use windlass_schema::{structural::Structural, time::Time};

const API_VERSION: &str = "example.com/v1";
const KIND: &str = "Widget";
/// Maximum number of writes per input.
const WRITES: usize = 6;

static SCHEMA: LazyLock<Structural> = LazyLock::new(|| {
    let text = json!({"type": "string"});
    let schema = json!({"type": "object", "properties": {
        "spec": {"type": "object", "properties": {
            "a": text, "n": {"type": "integer"}, "port": {"x-kubernetes-int-or-string": true},
            "m": {"type": "object", "additionalProperties": {"type": "object", "properties": {"x": text}}},
            "atom": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"p": text}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": text},
            "ports": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port", "proto"],
                "items": {"type": "object", "required": ["port"], "properties": {
                    "port": {"type": "integer"}, "proto": {"type": "string", "default": "TCP"}, "name": text}}},
            "list": {"type": "array", "items": {"type": "object", "properties": {"k": text}}},
            "free": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true}}});
    Structural::compile(&schema).expect("the schema must compile")
});
static EMPTY: LazyLock<Value> = LazyLock::new(|| json!({"apiVersion": API_VERSION, "kind": KIND}));
static RESET: LazyLock<ResetFields> = LazyLock::new(|| ResetFields::of_custom_resource(API_VERSION, true));

/// Writes an object several times: one write per line, its first byte is the kind of write, the rest is the object.
/// A successful apply can be repeated, and then changes nothing.
pub fn apply(data: &[u8]) {
    let meta = table::object_meta();
    let manager = FieldManager {
        types: TypeRef::custom(&SCHEMA, meta.table, meta.id),
        api_version: API_VERSION,
        kind: KIND,
        subresource: "",
        reset_fields: &RESET,
        empty: &EMPTY,
        versions: &SingleVersion,
    };
    let now = Time::from_unix(1_700_000_000, 0);
    let mut live: Option<Value> = None;
    for line in data.split(|byte| *byte == b'\n').take(WRITES) {
        let Some((kind, body)) = line.split_first() else { continue };
        let Some(Value::Object(mut fields)) = super::parse(body) else { continue };
        fields.insert("apiVersion".to_owned(), API_VERSION.into());
        fields.insert("kind".to_owned(), KIND.into());
        let mut object = Value::Object(fields);
        let name = if kind & 4 == 0 { "alpha" } else { "kubectl" };
        if kind & 1 == 0 {
            let force = kind & 2 == 0;
            let Ok(applied) = manager.apply(live.as_ref(), &object, name, force, now) else { continue };
            // An apply of `{}` leaves null in place of a map that it has emptied, and the next one `{}`. So does
            // structured-merge-diff: `a_map_that_an_apply_empties_is_null_until_it_is_applied_again` has its results. The
            // server decodes the null of a built-in kind to an empty value, and rejects that of a custom resource.
            let repeated = manager.apply(Some(&applied), &object, name, force, now);
            let repeated = repeated.expect("a repeated apply must succeed");
            let again = manager.apply(Some(&repeated), &object, name, force, now);
            assert_eq!(again.as_ref(), Ok(&repeated), "a repeated apply must change nothing");
            live = Some(applied);
        } else {
            let manager = FieldManager { subresource: if kind & 2 == 0 { "" } else { "status" }, ..manager };
            manager.update(live.as_ref(), &mut object, "beta", now);
            live = Some(object);
        }
        if let Some(meta) = live.as_mut().and_then(|live| live.get_mut("metadata")).and_then(Value::as_object_mut) {
            meta.insert("uid".to_owned(), "u".into());
        }
    }
}
