//! Services and the pods behind them, for the loops that write endpoints.

mod order;
mod triggers;

use std::{collections::BTreeMap, net::IpAddr, sync::Arc};

use k8s_openapi::{
    api::core::v1::{ObjectReference, Pod, Service, ServicePort},
    apimachinery::pkg::util::intstr::IntOrString,
};
use windlass::{
    cache::Index,
    context::{Context, ContextError},
    controller::{
        Watch,
        filter::{Change, Filter},
    },
    key::ObjectKey,
};

pub(crate) use self::{order::sort_as_go, triggers::Triggers};
use windlass_schema::sorting;

use crate::pods;

/// Label of objects that belong to a headless service.
pub(crate) const HEADLESS_LABEL: &str = "service.kubernetes.io/headless";
/// Annotation with the time of the change that caused a write of endpoints.
pub(crate) const TRIGGER_TIME: &str = "endpoints.kubernetes.io/last-change-trigger-time";

/// The reference to a pod in an endpoint.
pub(crate) fn reference(pod: &Pod) -> ObjectReference {
    ObjectReference {
        kind: Some("Pod".to_owned()),
        namespace: pod.metadata.namespace.clone(),
        name: pod.metadata.name.clone(),
        uid: pod.metadata.uid.clone(),
        ..ObjectReference::default()
    }
}

/// The selector of a service. Returns `None` if its endpoints are not managed by loops.
pub(crate) fn selector(service: &Service) -> Option<&BTreeMap<String, String>> {
    let spec = service.spec.as_ref()?;
    let selector = spec.selector.as_ref().filter(|selector| !selector.is_empty());
    selector.filter(|_| spec.type_.as_deref() != Some("ExternalName"))
}

/// Returns whether a service is headless.
pub(crate) fn is_headless(service: &Service) -> bool {
    matches!(service.spec.as_ref().and_then(|spec| spec.cluster_ip.as_deref()), None | Some("" | "None"))
}

/// The pods that a service selects, by name, looked up by the rarest label of the selector.
pub(crate) fn pods_of(ctx: &Context, service: &Service) -> Result<Vec<Arc<Pod>>, ContextError> {
    let Some(selector) = selector(service) else { return Ok(Vec::new()) };
    let index: Index<Pod, String> = ctx
        .informer::<Pod>()?
        .index("services/labels", |pod: &Pod| {
            let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
            pod.metadata.labels.iter().flatten().map(|(name, value)| pair(namespace, name, value)).collect()
        })
        .expect("an index name must always have the same value type");
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let pairs = selector.iter().map(|(name, value)| pair(namespace, name, value));
    let rarest = pairs.min_by_key(|pair| index.count(pair.as_str())).unwrap_or_default();
    let mut found = index.get(rarest.as_str());
    found.retain(|pod| is_selected(selector, pod));
    sorting::sort_by(&mut found, |a, b| a.metadata.name.cmp(&b.metadata.name));
    Ok(found)
}

/// The services that select a pod, looked up by its labels.
pub(crate) fn services_of(pod: &Pod, ctx: &Context) -> Vec<ObjectKey> {
    let Ok(services) = ctx.informer::<Service>() else { return Vec::new() };
    let index: Index<Service, String> = services
        .index("services/selected", |service: &Service| {
            let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
            let first = selector(service).and_then(|selector| selector.iter().next());
            first.map(|(name, value)| pair(namespace, name, value)).into_iter().collect()
        })
        .expect("an index name must always have the same value type");
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    let labels = pod.metadata.labels.iter().flatten();
    let candidates = labels.flat_map(|(name, value)| index.get(pair(namespace, name, value).as_str()));
    let selecting = candidates.filter(|service| selector(service).is_some_and(|selector| is_selected(selector, pod)));
    selecting.map(|service| ObjectKey::of(&*service)).collect()
}

fn is_selected(selector: &BTreeMap<String, String>, pod: &Pod) -> bool {
    let labels = pod.metadata.labels.as_ref();
    selector.iter().all(|(name, value)| labels.and_then(|labels| labels.get(name)) == Some(value))
}

/// Neither namespaces nor label names contain a slash followed by an equals sign.
fn pair(namespace: &str, name: &str, value: &str) -> String {
    [namespace, "/", name, "=", value].concat()
}

/// Watches pods for changes that affect endpoints.
pub(crate) fn pods_that_moved() -> Watch<Pod> {
    Watch::new().filter(Filter::new(|change: &Change<'_, Pod>| match (change.old, change.new) {
        (Some(old), Some(new)) => change.resync || facts(old) != facts(new),
        _ => true,
    }))
}

/// The properties of a pod that endpoints contain.
fn facts(pod: &Pod) -> impl PartialEq + '_ {
    let spec = pod.spec.as_ref();
    let ready = pods::ready_condition(pod);
    (
        (&pod.metadata.labels, pods::is_terminating(pod), has_ended(pod)),
        ready.map(|ready| &ready.status),
        addresses(pod).collect::<Vec<_>>(),
        spec.map(|spec| (&spec.hostname, &spec.subdomain, &spec.node_name)),
    )
}

fn has_ended(pod: &Pod) -> bool {
    matches!(pods::phase(pod), "Failed" | "Succeeded")
}

/// The addresses of a pod in canonical form.
pub(crate) fn addresses(pod: &Pod) -> impl Iterator<Item = String> + '_ {
    let all = pod.status.iter().flat_map(|status| status.pod_ips.iter().flatten());
    all.filter(|address| !address.ip.is_empty())
        .map(|address| address.ip.parse::<IpAddr>().map_or_else(|_| address.ip.clone(), |ip| ip.to_string()))
}

/// Returns whether a pod has an address and may be an endpoint.
pub(crate) fn can_be_reached(pod: &Pod, even_terminating: bool) -> bool {
    let has_address = pod.status.as_ref().is_some_and(|status| {
        status.pod_ip.as_ref().is_some_and(|ip| !ip.is_empty())
            || status.pod_ips.as_ref().is_some_and(|ips| !ips.is_empty())
    });
    !has_ended(pod) && has_address && (even_terminating || !pods::is_terminating(pod))
}

/// The host name of a pod within a service.
pub(crate) fn hostname(pod: &Pod, service: &Service) -> Option<String> {
    let spec = pod.spec.as_ref()?;
    let is_within = spec.subdomain == service.metadata.name && pod.metadata.namespace == service.metadata.namespace;
    spec.hostname.clone().filter(|hostname| is_within && !hostname.is_empty())
}

/// The number of the target port of a service's port.
pub(crate) fn target_port(pod: &Pod, port: &ServicePort) -> Option<i32> {
    let name = match &port.target_port {
        Some(IntOrString::Int(number)) => return Some(*number),
        Some(IntOrString::String(name)) => name,
        None => return Some(port.port),
    };
    let spec = pod.spec.as_ref()?;
    let sidecars = spec.init_containers.iter().flatten();
    let sidecars = sidecars.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    let ports = spec.containers.iter().chain(sidecars).flat_map(|container| container.ports.iter().flatten());
    let protocol = |protocol: &Option<String>| protocol.clone().unwrap_or_else(|| "TCP".to_owned());
    let mut fitting = ports
        .filter(|named| named.name.as_ref() == Some(name) && protocol(&named.protocol) == protocol(&port.protocol));
    fitting.next().map(|named| named.container_port)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_port_is_found_by_number_or_name_in_containers_and_sidecars() {
        let pod: Pod = serde_json::from_value(json!({ "spec": {
            "containers": [{ "name": "a", "ports": [{ "name": "http", "containerPort": 8080 },
                { "name": "dns", "containerPort": 53, "protocol": "UDP" }] }],
            "initContainers": [
                { "name": "b", "ports": [{ "name": "late", "containerPort": 1 }] },
                { "name": "c", "restartPolicy": "Always", "ports": [{ "name": "side", "containerPort": 2 }] }] } }))
        .unwrap();
        for (port, expected) in [
            (json!({ "port": 80 }), Some(80)),
            (json!({ "port": 80, "targetPort": 81 }), Some(81)),
            (json!({ "port": 80, "targetPort": "http", "protocol": "TCP" }), Some(8080)),
            (json!({ "port": 80, "targetPort": "http", "protocol": "UDP" }), None),
            (json!({ "port": 80, "targetPort": "dns", "protocol": "UDP" }), Some(53)),
            (json!({ "port": 80, "targetPort": "late", "protocol": "TCP" }), None),
            (json!({ "port": 80, "targetPort": "side", "protocol": "TCP" }), Some(2)),
        ] {
            assert_eq!(target_port(&pod, &serde_json::from_value(port.clone()).unwrap()), expected, "{port}");
        }
    }

    #[test]
    fn only_changes_that_affect_endpoints_pass_the_filter() {
        let pod = |status: serde_json::Value| -> Pod {
            serde_json::from_value(json!({ "metadata": { "labels": { "a": "b" } }, "status": status })).unwrap()
        };
        let ready = |status: &str, message: &str| json!([{ "type": "Ready", "status": status, "message": message }, { "type": "Other", "status": message }]);
        let at = |ip: &str, status: &str, message: &str| {
            pod(json!({ "conditions": ready(status, message), "podIPs": [{ "ip": ip }] }))
        };
        let one = at("10.0.0.1", "True", "x");
        for (other, moved) in [
            (at("10.0.0.1", "True", "y"), false),
            (at("10.0.0.1", "False", "x"), true),
            (at("10.0.0.2", "True", "x"), true),
        ] {
            assert_eq!(facts(&one) != facts(&other), moved, "{other:?}");
        }
    }
}
