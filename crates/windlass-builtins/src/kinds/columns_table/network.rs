//! Endpoints, ingresses, network policies and addresses.

use jiff::Timestamp;
use serde_json::Value;

use super::{Entry, first_three, text_or_none};
use crate::columns::{AGE, NAME, age, column, name, selector};
use crate::kinds::service::load_balancers;
use crate::object::{integer, is_set, items, map, text};
use crate::strategy::Column;

pub(super) fn networking(resource: &str) -> Option<Entry> {
    Some(match resource {
        "ingresses" => (INGRESS, ingress),
        "ingressclasses" => (INGRESS_CLASS, ingress_class),
        "networkpolicies" => (NETWORK_POLICY, |object, now| {
            vec![name(object), selector(object, "/spec/podSelector").into(), age(object, now)]
        }),
        "servicecidrs" => (SERVICE_CIDR, |object, now| {
            let ranges: Vec<_> = items(object, "/spec/cidrs").iter().filter_map(Value::as_str).collect();
            vec![name(object), ranges.join(",").into(), age(object, now)]
        }),
        "ipaddresses" => (IP_ADDRESS, ip_address),
        _ => return None,
    })
}

/// The cells of Endpoints.
pub(crate) fn endpoints(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut all = Vec::new();
    for subset in items(object, "/subsets") {
        let addresses = || items(subset, "/addresses").iter().map(|address| text(address, "/ip"));
        let ports = items(subset, "/ports");
        if ports.is_empty() {
            all.extend(addresses().map(str::to_owned));
        }
        for port in ports {
            let port = integer(port, "/port").unwrap_or_default();
            all.extend(addresses().map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }));
        }
    }
    let shown = match (items(object, "/subsets").is_empty(), all.is_empty()) {
        (true, _) => "<none>".to_owned(),
        (false, true) => String::new(),
        (false, false) => first_three(&all),
    };
    vec![name(object), shown.into(), age(object, now)]
}

/// The cells of EndpointSlices.
pub(crate) fn endpoint_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports: Vec<_> = items(object, "/ports")
        .iter()
        .map(|port| match (integer(port, "/port"), port.get("name").and_then(Value::as_str)) {
            (Some(number), _) => number.to_string(),
            (None, Some(name)) => name.to_owned(),
            (None, None) => "*".to_owned(),
        })
        .collect();
    let addresses: Vec<_> = items(object, "/endpoints")
        .iter()
        .flat_map(|endpoint| items(endpoint, "/addresses"))
        .map(|address| address.as_str().unwrap_or_default().to_owned())
        .collect();
    vec![
        name(object),
        text(object, "/addressType").into(),
        first_three(&ports).into(),
        first_three(&addresses).into(),
        age(object, now),
    ]
}

fn ingress(object: &Value, now: Timestamp) -> Vec<Value> {
    let ports = if items(object, "/spec/tls").is_empty() { "80" } else { "80, 443" };
    vec![
        name(object),
        text_or_none(object, "/spec/ingressClassName"),
        hosts(items(object, "/spec/rules")).into(),
        load_balancers(object, "/status/loadBalancer/ingress").into(),
        ports.into(),
        age(object, now),
    ]
}

/// The hosts of the rules: three at most, and how many rules more there are.
fn hosts(rules: &[Value]) -> String {
    let mut list = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= list.len() == 3;
        let host = text(rule, "/host");
        if !more && !host.is_empty() {
            list.push(host);
        }
    }
    match (list.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, true) => format!("{} + {} more...", list.join(","), rules.len() - 3),
        (false, false) => list.join(","),
    }
}

fn ingress_class(object: &Value, now: Timestamp) -> Vec<Value> {
    let mut shown = text(object, "/metadata/name").to_owned();
    let annotation =
        map(object, "/metadata/annotations").and_then(|all| all.get("ingressclass.kubernetes.io/is-default-class"));
    if annotation.is_some_and(|value| value == "true") {
        shown.push_str(" (default)");
    }
    let parameters = if is_set(object, "/spec/parameters") {
        let part = |field: &str| text(object, &format!("/spec/parameters/{field}"));
        let group =
            if is_set(object, "/spec/parameters/apiGroup") { format!(".{}", part("apiGroup")) } else { String::new() };
        format!("{}{group}/{}", part("kind"), part("name"))
    } else {
        "<none>".to_owned()
    };
    vec![shown.into(), text(object, "/spec/controller").into(), parameters.into(), age(object, now)]
}

/// The real server prints the age too, without a column for it.
fn ip_address(object: &Value, now: Timestamp) -> Vec<Value> {
    let parent = if is_set(object, "/spec/parentRef") {
        let part = |field: &str| text(object, &format!("/spec/parentRef/{field}"));
        let mut shown = part("resource").to_lowercase();
        if !part("group").is_empty() {
            shown = format!("{shown}.{}", part("group").to_lowercase());
        }
        if !part("namespace").is_empty() {
            shown = format!("{shown}/{}", part("namespace"));
        }
        format!("{shown}/{}", part("name"))
    } else {
        "<none>".to_owned()
    };
    vec![name(object), parent.into(), age(object, now)]
}

/// The columns of Endpoints.
pub(crate) const ENDPOINTS: &[Column] = &[
    NAME,
    column(
        "Endpoints",
        "string",
        "The set of all endpoints is the union of all subsets. Addresses are placed into subsets according to the IPs they share. A single address with multiple ports, some of which are ready and some of which are not (because they come from different containers) will result in the address being displayed in different subsets for the different ports. No address will appear in both Addresses and NotReadyAddresses in the same subset. Sets of addresses and ports that comprise a service.",
    ),
    AGE,
];

/// The columns of EndpointSlices.
pub(crate) const ENDPOINT_SLICE: &[Column] = &[
    NAME,
    column(
        "AddressType",
        "string",
        "addressType specifies the type of address carried by this EndpointSlice. All addresses in this slice must be the same type. This field is immutable after creation. The following address types are currently supported: * IPv4: Represents an IPv4 Address. * IPv6: Represents an IPv6 Address. * FQDN: Represents a Fully Qualified Domain Name. (Deprecated) The EndpointSlice controller only generates, and kube-proxy only processes, slices of addressType \"IPv4\" and \"IPv6\". No semantics are defined for the \"FQDN\" type.",
    ),
    column(
        "Ports",
        "string",
        "ports specifies the list of network ports exposed by each endpoint in this slice. Each port must have a unique name. Each slice may include a maximum of 100 ports. Services always have at least 1 port, so EndpointSlices generated by the EndpointSlice controller will likewise always have at least 1 port. EndpointSlices used for other purposes may have an empty ports list.",
    ),
    column(
        "Endpoints",
        "string",
        "endpoints is a list of unique endpoints in this slice. Each slice may include a maximum of 1000 endpoints.",
    ),
    AGE,
];

const INGRESS: &[Column] = &[
    NAME,
    column("Class", "string", "The name of the IngressClass resource that should be used for additional configuration"),
    column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule"),
    column("Address", "string", "Address is a list containing ingress points for the load-balancer"),
    column("Ports", "string", "Ports of TLS configurations that open"),
    AGE,
];

const INGRESS_CLASS: &[Column] = &[
    NAME,
    column("Controller", "string", "Controller that is responsible for handling this class"),
    column("Parameters", "string", "A reference to a resource with additional parameters"),
    AGE,
];

const NETWORK_POLICY: &[Column] = &[
    NAME,
    column(
        "Pod-Selector",
        "string",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
    ),
    AGE,
];

const SERVICE_CIDR: &[Column] = &[
    NAME,
    column(
        "CIDRs",
        "string",
        "CIDRs defines the IP blocks in CIDR notation (e.g. \"192.168.0.0/24\" or \"2001:db8::/64\") from which to assign service cluster IPs. Max of two CIDRs is allowed, one of each IP family. This field is immutable.",
    ),
    AGE,
];

const IP_ADDRESS: &[Column] = &[
    NAME,
    column(
        "ParentRef",
        "string",
        "ParentRef references the resource that an IPAddress is attached to. An IPAddress must reference a parent object.",
    ),
];
