//! Deployments.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::ErrorList;

use super::pod_template;
use crate::columns::{self, Column, Printer, column, wide};
use crate::object::{carry_over, entries, integer, set, set_default, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};

pub(super) use validation::{collision_count_grows, not_more_than_replicas};

/// Strategy of Deployments.
#[derive(Debug, Clone, Copy)]
pub struct Deployment;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Ready", "string", "Number of the pod with ready state"),
    column(
        "Up-to-date",
        "string",
        "Total number of non-terminating pods targeted by this deployment that have the desired template spec.",
    ),
    column(
        "Available",
        "string",
        "Total number of available non-terminating pods (ready for at least minReadySeconds) targeted by this deployment.",
    ),
    columns::AGE,
    columns::CONTAINERS,
    columns::IMAGES,
    wide(
        "Selector",
        "string",
        "Label selector for pods. Existing ReplicaSets whose pods are selected by this will be the ones affected by this deployment. It must match the pod template's labels.",
    ),
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Deployment {
    fn default(&self, object: &mut Value) {
        set_default(object, "/spec/replicas", 1);
        set_default_text(object, "/spec/strategy/type", "RollingUpdate");
        if text(object, "/spec/strategy/type") == "RollingUpdate" {
            set_default(object, "/spec/strategy/rollingUpdate/maxUnavailable", "25%");
            set_default(object, "/spec/strategy/rollingUpdate/maxSurge", "25%");
        }
        set_default(object, "/spec/revisionHistoryLimit", 10);
        set_default(object, "/spec/progressDeadlineSeconds", 600);
        pod_template::default(object);
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({}));
        set(object, "/metadata/generation", 1);
        pod_template::drop_disabled(object);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/status");
        pod_template::drop_disabled(object);
        // Annotations are copied to ReplicaSets, so changing them increments the generation.
        if !entries(object, "/metadata/annotations").eq(entries(old, "/metadata/annotations")) {
            set(object, "/metadata/generation", integer(old, "/metadata/generation").unwrap_or_default() + 1);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = validation::validate(object);
        pod_template::validate_selector_unchanged(object, old, &mut errors);
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
            carry_over(object, old, "/metadata/labels");
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        if subresource == "status" { validation::validate_status(object, old) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        pod_template::warnings(object, old)
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let number = |pointer| integer(object, pointer).unwrap_or_default();
    let (containers, images) = columns::containers(object, "/spec/template/spec/containers");
    vec![
        columns::name(object),
        format!("{}/{}", number("/status/readyReplicas"), number("/spec/replicas")).into(),
        number("/status/updatedReplicas").into(),
        number("/status/availableReplicas").into(),
        columns::age(object, now),
        containers.into(),
        images.into(),
        pod_template::selector_text(object).into(),
    ]
}

#[cfg(test)]
mod tests;
