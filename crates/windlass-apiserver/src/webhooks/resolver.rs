//! Where the services that webhooks name can be reached.

use std::{net::SocketAddr, sync::Arc};

use async_trait::async_trait;
use serde_json::Value;

use crate::storage::{ResourceCache, Storage};

/// Finds the addresses behind a port of a service.
#[async_trait]
pub trait ServiceResolver: Send + Sync {
    /// The addresses that a connection to a port of a service may go to, the first of them first. What is wrong, if
    /// there are none, is told to whoever made the request, as the reason that the webhook could not be called.
    async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String>;
}

/// The addresses that the EndpointSlices of a service have. Nobody forwards cluster IPs here, so these are not used.
pub(crate) struct EndpointSlices {
    services: Arc<ResourceCache>,
    slices: Arc<ResourceCache>,
}

impl EndpointSlices {
    pub(crate) fn new(storage: &Storage) -> Self {
        Self { services: storage.cache("/core/services/"), slices: storage.cache("/discovery.k8s.io/endpointslices/") }
    }

    /// The addresses of the endpoints that are ready.
    fn addresses(&self, namespace: &str, name: &str, port: &str) -> Vec<SocketAddr> {
        let snapshot = self.slices.snapshot();
        let prefix = format!("{namespace}/");
        let of_service = snapshot.range(&prefix, None).map(|(_, cached)| &cached.object);
        let of_service = of_service.filter(|slice| slice.header.label("kubernetes.io/service-name") == Some(name));
        of_service.flat_map(|slice| addresses_in(&slice.to_value(), port)).collect()
    }
}

/// The addresses of a port in a slice.
fn addresses_in(slice: &Value, port: &str) -> Vec<SocketAddr> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let ports = list(&slice["ports"]);
    let number = ports.iter().find(|have| have["name"].as_str().unwrap_or_default() == port);
    let Some(number) = number.and_then(|port| u16::try_from(port["port"].as_u64()?).ok()) else { return Vec::new() };
    let endpoints = list(&slice["endpoints"]);
    let ready = endpoints.iter().filter(|endpoint| endpoint["conditions"]["ready"] != false);
    let addresses = ready.flat_map(|endpoint| list(&endpoint["addresses"]));
    addresses.filter_map(|address| Some(SocketAddr::new(address.as_str()?.parse().ok()?, number))).collect()
}

#[async_trait]
impl ServiceResolver for EndpointSlices {
    async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        let service = self.services.get(&format!("{namespace}/{name}"));
        let service = service.ok_or_else(|| format!("service \"{name}\" not found"))?.to_value();
        let spec = &service["spec"];
        if let (Some("ExternalName"), Some(host)) = (spec["type"].as_str(), spec["externalName"].as_str()) {
            let found = tokio::net::lookup_host((host, port)).await;
            return found.map(Iterator::collect).map_err(|error| format!("lookup {host}: {error}"));
        }
        let mut ports = spec["ports"].as_array().into_iter().flatten();
        let Some(found) = ports.find(|have| have["port"] == port) else {
            return Err(format!("no service port {port} found for service \"{name}\""));
        };
        match self.addresses(namespace, name, found["name"].as_str().unwrap_or_default()) {
            none if none.is_empty() => Err(format!("no endpoints available for service \"{name}\"")),
            addresses => Ok(addresses),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_endpoints_that_are_ready_count() {
        let slice = json!({
            "ports": [{"name": "metrics", "port": 8080}, {"name": "https", "port": 9443}],
            "endpoints": [
                {"addresses": ["127.0.0.2"], "conditions": {"ready": true}},
                {"addresses": ["127.0.0.3"], "conditions": {"ready": false}},
                {"addresses": ["::1"]},
            ],
        });
        let expected: Vec<SocketAddr> = vec!["127.0.0.2:9443".parse().unwrap(), "[::1]:9443".parse().unwrap()];
        assert_eq!(addresses_in(&slice, "https"), expected);
        assert_eq!(addresses_in(&slice, "other"), []);
    }
}
