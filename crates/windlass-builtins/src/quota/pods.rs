//! Quota usage of pods.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{Usage, whole};
use crate::kinds::pod::resources::aggregate_by;
use crate::object::{integer, is_set, items, text};
use crate::resource_list::{ResourceList, add, is_extended, is_huge_page, is_native, is_pod_level, list, raise};

const COUNT: &str = "count/pods";
/// Resources whose requests and limits are counted separately.
const COMPUTED: [&str; 3] = ["cpu", "memory", "ephemeral-storage"];
/// Resources that every container must specify if a quota limits them.
const DEMANDED: [&str; 6] = ["cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory"];

pub(super) fn knows(name: &str) -> bool {
    let computed = |name: &str| COMPUTED.contains(&name);
    let extended = |requested: &str| !is_native(name) || requested.starts_with("deviceclass.resource.kubernetes.io/");
    matches!(name, COUNT | "pods")
        || computed(name)
        || is_huge_page(name)
        || name.strip_prefix("limits.").is_some_and(computed)
        || name
            .strip_prefix("requests.")
            .is_some_and(|requested| computed(requested) || is_huge_page(requested) || extended(requested))
}

/// Returns whether the pod has an active deadline: the quota scope `Terminating`.
pub(super) fn has_deadline(pod: &Value) -> bool {
    integer(pod, "/spec/activeDeadlineSeconds").is_some_and(|seconds| seconds >= 0)
}

pub(super) fn usage(pod: &Value, now: Timestamp) -> Usage {
    let mut usage = Usage::from([(COUNT.to_owned(), whole(1))]);
    if is_running(pod, now) {
        usage.extend(of_lists(&requests(pod), &limits(pod)));
    }
    usage
}

/// Returns whether the pod has not finished and its deletion is not overdue.
fn is_running(pod: &Value, now: Timestamp) -> bool {
    if matches!(text(pod, "/status/phase"), "Failed" | "Succeeded") {
        return false;
    }
    let deleted: Option<Timestamp> = text(pod, "/metadata/deletionTimestamp").parse().ok();
    let grace = integer(pod, "/metadata/deletionGracePeriodSeconds");
    match (deleted, grace) {
        (Some(deleted), Some(grace)) => {
            deleted.checked_add(SignedDuration::from_secs(grace)).is_ok_and(|end| now <= end)
        }
        _ => true,
    }
}

fn of_lists(requests: &ResourceList, limits: &ResourceList) -> Usage {
    let mut usage = Usage::from([("pods".to_owned(), whole(1))]);
    for (name, quantity) in requests {
        let plain = COMPUTED.contains(&name.as_str()) || is_huge_page(name);
        if plain {
            usage.insert(name.clone(), quantity.clone());
        }
        if plain || is_extended(name) {
            usage.insert(format!("requests.{name}"), quantity.clone());
        }
    }
    for (name, quantity) in limits.iter().filter(|(name, _)| COMPUTED.contains(&name.as_str())) {
        usage.insert(format!("limits.{name}"), quantity.clone());
    }
    usage
}

fn requests(pod: &Value) -> ResourceList {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut total = aggregate_by(spec, |container| {
        let mut needs = list(container, "/resources/requests");
        if let Some(status) = status_of(pod, container) {
            raise(&mut needs, list(status, "/allocatedResources"));
            raise(&mut needs, list(status, "/resources/requests"));
        }
        needs
    });
    total.extend(list(spec, "/resources/requests").into_iter().filter(|(name, _)| is_pod_level(name)));
    add(&mut total, &list(spec, "/overhead"));
    total
}

fn limits(pod: &Value) -> ResourceList {
    let spec = pod.get("spec").unwrap_or(&Value::Null);
    let mut total = aggregate_by(spec, |container| {
        let mut needs = list(container, "/resources/limits");
        if let Some(status) = status_of(pod, container) {
            raise(&mut needs, list(status, "/resources/limits"));
        }
        needs
    });
    total.extend(list(spec, "/resources/limits").into_iter().filter(|(name, _)| is_pod_level(name)));
    let overhead = list(spec, "/overhead");
    // An unlimited resource stays unlimited.
    add(&mut total, &overhead.into_iter().filter(|(name, _)| limited(spec, name)).gather());
    total
}

fn limited(spec: &Value, name: &str) -> bool {
    let has = |of: &Value| list(of, "/resources/limits").get(name).is_some_and(|limit| !limit.is_zero());
    has(spec) || items(spec, "/containers").iter().chain(items(spec, "/initContainers")).any(has)
}

/// Returns the status of a container.
fn status_of<'a>(pod: &'a Value, container: &Value) -> Option<&'a Value> {
    let name = text(container, "/name");
    let all = items(pod, "/status/containerStatuses").iter().chain(items(pod, "/status/initContainerStatuses"));
    all.into_iter().find(|status| text(status, "/name") == name)
}

/// Returns a message that names the limited resources that containers do not specify.
pub(super) fn missing(names: &[&str], pod: &Value) -> Option<String> {
    if is_set(pod, "/spec/resources/requests") || is_set(pod, "/spec/resources/limits") {
        return None;
    }
    let mut missing: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for container in items(pod, "/spec/containers").iter().chain(items(pod, "/spec/initContainers")) {
        let says = of_lists(&list(container, "/resources/requests"), &list(container, "/resources/limits"));
        for name in names.iter().filter(|name| DEMANDED.contains(name) && !says.contains_key(**name)) {
            missing.entry(name).or_default().push(text(container, "/name"));
        }
    }
    if missing.is_empty() {
        return None;
    }
    let parts = missing.into_iter().map(|(name, mut containers)| {
        containers.sort_unstable();
        containers.dedup();
        format!("{name} for: {}", containers.join(","))
    });
    Some(format!("must specify {}", parts.collect::<Vec<_>>().join("; ")))
}
