//! Merging lists: lists of scalars as sets, lists of maps by merge key.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::{
    DIRECTIVE, ELEMENT_ORDER, Error, directive_field, merge_map,
    order::{Positions, interleave},
    schema::Node,
    without_directives,
};
use crate::go_format;

#[derive(PartialEq, Eq, Clone, Copy)]
enum Elements {
    Maps,
    Scalars,
}

/// Merges the list of a patch into the original; with `deletes`, removes its scalars from the original.
pub(super) fn merge(
    original: Vec<Value>,
    patch: Vec<Value>,
    element: Node<'_>,
    merge_key: Option<&str>,
    deletes: bool,
) -> Result<Vec<Value>, Error> {
    if original.is_empty() && patch.is_empty() {
        return Ok(original);
    }
    if elements(&original, &patch)? == Elements::Scalars {
        if deletes {
            let removed = Positions::of(&patch, None);
            return Ok(original.into_iter().filter(|item| removed.get(item, None).is_none()).collect());
        }
        if merge_key.is_some() {
            let found = original.first().or(patch.first()).unwrap_or(&Value::Null);
            return Err(Error::not_a_map(found));
        }
        let (wanted, server) = (Positions::of(&patch, None), Positions::of(&original, None));
        let mut seen = HashSet::new();
        let merged = original.into_iter().chain(patch).filter(|item| seen.insert(item.to_string())).collect();
        return Ok(interleave(merged, &wanted, &server, None));
    }
    let Some(key) = merge_key else {
        return Err(Error::Mismatch(format!("cannot merge lists without merge key for {}", element.kind())));
    };
    let (original, patch) = take_special_elements(original, patch, key)?;
    let (wanted, server) = (Positions::of(&patch, merge_key), Positions::of(&original, merge_key));
    let merged = merge_elements(original, patch, key, element)?;
    if let Some(nameless) = merged.iter().find(|item| item.get(key).is_none()) {
        return Err(Error::no_merge_key(nameless, key));
    }
    Ok(interleave(merged, &wanted, &server, merge_key))
}

/// Applies and removes every `$setElementOrder/x` of a patch, together with the list `x` that it orders.
pub(super) fn merge_ordered(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: Node<'_>,
) -> Result<(), Error> {
    let directives: Vec<String> = patch.keys().filter(|key| key.starts_with(ELEMENT_ORDER)).cloned().collect();
    for directive in directives {
        let wanted = match patch.remove(&directive) {
            Some(Value::Array(wanted)) => wanted,
            other => return Err(Error::not_a_list(&other.unwrap_or_default())),
        };
        let name = directive_field(&directive, ELEMENT_ORDER).ok_or_else(Error::bad_element_order)?;
        merge_ordered_field(original, patch, node, name, &wanted)?;
    }
    Ok(())
}

fn merge_ordered_field(
    original: &mut Map<String, Value>,
    patch: &mut Map<String, Value>,
    node: Node<'_>,
    name: &str,
    wanted: &[Value],
) -> Result<(), Error> {
    for list in [original.get(name), patch.get(name)].into_iter().flatten() {
        if !list.is_array() {
            return Err(Error::not_a_list(list));
        }
    }
    let (field, element) = node.list_field(name)?;
    let key = field.merge_key();
    if let Some(Value::Array(items)) = patch.get(name) {
        check_order(items, wanted, key)?;
    }
    let (current, added) = (take_list(original, name), take_list(patch, name));
    // kube-apiserver checks the elements last, so other errors come first.
    let kind = elements(current.as_deref().unwrap_or_default(), added.as_deref().unwrap_or_default());
    let server = Positions::of(current.as_deref().unwrap_or_default(), key);
    let unnamed = current.iter().flatten().find_map(|item| require_key(item, key.unwrap_or_default()).err());
    let merged = match (current, added) {
        (None, None) => return Ok(()),
        (Some(current), None) => current,
        (None, Some(added)) => added.into_iter().filter_map(without_directives).collect(),
        (Some(current), Some(added)) if field.merges() => merge(current, added, element, key, false)?,
        (Some(_), Some(added)) => added,
    };
    if let Some(key) = key {
        let stray = wanted.iter().position(|item| !item.is_object());
        for item in &merged {
            require_key(item, key)?;
            if let Some(position) = stray {
                return Err(Error::Mismatch(format!("value for key {position} is not a map")));
            }
        }
    }
    if kind? == Elements::Maps {
        for item in wanted {
            require_key(item, key.unwrap_or_default())?;
        }
        if let Some(error) = unnamed {
            return Err(error);
        }
    }
    let ordered = interleave(merged, &Positions::of(wanted, key), &server, key);
    original.insert(name.to_owned(), Value::Array(ordered));
    Ok(())
}

/// Takes the list of a field out of its map. The caller has checked that it is a list.
fn take_list(map: &mut Map<String, Value>, name: &str) -> Option<Vec<Value>> {
    match map.remove(name) {
        Some(Value::Array(items)) => Some(items),
        _ => None,
    }
}

/// Checks that the patch's items, except deletions, are all in the wanted order and appear in that order.
fn check_order(items: &[Value], wanted: &[Value], merge_key: Option<&str>) -> Result<(), Error> {
    if items.is_empty() || wanted.is_empty() {
        return Ok(());
    }
    let mut kept = Vec::with_capacity(items.len());
    for item in items {
        if merge_key.is_some() {
            let map = item.as_object().ok_or_else(|| Error::not_a_map(item))?;
            if map.get(DIRECTIVE).and_then(Value::as_str) == Some("delete") {
                continue;
            }
        }
        kept.push(item);
    }
    let mut kept = kept.into_iter().peekable();
    for place in wanted {
        // Elements with another directive have no place of their own.
        while kept.next_if(|item| item.get(DIRECTIVE).is_some()).is_some() {}
        let Some(&item) = kept.peek() else { return Ok(()) };
        let equal = match merge_key {
            None => item == place,
            Some(key) => require_key(item, key)? == require_key(place, key)?,
        };
        if equal {
            kept.next();
        }
    }
    if kept.peek().is_none() {
        return Ok(());
    }
    Err(Error::Mismatch(format!(
        "The order in patch list:\n{}\n doesn't match {ELEMENT_ORDER} list:\n{}\n",
        go_format::plain_list(items),
        go_format::plain_list(wanted)
    )))
}

/// Returns the value of an item's merge key; an error if the item is not a map or lacks the key.
fn require_key<'a>(item: &'a Value, key: &str) -> Result<&'a Value, Error> {
    let map = item.as_object().ok_or_else(|| Error::not_a_map(item))?;
    map.get(key).ok_or_else(|| Error::no_merge_key(item, key))
}

/// Removes elements with a `$patch` directive from the patch and applies them.
fn take_special_elements(
    original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
) -> Result<(Vec<Value>, Vec<Value>), Error> {
    let (special, plain): (Vec<_>, Vec<_>) = patch.into_iter().partition(|item| item.get(DIRECTIVE).is_some());
    let mut replace = false;
    let mut removed = HashSet::new();
    for item in &special {
        let directive = item.get(DIRECTIVE).unwrap_or(&Value::Null);
        match directive.as_str() {
            Some("delete") => {
                removed.insert(require_key(item, key)?.to_string());
            }
            Some("replace") => replace = true,
            Some("merge") => {
                return Err(Error::Mismatch("merging lists cannot yet be specified in the patch".to_owned()));
            }
            _ => return Err(Error::unknown_directive(directive, item)),
        }
    }
    if replace {
        return Ok((plain, Vec::new()));
    }
    if removed.is_empty() {
        return Ok((original, plain));
    }
    let kept = |item: &Value| item.get(key).is_none_or(|value| !removed.contains(&value.to_string()));
    Ok((original.into_iter().filter(kept).collect(), plain))
}

/// Merges each map of the patch into the one with the same key, or appends it.
fn merge_elements(
    mut original: Vec<Value>,
    patch: Vec<Value>,
    key: &str,
    element: Node<'_>,
) -> Result<Vec<Value>, Error> {
    let mut positions = Positions::of(&original, Some(key));
    for item in patch {
        let identity = require_key(&item, key)?;
        match positions.get_value(identity) {
            Some(position) => {
                if let (Value::Object(current), Value::Object(item)) = (&mut original[position], item) {
                    merge_map(current, item, element)?;
                }
            }
            None => {
                positions.note(identity, original.len());
                original.push(item);
            }
        }
    }
    Ok(original)
}

/// Returns the kind of elements of two lists, which must have the same type.
fn elements(left: &[Value], right: &[Value]) -> Result<Elements, Error> {
    let mut all = left.iter().chain(right);
    let Some(first) = all.next() else {
        return Err(Error::Mismatch("no elements in any of the given slices".to_owned()));
    };
    if first.is_array() {
        return Err(Error::ListOfLists);
    }
    // A null has no type in Go, where inspecting it fails the request.
    let name = go_format::type_name(first);
    if first.is_null() || all.any(|item| go_format::type_name(item) != name) {
        let lists = format!("[{} {}]", go_format::plain_list(left), go_format::plain_list(right));
        return Err(Error::Mismatch(format!("list element types are not identical: {lists}")));
    }
    Ok(if first.is_object() { Elements::Maps } else { Elements::Scalars })
}
