//! Whether the server of an APIService can be reached: its service, its endpoints, and its own response.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use windlass_builtins::kinds::api_service::Availability;

use super::{Entry, link::Link};
use crate::{server::Inner, storage::StoredObject, user::User, webhooks::Service};

/// The time limit of a check.
const LIMIT: Duration = Duration::from_secs(5);

/// The objects that decide where requests go.
pub(super) struct Backend {
    service: Option<Arc<StoredObject>>,
    slices: Vec<Arc<StoredObject>>,
}

impl Backend {
    /// Returns the objects of a service in the caches.
    pub(super) fn of(server: &Inner, reference: &Service) -> Self {
        let Service { namespace, name, .. } = reference;
        let service = server.storage.cache("/core/services/").get(&format!("{namespace}/{name}"));
        let slices = server.storage.cache("/discovery.k8s.io/endpointslices/").snapshot();
        let prefix = format!("{namespace}/");
        let slices = slices.range(&prefix, None).map(|(_, cached)| &cached.object);
        let slices = slices.filter(|slice| slice.header.label("kubernetes.io/service-name") == Some(name));
        Self { service, slices: slices.cloned().collect() }
    }

    /// Returns the revisions of the objects, which change with them.
    pub(super) fn revisions(&self) -> Vec<u64> {
        self.service.iter().chain(&self.slices).map(|object| object.revision.0).collect()
    }
}

/// Checks whether requests can be forwarded.
pub(super) async fn check(server: &Arc<Inner>, entry: &Entry, link: &Link, backend: &Backend) -> Availability {
    let Some(reference) = &link.service else { return Availability::LOCAL };
    let service = backend.service.as_ref().map(|service| service.to_value());
    let slices: Vec<Value> = backend.slices.iter().map(|slice| slice.to_value()).collect();
    if let Some(problem) = problem(reference, service.as_ref(), &slices) {
        // EndpointSlices cannot have loopback addresses, which pods that run as local processes have.
        let Service { namespace, name, port } = reference;
        let elsewhere = service.is_some() && server.aggregation.resolver.resolve(namespace, name, *port).await.is_ok();
        if !elsewhere {
            return problem;
        }
    }
    let url = shown_url(reference, service.as_ref(), &entry.path());
    match probe(server, entry, link, &url).await {
        Ok(()) => Availability { status: "True", reason: "Passed", message: "all checks passed".into() },
        Err(error) => unavailable("FailedDiscoveryCheck", format!("failing or missing response from {url}: {error}")),
    }
}

/// Requests the group version.
async fn probe(server: &Arc<Inner>, entry: &Entry, link: &Link, url: &str) -> Result<(), String> {
    let answer = link.get(&server.aggregation, &entry.path(), &aggregator(), &[], LIMIT).await;
    let document = answer.map_err(|error| format!("Get {url:?}: {error}"))?;
    match document.status.is_success() {
        true => Ok(()),
        false => Err(format!("bad status from {url}: {}", document.status.as_u16())),
    }
}

/// The user that requests the health and the API of other servers.
pub(super) fn aggregator() -> User {
    User { name: "system:kube-aggregator".to_owned(), groups: vec!["system:masters".to_owned()], ..User::default() }
}

fn unavailable(reason: &'static str, message: String) -> Availability {
    Availability { status: "False", reason, message: message.into() }
}

/// Returns why no request can reach the service, if that is known without sending one.
fn problem(reference: &Service, service: Option<&Value>, slices: &[Value]) -> Option<Availability> {
    let Service { namespace, name, port } = reference;
    let Some(service) = service else {
        return Some(unavailable("ServiceNotFound", format!("service/{name} in {namespace:?} is not present")));
    };
    if service["spec"]["type"].as_str().unwrap_or("ClusterIP") != "ClusterIP" {
        return None;
    }
    let ports = service["spec"]["ports"].as_array().map_or(&[][..], Vec::as_slice);
    let Some(found) = ports.iter().find(|have| have["port"] == *port) else {
        let message = format!("service/{name} in {namespace:?} is not listening on port {port}");
        return Some(unavailable("ServicePortError", message));
    };
    if slices.is_empty() {
        let message = format!("cannot find endpointslices for service/{name} in {namespace:?}");
        return Some(unavailable("EndpointsNotFound", message));
    }
    let port_name = found["name"].as_str().unwrap_or_default();
    if slices.iter().any(|slice| has_endpoint(slice, port_name)) {
        return None;
    }
    let message =
        format!("endpointslices for service/{name} in {namespace:?} have no addresses with port name {port_name:?}");
    Some(unavailable("MissingEndpoints", message))
}

/// Returns whether a slice has a ready endpoint, and the port.
fn has_endpoint(slice: &Value, port: &str) -> bool {
    let list = |field: &str| slice[field].as_array().map_or(&[][..], Vec::as_slice);
    let is_ready = |endpoint: &Value| endpoint["conditions"]["ready"] != false;
    let is_port = |have: &Value| have["name"].as_str().unwrap_or_default() == port && have["port"].is_number();
    list("endpoints").iter().any(is_ready) && list("ports").iter().any(is_port)
}

/// Returns the URL for messages, with the address of the service as in kube-apiserver.
fn shown_url(reference: &Service, service: Option<&Value>, path: &str) -> String {
    let spec = service.map_or(&Value::Null, |service| &service["spec"]);
    let host = match (spec["externalName"].as_str(), spec["clusterIP"].as_str()) {
        (Some(host), _) if !host.is_empty() => host.to_owned(),
        (_, Some(address)) if !address.is_empty() && address != "None" => match address.contains(':') {
            true => format!("[{address}]"),
            false => address.to_owned(),
        },
        _ => format!("{}.{}.svc", reference.name, reference.namespace),
    };
    format!("https://{host}:{}{path}", reference.port)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn judged(service: Option<Value>, slices: &[Value]) -> Option<String> {
        let reference = Service { namespace: "n".to_owned(), name: "s".to_owned(), port: 443 };
        let found = problem(&reference, service.as_ref(), slices)?;
        Some(format!("{} {}: {}", found.status, found.reason, found.message))
    }

    #[test]
    fn a_service_needs_its_port_and_a_ready_endpoint() {
        let service = |port: u16| json!({"spec": {"type": "ClusterIP", "ports": [{"name": "p", "port": port}]}});
        let slice = |ready: bool, port: &str| {
            json!({"ports": [{"name": port, "port": 8443}],
                "endpoints": [{"addresses": ["10.1.1.1"], "conditions": {"ready": ready}}]})
        };
        let some = |text: &str| Some(text.to_owned());
        for (service, slices, expected) in [
            (None, vec![], some("False ServiceNotFound: service/s in \"n\" is not present")),
            (
                Some(service(80)),
                vec![],
                some("False ServicePortError: service/s in \"n\" is not listening on port 443"),
            ),
            (
                Some(service(443)),
                vec![],
                some("False EndpointsNotFound: cannot find endpointslices for service/s in \"n\""),
            ),
            (
                Some(service(443)),
                vec![slice(false, "p"), slice(true, "q")],
                some(
                    "False MissingEndpoints: endpointslices for service/s in \"n\" have no addresses with port name \
                     \"p\"",
                ),
            ),
            (Some(service(443)), vec![slice(false, "p"), slice(true, "p")], None),
            (Some(json!({"spec": {"type": "ExternalName", "externalName": "example.com"}})), vec![], None),
        ] {
            assert_eq!(judged(service, &slices), expected);
        }
    }
}
