//! The declaration of a stage in a file, and its compiled form.

use serde::Deserialize;
use serde_json::Value;

use super::{
    selector::{Expression, Path, Requirement},
    template,
};
use crate::containers;

/// The kind of object that a stage applies to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) enum Subject {
    /// Pods.
    #[default]
    Pod,
    /// Nodes.
    Node,
}

/// A stage as declared in a file.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Document {
    api_version: String,
    kind: String,
    metadata: Metadata,
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Spec {
    #[serde(default)]
    resource_ref: ResourceRef,
    #[serde(default)]
    selector: Selector,
    #[serde(default = "one")]
    weight: u32,
    /// Whether it runs alongside the stage that is selected by weight: the first to end applies.
    #[serde(default)]
    timer: bool,
    #[serde(default)]
    delay: Delay,
    next: Next,
}

fn one() -> u32 {
    1
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct ResourceRef {
    #[serde(default)]
    kind: Subject,
    #[serde(default, rename = "apiGroup")]
    _api_group: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Selector {
    #[serde(default)]
    match_labels: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    match_annotations: std::collections::BTreeMap<String, String>,
    #[serde(default)]
    match_expressions: Vec<Expression>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Delay {
    #[serde(default)]
    duration_milliseconds: u64,
    #[serde(default)]
    jitter_duration_milliseconds: Option<u64>,
    #[serde(default)]
    duration_from: Option<From>,
    #[serde(default)]
    jitter_duration_from: Option<From>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct From {
    expression_from: String,
}

/// The change to an object at the end of a stage.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Next {
    /// Merged into the status.
    #[serde(default)]
    pub(super) status: Option<Value>,
    /// Merged into the conditions, by type.
    #[serde(default)]
    pub(super) conditions: Vec<Value>,
    /// Changes to a pod's containers.
    #[serde(default)]
    pub(super) containers: Vec<Value>,
    #[serde(default)]
    pub(super) finalizers: Option<Finalizers>,
    /// Whether the object is deleted immediately.
    #[serde(default)]
    pub(super) delete: bool,
    #[serde(default)]
    pub(super) event: Option<Event>,
}

/// Changes to an object's finalizers.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Finalizers {
    #[serde(default)]
    pub(super) add: Vec<FinalizerItem>,
    #[serde(default)]
    pub(super) remove: Vec<FinalizerItem>,
    #[serde(default)]
    pub(super) empty: bool,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FinalizerItem {
    pub(super) value: String,
}

/// An event about the object.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Event {
    #[serde(default, rename = "type")]
    pub(super) kind: EventKind,
    pub(super) reason: String,
    #[serde(default)]
    pub(super) message: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
pub(crate) enum EventKind {
    #[default]
    Normal,
    Warning,
}

/// A compiled stage.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) name: String,
    pub(super) subject: Subject,
    pub(super) requirements: Vec<Requirement>,
    pub(super) weight: u32,
    pub(super) timer: bool,
    pub(super) duration: Duration,
    pub(super) jitter: Option<Duration>,
    pub(super) next: Next,
}

/// A duration: fixed, or the result of an expression if it finds a value.
#[derive(Debug, Clone, Default)]
pub(super) struct Duration {
    pub(super) milliseconds: u64,
    pub(super) from: Option<Path>,
}

impl Stage {
    pub(super) fn compile(document: Document) -> Result<Self, String> {
        let Document { api_version, kind, metadata, spec } = document;
        if kind != "Stage" || !matches!(api_version.as_str(), "windlass.dev/v1alpha1") {
            return Err(format!("expected windlass.dev/v1alpha1, Stage, found {api_version}, {kind}"));
        }
        let Selector { match_labels, match_annotations, match_expressions } = spec.selector;
        let labels = match_labels.into_iter().map(|(key, value)| Requirement::entry("labels", key, value));
        let annotations =
            match_annotations.into_iter().map(|(key, value)| Requirement::entry("annotations", key, value));
        let mut requirements: Vec<Requirement> = labels.chain(annotations).collect();
        for expression in match_expressions {
            requirements.push(Requirement::compile(expression)?);
        }
        let path = |from: Option<From>| from.map(|from| Path::parse(&from.expression_from)).transpose();
        let delay = spec.delay;
        let duration = Duration { milliseconds: delay.duration_milliseconds, from: path(delay.duration_from)? };
        let jitter = match (delay.jitter_duration_milliseconds, path(delay.jitter_duration_from)?) {
            (None, None) => None,
            (milliseconds, from) => Some(Duration { milliseconds: milliseconds.unwrap_or_default(), from }),
        };
        let next = spec.next;
        check(&next, spec.resource_ref.kind)?;
        Ok(Self {
            name: metadata.name,
            subject: spec.resource_ref.kind,
            requirements,
            weight: spec.weight,
            timer: spec.timer,
            duration,
            jitter,
            next,
        })
    }
}

/// Checks for errors that would occur when the stage is used.
fn check(next: &Next, subject: Subject) -> Result<(), String> {
    let event = next.event.as_ref().map(|event| Value::from(event.message.as_str()));
    let templates = next.status.iter().chain(&next.conditions).chain(&next.containers);
    for value in templates.cloned().chain(event) {
        template::check(&value)?;
    }
    if subject == Subject::Node && !next.containers.is_empty() {
        return Err("nodes have no containers".to_owned());
    }
    for change in &next.containers {
        containers::Change::deserialize(template::constants(change)).map_err(|error| format!("containers: {error}"))?;
    }
    if let Some(condition) = next.conditions.iter().find(|condition| !condition["type"].is_string()) {
        return Err(format!("conditions need a type: {condition}"));
    }
    match &next.status {
        Some(status) if !status.is_object() => Err("status: must be an object".to_owned()),
        _ => Ok(()),
    }
}
