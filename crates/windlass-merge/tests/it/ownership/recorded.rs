//! Histories replayed on kube-apiserver's own code, with its results.
//!
//! `recorded.json` is a list of histories of an object of [`Definition::new`]. Timestamps are written as `NOW`, except
//! those of 2020, which clients sent; entries are sorted as strings.

use serde_json::{Value, json};
use windlass_merge::apply::field_manager::ApplyError;
use windlass_schema::time::Time;

use super::kinds::{Definition, GROUP};

#[test]
fn histories_match_kube_apiserver() {
    let histories: Vec<Vec<Value>> = serde_json::from_str(include_str!("recorded.json")).unwrap();
    let definition = Definition::new();
    for (number, history) in histories.iter().enumerate() {
        let mut live = None;
        for (position, step) in history.iter().enumerate() {
            let answer = run(&definition, &mut live, step);
            assert_eq!(answer, step["expect"], "step {position} of history {number}: {step}");
        }
    }
    assert!(histories.len() > 40);
}

fn run(definition: &Definition, live: &mut Option<Value>, step: &Value) -> Value {
    let text = |name: &str| step.get(name).and_then(Value::as_str).unwrap_or_default();
    let now = Time::from_unix(1_700_000_000, 0);
    let manager = definition.manager(text("version"), text("subresource"));
    if let Some(live) = live {
        live["apiVersion"] = format!("{GROUP}/{}", text("version")).into();
    }
    let mut object = step["object"].clone();
    if text("op") == "apply" {
        let force = step.get("force").is_some();
        match manager.apply(live.as_ref(), &object, text("manager"), force, now) {
            Ok(applied) => object = applied,
            Err(error) => return show_error(&error),
        }
    } else {
        manager.update(live.as_ref(), &mut object, text("manager"), now);
    }
    object["metadata"]["uid"] = "the-uid".into();
    let answer = json!({"object": show(object.clone())});
    *live = Some(object);
    answer
}

fn show(mut object: Value) -> Value {
    object.as_object_mut().expect("an object must be a map").remove("apiVersion");
    if let Some(Value::Array(entries)) = object.pointer_mut("/metadata/managedFields") {
        for entry in entries.iter_mut() {
            if entry.get("time").and_then(Value::as_str).is_some_and(|time| !time.starts_with("2020")) {
                entry["time"] = "NOW".into();
            }
        }
        entries.sort_by_key(Value::to_string);
    }
    object
}

fn show_error(error: &ApplyError) -> Value {
    let mut out = json!({"error": error.to_string()});
    match error {
        ApplyError::BadRequest(_) => out["code"] = 400.into(),
        ApplyError::Conflicts(conflicts) => {
            let cause = |cause: windlass_merge::apply::conflict::Cause| json!({"reason": "FieldManagerConflict", "message": cause.message, "field": cause.field});
            let mut causes: Vec<_> = conflicts.causes().into_iter().map(cause).collect();
            causes.sort_by_key(Value::to_string);
            out["code"] = 409.into();
            out["causes"] = causes.into();
        }
        ApplyError::Failed(_) => {}
    }
    out
}
