//! Pods: defaulting, validation, graceful deletion, columns.

pub mod admission;
pub mod binding;
pub mod defaults;
pub(crate) mod report;
pub(crate) mod resources;
pub mod validation;

mod columns;
mod condition;
pub(crate) mod diff;
mod image;
mod prepare;
mod warnings;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::ErrorList;

use crate::object::{boolean, integer, items, text};
use crate::strategy::{Column, Grace, Strategy};

pub use condition::{is_ready, set_condition};
pub(crate) use diff::same;
pub(crate) use prepare::drop_disabled;
pub(crate) use warnings::{deprecated_label, of_template as template_warnings};

/// The strategy of pods.
#[derive(Debug, Clone, Copy)]
pub struct Pod;

impl Strategy for Pod {
    fn default(&self, object: &mut Value) {
        defaults::pod(object);
    }

    fn prepare_for_create(&self, object: &mut Value) {
        prepare::create(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate_create(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        prepare::update(object, old);
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::validate_update(object, old)
    }

    fn prepare_for_subresource_update(&self, subresource: &str, object: &mut Value, old: &Value) {
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

    fn has_generation(&self) -> bool {
        true
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
            // What very old clients call it.
            ("spec.host", field("/spec/nodeName")),
            ("spec.restartPolicy", field("/spec/restartPolicy")),
            ("spec.schedulerName", field("/spec/schedulerName")),
            ("spec.serviceAccountName", field("/spec/serviceAccountName")),
            ("spec.hostNetwork", host_network.to_string()),
            ("status.phase", field("/status/phase")),
            ("status.podIP", ip),
            // Accepted as a selector, but never filled in.
            ("status.podIPs", String::new()),
            ("status.nominatedNodeName", field("/status/nominatedNodeName")),
        ]
    }

    fn columns(&self) -> &'static [Column] {
        columns::COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        columns::cells(object, now)
    }

    fn row_conditions(&self, object: &Value) -> Vec<Value> {
        columns::row_conditions(object)
    }
}

#[cfg(test)]
mod tests;
