//! Planned states: what remains of several dry runs, each of which is relative to the stored state.

use serde_json::{Map, Value};

/// Fields that identify an element of a list.
const KEYS: [&str; 6] = ["name", "type", "uid", "key", "ip", "containerPort"];

/// Returns `planned` with the changes between `live` and `result`, which is the result of a dry run on `live`.
pub(super) fn rebase(planned: &Value, live: &Value, result: &Value) -> Value {
    if live == result {
        return planned.clone();
    }
    match (planned, live, result) {
        (Value::Object(planned), Value::Object(live), Value::Object(result)) => {
            Value::Object(rebase_fields(planned, live, result))
        }
        (Value::Array(planned), Value::Array(live), Value::Array(result)) => {
            rebase_list(planned, live, result).unwrap_or_else(|| Value::Array(result.clone()))
        }
        _ => result.clone(),
    }
}

fn rebase_fields(
    planned: &Map<String, Value>,
    live: &Map<String, Value>,
    result: &Map<String, Value>,
) -> Map<String, Value> {
    let mut merged = planned.clone();
    for name in live.keys().filter(|name| !result.contains_key(*name)) {
        merged.remove(name);
    }
    for (name, result) in result {
        match (planned.get(name), live.get(name)) {
            (Some(planned), Some(live)) => drop(merged.insert(name.clone(), rebase(planned, live, result))),
            // Another write of the plan has set it.
            (Some(planned), None) => drop(merged.insert(name.clone(), rebase(planned, &empty_like(result), result))),
            // Another write of the plan has removed it.
            (None, Some(live)) if live == result => {}
            (None, _) => drop(merged.insert(name.clone(), result.clone())),
        }
    }
    merged
}

/// Returns a planned state after a field manager has applied a configuration, instead of `former`, which it applied before:
/// fields that it no longer sets are removed, unless others have applied them, too.
pub(super) fn reapply<'a>(
    planned: &Value,
    former: &Value,
    others: impl Iterator<Item = &'a Value>,
    applied: &Value,
) -> Value {
    let former = others.fold(former.clone(), |former, other| without(former, other).unwrap_or_default());
    let former = if former.is_object() { former } else { Value::Object(Map::new()) };
    rebase(planned, &former, applied)
}

/// Returns a value without the fields that another one has; `None` if nothing is left.
fn without(value: Value, other: &Value) -> Option<Value> {
    let (Value::Object(fields), Value::Object(other)) = (value, other) else { return None };
    let kept = fields.into_iter().filter_map(|(name, value)| match other.get(&name) {
        Some(other) => Some((name, without(value, other)?)),
        None => Some((name, value)),
    });
    let kept: Map<_, _> = kept.collect();
    (!kept.is_empty()).then_some(Value::Object(kept))
}

fn empty_like(value: &Value) -> Value {
    match value {
        Value::Object(_) => Value::Object(Map::new()),
        Value::Array(_) => Value::Array(Vec::new()),
        _ => Value::Null,
    }
}

/// Merges lists whose elements can be distinguished; returns `None` for others.
fn rebase_list(planned: &[Value], live: &[Value], result: &[Value]) -> Option<Value> {
    let all = || planned.iter().chain(live).chain(result);
    let identity: Box<dyn Fn(&Value) -> Value> = if all().all(|item| !item.is_object() && !item.is_array()) {
        Box::new(Value::clone)
    } else {
        let key = KEYS.iter().find(|key| all().all(|item| item.get(**key).is_some()))?;
        Box::new(|item: &Value| item.get(*key).cloned().unwrap_or_default())
    };
    let find = |list: &[Value], wanted: &Value| list.iter().find(|item| identity(item) == *wanted).cloned();
    let mut merged: Vec<Value> = Vec::new();
    for item in planned {
        let key = identity(item);
        match (find(live, &key), find(result, &key)) {
            (Some(_), None) => {}
            (live, Some(result)) => {
                let live = live.unwrap_or_else(|| empty_like(&result));
                merged.push(rebase(item, &live, &result));
            }
            (None, None) => merged.push(item.clone()),
        }
    }
    for item in result {
        let key = identity(item);
        if find(planned, &key).is_none() && find(live, &key).is_none_or(|live| live != *item) {
            merged.push(item.clone());
        }
    }
    Some(Value::Array(merged))
}

/// Merges a patch into an object that exists only in the plan, as a merge patch does.
pub(super) fn merge(object: &mut Value, patch: &Value) {
    let Value::Object(fields) = patch else {
        *object = patch.clone();
        return;
    };
    if !object.is_object() {
        *object = Value::Object(Map::new());
    }
    let Value::Object(object) = object else { return };
    for (name, value) in fields {
        if value.is_null() {
            object.remove(name);
        } else {
            merge(object.entry(name.clone()).or_insert(Value::Null), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn writes_of_the_same_object_add_up() {
        let live = json!({"metadata": {"finalizers": ["a"], "labels": {"x": "1", "y": "2"}}, "spec": {"n": 1},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        // A finalizer, and a label less.
        let first = json!({"metadata": {"finalizers": ["a", "b"], "labels": {"x": "1"}}, "spec": {"n": 1},
            "status": {"conditions": [{"type": "Ready", "status": "False"}]}});
        let planned = rebase(&live, &live, &first);
        assert_eq!(planned, first);
        // Another finalizer, and a condition.
        let second = json!({"metadata": {"finalizers": ["a", "c"], "labels": {"x": "1", "y": "2"}}, "spec": {"n": 1},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]}});
        let planned = rebase(&planned, &live, &second);
        let expected = json!({"metadata": {"finalizers": ["a", "b", "c"], "labels": {"x": "1"}}, "spec": {"n": 1},
            "status": {"conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "True"}]}});
        assert_eq!(planned, expected);
        // One element less; a field that both set.
        let third = json!({"metadata": {"finalizers": [], "labels": {"x": "3", "y": "2"}}, "spec": {"n": 1},
            "status": {"conditions": []}});
        let planned = rebase(&planned, &live, &third);
        let expected = json!({"metadata": {"finalizers": ["b", "c"], "labels": {"x": "3"}}, "spec": {"n": 1},
            "status": {"conditions": [{"type": "Synced", "status": "True"}]}});
        assert_eq!(planned, expected);
    }

    #[test]
    fn a_configuration_replaces_the_former_one_of_its_manager() {
        let planned =
            json!({"data": {"a": "1", "b": "1", "c": "1"}, "spec": {"ports": [{"name": "x"}, {"name": "y"}]}});
        let former = json!({"data": {"a": "1", "b": "1"}, "spec": {"ports": [{"name": "x"}]}});
        let applied = json!({"data": {"d": "2"}, "spec": {"ports": [{"name": "z"}]}});
        let other = json!({"data": {"b": "1"}});
        let after = reapply(&planned, &former, [&other].into_iter(), &applied);
        let ports = json!([{"name": "y"}, {"name": "z"}]);
        assert_eq!(after, json!({"data": {"b": "1", "c": "1", "d": "2"}, "spec": {"ports": ports}}));
        let first = reapply(&json!({"data": {"a": "1"}}), &Value::Null, [].into_iter(), &json!({"data": {"b": "1"}}));
        assert_eq!(first, json!({"data": {"a": "1", "b": "1"}}));
    }

    #[test]
    fn lists_without_keys_are_replaced() {
        let (live, planned) = (json!({"rules": [{"a": 1}]}), json!({"rules": [{"a": 2}]}));
        assert_eq!(rebase(&planned, &live, &json!({"rules": [{"b": 1}]})), json!({"rules": [{"b": 1}]}));
        assert_eq!(rebase(&planned, &live, &live), planned);
    }

    #[test]
    fn a_patch_is_merged_into_an_object_of_the_plan() {
        let mut object = json!({"metadata": {"name": "a", "labels": {"x": "1"}}, "data": {"k": "v"}});
        merge(&mut object, &json!({"metadata": {"labels": {"x": null, "y": "2"}}, "data": null, "list": [1]}));
        assert_eq!(object, json!({"metadata": {"name": "a", "labels": {"y": "2"}}, "list": [1]}));
    }
}
