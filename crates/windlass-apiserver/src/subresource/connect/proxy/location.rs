//! Destinations of requests to pods and services.

use std::{net::IpAddr, sync::Arc};

use serde_json::Value;
use uuid::Uuid;

use super::{unavailable, unreachable};
use crate::{
    call::Call,
    pod_connections::PodConnections,
    status::{ApiError, Result},
};

/// A name with an optional scheme and port: `name`, `name:port` or `scheme:name:port`.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Name<'a> {
    scheme: &'a str,
    pub(super) name: &'a str,
    pub(super) port: &'a str,
}

/// A port of a pod.
pub(super) struct Location {
    pub(super) connections: Arc<dyn PodConnections>,
    pub(super) pod: Value,
    pub(super) address: IpAddr,
    pub(super) port: u16,
    /// Whether connections use TLS.
    pub(super) is_tls: bool,
    /// The host and port in URLs of the pod.
    pub(super) host: String,
}

impl<'a> Name<'a> {
    pub(super) fn parse(text: &'a str) -> Option<Self> {
        let parts: Vec<&str> = text.split(':').collect();
        let (scheme, name, port) = match *parts {
            [name] => ("", name, ""),
            [name, port] => ("", name, port),
            [scheme, name, port] => (scheme, name, port),
            _ => return None,
        };
        let is_valid = !name.is_empty() && matches!(scheme, "" | "http" | "https");
        is_valid.then_some(Self { scheme, name, port })
    }
}

/// Returns the named port of a pod: by its number, or the first one of its containers.
pub(super) fn pod(call: &Call<'_>, name: &Name<'_>) -> Result<Location> {
    let pod = object(call, "pods", name.name)?;
    let containers = pod["spec"]["containers"].as_array().into_iter().flatten();
    let mut ports = containers.filter_map(|container| container["ports"][0]["containerPort"].as_u64());
    let first = if name.port.is_empty() { ports.next().map(|port| port.to_string()) } else { None };
    let port = first.as_deref().unwrap_or(name.port);
    let address = pod["status"]["podIP"].as_str().and_then(|text| text.parse().ok());
    let address = address.ok_or_else(|| ApiError::bad_request("address not allowed"))?;
    at(call, pod, address, name.scheme, port)
}

/// Returns the port of a random ready pod behind a service. A port without a number is one without a name.
pub(super) fn service(call: &Call<'_>, name: &Name<'_>) -> Result<Location> {
    let mut port_name = name.port.to_owned();
    if let Ok(number) = name.port.parse::<i64>() {
        let service = object(call, "services", name.name)?;
        let mut ports = service["spec"]["ports"].as_array().into_iter().flatten();
        let found = ports.find(|port| port["port"] == number);
        let missing = || unavailable(format!("no service port {number} found for service {:?}", name.name));
        port_name = text(&found.ok_or_else(missing)?["name"]).to_owned();
    }
    // As in kube-apiserver, the error names the resource of the request.
    let missing = |_| ApiError::not_found("services", "", name.name);
    let endpoints = object(call, "endpoints", name.name).map_err(missing)?;
    let subsets = endpoints["subsets"].as_array().map(Vec::as_slice).unwrap_or_default();
    if subsets.is_empty() {
        return Err(unavailable(format!("no endpoints available for service {:?}", name.name)));
    }
    for subset in shuffled(subsets) {
        let addresses = subset["addresses"].as_array().map(Vec::as_slice).unwrap_or_default();
        let ports = subset["ports"].as_array().into_iter().flatten();
        for port in ports.filter(|port| text(&port["name"]) == port_name) {
            let number = port["port"].as_u64().unwrap_or_default().to_string();
            // Only pods are connected to.
            if let Some((pod, address)) = shuffled(addresses).find_map(|address| pod_at(call, address)) {
                return at(call, pod, address, name.scheme, &number);
            }
        }
    }
    Err(unavailable(format!("no endpoints available for service {:?}", call.target.name)))
}

/// Returns an object in the namespace of the request, or a node.
pub(super) fn object(call: &Call<'_>, plural: &str, name: &str) -> Result<Value> {
    let key = if plural == "nodes" { name.to_owned() } else { format!("{}/{name}", call.target.namespace) };
    let found = call.server.storage.cache(&format!("/core/{plural}/")).get(&key);
    found.map(|object| object.to_value()).ok_or_else(|| ApiError::not_found(plural, "", name))
}

/// Returns the pod of an address of Endpoints, if it still has that address.
fn pod_at(call: &Call<'_>, address: &Value) -> Option<(Value, IpAddr)> {
    let target = &address["targetRef"];
    if target["namespace"] != *call.target.namespace {
        return None;
    }
    let pod = object(call, "pods", target["name"].as_str()?).ok()?;
    let has_it = pod["status"]["podIPs"].as_array()?.iter().any(|have| have["ip"] == address["ip"]);
    let address = address["ip"].as_str()?.parse().ok()?;
    has_it.then_some((pod, address))
}

fn at(call: &Call<'_>, pod: Value, address: IpAddr, scheme: &str, port: &str) -> Result<Location> {
    let is_tls = scheme == "https";
    let shown = match address {
        IpAddr::V4(ip) => ip.to_string(),
        IpAddr::V6(ip) => format!("[{ip}]"),
    };
    let host = if port.is_empty() { shown } else { format!("{shown}:{port}") };
    let number = match port {
        "" => Some(if is_tls { 443 } else { 80 }),
        port => port.parse().ok(),
    };
    let number = number.ok_or_else(|| unreachable(format!("dial tcp: lookup tcp/{port}: unknown port")))?;
    let connections = call.server.pod_connections.clone().ok_or_else(|| {
        let name = pod["metadata"]["name"].as_str().unwrap_or_default();
        let node = super::super::node(&pod).unwrap_or_default();
        unreachable(super::super::simulated("connect to", name, node))
    })?;
    Ok(Location { connections, pod, address, port: number, is_tls, host })
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Returns all elements in order, beginning with a random one.
fn shuffled<T>(all: &[T]) -> impl Iterator<Item = &T> {
    let first = Uuid::new_v4().as_u128().checked_rem(all.len() as u128).unwrap_or_default();
    all.iter().cycle().skip(first as usize).take(all.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_may_have_a_scheme_and_a_port() {
        let name = |scheme, name, port| Some(Name { scheme, name, port });
        assert_eq!(Name::parse("p"), name("", "p", ""));
        assert_eq!(Name::parse("p:80"), name("", "p", "80"));
        assert_eq!(Name::parse("https:p:"), name("https", "p", ""));
        assert_eq!(Name::parse("http:p:web"), name("http", "p", "web"));
        for invalid in ["", ":80", "ftp:p:80", "http:p:80:1"] {
            assert_eq!(Name::parse(invalid), None, "{invalid}");
        }
    }

    #[test]
    fn every_element_comes_once_whichever_is_first() {
        let mut firsts = std::collections::BTreeSet::new();
        for _ in 0..200 {
            let mut all: Vec<i32> = shuffled(&[1, 2, 3]).copied().collect();
            firsts.insert(all[0]);
            all.sort_unstable();
            assert_eq!(all, [1, 2, 3]);
        }
        assert_eq!(firsts.len(), 3);
        assert_eq!(shuffled(&[] as &[i32]).count(), 0);
    }
}
