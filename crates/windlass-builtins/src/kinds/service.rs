//! Services: defaults, validation, changes of the type, and the allocation of cluster IPs and node ports.
//!
//! kube-apiserver allocates before it validates: a request passes through [`allocator::ServiceAllocator::allocate`]
//! first, then `prepare_for_create` or `prepare_for_update`, then validation; the allocation is reverted if any of them
//! fails.

pub mod allocator;
mod cluster_ips;
mod update;
mod validation;
mod warnings;

pub(crate) use validation::{LOOPBACK, endpoint_ip};

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::ErrorList;

use crate::columns::{AGE, Column, NAME, Printer, age, column, labels, name, or_none, wide};
use crate::object::{carry_over, integer, is_set, items, set, set_default, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of Services.
#[derive(Debug, Clone, Copy)]
pub struct Service;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Service {
    fn default(&self, object: &mut Value) {
        default_session_affinity(object);
        set_default_text(object, "/spec/type", "ClusterIP");
        for port in object.pointer_mut("/spec/ports").and_then(Value::as_array_mut).into_iter().flatten() {
            set_default_text(port, "/protocol", "TCP");
            let target = port.get("targetPort");
            if target.is_none_or(|target| target.is_null() || target == 0 || target == "") {
                let number = integer(port, "/port").unwrap_or_default();
                set(port, "/targetPort", number);
            }
        }
        if is_externally_accessible(object) {
            set_default_text(object, "/spec/externalTrafficPolicy", "Cluster");
        }
        let kind = text(object, "/spec/type");
        if matches!(kind, "ClusterIP" | "NodePort" | "LoadBalancer") {
            let balanced = kind == "LoadBalancer";
            set_default(object, "/spec/internalTrafficPolicy", "Cluster");
            if balanced {
                set_default(object, "/spec/allocateLoadBalancerNodePorts", true);
                default_ip_modes(object);
            }
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({"loadBalancer": {}}));
        update::drop_unused_traffic_policy(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::service(object, None)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/status");
        update::drop_what_the_type_does_not_use(object, old);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = update::validate(object, old);
        errors.extend(validation::service(object, Some(old)));
        errors
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        if subresource == "status" {
            carry_over(object, old, "/spec");
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { validation::status(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        warnings::service(object)
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let field = |pointer| text(object, pointer).to_owned();
        vec![("spec.clusterIP", field("/spec/clusterIP")), ("spec.type", field("/spec/type"))]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/type").into(),
        or_none(text(object, "/spec/clusterIPs/0")).into(),
        external_addresses(object).into(),
        or_none(&ports(object)).into(),
        age(object, now),
        labels(object, "/spec/selector").into(),
    ]
}

/// Returns whether the service is headless: `clusterIP: None`.
pub fn is_headless(service: &Value) -> bool {
    matches!(items(service, "/spec/clusterIPs"), [only] if only == "None")
}

/// Returns whether the service is reachable from outside the cluster.
fn is_externally_accessible(service: &Value) -> bool {
    match text(service, "/spec/type") {
        "LoadBalancer" | "NodePort" => true,
        "ClusterIP" => !items(service, "/spec/externalIPs").is_empty(),
        _ => false,
    }
}

/// Returns whether the service has a health check node port.
fn needs_health_check(service: &Value) -> bool {
    text(service, "/spec/type") == "LoadBalancer" && text(service, "/spec/externalTrafficPolicy") == "Local"
}

/// Returns whether the service has a cluster IP or `None`; only `ExternalName` has neither.
fn needs_cluster_ip(service: &Value) -> bool {
    text(service, "/spec/type") != "ExternalName"
}

/// Returns the node ports in the ports of a service.
fn node_ports(service: &Value) -> impl Iterator<Item = i64> {
    items(service, "/spec/ports").iter().filter_map(|port| integer(port, "/nodePort")).filter(|port| *port != 0)
}

/// Returns the strings of a list.
fn texts<'a>(service: &'a Value, pointer: &str) -> Vec<&'a str> {
    items(service, pointer).iter().map(|item| item.as_str().unwrap_or_default()).collect()
}

fn default_session_affinity(object: &mut Value) {
    set_default_text(object, "/spec/sessionAffinity", "None");
    match text(object, "/spec/sessionAffinity") {
        "None" => {
            crate::object::remove(object, "/spec/sessionAffinityConfig");
        }
        "ClientIP" if !is_set(object, "/spec/sessionAffinityConfig/clientIP/timeoutSeconds") => {
            set(object, "/spec/sessionAffinityConfig", json!({"clientIP": {"timeoutSeconds": 10800}}));
        }
        _ => {}
    }
}

fn default_ip_modes(object: &mut Value) {
    let Some(ingress) = object.pointer_mut("/status/loadBalancer/ingress").and_then(Value::as_array_mut) else {
        return;
    };
    for entry in ingress {
        if !text(entry, "/ip").is_empty() {
            set_default(entry, "/ipMode", "VIP");
        }
    }
}

fn external_addresses(service: &Value) -> String {
    let external = texts(service, "/spec/externalIPs").join(",");
    match text(service, "/spec/type") {
        "ClusterIP" | "NodePort" => or_none(&external).to_owned(),
        "LoadBalancer" => {
            let balancers = load_balancers(service, "/status/loadBalancer/ingress");
            match (balancers.is_empty(), external.is_empty()) {
                (true, true) => "<pending>".to_owned(),
                (false, true) => balancers,
                (true, false) => external,
                (false, false) => format!("{balancers},{external}"),
            }
        }
        "ExternalName" => text(service, "/spec/externalName").to_owned(),
        _ => "<unknown>".to_owned(),
    }
}

/// Returns the IPs or host names in a load balancer status, sorted and joined.
pub(crate) fn load_balancers(object: &Value, pointer: &str) -> String {
    let mut all: Vec<_> = items(object, pointer)
        .iter()
        .map(|entry| match text(entry, "/ip") {
            "" => text(entry, "/hostname"),
            ip => ip,
        })
        .filter(|address| !address.is_empty())
        .collect();
    all.sort_unstable();
    all.dedup();
    all.join(",")
}

fn ports(service: &Value) -> String {
    let one = |port: &Value| {
        let (number, protocol) = (integer(port, "/port").unwrap_or_default(), text(port, "/protocol"));
        match integer(port, "/nodePort") {
            Some(node) if node > 0 => format!("{number}:{node}/{protocol}"),
            _ => format!("{number}/{protocol}"),
        }
    };
    items(service, "/spec/ports").iter().map(one).collect::<Vec<_>>().join(",")
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Type",
        "string",
        "type determines how the Service is exposed. Defaults to ClusterIP. Valid options are ExternalName, ClusterIP, NodePort, and LoadBalancer. \"ClusterIP\" allocates a cluster-internal IP address for load-balancing to endpoints. Endpoints are determined by the selector or if that is not specified, by manual construction of an Endpoints object or EndpointSlice objects. If clusterIP is \"None\", no virtual IP is allocated and the endpoints are published as a set of endpoints rather than a virtual IP. \"NodePort\" builds on ClusterIP and allocates a port on every node which routes to the same endpoints as the clusterIP. \"LoadBalancer\" builds on NodePort and creates an external load-balancer (if supported in the current cloud) which routes to the same endpoints as the clusterIP. \"ExternalName\" aliases this service to the specified externalName. Several other fields do not apply to ExternalName services. More info: https://kubernetes.io/docs/concepts/services-networking/service/#publishing-services-service-types",
    ),
    column(
        "Cluster-IP",
        "string",
        "clusterIP is the IP address of the service and is usually assigned randomly. If an address is specified manually, is in-range (as per system configuration), and is not in use, it will be allocated to the service; otherwise creation of the service will fail. This field may not be changed through updates unless the type field is also being changed to ExternalName (which requires this field to be blank) or the type field is being changed from ExternalName (in which case this field may optionally be specified, as describe above).  Valid values are \"None\", empty string (\"\"), or a valid IP address. Setting this to \"None\" makes a \"headless service\" (no virtual IP), which is useful when direct endpoint connections are preferred and proxying is not required.  Only applies to types ClusterIP, NodePort, and LoadBalancer. If this field is specified when creating a Service of type ExternalName, creation will fail. This field will be wiped when updating a Service to type ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
    ),
    column(
        "External-IP",
        "string",
        "externalIPs is a list of IP addresses for which nodes in the cluster will also accept traffic for this service.  These IPs are not managed by Kubernetes.  The user is responsible for ensuring that traffic arrives at a node with this IP.  A common example is external load-balancers that are not part of the Kubernetes system.",
    ),
    column(
        "Port(s)",
        "string",
        "The list of ports that are exposed by this service. More info: https://kubernetes.io/docs/concepts/services-networking/service/#virtual-ips-and-service-proxies",
    ),
    AGE,
    wide(
        "Selector",
        "string",
        "Route service traffic to pods with label keys and values matching this selector. If empty or not present, the service is assumed to have an external process managing its endpoints, which Kubernetes will not modify. Only applies to types ClusterIP, NodePort, and LoadBalancer. Ignored if type is ExternalName. More info: https://kubernetes.io/docs/concepts/services-networking/service/",
    ),
];

#[cfg(test)]
mod tests;
