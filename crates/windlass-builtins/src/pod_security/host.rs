//! Access to the node: its namespaces, files, ports and network.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{Pod, Violation, list};
use crate::object::{boolean, integer, is_set, items, text};

/// Pods do not share namespaces with the node.
pub(super) fn namespaces(pod: Pod<'_>) -> Option<Violation> {
    let shared = ["hostNetwork", "hostPID", "hostIPC"];
    let shared = shared.into_iter().filter(|field| boolean(pod.spec, &format!("/{field}")) == Some(true));
    let shared: Vec<_> = shared.map(|field| format!("{field}=true")).collect();
    if shared.is_empty() { None } else { Violation::new("host namespaces", shared.join(", ")) }
}

/// Pods do not mount files of the node.
pub(super) fn path_volumes(pod: Pod<'_>) -> Option<Violation> {
    let volumes = items(pod.spec, "/volumes").iter().filter(|volume| is_set(volume, "/hostPath"));
    let volumes: Vec<_> = volumes.map(|volume| text(volume, "/name")).collect();
    if volumes.is_empty() {
        return None;
    }
    Violation::new("hostPath volumes", list::named(&volumes, "volume", "volumes"))
}

/// Containers do not use ports of the node.
pub(super) fn ports(pod: Pod<'_>) -> Option<Violation> {
    fn used(container: &Value) -> impl Iterator<Item = i64> {
        items(container, "/ports").iter().filter_map(|port| integer(port, "/hostPort")).filter(|port| *port != 0)
    }
    let containers = pod.containers_where(|container| used(container).next().is_some());
    if containers.is_empty() {
        return None;
    }
    // They are sorted as strings.
    let ports: BTreeSet<String> = pod.containers().flat_map(used).map(|port| port.to_string()).gather();
    let uses = list::plural(containers.len(), "uses", "use");
    let what = list::plural(ports.len(), "hostPort", "hostPorts");
    let ports: Vec<_> = ports.into_iter().collect();
    Violation::new("hostPort", format!("{} {uses} {what} {}", list::containers(&containers), ports.join(", ")))
}

/// Probes and lifecycle handlers do not connect to other hosts.
pub(super) fn probes_and_lifecycle(pod: Pod<'_>) -> Option<Violation> {
    const HANDLERS: [&str; 5] =
        ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle/postStart", "lifecycle/preStop"];
    fn hosts(container: &Value) -> impl Iterator<Item = &str> {
        let actions = HANDLERS.into_iter().flat_map(|handler| ["httpGet", "tcpSocket"].map(|action| (handler, action)));
        let hosts = actions.map(|(handler, action)| text(container, &format!("/{handler}/{action}/host")));
        hosts.filter(|host| !host.is_empty())
    }
    let containers = pod.containers_where(|container| hosts(container).next().is_some());
    if containers.is_empty() {
        return None;
    }
    let containers: BTreeSet<&str> = containers.into_iter().gather();
    let containers: Vec<&str> = containers.into_iter().collect();
    let hosts: BTreeSet<&str> = pod.containers().flat_map(hosts).gather();
    let uses = list::plural(containers.len(), "uses", "use");
    let what = list::plural(hosts.len(), "probe or lifecycle host", "probe or lifecycle hosts");
    let detail = format!("{} {uses} {what} {}", list::containers(&containers), list::quoted_set(&hosts));
    Violation::new("probe or lifecycle host", detail)
}
