//! The resources of a pod: the sum of its containers' resources, and the QoS class that follows from them.

use serde_json::{Map, Value};
use windlass_schema::sorting::Gather as _;

use crate::object::{is_set, items, map, set, text};
use crate::resource_list::{ResourceList, add, is_huge_page, is_pod_level, list, may_be_overcommitted, raise};

/// Returns whether an init container is a sidecar, which keeps running alongside the other containers.
pub(crate) fn is_sidecar(container: &Value) -> bool {
    text(container, "/restartPolicy") == "Always"
}

/// Returns the total `requests` or `limits` of the containers in a spec. Init containers run one after another, so only
/// the largest counts, together with the sidecars that started before it.
pub(crate) fn aggregate(spec: &Value, kind: &str) -> ResourceList {
    let pointer = format!("/resources/{kind}");
    aggregate_by(spec, |container| list(container, &pointer))
}

/// Like [`aggregate`], with a function that returns the resources of a container.
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

/// Returns the requests of a pod: its own where it has them, else those of its containers, and the overhead.
pub fn pod_requests(spec: &Value) -> Value {
    let mut requests = aggregate(spec, "requests");
    requests.extend(list(spec, "/resources/requests"));
    add(&mut requests, &list(spec, "/overhead"));
    to_value(&requests)
}

/// Returns the limits of CPU and memory of a pod: its own where it has them, else those of its containers if each of them
/// has one.
pub fn pod_limits(spec: &Value) -> Value {
    let is_long_lived = |container: &&Value| is_sidecar(container);
    let containers =
        || items(spec, "/containers").iter().chain(items(spec, "/initContainers").iter().filter(is_long_lived));
    let mut limits = aggregate(spec, "limits");
    limits.retain(|name, _| {
        is_pod_level(name) && containers().all(|container| list(container, "/resources/limits").contains_key(name))
    });
    limits.extend(list(spec, "/resources/limits"));
    to_value(&limits)
}

fn to_value(resources: &ResourceList) -> Value {
    resources.iter().map(|(name, amount)| (name.clone(), Value::from(amount.to_string()))).gather::<Map<_, _>>().into()
}

/// Sets the defaults of pod-level resources: the limits of huge pages are those of the containers, and the requests are
/// those of the containers, or else the pod-level limits.
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

/// Returns the QoS class of a pod: `Guaranteed` if requests and limits of CPU and memory are set and equal for all
/// containers, `BestEffort` if none is set, otherwise `Burstable`.
pub(crate) fn qos_class(pod: &Value) -> &'static str {
    let (mut requests, mut limits) = (ResourceList::new(), ResourceList::new());
    let mut guaranteed = true;
    let computed = |list: ResourceList| -> ResourceList {
        list.into_iter().filter(|(name, have)| matches!(name.as_str(), "cpu" | "memory") && have.sign() > 0).gather()
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
