//! Ingresses.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};
use windlass_schema::names::ip_warnings;

use super::service::load_balancers;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name, text_or_none};
use crate::object::{is_set, items, map, set, text};
use crate::strategy::{Strategy, WriteContext};

pub(super) use validation::validate_reference;

/// Strategy of Ingresses.
#[derive(Debug, Clone, Copy)]
pub struct Ingress;

/// The annotation that preceded `spec.ingressClassName`.
const OLD_CLASS: &str = "kubernetes.io/ingress.class";

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Ingress {
    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({"loadBalancer": {}}));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object, None)
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate(object, Some(old))
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { validation::validate_status(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let Some(old) = old else {
            let is_old = old_class(object).is_some() && !is_set(object, "/spec/ingressClassName");
            let warning =
                || format!("annotation \"{OLD_CLASS}\" is deprecated, please use 'spec.ingressClassName' instead");
            return if is_old { vec![warning()] } else { Vec::new() };
        };
        if object.get("status") == old.get("status") {
            return Vec::new();
        }
        let path = Path::new("status").child("loadBalancer").child("ingress");
        let points = items(object, "/status/loadBalancer/ingress").iter().enumerate();
        points.flat_map(|(index, point)| ip_warnings(&path.index(index), text(point, "/ip"))).collect()
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
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

/// Returns the class in the deprecated annotation.
pub fn old_class(ingress: &Value) -> Option<&str> {
    map(ingress, "/metadata/annotations").and_then(|all| all.get(OLD_CLASS)?.as_str())
}

/// Formats the hosts of the first three rules and the number of the others.
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

const COLUMNS: &[Column] = &[
    NAME,
    column("Class", "string", "The name of the IngressClass resource that should be used for additional configuration"),
    column("Hosts", "string", "Hosts that incoming requests are matched against before the ingress rule"),
    column("Address", "string", "Address is a list containing ingress points for the load-balancer"),
    column("Ports", "string", "Ports of TLS configurations that open"),
    AGE,
];

#[cfg(test)]
mod tests;
