//! Histories as text: the first state of each object, and every change to it.

use std::fmt::Write as _;

use serde_json::Value;

use super::{Change, ObjectHistory};

/// Longer values are truncated.
const LONGEST: usize = 400;

/// Renders histories as text.
pub(crate) fn render(histories: &[ObjectHistory]) -> String {
    let mut text = String::new();
    for history in histories {
        let place = history.namespace.as_ref().map(|namespace| format!("{namespace}/")).unwrap_or_default();
        let _ = writeln!(text, "{} {place}{}", history.kind, history.name);
        let mut before: Option<Value> = None;
        for (revision, change) in &history.changes {
            match change {
                Change::Deleted => {
                    let _ = writeln!(text, "  {revision:>6}  deleted");
                    before = None;
                }
                Change::State(state) => {
                    let state = shown(state, &history.kind);
                    match &before {
                        None => {
                            let _ = writeln!(text, "  {revision:>6}  {}", short(&state));
                        }
                        Some(before) => differences(before, &state, *revision, &mut text),
                    }
                    before = Some(state);
                }
            }
        }
    }
    text
}

/// Returns the object without fields that are noise, and with the values of Secrets masked.
fn shown(object: &Value, kind: &str) -> Value {
    let mut object = object.clone();
    if let Some(fields) = object.as_object_mut() {
        fields.remove("apiVersion");
        fields.remove("kind");
    }
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for field in ["managedFields", "resourceVersion", "uid", "creationTimestamp", "name", "namespace"] {
            metadata.remove(field);
        }
    }
    if kind == "Secret" {
        for field in ["data", "stringData"] {
            for value in object.get_mut(field).and_then(Value::as_object_mut).into_iter().flat_map(|it| it.values_mut())
            {
                *value = "(secret)".into();
            }
        }
    }
    object
}

fn differences(before: &Value, after: &Value, revision: u64, text: &mut String) {
    let mut lines = Vec::new();
    compare(before, after, &mut String::new(), &mut lines);
    if lines.is_empty() {
        lines.push("(no visible change)".to_owned());
    }
    for (place, line) in lines.iter().enumerate() {
        let number = if place == 0 { revision.to_string() } else { String::new() };
        let _ = writeln!(text, "  {number:>6}  {line}");
    }
}

/// Adds a line for each of the smallest parts that differ. Lists of different lengths differ as a whole.
fn compare(before: &Value, after: &Value, path: &mut String, lines: &mut Vec<String>) {
    let length = path.len();
    match (before, after) {
        (Value::Object(old), Value::Object(new)) => {
            let added = new.keys().filter(|key| !old.contains_key(*key));
            for key in old.keys().chain(added) {
                let dot = if path.is_empty() { "" } else { "." };
                let _ = write!(path, "{dot}{key}");
                match (old.get(key), new.get(key)) {
                    (Some(old), Some(new)) => compare(old, new, path, lines),
                    (Some(old), None) => lines.push(format!("{path}: {} -> (nothing)", short(old))),
                    (None, Some(new)) => lines.push(format!("{path}: (nothing) -> {}", short(new))),
                    (None, None) => {}
                }
                path.truncate(length);
            }
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            for (place, (old, new)) in old.iter().zip(new).enumerate() {
                let _ = write!(path, "[{place}]");
                compare(old, new, path, lines);
                path.truncate(length);
            }
        }
        _ if before == after => {}
        _ => lines.push(format!("{path}: {} -> {}", short(before), short(after))),
    }
}

fn short(value: &Value) -> String {
    let mut text = value.to_string();
    if text.len() > LONGEST {
        text.truncate(text.floor_char_boundary(LONGEST));
        text.push('…');
    }
    text
}

#[cfg(test)]
mod tests {
    use expect_test::expect;
    use serde_json::json;

    use super::*;

    fn history(kind: &str, changes: Vec<(u64, Change)>) -> ObjectHistory {
        ObjectHistory { kind: kind.to_owned(), namespace: Some("test".to_owned()), name: "web".to_owned(), changes }
    }

    #[test]
    fn a_history_has_the_first_state_and_every_difference() {
        let state = |replicas: i32, status: Value| {
            Change::State(json!({"kind": "Deployment", "metadata": {"name": "web", "resourceVersion": "5"},
                "spec": {"replicas": replicas}, "status": status}))
        };
        let changes = vec![
            (5, state(1, json!({}))),
            (7, state(3, json!({"conditions": [{"type": "Available", "status": "False"}]}))),
            (9, state(3, json!({"conditions": [{"type": "Available", "status": "True"}]}))),
            (9, state(3, json!({"conditions": [{"type": "Available", "status": "True"}]}))),
            (11, Change::Deleted),
        ];
        expect![[r#"
            Deployment test/web
                   5  {"metadata":{},"spec":{"replicas":1},"status":{}}
                   7  spec.replicas: 1 -> 3
                      status.conditions: (nothing) -> [{"status":"False","type":"Available"}]
                   9  status.conditions[0].status: "False" -> "True"
                   9  (no visible change)
                  11  deleted
        "#]]
        .assert_eq(&render(&[history("Deployment", changes)]));
    }

    #[test]
    fn secrets_stay_secret() {
        let secret = Change::State(json!({"data": {"password": "aHVudGVyMg=="}, "stringData": {"a": "hunter2"}}));
        let text = render(&[history("Secret", vec![(3, secret)])]);
        assert!(text.contains("(secret)") && !text.contains("hunter2") && !text.contains("aHVudGVyMg"), "{text}");
    }
}
