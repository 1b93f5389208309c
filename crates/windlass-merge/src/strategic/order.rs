//! The order of a merged list: items of the patch in the patch's order, all others in the server's order, interleaved
//! by the server's order.

use std::collections::HashMap;

use serde_json::Value;

/// Go's stable sort sorts blocks of this size by insertion.
const INSERTION_BLOCK: usize = 20;

/// The first position of each identity in a list. The identity of an item is a scalar, or the value of a map's merge
/// key.
pub(super) struct Positions(HashMap<String, usize>);

impl Positions {
    pub(super) fn of(items: &[Value], merge_key: Option<&str>) -> Self {
        let mut positions = HashMap::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            positions.entry(identity(item, merge_key)).or_insert(position);
        }
        Self(positions)
    }

    pub(super) fn get(&self, item: &Value, merge_key: Option<&str>) -> Option<usize> {
        self.0.get(&identity(item, merge_key)).copied()
    }

    /// Returns the position of a merge key's value.
    pub(super) fn get_value(&self, value: &Value) -> Option<usize> {
        self.0.get(&value.to_string()).copied()
    }

    /// Records a value that was appended at a position.
    pub(super) fn note(&mut self, value: &Value, position: usize) {
        self.0.entry(value.to_string()).or_insert(position);
    }
}

/// Returns the JSON text, which distinguishes values just as Go distinguishes interfaces: `1`, `1.0` and `"1"` differ.
fn identity(item: &Value, merge_key: Option<&str>) -> String {
    match merge_key {
        None => item.to_string(),
        // An element without the key matches no value, because no JSON text is empty.
        Some(key) => item.get(key).map(Value::to_string).unwrap_or_default(),
    }
}

/// Orders a merged list: `wanted` is the order of the patch, `server` that of the object before the patch.
pub(super) fn interleave(
    merged: Vec<Value>,
    wanted: &Positions,
    server: &Positions,
    merge_key: Option<&str>,
) -> Vec<Value> {
    let (mut from_patch, mut server_only) = (Vec::new(), Vec::new());
    for item in merged {
        let (in_patch, in_server) = (wanted.get(&item, merge_key), server.get(&item, merge_key));
        if in_patch.is_some() {
            from_patch.push(Placed { sort: in_patch, server: in_server, item });
        } else {
            server_only.push(Placed { sort: in_server, server: in_server, item });
        }
    }
    sort(&mut from_patch);
    sort(&mut server_only);

    let mut out = Vec::with_capacity(from_patch.len() + server_only.len());
    let mut left = server_only.into_iter().peekable();
    for right in from_patch {
        while let Some(placed) = left.next_if(|left| match (left.server, right.server) {
            (Some(left), Some(right)) => left < right,
            _ => false,
        }) {
            out.push(placed.item);
        }
        out.push(right.item);
    }
    out.extend(left.map(|placed| placed.item));
    out
}

struct Placed {
    sort: Option<usize>,
    server: Option<usize>,
    item: Value,
}

/// Sorts by position. Items without a position end up where Go's sort, whose comparison is true for them, leaves them
/// in short lists: each in front of all items before it.
fn sort(items: &mut [Placed]) {
    if items.iter().all(|item| item.sort.is_some()) || items.len() > INSERTION_BLOCK {
        items.sort_by_key(|item| item.sort);
        return;
    }
    for end in 1..items.len() {
        let mut at = end;
        while at > 0 && before(&items[at], &items[at - 1]) {
            items.swap(at, at - 1);
            at -= 1;
        }
    }
}

fn before(left: &Placed, right: &Placed) -> bool {
    match (left.sort, right.sort) {
        (Some(left), Some(right)) => left < right,
        _ => true,
    }
}
