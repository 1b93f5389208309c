//! Whether the API server's managed fields say that an apply would change nothing.
//!
//! The fields of a field manager are a tree: `f:NAME` is a field of an object, `k:{...}` an item of a list by its keys,
//! `v:...` an item of a set by its value, `.` the item itself. A node without members is owned as a whole. The tree
//! tells which lists are merged by which keys, so no schema is needed.
//!
//! An apply of an intent changes nothing if its manager owns exactly the fields of the intent, with these values. Every
//! doubt counts as a difference: then the apply is sent, as without this.

use serde_json::{Map, Value};

use super::intent::{ApplyTarget, Intent};

type Fields = Map<String, Value>;

/// Returns whether `live` may have all values of the intent: a quick check before managed fields are fetched.
pub(super) fn may_be_in_place(intent: &Intent, live: &Value) -> bool {
    fn within(intent: &Value, live: Option<&Value>) -> bool {
        match (intent, live) {
            (Value::Object(intent), Some(Value::Object(live))) => {
                intent.iter().all(|(field, value)| within(value, live.get(field)))
            }
            // Items may be in another order.
            (Value::Array(intent), Some(Value::Array(live))) => intent.len() <= live.len(),
            (intent, live) => live == Some(intent),
        }
    }
    within(&Value::Object(content(intent)), Some(live))
}

/// Returns whether a manager that owns `fields` of `live` would change nothing by applying the intent.
pub(super) fn is_in_place(intent: &Intent, fields: &Value, live: &Value) -> bool {
    let Value::Object(fields) = fields else { return false };
    object_matches(&content(intent), fields, live)
}

/// Returns the subresource of managed fields.
pub(super) fn subresource(half: ApplyTarget) -> &'static str {
    match half {
        ApplyTarget::Object => "",
        ApplyTarget::Status => "status",
    }
}

/// Returns the intent without the fields that identify the object, which have no owner.
fn content(intent: &Intent) -> Map<String, Value> {
    let mut content = intent.value.as_object().cloned().unwrap_or_default();
    content.retain(|field, _| !matches!(field.as_str(), "apiVersion" | "kind"));
    if let Some(Value::Object(metadata)) = content.get_mut("metadata") {
        metadata.retain(|field, _| !matches!(field.as_str(), "name" | "namespace"));
        if metadata.is_empty() {
            content.remove("metadata");
        }
    }
    content
}

fn matches(intent: &Value, fields: &Value, live: &Value) -> bool {
    let Value::Object(fields) = fields else { return false };
    match intent {
        _ if fields.is_empty() => intent == live,
        Value::Object(intent) => object_matches(intent, fields, live),
        Value::Array(items) => list_matches(items, fields, live),
        _ => false,
    }
}

fn object_matches(intent: &Map<String, Value>, fields: &Fields, live: &Value) -> bool {
    let owned = fields.keys().filter(|key| *key != ".").count();
    owned == intent.len()
        && intent.iter().all(|(field, value)| match (fields.get(&format!("f:{field}")), live.get(field)) {
            (Some(fields), Some(live)) => matches(value, fields, live),
            _ => false,
        })
}

fn list_matches(items: &[Value], fields: &Fields, live: &Value) -> bool {
    let Value::Array(live) = live else { return false };
    let owned: Vec<_> = fields.iter().filter(|(key, _)| *key != ".").collect();
    owned.len() == items.len()
        && owned.into_iter().all(|(path, fields)| match path.split_once(':') {
            Some(("k", keys)) => {
                let Ok(keys) = serde_json::from_str::<Fields>(keys) else { return false };
                // The API server fills in keys that have a default.
                let intended = items.iter().filter(|item| has_keys(item, &keys, true));
                let present = live.iter().filter(|item| has_keys(item, &keys, false));
                match (only(intended), only(present)) {
                    (Some(item), Some(live)) => matches(item, fields, live),
                    _ => false,
                }
            }
            Some(("v", value)) => {
                serde_json::from_str::<Value>(value).is_ok_and(|value| items.contains(&value) && live.contains(&value))
            }
            _ => false,
        })
}

fn has_keys(item: &Value, keys: &Fields, may_lack: bool) -> bool {
    keys.iter().all(|(key, value)| item.get(key).map_or(may_lack, |found| found == value))
}

/// Returns the item if there is exactly one.
fn only<'a>(mut items: impl Iterator<Item = &'a Value>) -> Option<&'a Value> {
    let first = items.next()?;
    items.next().is_none().then_some(first)
}

#[cfg(test)]
mod tests {
    use kube::core::{ApiResource, GroupVersionKind};
    use serde_json::json;

    use super::*;

    fn in_place(intent: Value, fields: Value, live: Value) -> bool {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
        let intent = Intent::object(&resource, intent);
        is_in_place(&intent, &fields, &live)
    }

    #[test]
    fn exactly_the_owned_fields_with_their_values_are_in_place() {
        let live = json!({"metadata": {"name": "a"}, "spec": {"size": 1, "color": "red", "default": true}});
        let fields = json!({"f:spec": {"f:size": {}, "f:color": {}}});
        let with = |spec: Value| json!({"metadata": {"name": "a"}, "spec": spec});
        assert!(in_place(with(json!({"size": 1, "color": "red"})), fields.clone(), live.clone()));
        for (spec, why) in [
            (json!({"size": 2, "color": "red"}), "another value"),
            (json!({"size": 1}), "a field that must be removed"),
            (json!({"size": 1, "color": "red", "default": true}), "a field of another manager"),
            (json!({"size": 1, "shape": "round"}), "another field"),
        ] {
            assert!(!in_place(with(spec), fields.clone(), live.clone()), "{why}");
        }
        assert!(!in_place(with(json!({"size": 1, "color": "red"})), json!({}), live), "nothing is owned");
    }

    #[test]
    fn items_are_found_by_their_keys_even_if_one_has_a_default() {
        let port = |port: i32, protocol: &str| json!({"containerPort": port, "protocol": protocol});
        let owned = |port: i32, protocol: &str| {
            (
                format!("k:{}", json!({"containerPort": port, "protocol": protocol})),
                json!({".": {}, "f:containerPort": {}}),
            )
        };
        let fields = |ports: &[(i32, &str)]| {
            let ports: Fields = ports.iter().map(|(port, protocol)| owned(*port, protocol)).collect();
            json!({"f:spec": {"f:ports": ports}})
        };
        let intent = |ports: Value| json!({"spec": {"ports": ports}});
        let live = json!({"spec": {"ports": [port(443, "UDP"), port(80, "TCP"), port(81, "TCP")]}});
        assert!(in_place(intent(json!([{"containerPort": 80}])), fields(&[(80, "TCP")]), live.clone()));
        let both = intent(json!([{"containerPort": 80}, {"containerPort": 81}]));
        assert!(in_place(both.clone(), fields(&[(81, "TCP"), (80, "TCP")]), live.clone()), "in any order");
        assert!(!in_place(both, fields(&[(80, "TCP")]), live.clone()), "one is not owned");
        let none = json!([]);
        assert!(!in_place(intent(none), fields(&[(80, "TCP")]), live.clone()), "one must be removed");
        let missing = intent(json!([{"containerPort": 82}]));
        assert!(!in_place(missing, fields(&[(82, "TCP")]), live), "it is not there");
    }

    #[test]
    fn sets_are_compared_by_value_and_atomic_lists_as_a_whole() {
        let fields = json!({"f:metadata": {"f:finalizers": {".": {}, "v:\"a/b\"": {}}}});
        let intent = json!({"metadata": {"name": "a", "finalizers": ["a/b"]}});
        assert!(in_place(intent.clone(), fields.clone(), json!({"metadata": {"finalizers": ["c/d", "a/b"]}})));
        assert!(!in_place(intent, fields, json!({"metadata": {"finalizers": ["c/d"]}})));
        let (fields, intent) = (json!({"f:spec": {"f:args": {}}}), json!({"spec": {"args": ["a", "b"]}}));
        assert!(in_place(intent.clone(), fields.clone(), json!({"spec": {"args": ["a", "b"]}})));
        assert!(!in_place(intent, fields, json!({"spec": {"args": ["b", "a"]}})));
    }

    #[test]
    fn managed_fields_are_fetched_only_for_values_that_may_be_in_place() {
        let resource = ApiResource::from_gvk(&GroupVersionKind::gvk("example.com", "v1", "Widget"));
        let of = |intent: Value, live: Value| may_be_in_place(&Intent::object(&resource, intent), &live);
        assert!(of(json!({"spec": {"a": 1, "b": [1]}}), json!({"spec": {"a": 1, "b": [2, 1]}, "status": {}})));
        assert!(!of(json!({"spec": {"a": 1}}), json!({"spec": {"a": 2}})));
        assert!(!of(json!({"spec": {"a": 1}}), json!({"spec": {}})));
        assert!(!of(json!({"spec": {"b": [1, 2]}}), json!({"spec": {"b": [1]}})));
    }
}
