//! NetworkPolicies.

use std::net::IpAddr;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::label_selector::{LabelSelectorOptions, validate_label_selector};
use windlass_schema::names::{
    cidr_warnings, is_valid_cidr_legacy, is_valid_port_name, is_valid_port_num, parse_cidr_sloppy,
};

use crate::columns::{AGE, Column, NAME, Printer, age, column, name, selector};
use crate::field_errors::FieldErrors;
use crate::object::{copy, integer, is_set, items, set, set_default, text};
use crate::strategy::Strategy;

/// Strategy of NetworkPolicies.
#[derive(Debug, Clone, Copy)]
pub struct NetworkPolicy;

/// The directions, each with the field of its peers.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for NetworkPolicy {
    fn default(&self, object: &mut Value) {
        for (direction, _) in DIRECTIONS {
            let rules = object.pointer_mut(&format!("/spec/{direction}")).and_then(Value::as_array_mut);
            for rule in rules.into_iter().flatten() {
                for port in rule.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                    set_default(port, "/protocol", "TCP");
                }
            }
        }
        if items(object, "/spec/policyTypes").is_empty() {
            let has_egress = !items(object, "/spec/egress").is_empty();
            set(
                object,
                "/spec/policyTypes",
                if has_egress { json!(["Ingress", "Egress"]) } else { json!(["Ingress"]) },
            );
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        Validation::default().run(object)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        // Unchanged values that an older server accepted are tolerated.
        let selector =
            validate_label_selector(old.pointer("/spec/podSelector"), LabelSelectorOptions::default(), &Path::root());
        let options = LabelSelectorOptions { allow_invalid_values: !selector.is_empty(), ..Default::default() };
        Validation { options, known: networks(old).into_iter().map(|(_, network)| network).collect() }.run(object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        networks(object).into_iter().flat_map(|(path, network)| cidr_warnings(&path, network)).collect()
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), selector(object, "/spec/podSelector").into(), age(object, now)]
}

/// Returns all CIDRs of a policy with their paths.
fn networks(object: &Value) -> Vec<(Path, &str)> {
    let mut all = Vec::new();
    for (direction, peers) in DIRECTIONS {
        for (i, rule) in items(object, &format!("/spec/{direction}")).iter().enumerate() {
            for (j, peer) in items(rule, &format!("/{peers}")).iter().enumerate() {
                let Some(block) = peer.get("ipBlock").filter(|block| !block.is_null()) else { continue };
                let path = Path::new("spec").child(direction).index(i).child(peers).index(j).child("ipBlock");
                all.push((path.child("cidr"), text(block, "/cidr")));
                for (k, except) in items(block, "/except").iter().enumerate() {
                    all.push((path.child("except").index(k), except.as_str().unwrap_or_default()));
                }
            }
        }
    }
    all
}

#[derive(Default)]
struct Validation<'a> {
    options: LabelSelectorOptions,
    /// CIDRs of the old policy, which are not validated again.
    known: Vec<&'a str>,
}

impl Validation<'_> {
    fn run(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec");
        let pods = object.pointer("/spec/podSelector");
        errors.extend(validate_label_selector(pods, self.options, &path.child("podSelector")));
        for (direction, peers) in DIRECTIONS {
            for (index, rule) in items(object, &format!("/spec/{direction}")).iter().enumerate() {
                let path = path.child(direction).index(index);
                for (index, port) in items(rule, "/ports").iter().enumerate() {
                    validate_port(port, &path.child("ports").index(index), &mut errors);
                }
                for (index, peer) in items(rule, &format!("/{peers}")).iter().enumerate() {
                    self.peer(peer, &path.child(peers).index(index), &mut errors);
                }
            }
        }
        let (types, path) = (items(object, "/spec/policyTypes"), path.child("policyTypes"));
        if types.len() > 2 {
            errors.invalid(&path, copy(object, "/spec/policyTypes"), "may not specify more than two policyTypes");
            return errors;
        }
        for (index, kind) in types.iter().enumerate() {
            let kind = kind.as_str().unwrap_or_default();
            if !matches!(kind, "Ingress" | "Egress") {
                errors.not_supported(&path.index(index), kind, &["Ingress", "Egress"]);
            }
        }
        errors
    }

    fn peer(&self, peer: &Value, path: &Path, errors: &mut ErrorList) {
        let mut count = 0;
        for field in ["podSelector", "namespaceSelector"] {
            let Some(selector) = peer.get(field).filter(|selector| !selector.is_null()) else { continue };
            count += 1;
            errors.extend(validate_label_selector(Some(selector), self.options, &path.child(field)));
        }
        let block = peer.get("ipBlock").filter(|block| !block.is_null());
        if let Some(block) = block {
            self.block(block, &path.child("ipBlock"), errors);
        }
        match (count, block.is_some()) {
            (0, false) => errors.required_because(path, "must specify a peer"),
            (1.., true) => errors.forbidden(path, "may not specify both ipBlock and another peer"),
            _ => {}
        }
    }

    fn block(&self, block: &Value, path: &Path, errors: &mut ErrorList) {
        let network = text(block, "/cidr");
        if network.is_empty() {
            return errors.required(&path.child("cidr"));
        }
        errors.extend(self.network(network, &path.child("cidr")));
        let Some(network) = parse_cidr_sloppy(network) else { return };
        for (index, except) in items(block, "/except").iter().enumerate() {
            let (except, path) = (except.as_str().unwrap_or_default(), path.child("except").index(index));
            errors.extend(self.network(except, &path));
            if parse_cidr_sloppy(except).is_some_and(|inner| !is_strictly_inside(inner, network)) {
                errors.invalid(&path, except, "must be a strict subset of `cidr`");
            }
        }
    }

    fn network(&self, network: &str, path: &Path) -> ErrorList {
        if self.known.contains(&network) { ErrorList::new() } else { is_valid_cidr_legacy(path, network, true) }
    }
}

fn validate_port(port: &Value, path: &Path, errors: &mut ErrorList) {
    if let Some(protocol) = port.get("protocol").and_then(Value::as_str)
        && !matches!(protocol, "TCP" | "UDP" | "SCTP")
    {
        errors.not_supported(&path.child("protocol"), protocol, &["TCP", "UDP", "SCTP"]);
    }
    let (at, end_at, end) = (path.child("port"), path.child("endPort"), integer(port, "/endPort"));
    match port.get("port").filter(|_| is_set(port, "/port")) {
        Some(Value::String(name)) => {
            if let Some(end) = end {
                errors.invalid(&end_at, end, "may not be specified when `port` is non-numeric");
            }
            errors.invalid_each(&at, name.as_str(), is_valid_port_name(name));
        }
        Some(number) => {
            let number = number.as_i64().unwrap_or_default();
            errors.invalid_each(&at, number, is_valid_port_num(number));
            if let Some(end) = end {
                if end < number {
                    errors.invalid(&end_at, number, "must be greater than or equal to `port`");
                }
                errors.invalid_each(&end_at, end, is_valid_port_num(end));
            }
        }
        None => {
            if let Some(end) = end {
                errors.invalid(&end_at, end, "may not be specified when `port` is not specified");
            }
        }
    }
}

/// Returns whether a network is a proper subset of another.
fn is_strictly_inside((inner, inner_bits): (IpAddr, u8), (outer, outer_bits): (IpAddr, u8)) -> bool {
    let widened = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => u128::from(v4.to_bits()) << 96,
        IpAddr::V6(v6) => v6.to_bits(),
    };
    let mask = u128::MAX.checked_shl(128 - u32::from(outer_bits)).unwrap_or(0);
    inner.is_ipv4() == outer.is_ipv4() && outer_bits < inner_bits && (widened(inner) & mask) == (widened(outer) & mask)
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Pod-Selector",
        "string",
        "podSelector selects the pods to which this NetworkPolicy object applies. The array of rules is applied to any pods selected by this field. An empty selector matches all pods in the policy's namespace. Multiple network policies can select the same set of pods. In this case, the ingress rules for each are combined additively. This field is optional. If it is not specified, it defaults to an empty selector.",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;

    fn policy(spec: Value) -> Value {
        json!({"metadata": {"name": "n"}, "spec": spec})
    }

    #[test]
    fn directions_and_protocols_are_defaulted() {
        let mut object = policy(json!({"egress": [{"ports": [{"port": 80}, {"port": "dns", "protocol": "UDP"}]}]}));
        NetworkPolicy.default(&mut object);
        assert_eq!(object["spec"]["policyTypes"], json!(["Ingress", "Egress"]));
        assert_eq!(object["spec"]["egress"][0]["ports"][0]["protocol"], "TCP");
        assert_eq!(object["spec"]["egress"][0]["ports"][1]["protocol"], "UDP");
        check_create(&NetworkPolicy, object, expect![[""]]);
        let mut object = policy(json!({"egress": []}));
        NetworkPolicy.default(&mut object);
        assert_eq!(object["spec"]["policyTypes"], json!(["Ingress"]));
    }

    #[test]
    fn ports_must_be_ports_and_ranges_go_up() {
        let ports = json!([{"port": 0, "protocol": "X"}, {"port": 80, "endPort": 79}, {"port": 80, "endPort": 90000},
            {"port": "web", "endPort": 1}, {"port": "-"}, {"endPort": 3}]);
        check_create(
            &NetworkPolicy,
            policy(json!({"ingress": [{"ports": ports}]})),
            expect![[r#"
            spec.ingress[0].ports[0].protocol: Unsupported value: "X": supported values: "TCP", "UDP", "SCTP"
            spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive
            spec.ingress[0].ports[1].endPort: Invalid value: 80: must be greater than or equal to `port`
            spec.ingress[0].ports[2].endPort: Invalid value: 90000: must be between 1 and 65535, inclusive
            spec.ingress[0].ports[3].endPort: Invalid value: 1: may not be specified when `port` is non-numeric
            spec.ingress[0].ports[4].port: Invalid value: "-": must contain at least one letter (a-z)
            spec.ingress[0].ports[4].port: Invalid value: "-": must not begin or end with a hyphen
            spec.ingress[0].ports[5].endPort: Invalid value: 3: may not be specified when `port` is not specified
        "#]],
        );
    }

    #[test]
    fn a_peer_is_a_selector_or_an_ip_block() {
        let peers = json!([{}, {"podSelector": {}, "namespaceSelector": {}}, {"podSelector": {"matchLabels": {"a": "-"}}, "ipBlock": {"cidr": "10.0.0.0/8"}},
            {"ipBlock": {}}, {"ipBlock": {"cidr": "nope"}}, {"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16", "11.0.0.0/9", "10.0.0.0/8", "x"]}},
            {"ipBlock": {"cidr": "10.0.0.1/8"}}, {"ipBlock": {"cidr": "2001:db8::/32", "except": ["2001:db8:1::/48", "10.0.0.0/8"]}}]);
        check_create(
            &NetworkPolicy,
            policy(json!({"egress": [{"to": peers}]})),
            expect![[r#"
            spec.egress[0].to[0]: Required value: must specify a peer
            spec.egress[0].to[2].podSelector.matchLabels: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
            spec.egress[0].to[2]: Forbidden: may not specify both ipBlock and another peer
            spec.egress[0].to[3].ipBlock.cidr: Required value
            spec.egress[0].to[4].ipBlock.cidr: Invalid value: "nope": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
            spec.egress[0].to[5].ipBlock.except[1]: Invalid value: "11.0.0.0/9": must be a strict subset of `cidr`
            spec.egress[0].to[5].ipBlock.except[2]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`
            spec.egress[0].to[5].ipBlock.except[3]: Invalid value: "x": must be a valid CIDR value, (e.g. 10.9.8.0/24 or 2001:db8::/64)
            spec.egress[0].to[6].ipBlock.cidr: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length
            spec.egress[0].to[7].ipBlock.except[1]: Invalid value: "10.0.0.0/8": must be a strict subset of `cidr`
            warning: spec.egress[0].to[6].ipBlock.cidr: CIDR value "10.0.0.1/8" is ambiguous in this context (should be "10.0.0.0/8" or "10.0.0.1/32"?)
        "#]],
        );
        let old = policy(json!({"ingress": [{"from": [{"ipBlock": {"cidr": "010.0.0.0/8"}}]}]}));
        check_update(
            &NetworkPolicy,
            old.clone(),
            old,
            expect![[r#"
            warning: spec.ingress[0].from[0].ipBlock.cidr: non-standard CIDR value "010.0.0.0/8" is invalid: use "10.0.0.0/8"
        "#]],
        );
    }

    #[test]
    fn there_are_two_directions() {
        check_create(
            &NetworkPolicy,
            policy(json!({"policyTypes": ["Sideways", "Egress"]})),
            expect![[r#"
            spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress"
        "#]],
        );
        check_create(
            &NetworkPolicy,
            policy(json!({"policyTypes": ["Ingress", "Egress", "Egress"]})),
            expect![[r#"
            spec.policyTypes: Invalid value: ["Ingress","Egress","Egress"]: may not specify more than two policyTypes
        "#]],
        );
    }
}
