//! Quota usage of services.

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{Usage, whole};
use crate::object::{boolean, integer, items, text};

const COUNT: &str = "count/services";
const NODE_PORTS: &str = "services.nodeports";
const LOAD_BALANCERS: &str = "services.loadbalancers";

pub(super) fn knows(name: &str) -> bool {
    matches!(name, COUNT | "services" | NODE_PORTS | LOAD_BALANCERS)
}

pub(super) fn usage(service: &Value) -> Usage {
    let ports = items(service, "/spec/ports");
    let without_own = boolean(service, "/spec/allocateLoadBalancerNodePorts") == Some(false);
    let (node_ports, load_balancers) = match text(service, "/spec/type") {
        "NodePort" => (ports.len(), 0),
        "LoadBalancer" if without_own => {
            let has_one = |port: &&Value| integer(port, "/nodePort").is_some_and(|number| number != 0);
            (ports.iter().filter(has_one).count(), 1)
        }
        "LoadBalancer" => (ports.len(), 1),
        _ => (0, 0),
    };
    let node_ports = i64::try_from(node_ports).unwrap_or(i64::MAX);
    [(COUNT, 1), ("services", 1), (NODE_PORTS, node_ports), (LOAD_BALANCERS, load_balancers)]
        .into_iter()
        .map(|(name, number)| (name.to_owned(), whole(number)))
        .gather()
}
