//! Pods: defaulting, validation, graceful deletion, columns.

pub mod admission;
pub mod binding;
pub mod defaults;
pub mod references;
pub(crate) mod resources;
pub mod validation;

mod condition;
mod image;
mod prepare;
mod printer;
mod warnings;

use serde_json::Value;
use windlass_schema::field::ErrorList;

use crate::columns::Printer;
use crate::object::{boolean, integer, items, text};
use crate::strategy::{Grace, Strategy, WriteContext};

pub use condition::{is_ready, set_condition};
pub(crate) use prepare::drop_disabled;
pub use resources::{pod_limits, pod_requests};
pub(crate) use warnings::{deprecated_label, of_template as template_warnings};

/// Strategy of Pods.
#[derive(Debug, Clone, Copy)]
pub struct Pod;

pub(crate) const PRINTER: Printer =
    Printer { row_conditions: printer::row_conditions, ..Printer::new(printer::COLUMNS, printer::cells) };

impl Strategy for Pod {
    fn default(&self, object: &mut Value) {
        defaults::pod(object);
    }

    fn prepare_for_create(&self, object: &mut Value, context: &WriteContext<'_>) {
        prepare::create(object, context.now);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate_create(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        prepare::update(object, old);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate_update(object, old)
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        _context: &WriteContext<'_>,
    ) {
        match subresource {
            "status" => prepare::update_status(object, old),
            "ephemeralcontainers" => prepare::update_ephemeral_containers(object, old),
            "resize" => prepare::update_resources(object, old),
            _ => {}
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        match subresource {
            "status" => validation::validate_status(object, old),
            "ephemeralcontainers" => validation::validate_ephemeral_containers(object, old),
            "resize" => validation::validate_resize(object, old),
            _ => ErrorList::new(),
        }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        if old.is_none() { warnings::of_pod(object) } else { Vec::new() }
    }

    fn grace(&self, object: &Value, requested: Option<i64>) -> Grace {
        let wanted = requested.or_else(|| integer(object, "/spec/terminationGracePeriodSeconds")).unwrap_or_default();
        let runs = !text(object, "/spec/nodeName").is_empty()
            && !matches!(text(object, "/status/phase"), "Failed" | "Succeeded");
        match wanted {
            _ if !runs => Grace::Seconds(0),
            ..0 => Grace::Seconds(1),
            seconds => Grace::Seconds(seconds),
        }
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        let field = |pointer| text(object, pointer).to_owned();
        let host_network = boolean(object, "/spec/hostNetwork").unwrap_or_default();
        let ip = items(object, "/status/podIPs").first().map(|ip| text(ip, "/ip").to_owned()).unwrap_or_default();
        vec![
            ("spec.nodeName", field("/spec/nodeName")),
            // Legacy name of the field.
            ("spec.host", field("/spec/nodeName")),
            ("spec.restartPolicy", field("/spec/restartPolicy")),
            ("spec.schedulerName", field("/spec/schedulerName")),
            ("spec.serviceAccountName", field("/spec/serviceAccountName")),
            ("spec.hostNetwork", host_network.to_string()),
            ("status.phase", field("/status/phase")),
            ("status.podIP", ip),
            // Accepted as a selector, but always empty.
            ("status.podIPs", String::new()),
            ("status.nominatedNodeName", field("/status/nominatedNodeName")),
        ]
    }
}

#[cfg(test)]
mod tests;
