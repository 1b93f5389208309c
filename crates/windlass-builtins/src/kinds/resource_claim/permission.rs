//! Changes of a claim that need more than the permission to write it.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::{field::Path, sorting::Gather as _};

use crate::diff::same;
use crate::object::{boolean, copy, items, text};

/// Returns the field that asks for access to devices that others use, if there is one. `requests` is the place of the
/// requests, as JSON pointer, and `path` their path in messages.
pub fn admin_access(object: &Value, requests: &str, path: &Path) -> Option<Path> {
    let asks = |request: &Value| boolean(request, "/exactly/adminAccess") == Some(true);
    let index = items(object, requests).iter().position(asks)?;
    Some(path.index(index).child("adminAccess"))
}

/// Returns the field of the status that grants access to devices that others use, if there is one.
pub fn granted_admin_access(object: &Value) -> Option<Path> {
    let grants = |result: &Value| boolean(result, "/adminAccess") == Some(true);
    let index = items(object, "/status/allocation/devices/results").iter().position(grants)?;
    let results = Path::new("status").child("allocation").child("devices").child("results");
    Some(results.index(index).child("adminAccess"))
}

/// Returns whether an update of the status changes the allocation of a claim, or which objects it is reserved for.
pub fn changes_binding(object: &Value, old: &Value) -> bool {
    ["/status/allocation", "/status/reservedFor"].iter().any(|field| !same(&copy(object, field), &copy(old, field)))
}

/// Returns the drivers of the devices whose state an update of the status adds, changes or removes. Without an
/// allocation there are none.
pub fn changed_drivers(object: &Value, old: &Value) -> BTreeSet<String> {
    if copy(object, "/status/allocation").is_null() {
        return BTreeSet::new();
    }
    let key = |device: &Value| ["/driver", "/pool", "/device", "/shareID"].map(|field| text(device, field).to_owned());
    // Of several entries with one key, the last counts.
    let mut before: std::collections::BTreeMap<_, &Value> =
        items(old, "/status/devices").iter().map(|device| (key(device), device)).gather();
    let changed = |device: &&Value| !before.remove(&key(device)).is_some_and(|before| same(before, device));
    let changed: Vec<&Value> = items(object, "/status/devices").iter().filter(changed).collect();
    changed.into_iter().chain(before.into_values()).map(|device| text(device, "/driver").to_owned()).gather()
}

/// Returns the node that the allocation of a claim is for; `None` unless it is for exactly one, by its name.
pub fn allocated_node(object: &Value) -> Option<&str> {
    let [term] = items(object, "/status/allocation/nodeSelector/nodeSelectorTerms") else { return None };
    let ([], [field]) = (items(term, "/matchExpressions"), items(term, "/matchFields")) else { return None };
    let [node] = items(field, "/values") else { return None };
    let is_name = text(field, "/key") == "metadata.name" && text(field, "/operator") == "In";
    node.as_str().filter(|node| is_name && !node.is_empty())
}
