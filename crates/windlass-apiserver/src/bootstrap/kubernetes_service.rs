//! The service of the server itself, the network of all services, and the endpoints of the server.

use std::net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket};

use http::Method;
use serde_json::{Value, json};
use tracing::warn;

use super::{create, failed, request};
use crate::{
    meta,
    server::{BuildError, Server},
};

const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";

/// Creates the default ServiceCIDR, unless it exists.
pub(super) async fn create_service_cidr(server: &Server) -> Result<(), BuildError> {
    if server.inner.storage.cache("/networking.k8s.io/servicecidrs/").get("kubernetes").is_some() {
        return Ok(());
    }
    let network = server.inner.services.lock().network();
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR",
        "metadata": {"name": "kubernetes"}, "spec": {"cidrs": [network]},
    });
    create(server, SERVICE_CIDRS.to_owned(), object).await
}

/// Warns if the default ServiceCIDR is not the configured network.
pub(super) fn warn_of_other_network(server: &Server) {
    let stored = &service_cidr(server)["spec"]["cidrs"];
    let network = server.inner.services.lock().network();
    if *stored != json!([network]) {
        let stored = stored.to_string();
        warn!(
            stored,
            network, "cluster IPs are from the stored ServiceCIDR kubernetes, not from the configured network"
        );
    }
}

/// Returns the default ServiceCIDR; null if there is none.
fn service_cidr(server: &Server) -> Value {
    let stored = server.inner.storage.cache("/networking.k8s.io/servicecidrs/").get("kubernetes");
    stored.map(|object| object.to_value()).unwrap_or_default()
}

/// Marks the default ServiceCIDR as ready, unless it already has the condition, is being deleted, or has another
/// network.
pub(super) async fn mark_service_cidr_ready(server: &Server) -> Result<(), BuildError> {
    let stored = service_cidr(server);
    let network = server.inner.services.lock().network();
    let is_said = |condition: &Value| condition["type"] == "Ready" && condition["status"] != "Unknown";
    let said = stored["status"]["conditions"].as_array().is_some_and(|conditions| conditions.iter().any(is_said));
    if said || meta::is_terminating(&stored) || stored["spec"]["cidrs"] != json!([network]) {
        return Ok(());
    }
    let condition = json!({
        "type": "Ready", "status": "True", "reason": "", "message": "Kubernetes default Service CIDR is ready",
        "lastTransitionTime": meta::format_time(server.inner.now()),
    });
    let object = json!({
        "apiVersion": "networking.k8s.io/v1", "kind": "ServiceCIDR", "metadata": {"name": "kubernetes"},
        "status": {"conditions": [condition]},
    });
    let path = format!("{SERVICE_CIDRS}/kubernetes/status?fieldManager=kubernetes-service-cidr-controller&force=true");
    let written = request(&server.inner, Method::PATCH, &path, &object).await;
    written.map_err(|error| failed("the condition of the default ServiceCIDR", &error))
}

/// Creates the service of the server itself, unless it exists.
pub(super) async fn create_service(server: &Server, port: u16) -> Result<(), BuildError> {
    if server.inner.storage.cache("/core/services/").get("default/kubernetes").is_some() {
        return Ok(());
    }
    let address = first_address(&server.inner.services.lock().network());
    let service = json!({
        "apiVersion": "v1", "kind": "Service",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"component": "apiserver", "provider": "kubernetes"},
        },
        "spec": {
            "type": "ClusterIP", "clusterIP": address, "sessionAffinity": "None",
            "ports": [{"name": "https", "protocol": "TCP", "port": 443, "targetPort": port}],
        },
    });
    create(server, "/api/v1/namespaces/default/services".to_owned(), service).await
}

/// Returns the address of the `kubernetes` service, which is the first of the network.
fn first_address(network: &str) -> String {
    let base = network.split('/').next().and_then(|base| base.parse::<Ipv4Addr>().ok());
    base.map_or_else(String::new, |base| Ipv4Addr::from(u32::from(base) + 1).to_string())
}

/// Writes the Endpoints and the EndpointSlice of the `kubernetes` service, unless they are correct.
pub(super) async fn write_endpoints(
    server: &Server,
    listening: SocketAddr,
    advertised: Option<IpAddr>,
) -> Result<(), BuildError> {
    let Some(address) = reached_at(listening.ip(), advertised) else { return Ok(()) };
    let port = json!({"name": "https", "port": listening.port(), "protocol": "TCP"});
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": [{"addresses": [{"ip": address.to_string()}], "ports": [port]}],
    });
    let slice = json!({
        "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
        "metadata": {
            "name": "kubernetes", "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
        },
        "addressType": if address.is_ipv4() { "IPv4" } else { "IPv6" },
        "endpoints": [{"addresses": [address.to_string()], "conditions": {"ready": true}}],
        "ports": [port],
    });
    futures_util::future::try_join(
        write(server, "/core/endpoints/", "/api/v1/namespaces/default/endpoints", endpoints, &["subsets"]),
        write(
            server,
            "/discovery.k8s.io/endpointslices/",
            "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
            slice,
            &["endpoints", "ports"],
        ),
    )
    .await?;
    Ok(())
}

/// Creates an object, or replaces it if one of the fields differs.
async fn write(
    server: &Server,
    prefix: &str,
    collection: &str,
    object: Value,
    fields: &[&str],
) -> Result<(), BuildError> {
    let Some(present) = server.inner.storage.cache(prefix).get("default/kubernetes") else {
        return create(server, collection.to_owned(), object).await;
    };
    let present = present.to_value();
    if fields.iter().all(|field| present[*field] == object[*field]) {
        return Ok(());
    }
    let written = request(&server.inner, Method::PUT, &format!("{collection}/kubernetes"), &object).await;
    written.map_err(|error| failed(&format!("{} default/kubernetes", object["kind"]), &error))
}

/// Returns the address and port that the server announces to other API servers.
pub(crate) fn peer_address(listening: SocketAddr, advertised: Option<IpAddr>) -> Option<String> {
    let given = advertised.filter(|address| !address.is_unspecified());
    let address = given.or_else(|| reached_at(listening.ip(), None))?;
    Some(SocketAddr::new(address, listening.port()).to_string())
}

/// Returns the address that a server listening on this address advertises by default; `None` if
/// there is no such address. As in kube-apiserver, a server on the loopback address advertises that of the machine,
/// because Endpoints cannot have a loopback address, and has no Endpoints if it advertises the loopback address.
fn reached_at(listening: IpAddr, advertised: Option<IpAddr>) -> Option<IpAddr> {
    if let Some(address) = advertised.filter(|address| !address.is_unspecified()) {
        return (!address.is_loopback()).then_some(address);
    }
    if !listening.is_loopback() && !listening.is_unspecified() {
        return Some(listening);
    }
    // Connecting a UDP socket sends nothing, but selects the address from which it would send.
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
    socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
    let own = socket.local_addr().ok()?.ip();
    (!own.is_loopback() && !own.is_unspecified()).then_some(own)
}
