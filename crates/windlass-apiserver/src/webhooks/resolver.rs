//! Addresses of the services that webhooks are called at.

use std::{
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
};

use async_trait::async_trait;
use serde_json::Value;

use crate::storage::{ResourceCache, Storage};

/// Finds the addresses behind a port of a service.
#[async_trait]
pub trait ServiceResolver: Send + Sync {
    /// Returns the addresses of a port of a service, in the order in which they are tried. An error is returned to the
    /// client of the request, as the reason for the failed call.
    async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String>;
}

/// Resolves services by their EndpointSlices; if there are none, by the pods that they select, because EndpointSlices
/// may not have loopback addresses, which pods that run as local processes have. External names are looked up, with the
/// `targetPort` of the port. Cluster IPs are not used, because there is no proxy that forwards them.
pub(crate) struct EndpointSlices {
    services: Arc<ResourceCache>,
    slices: Arc<ResourceCache>,
    pods: Arc<ResourceCache>,
}

impl EndpointSlices {
    pub(crate) fn new(storage: &Storage) -> Self {
        Self {
            services: storage.cache("/core/services/"),
            slices: storage.cache("/discovery.k8s.io/endpointslices/"),
            pods: storage.cache("/core/pods/"),
        }
    }

    /// Returns the addresses of the ready endpoints.
    fn addresses(&self, namespace: &str, name: &str, port: &str) -> Vec<SocketAddr> {
        let snapshot = self.slices.snapshot();
        let prefix = format!("{namespace}/");
        let of_service = snapshot.range(&prefix, None).map(|(_, cached)| &cached.object);
        let of_service = of_service.filter(|slice| slice.header.label("kubernetes.io/service-name") == Some(name));
        of_service.flat_map(|slice| addresses_in(&slice.to_value(), port)).collect()
    }

    /// Returns the addresses of the ready pods that a service selects.
    fn pods(&self, namespace: &str, spec: &Value, port: &Value) -> Vec<SocketAddr> {
        let Some(selector) = spec["selector"].as_object().filter(|selector| !selector.is_empty()) else {
            return Vec::new();
        };
        let snapshot = self.pods.snapshot();
        let prefix = format!("{namespace}/");
        let pods = snapshot.range(&prefix, None).map(|(_, cached)| &cached.object);
        let selected = pods.filter(|pod| {
            selector.iter().all(|(key, value)| value.as_str().is_some_and(|value| pod.header.label(key) == Some(value)))
        });
        selected.filter_map(|pod| address_of(&pod.to_value(), port)).collect()
    }
}

/// Returns the address of a service port in a pod, if the pod is ready.
fn address_of(pod: &Value, port: &Value) -> Option<SocketAddr> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let is_ready = |condition: &Value| condition["type"] == "Ready" && condition["status"] == "True";
    if !list(&pod["status"]["conditions"]).iter().any(is_ready) {
        return None;
    }
    let number = match &port["targetPort"] {
        Value::String(name) => {
            let containers = list(&pod["spec"]["containers"]);
            let mut ports = containers.iter().flat_map(|container| list(&container["ports"]));
            ports.find(|have| have["name"] == **name)?["containerPort"].as_u64()?
        }
        target => target.as_u64().filter(|target| *target > 0).or_else(|| port["port"].as_u64())?,
    };
    let address = pod["status"]["podIP"].as_str()?.parse().ok()?;
    Some(SocketAddr::new(address, u16::try_from(number).ok()?))
}

/// Returns the addresses of a port in an EndpointSlice.
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
        let found = spec["ports"].as_array().into_iter().flatten().find(|have| have["port"] == port);
        if let (Some("ExternalName"), Some(host)) = (spec["type"].as_str(), spec["externalName"].as_str()) {
            let target = found.and_then(|found| u16::try_from(found["targetPort"].as_u64()?).ok());
            let found = tokio::net::lookup_host((host, target.unwrap_or(port))).await;
            return found.map(Iterator::collect).map_err(|error| format!("lookup {host}: {error}"));
        }
        let found = found.ok_or_else(|| format!("no service port {port} found for service \"{name}\""))?;
        let mut addresses = self.addresses(namespace, name, found["name"].as_str().unwrap_or_default());
        if addresses.is_empty() {
            addresses = self.pods(namespace, spec, found);
        }
        match addresses.is_empty() {
            true => Err(format!("no endpoints available for service \"{name}\"")),
            false => Ok(addresses),
        }
    }
}

/// Resolves the service `default/kubernetes` to this server, regardless of the address that its endpoints advertise,
/// and other services by another resolver.
pub(crate) struct Loopback {
    /// The address that the server listens on.
    pub(crate) listening: SocketAddr,
    pub(crate) others: Arc<dyn ServiceResolver>,
}

#[async_trait]
impl ServiceResolver for Loopback {
    async fn resolve(&self, namespace: &str, name: &str, port: u16) -> Result<Vec<SocketAddr>, String> {
        if (namespace, name, port) != ("default", "kubernetes", 443) {
            return self.others.resolve(namespace, name, port).await;
        }
        let mut address = self.listening;
        match address.ip() {
            IpAddr::V4(ip) if ip.is_unspecified() => address.set_ip(Ipv4Addr::LOCALHOST.into()),
            IpAddr::V6(ip) if ip.is_unspecified() => address.set_ip(Ipv6Addr::LOCALHOST.into()),
            _ => {}
        }
        Ok(vec![address])
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

    struct Nothing;

    #[async_trait]
    impl ServiceResolver for Nothing {
        async fn resolve(&self, _: &str, name: &str, _: u16) -> Result<Vec<SocketAddr>, String> {
            Err(format!("no {name}"))
        }
    }

    #[tokio::test]
    async fn the_service_of_the_server_itself_is_at_its_own_address() {
        for (listening, expected) in [
            ("127.0.0.1:6443", "127.0.0.1:6443"),
            ("0.0.0.0:6443", "127.0.0.1:6443"),
            ("[::]:6443", "[::1]:6443"),
            ("192.0.2.7:443", "192.0.2.7:443"),
        ] {
            let resolver = Loopback { listening: listening.parse().unwrap(), others: Arc::new(Nothing) };
            assert_eq!(resolver.resolve("default", "kubernetes", 443).await, Ok(vec![expected.parse().unwrap()]));
            for (namespace, name, port) in
                [("default", "web", 443), ("other", "kubernetes", 443), ("default", "kubernetes", 80)]
            {
                assert_eq!(resolver.resolve(namespace, name, port).await, Err(format!("no {name}")));
            }
        }
    }
}
