//! Names in messages.

use std::collections::BTreeSet;

/// Returns names in quotes, separated by commas.
pub(super) fn quoted<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    names.into_iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ")
}

/// Returns the singular for one thing, and the plural for any other number.
pub(super) fn plural(count: usize, singular: &'static str, plural: &'static str) -> &'static str {
    if count == 1 { singular } else { plural }
}

/// Prefixes quoted names with their noun: `container "a"`, or `containers "a", "b"`.
pub(super) fn named(names: &[&str], singular: &'static str, more: &'static str) -> String {
    format!("{} {}", plural(names.len(), singular, more), quoted(names.iter().copied()))
}

/// Returns the names of containers: `container "a"`.
pub(super) fn containers(names: &[&str]) -> String {
    named(names, "container", "containers")
}

/// Returns what sets a field to a wrong value: the pod, containers, or both; `None` if nothing does.
pub(super) fn setters(pod: bool, names: &[&str]) -> Option<String> {
    match (pod, names) {
        (false, []) => None,
        (true, []) => Some("pod".to_owned()),
        (false, names) => Some(containers(names)),
        (true, names) => Some(format!("pod and {}", containers(names))),
    }
}

/// Returns a sorted set of values in quotes.
pub(super) fn quoted_set(values: &BTreeSet<&str>) -> String {
    quoted(values.iter().copied())
}
