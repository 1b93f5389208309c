//! The resources of a pod: their names, what its containers need together, and the class of service that follows.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use windlass_schema::names;
use windlass_schema::quantity::Quantity;

use crate::object::{entries, is_set, items, map, set, text};

/// Quantities by the name of the resource.
pub(crate) type ResourceList = BTreeMap<String, Quantity>;

const HUGE_PAGES: &str = "hugepages-";

/// Resources that nodes, quotas and containers know without a domain.
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

/// Resources that only come whole.
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

/// The quantity a value holds.
pub(crate) fn quantity(value: &Value) -> Option<Quantity> {
    match value {
        Value::String(text) => Quantity::parse(text).ok(),
        Value::Number(number) => Quantity::parse(&number.to_string()).ok(),
        _ => None,
    }
}

/// The quantities of a field; what is not one is left out.
pub(crate) fn list(value: &Value, pointer: &str) -> ResourceList {
    entries(value, pointer).filter_map(|(name, value)| Some((name.to_owned(), quantity(value)?))).collect()
}

/// Whether a resource is memory in pages of a size.
pub(crate) fn is_huge_page(name: &str) -> bool {
    name.starts_with(HUGE_PAGES)
}

/// Whether a resource is known to the system without a domain.
pub(crate) fn is_standard(name: &str) -> bool {
    STANDARD.contains(&name) || is_huge_page(name) || name.starts_with("requests.hugepages-")
}

/// Whether a container may ask for a resource that has no domain.
pub(crate) fn is_standard_for_containers(name: &str) -> bool {
    matches!(name, "cpu" | "memory" | "ephemeral-storage") || is_huge_page(name)
}

/// Whether a resource is Kubernetes' own.
pub(crate) fn is_native(name: &str) -> bool {
    !name.contains('/') || name.contains("kubernetes.io/")
}

/// Whether a resource is one that a device plugin brings.
pub(crate) fn is_extended(name: &str) -> bool {
    !is_native(name)
        && !name.starts_with("requests.")
        && names::is_qualified_name(&format!("requests.{name}")).is_empty()
}

/// Whether a resource only comes whole.
pub(crate) fn is_integer(name: &str) -> bool {
    COUNTED.contains(&name) || is_extended(name)
}

/// Whether more of a resource may be promised than there is.
pub(crate) fn may_be_overcommitted(name: &str) -> bool {
    is_native(name) && !is_huge_page(name)
}

/// Whether a pod as a whole can ask for a resource.
pub(crate) fn is_pod_level(name: &str) -> bool {
    matches!(name, "cpu" | "memory") || is_huge_page(name)
}

/// Whether a quantity is a whole number of pages of the size the resource is named after.
pub(crate) fn is_whole_pages(name: &str, quantity: &Quantity) -> bool {
    let size = name.strip_prefix(HUGE_PAGES).and_then(|size| Quantity::parse(size).ok());
    match size {
        Some(size) if size.sign() > 0 && size.milli_value() % 1000 == 0 => {
            size.value() != 0 && quantity.value() % size.value() == 0
        }
        _ => false,
    }
}

/// Whether a container is an init container that keeps running beside the others.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

/// What the containers of a spec need together: `kind` is `requests` or `limits`. Init containers run one after
/// another, so the neediest counts, with the sidecars that started before it.
pub(crate) fn aggregate(spec: &Value, kind: &str) -> ResourceList {
    let pointer = format!("/resources/{kind}");
    aggregate_by(spec, |container| list(container, &pointer))
}

/// The same, of what a function says that a container needs.
pub(crate) fn aggregate_by(spec: &Value, needs_of: impl Fn(&Value) -> ResourceList) -> ResourceList {
    let mut total = ResourceList::new();
    for container in items(spec, "/containers") {
        add(&mut total, &needs_of(container));
    }
    let (mut sidecars, mut neediest) = (ResourceList::new(), ResourceList::new());
    for container in items(spec, "/initContainers") {
        let mut needs = needs_of(container);
        if is_sidecar(container) {
            add(&mut total, &needs);
            add(&mut sidecars, &needs);
            needs = sidecars.clone();
        } else {
            add(&mut needs, &sidecars);
        }
        raise(&mut neediest, needs);
    }
    raise(&mut total, neediest);
    total
}

/// Adds what is in one list to another.
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

/// Raises what is less in one list than in another.
pub(crate) fn raise(total: &mut ResourceList, other: ResourceList) {
    for (name, quantity) in other {
        if total.get(&name).is_none_or(|have| quantity > *have) {
            total.insert(name, quantity);
        }
    }
}

/// Rounds quantities finer than thousandths up to thousandths.
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

/// Completes resources that a pod asks for as a whole: huge pages are limited to what its containers are, and it
/// requests what they request, or else what it is limited to.
pub(super) fn default_pod_level(spec: &mut Value) {
    if !is_set(spec, "/resources") {
        return;
    }
    let count = |spec: &Value, pointer| map(spec, pointer).map_or(0, Map::len);
    if count(spec, "/resources/limits") + count(spec, "/resources/requests") > 0 {
        for (name, limit) in aggregate(spec, "limits") {
            let is_there = |kind| map(spec, kind).is_some_and(|list| list.contains_key(&name));
            if is_huge_page(&name) && !is_there("/resources/requests") && !is_there("/resources/limits") {
                insert(spec, "limits", name, limit.to_string());
            }
        }
    }
    if count(spec, "/resources/limits") == 0 {
        return;
    }
    for (name, request) in aggregate(spec, "requests") {
        if is_pod_level(&name) && may_be_overcommitted(&name) && !requests(spec, &name) {
            insert(spec, "requests", name, request.to_string());
        }
    }
    for (name, limit) in map(spec, "/resources/limits").cloned().unwrap_or_default() {
        if is_pod_level(&name) && !requests(spec, &name) {
            insert(spec, "requests", name, limit);
        }
    }
}

fn requests(spec: &Value, name: &str) -> bool {
    map(spec, "/resources/requests").is_some_and(|list| list.contains_key(name))
}

fn insert(spec: &mut Value, kind: &str, name: String, value: impl Into<Value>) {
    let pointer = format!("/resources/{kind}");
    let mut list = map(spec, &pointer).cloned().unwrap_or_default();
    list.insert(name, value.into());
    set(spec, &pointer, list);
}

/// The class of service of a pod: `Guaranteed` when all of its processor time and memory is limited and requested
/// alike, `BestEffort` when none is, else `Burstable`.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    let mut guaranteed = true;
    let computed = |list: ResourceList| -> ResourceList {
        list.into_iter().filter(|(name, have)| matches!(name.as_str(), "cpu" | "memory") && have.sign() > 0).collect()
    };
    if is_set(pod, "/spec/resources") {
        requests = computed(list(pod, "/spec/resources/requests"));
        limits = computed(list(pod, "/spec/resources/limits"));
        guaranteed = map(pod, "/spec/resources/limits").is_none_or(Map::is_empty) || limits.len() == 2;
    } else {
        for container in items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers")) {
            add(&mut requests, &computed(list(container, "/resources/requests")));
            let limited = computed(list(container, "/resources/limits"));
            guaranteed &= limited.len() == 2;
            add(&mut limits, &limited);
        }
    }
    match () {
        () if requests.is_empty() && limits.is_empty() => "BestEffort",
        () if guaranteed && requests == limits => "Guaranteed",
        () => "Burstable",
    }
}
