//! The service of the server itself, the network of all services, and the endpoints of the server.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::{IpAddr, Ipv4Addr, SocketAddr, UdpSocket},
    time::Duration,
};

use futures_util::FutureExt as _;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use tracing::warn;

use super::{create, failed, request};
use crate::{
    meta,
    server::{BuildError, Server},
};

const SERVICE_CIDRS: &str = "/apis/networking.k8s.io/v1/servicecidrs";
const SLICES: &str = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices";

/// The number of attempts to create the service while other API servers do so, and the interval.
const ATTEMPTS: usize = 10;
const AGAIN: Duration = Duration::from_millis(200);

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
    for _ in 1..ATTEMPTS {
        let created = create(server, "/api/v1/namespaces/default/services".to_owned(), service.clone()).await;
        if created.is_ok() || !server.inner.storage.store().is_shared() {
            return created;
        }
        // Another server creates it, and has claimed its address.
        tokio::time::sleep(AGAIN).await;
        server.inner.storage.fresh().await.map_err(|error| failed("the service kubernetes", &error.into()))?;
        if server.inner.storage.cache("/core/services/").get("default/kubernetes").is_some() {
            return Ok(());
        }
    }
    // A server has ended after it claimed the address: the service is created when the claim has expired.
    warn!("failed to create the service kubernetes, because its address is taken; trying again later");
    Ok(())
}

/// Returns the address of the `kubernetes` service, which is the first of the network.
fn first_address(network: &str) -> String {
    let base = network.split('/').next().and_then(|base| base.parse::<Ipv4Addr>().ok());
    base.map_or_else(String::new, |base| Ipv4Addr::from(u32::from(base) + 1).to_string())
}

/// Writes the Endpoints and the EndpointSlices of the `kubernetes` service, unless they are correct or there are no
/// addresses. Each port has a slice of its own, the first of which is called `kubernetes`.
pub(super) async fn write_endpoints(server: &Server, addresses: &[SocketAddr]) -> Result<(), BuildError> {
    let mut groups = BTreeMap::<(u16, bool), BTreeSet<IpAddr>>::new();
    for address in addresses {
        groups.entry((address.port(), address.is_ipv6())).or_default().insert(address.ip());
    }
    if groups.is_empty() {
        return Ok(());
    }
    let port = |port: u16| json!([{"name": "https", "port": port, "protocol": "TCP"}]);
    let mut subsets = BTreeMap::<u16, Vec<Value>>::new();
    for ((port, _), ips) in &groups {
        subsets.entry(*port).or_default().extend(ips.iter().map(|ip| json!({"ip": ip.to_string()})));
    }
    let subsets = subsets.into_iter().map(|(number, ips)| json!({"addresses": ips, "ports": port(number)}));
    let endpoints = json!({
        "apiVersion": "v1", "kind": "Endpoints",
        "metadata": {
            "name": "kubernetes", "namespace": "default",
            "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"},
        },
        "subsets": subsets.collect::<Vec<_>>(),
    });
    let slices = groups.iter().enumerate().map(|(index, ((number, is_ipv6), ips))| {
        let name = match (index, is_ipv6) {
            (0, _) => "kubernetes".to_owned(),
            (_, false) => format!("kubernetes-{number}"),
            (_, true) => format!("kubernetes-{number}-ipv6"),
        };
        let ready = |ip: &IpAddr| json!({"addresses": [ip.to_string()], "conditions": {"ready": true}});
        json!({
            "apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
            "metadata": {
                "name": name, "namespace": "default", "labels": {"kubernetes.io/service-name": "kubernetes"},
            },
            "addressType": if *is_ipv6 { "IPv6" } else { "IPv4" },
            "endpoints": ips.iter().map(ready).collect::<Vec<_>>(),
            "ports": port(*number),
        })
    });
    let slices: Vec<Value> = slices.collect();
    let wanted: Vec<&str> = slices.iter().map(|slice| meta::text(slice, "name")).collect();
    remove_slices(server, &wanted).await?;
    let writes = slices.iter().map(|slice| {
        write(server, "/discovery.k8s.io/endpointslices/", SLICES, slice, &["endpoints", "ports"]).boxed()
    });
    futures_util::future::try_join(
        write(server, "/core/endpoints/", "/api/v1/namespaces/default/endpoints", &endpoints, &["subsets"]),
        futures_util::future::try_join_all(writes),
    )
    .await?;
    Ok(())
}

/// Deletes the slices of ports that no API server has any more.
async fn remove_slices(server: &Server, wanted: &[&str]) -> Result<(), BuildError> {
    let present = server.inner.storage.cache("/discovery.k8s.io/endpointslices/").snapshot();
    let is_obsolete = |name: &str| {
        let port = name.strip_prefix("kubernetes-").map(|rest| rest.strip_suffix("-ipv6").unwrap_or(rest));
        port.is_some_and(|port| port.parse::<u16>().is_ok()) && !wanted.contains(&name)
    };
    let slices = present.range("default/", None).map(|(_, cached)| &cached.object.header);
    let obsolete = slices.filter(|header| {
        let is_ours = header.label("kubernetes.io/service-name") == Some("kubernetes")
            && header.label("endpointslice.kubernetes.io/managed-by").is_none();
        is_ours && is_obsolete(&header.name)
    });
    for header in obsolete {
        match request(&server.inner, Method::DELETE, &format!("{SLICES}/{}", header.name), &Value::Null).await {
            Err(error) if error.code != StatusCode::NOT_FOUND => {
                return Err(failed(&format!("EndpointSlice default/{}", header.name), &error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Creates an object, or replaces it if one of the fields differs.
async fn write(
    server: &Server,
    prefix: &str,
    collection: &str,
    object: &Value,
    fields: &[&str],
) -> Result<(), BuildError> {
    let name = meta::text(object, "name");
    let Some(present) = server.inner.storage.cache(prefix).get(&format!("default/{name}")) else {
        return create(server, collection.to_owned(), object.clone()).await;
    };
    let present = present.to_value();
    if fields.iter().all(|field| present[*field] == object[*field]) {
        return Ok(());
    }
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = present["metadata"]["resourceVersion"].clone();
    match request(&server.inner, Method::PUT, &format!("{collection}/{name}"), &object).await {
        // Another writer came first; its event triggers the next attempt.
        Err(error) if !matches!(error.code, StatusCode::CONFLICT | StatusCode::NOT_FOUND) => {
            Err(failed(&format!("{} default/{name}", object["kind"]), &error))
        }
        _ => Ok(()),
    }
}

/// Returns the address and port that the server announces to other API servers.
pub(crate) fn peer_address(listening: SocketAddr, advertised: Option<IpAddr>) -> Option<String> {
    let given = advertised.filter(|address| !address.is_unspecified());
    let address = given.or_else(|| reached_at(listening.ip(), None))?;
    Some(SocketAddr::new(address, listening.port()).to_string())
}

/// Returns the address and port of a server in the endpoints; `None` if it has no address that others reach.
pub(crate) fn own_address(listening: SocketAddr, advertised: Option<IpAddr>) -> Option<SocketAddr> {
    Some(SocketAddr::new(reached_at(listening.ip(), advertised)?, listening.port()))
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
