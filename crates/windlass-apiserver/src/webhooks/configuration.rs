//! Compiled webhook configurations.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use windlass_cel::{
    match_conditions,
    policy::{CompileError, Expression},
};
use windlass_store::Revision;

use super::{
    client::{Client, Target},
    criteria::Criteria,
};
use crate::storage::StoredObject;

/// The webhooks of a configuration.
pub(super) struct Configuration {
    pub(super) name: String,
    /// The revision at which it was written.
    pub(super) revision: Revision,
    pub(super) hooks: Vec<Arc<Hook>>,
}

/// A webhook.
pub(super) struct Hook {
    pub(super) name: String,
    /// The name of its configuration.
    pub(super) configuration: String,
    pub(super) criteria: Criteria,
    pub(super) conditions: Vec<Result<Expression, CompileError>>,
    /// The address, or why it is invalid.
    pub(super) target: Result<Target, String>,
    pub(super) timeout: Duration,
    /// Whether a failed call is ignored.
    pub(super) ignores_failure: bool,
    pub(super) side_effects: Option<String>,
    pub(super) review_versions: Vec<String>,
    /// Whether it is called again when the object changes after it.
    pub(super) is_reinvoked: bool,
}

impl Configuration {
    pub(super) fn new(object: &StoredObject, client: &Client) -> Self {
        let value = object.to_value();
        let webhooks = value["webhooks"].as_array().into_iter().flatten();
        let hooks = webhooks.map(|webhook| Arc::new(Hook::new(webhook, &object.header.name, client))).collect();
        Self { name: object.header.name.to_string(), revision: object.revision, hooks }
    }
}

impl Hook {
    fn new(webhook: &Value, configuration: &str, client: &Client) -> Self {
        let list = |field: &str| webhook[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |field: &str| webhook[field].as_str().unwrap_or_default();
        let compile =
            |condition: &Value| match_conditions::compile(condition["expression"].as_str().unwrap_or_default());
        Self {
            name: text("name").to_owned(),
            configuration: configuration.to_owned(),
            criteria: Criteria::of_webhook(webhook),
            conditions: list("matchConditions").iter().map(compile).collect(),
            target: client.target(&webhook["clientConfig"]),
            timeout: Duration::from_secs(webhook["timeoutSeconds"].as_u64().unwrap_or(10)),
            ignores_failure: text("failurePolicy") == "Ignore",
            side_effects: webhook["sideEffects"].as_str().map(str::to_owned),
            review_versions: list("admissionReviewVersions")
                .iter()
                .filter_map(|version| version.as_str().map(str::to_owned))
                .collect(),
            is_reinvoked: text("reinvocationPolicy") == "IfNeeded",
        }
    }
}
