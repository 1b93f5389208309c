//! The slices that mirror endpoints. Pure.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
};

use k8s_openapi::{
    api::{
        core::v1::{EndpointAddress, Endpoints},
        discovery::v1::{Endpoint, EndpointConditions, EndpointPort, EndpointSlice},
    },
    apimachinery::pkg::apis::meta::v1::ObjectMeta,
};
use windlass::objects::owner::{OwnerError, controller_reference};
use windlass_schema::sorting::Gather as _;

use super::MANAGED_BY;
use crate::{
    loops::{
        endpoints::subsets,
        endpointslice::{MANAGED_BY_LABEL, SERVICE_LABEL},
    },
    pods, services,
};

/// Annotations of endpoints that are not copied to slices.
const OWN_ANNOTATIONS: [&str; 2] = [services::TRIGGER_TIME, "kubectl.kubernetes.io/last-applied-configuration"];
/// Maximum number of mirrored addresses per subset.
const MAX_ADDRESSES: usize = 1000;

/// The writes to make.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Changes {
    pub(super) create: Vec<EndpointSlice>,
    pub(super) update: Vec<EndpointSlice>,
    pub(super) delete: Vec<Arc<EndpointSlice>>,
}

/// Computes one slice per set of ports and address type.
pub(super) fn plan(endpoints: &Endpoints, existing: Vec<Arc<EndpointSlice>>) -> Result<Changes, OwnerError> {
    let mut changes = Changes::default();
    let mut rest = existing;
    for subset in subsets::repacked(endpoints.subsets.as_deref().unwrap_or_default()) {
        let ready = subset.addresses.iter().flatten().map(|address| (address, true));
        let not_ready = subset.not_ready_addresses.iter().flatten().map(|address| (address, false));
        let reached =
            ready.chain(not_ready).filter_map(|(address, ready)| endpoint(address, ready)).take(MAX_ADDRESSES);
        let reached: Vec<(&str, Endpoint)> = reached.collect();
        let ports: Vec<EndpointPort> = subset.ports.iter().flatten().map(port).collect();
        for address_type in ["IPv4", "IPv6"] {
            let own =
                reached.iter().filter(|(family, _)| *family == address_type).map(|(_, endpoint)| endpoint.clone());
            let own: Vec<Endpoint> = own.collect();
            if own.is_empty() {
                continue;
            }
            let wanted = slice(endpoints, address_type, ports.clone(), own)?;
            let fits = |slice: &Arc<EndpointSlice>| slice.address_type == address_type && same_ports(slice, &wanted);
            match rest.iter().position(fits).map(|place| rest.remove(place)) {
                None => changes.create.push(wanted),
                Some(present) if !says(&present, &wanted) => changes.update.push(in_place_of(&present, wanted)),
                Some(_) => {}
            }
        }
    }
    // Reuse slices that are no longer needed instead of creating new ones.
    changes.create = changes
        .create
        .into_iter()
        .filter_map(|wanted| match rest.iter().position(|slice| slice.address_type == wanted.address_type) {
            Some(place) => {
                changes.update.push(in_place_of(&rest.remove(place), wanted));
                None
            }
            None => Some(wanted),
        })
        .collect();
    changes.delete = rest;
    Ok(changes)
}

fn endpoint(address: &EndpointAddress, ready: bool) -> Option<(&'static str, Endpoint)> {
    let ip: IpAddr = address.ip.parse().ok()?;
    let endpoint = Endpoint {
        addresses: vec![ip.to_string()],
        conditions: Some(EndpointConditions { ready: Some(ready), ..EndpointConditions::default() }),
        target_ref: address.target_ref.clone(),
        node_name: address.node_name.clone(),
        hostname: address.hostname.clone().filter(|hostname| !hostname.is_empty()),
        ..Endpoint::default()
    };
    Some((if ip.is_ipv6() { "IPv6" } else { "IPv4" }, endpoint))
}

fn port(port: &k8s_openapi::api::core::v1::EndpointPort) -> EndpointPort {
    EndpointPort {
        name: Some(port.name.clone().unwrap_or_default()),
        port: Some(port.port),
        protocol: Some(port.protocol.clone().unwrap_or_else(|| "TCP".to_owned())),
        app_protocol: port.app_protocol.clone(),
    }
}

fn slice(
    endpoints: &Endpoints,
    address_type: &str,
    mut ports: Vec<EndpointPort>,
    own: Vec<Endpoint>,
) -> Result<EndpointSlice, OwnerError> {
    let meta = &endpoints.metadata;
    let mut labels = meta.labels.clone().unwrap_or_default();
    labels.insert(SERVICE_LABEL.to_owned(), meta.name.clone().unwrap_or_default());
    labels.insert(MANAGED_BY_LABEL.to_owned(), MANAGED_BY.to_owned());
    let mut annotations: BTreeMap<String, String> = meta.annotations.clone().unwrap_or_default();
    annotations.retain(|name, _| !OWN_ANNOTATIONS.contains(&name.as_str()));
    services::sort_as_go(&mut ports);
    Ok(EndpointSlice {
        metadata: ObjectMeta {
            generate_name: meta.name.as_deref().map(pods::name_prefix),
            namespace: meta.namespace.clone(),
            labels: Some(labels),
            annotations: (!annotations.is_empty()).then_some(annotations),
            owner_references: Some(vec![controller_reference(endpoints)?]),
            ..ObjectMeta::default()
        },
        address_type: address_type.to_owned(),
        endpoints: Some(own),
        ports: (!ports.is_empty()).then_some(ports),
    })
}

fn same_ports(a: &EndpointSlice, b: &EndpointSlice) -> bool {
    a.ports.as_deref().unwrap_or_default() == b.ports.as_deref().unwrap_or_default()
}

/// Returns whether a slice is up to date, regardless of order.
fn says(present: &EndpointSlice, wanted: &EndpointSlice) -> bool {
    let shown = |slice: &EndpointSlice| -> BTreeSet<String> {
        let endpoints = slice.endpoints.iter().flatten();
        endpoints.map(|endpoint| serde_json::to_string(endpoint).expect("an endpoint must serialize to JSON")).gather()
    };
    let meta = |slice: &EndpointSlice| {
        (
            slice.metadata.labels.clone(),
            slice.metadata.annotations.clone().filter(|annotations| !annotations.is_empty()),
        )
    };
    shown(present) == shown(wanted) && meta(present) == meta(wanted)
}

/// The desired slice as an update of an existing one.
fn in_place_of(present: &EndpointSlice, mut wanted: EndpointSlice) -> EndpointSlice {
    wanted.metadata.generate_name.clone_from(&present.metadata.generate_name);
    wanted.metadata.name.clone_from(&present.metadata.name);
    wanted.metadata.uid.clone_from(&present.metadata.uid);
    wanted.metadata.resource_version.clone_from(&present.metadata.resource_version);
    wanted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn endpoints(subsets: Value) -> Endpoints {
        let metadata = json!({ "name": "own", "namespace": "ns", "uid": "e", "labels": { "a": "b" },
            "annotations": { "x": "y", "endpoints.kubernetes.io/last-change-trigger-time": "z" } });
        serde_json::from_value(json!({ "metadata": metadata, "subsets": subsets })).unwrap()
    }

    #[test]
    fn each_kind_of_address_has_a_slice() {
        let endpoints = endpoints(json!([{ "addresses": [{ "ip": "10.0.0.1" }, { "ip": "fd00::1", "hostname": "h" }],
            "notReadyAddresses": [{ "ip": "10.0.0.2" }], "ports": [{ "port": 80, "protocol": "TCP" }] }]));
        let Changes { create, update, delete } = plan(&endpoints, Vec::new()).unwrap();
        assert_eq!((create.len(), update.len(), delete.len()), (2, 0, 0));
        assert_eq!(
            serde_json::to_value(&create[0].endpoints).unwrap(),
            json!([{ "addresses": ["10.0.0.1"], "conditions": { "ready": true } },
                { "addresses": ["10.0.0.2"], "conditions": { "ready": false } }])
        );
        assert_eq!(
            serde_json::to_value(&create[0].metadata.labels).unwrap(),
            json!({ "a": "b", "endpointslice.kubernetes.io/managed-by": MANAGED_BY, "kubernetes.io/service-name": "own" })
        );
        assert_eq!(serde_json::to_value(&create[0].metadata.annotations).unwrap(), json!({ "x": "y" }));
        assert_eq!(create[1].address_type, "IPv6");
        let existing: Vec<_> = create.into_iter().map(Arc::new).collect();
        assert_eq!(plan(&endpoints, existing).unwrap(), Changes::default(), "nothing to do");
    }

    #[test]
    fn slices_are_changed_reused_and_deleted() {
        let of = |ip: &str, port: i32| endpoints(json!([{ "addresses": [{ "ip": ip }], "ports": [{ "port": port }] }]));
        let existing: Vec<_> =
            plan(&of("10.0.0.1", 80), Vec::new()).unwrap().create.into_iter().map(Arc::new).collect();
        for (next, expected) in [
            (of("10.0.0.2", 80), (0, 1, 0)),
            (of("10.0.0.1", 81), (0, 1, 0)),
            (of("fd00::1", 80), (1, 0, 1)),
            (endpoints(json!([])), (0, 0, 1)),
        ] {
            let changes = plan(&next, existing.clone()).unwrap();
            assert_eq!((changes.create.len(), changes.update.len(), changes.delete.len()), expected, "{next:?}");
        }
    }
}
