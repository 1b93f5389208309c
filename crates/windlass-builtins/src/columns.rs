//! The columns of `kubectl get`, and the cells that many kinds have: ages, labels, selectors, placeholders for unset
//! values.

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_schema::sorting;
use windlass_schema::time;

use crate::object::{boolean, entries, integer, items, text};

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    /// Heading.
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the first column, otherwise empty.
    pub format: &'static str,
    /// Description of the column in a Table.
    pub description: &'static str,
    /// 0 for columns that are always shown, 1 or more for columns of `-o wide`.
    pub priority: i32,
}

/// The columns of a kind and the functions that fill them in.
#[derive(Debug, Clone, Copy)]
pub struct Printer {
    /// The columns.
    pub columns: &'static [Column],
    /// Returns the cells of a row, one per column.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
    /// Returns the conditions of a row, for example that a pod has completed. Most kinds have none.
    pub row_conditions: fn(&Value) -> Vec<Value>,
}

impl Printer {
    /// A printer without row conditions.
    pub const fn new(columns: &'static [Column], cells: fn(&Value, Timestamp) -> Vec<Value>) -> Self {
        Self { columns, cells, row_conditions: |_| Vec::new() }
    }
}

/// Name of the object: the first column of most kinds.
pub const NAME: Column = Column {
    name: "Name",
    kind: "string",
    format: "name",
    description: "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names",
    priority: 0,
};

/// Age of the object.
pub const AGE: Column = Column {
    name: "Age",
    kind: "string",
    format: "",
    description: "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\nPopulated by the system. Read-only. Null for lists. More info: https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata",
    priority: 0,
};

/// Names of the containers in a pod template.
pub const CONTAINERS: Column = wide("Containers", "string", "Names of each container in the template.");

/// Images of the containers in a pod template.
pub const IMAGES: Column = wide("Images", "string", "Images referenced by each container in the template.");

/// Returns a column that is always shown.
pub const fn column(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 0 }
}

/// Returns a column that is shown with `-o wide`.
pub const fn wide(name: &'static str, kind: &'static str, description: &'static str) -> Column {
    Column { name, kind, format: "", description, priority: 1 }
}

/// Formats a duration with two or three significant figures: `90s`, `5m3s`, `47h`, `3d2h`, `2y16d`.
pub fn human_duration(duration: SignedDuration) -> String {
    time::human_duration(duration.as_secs())
}

/// Returns the time elapsed since the timestamp in a field, or `<unknown>` if the field is unset.
pub fn since(object: &Value, pointer: &str, now: Timestamp) -> String {
    match text(object, pointer).parse::<Timestamp>() {
        Ok(time) => human_duration(now.duration_since(time)),
        Err(_) => "<unknown>".to_owned(),
    }
}

/// Returns the age of an object: the time since its creation.
pub fn age(object: &Value, now: Timestamp) -> Value {
    since(object, "/metadata/creationTimestamp", now).into()
}

/// Returns the name of an object.
pub fn name(object: &Value) -> Value {
    text(object, "/metadata/name").into()
}

/// Returns the text, or `<none>` if it is empty.
pub fn or_none(text: &str) -> &str {
    if text.is_empty() { "<none>" } else { text }
}

/// Formats labels as `a=1,b=2`, or `<none>`.
pub fn labels(object: &Value, pointer: &str) -> String {
    let pairs: Vec<_> =
        entries(object, pointer).map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or_default())).collect();
    or_none(&pairs.join(",")).to_owned()
}

/// Formats a label selector as kubectl does: `a=1,b in (x,y),!c`, or `<none>`. A null selector selects nothing, which
/// kube-apiserver prints as `<none>` too.
pub fn selector(object: &Value, pointer: &str) -> String {
    let Some(selector) = object.pointer(pointer) else { return "<none>".to_owned() };
    let mut terms: Vec<(String, String)> = entries(selector, "/matchLabels")
        .map(|(key, value)| (key.to_owned(), format!("{key}={}", value.as_str().unwrap_or_default())))
        .collect();
    for expression in items(selector, "/matchExpressions") {
        let key = text(expression, "/key");
        let mut values: Vec<_> = items(expression, "/values").iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let term = match text(expression, "/operator") {
            "In" => format!("{key} in ({})", values.join(",")),
            "NotIn" => format!("{key} notin ({})", values.join(",")),
            "Exists" => key.to_owned(),
            "DoesNotExist" => format!("!{key}"),
            _ => return "<error>".to_owned(),
        };
        terms.push((key.to_owned(), term));
    }
    sorting::sort_by(&mut terms, |a, b| a.0.cmp(&b.0));
    let terms: Vec<_> = terms.into_iter().map(|(_, term)| term).collect();
    or_none(&terms.join(",")).to_owned()
}

/// Returns the names and the images of containers, each joined by commas.
pub fn containers(object: &Value, pointer: &str) -> (String, String) {
    let join = |field| items(object, pointer).iter().map(|c| text(c, field)).collect::<Vec<_>>().join(",");
    (join("/name"), join("/image"))
}

/// Returns an integer field; 0 if it is unset.
pub(crate) fn count(object: &Value, pointer: &str) -> Value {
    integer(object, pointer).unwrap_or_default().into()
}

/// Returns a string field; `<unset>` if it is unset.
pub(crate) fn or_unset(object: &Value, pointer: &str) -> Value {
    object.pointer(pointer).and_then(Value::as_str).unwrap_or("<unset>").into()
}

/// Returns a string field; `<none>` if it is unset or empty.
pub(crate) fn text_or_none(object: &Value, pointer: &str) -> Value {
    or_none(text(object, pointer)).into()
}

/// Returns a boolean field; false if it is unset.
pub(crate) fn flag(object: &Value, pointer: &str) -> Value {
    boolean(object, pointer).unwrap_or_default().into()
}

/// Joins at most three items and appends the number of the others; `<unset>` for an empty list.
pub(crate) fn first_three(all: &[String]) -> String {
    match all.len() {
        0 => "<unset>".to_owned(),
        1..=3 => all.join(","),
        more => format!("{} + {} more...", all[..3].join(","), more - 3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_printed_as_by_kubectl() {
        let (minute, hour, day) = (60, 3600, 86400);
        for (seconds, expected) in [
            (-2, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (3 * minute + 5, "3m5s"),
            (10 * minute + 5, "10m"),
            (179 * minute + 59, "179m"),
            (3 * hour, "3h"),
            (3 * hour + minute, "3h1m"),
            (8 * hour + minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (7 * day + 23 * hour, "7d23h"),
            (8 * day + hour, "8d"),
            (729 * day, "729d"),
            (730 * day, "2y"),
            (731 * day, "2y1d"),
            (8 * 365 * day, "8y"),
        ] {
            assert_eq!(human_duration(SignedDuration::from_secs(seconds)), expected, "{seconds}");
        }
        assert_eq!(human_duration(SignedDuration::from_millis(-1999)), "0s");
    }

    #[test]
    fn selectors_are_printed_as_by_kubectl() {
        for (object, expected) in [
            (json!({}), "<none>"),
            (json!({"s": null}), "<none>"),
            (json!({"s": {"matchLabels": {"b": "2", "a": "1"}}}), "a=1,b=2"),
            (
                json!({"s": {"matchLabels": {"m": "2"}, "matchExpressions": [
                    {"key": "z", "operator": "DoesNotExist"}, {"key": "a", "operator": "In", "values": ["y", "x"]},
                    {"key": "n", "operator": "NotIn", "values": ["q"]}, {"key": "e", "operator": "Exists"}]}}),
                "a in (x,y),e,m=2,n notin (q),!z",
            ),
            (json!({"s": {"matchExpressions": [{"key": "z", "operator": "Odd"}]}}), "<error>"),
        ] {
            assert_eq!(selector(&object, "/s"), expected);
        }
    }
}
