//! Resource lists: quantities by resource name, and the rules for these names.

use std::collections::BTreeMap;

use serde_json::Value;
use windlass_schema::quantity::Quantity;
use windlass_schema::{names, sorting::Gather as _};

use crate::object::entries;

/// Quantities by resource name.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

const HUGE_PAGES: &str = "hugepages-";

/// Standard resources of nodes, quotas and containers: names without a domain.
const STANDARD: [&str; 20] = [
    "cpu",
    "memory",
    "ephemeral-storage",
    "requests.cpu",
    "requests.memory",
    "requests.ephemeral-storage",
    "limits.cpu",
    "limits.memory",
    "limits.ephemeral-storage",
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "storage",
    "requests.storage",
    "services.nodeports",
    "services.loadbalancers",
];

/// Resources that are counted in whole numbers.
const COUNTED: [&str; 9] = [
    "pods",
    "resourcequotas",
    "services",
    "replicationcontrollers",
    "secrets",
    "configmaps",
    "persistentvolumeclaims",
    "services.nodeports",
    "services.loadbalancers",
];

/// Parses a quantity.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// Returns the quantities of a field, without invalid ones.
pub(crate) fn list(value: &Value, pointer: &str) -> ResourceList {
    entries(value, pointer).filter_map(|(name, value)| Some((name.to_owned(), quantity(value)?))).gather()
}

/// Returns whether a resource is huge pages of some size.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Returns whether a resource is a standard one, known without a domain.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Returns whether a ResourceQuota can limit a standard resource.
pub(crate) fn is_standard_for_quotas(name: &str) -> bool {
    name != "storage" && is_standard(name)
}

/// Returns whether a container may request a standard resource.
pub(crate) fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name)
}

/// Returns whether a resource belongs to Kubernetes itself.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Returns whether a resource is an extended resource, as provided by device plugins.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{name}")).is_empty()
}

/// Returns whether quantities of a resource must be integers.
pub(crate) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Returns whether a resource may be overcommitted: limits may exceed requests.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Returns whether a resource can be requested for the pod as a whole.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Returns whether a quantity is a multiple of the page size in the resource's name.
pub(crate) fn is_whole_pages(name: &str, quantity: &Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    match size {
        Some(size) if size.sign() > 0 && size.milli_value() % 1000 == 0 => {
            size.value() != 0 && quantity.value() % size.value() == 0
        }
        _ => false,
    }
}

/// Adds a resource list to another.
pub(crate) fn add(total: &mut ResourceList, more: &ResourceList) {
    for (name, quantity) in more {
        match total.get_mut(name) {
            Some(have) => have.add(quantity),
            None => {
                total.insert(name.clone(), quantity.clone());
            }
        }
    }
}

/// Raises each quantity to that in the other list if it is smaller.
pub(crate) fn raise(total: &mut ResourceList, other: ResourceList) {
    for (name, quantity) in other {
        if total.get(&name).is_none_or(|have| quantity > *have) {
            total.insert(name, quantity);
        }
    }
}

/// Rounds quantities up to milli-units.
pub(crate) fn round_up(value: &mut Value, pointer: &str) {
    let Some(list) = value.pointer_mut(pointer).and_then(Value::as_object_mut) else { return };
    for entry in list.values_mut() {
        let Some(exact) = quantity(entry) else { continue };
        let rounded = Quantity::milli(exact.milli_value(), exact.format());
        if rounded.sign() == exact.sign() && rounded != exact {
            *entry = Value::String(rounded.to_string());
        }
    }
}
