//! What a configuration of webhooks says, compiled.

use std::{sync::Arc, time::Duration};

use serde_json::Value;
use windlass_cel::match_conditions::MatchCondition;
use windlass_store::Revision;

use super::{
    client::{Client, Target},
    matching::{Labels, Rule},
};
use crate::storage::StoredObject;

/// The webhooks of a configuration.
pub(super) struct Configuration {
    pub(super) name: String,
    /// When it was written.
    pub(super) revision: Revision,
    pub(super) hooks: Vec<Arc<Hook>>,
}

/// A webhook.
pub(super) struct Hook {
    pub(super) name: String,
    pub(super) rules: Vec<Rule>,
    /// Whether it is asked in another version of a resource than the one that is written.
    pub(super) equivalent: bool,
    pub(super) namespaces: Labels,
    pub(super) objects: Labels,
    pub(super) conditions: Vec<Result<MatchCondition, String>>,
    /// Where it is called, or what is wrong with that.
    pub(super) target: Result<Target, String>,
    pub(super) timeout: Duration,
    /// Whether a call that fails is passed over.
    pub(super) ignores_failure: bool,
    pub(super) side_effects: Option<String>,
    pub(super) review_versions: Vec<String>,
    /// Whether it is asked again when others have changed the object after it.
    pub(super) is_reinvoked: bool,
}

impl Configuration {
    pub(super) fn new(object: &StoredObject, client: &Client) -> Self {
        let value = object.to_value();
        let webhooks = value["webhooks"].as_array().into_iter().flatten();
        let hooks = webhooks.map(|webhook| Arc::new(Hook::new(webhook, client))).collect();
        Self { name: object.header.name.to_string(), revision: object.revision, hooks }
    }
}

impl Hook {
    fn new(webhook: &Value, client: &Client) -> Self {
        let list = |field: &str| webhook[field].as_array().map(Vec::as_slice).unwrap_or_default();
        let text = |field: &str| webhook[field].as_str().unwrap_or_default();
        let compile = |condition: &Value| MatchCondition::compile(condition["expression"].as_str().unwrap_or_default());
        Self {
            name: text("name").to_owned(),
            rules: list("rules").iter().map(Rule::new).collect(),
            equivalent: text("matchPolicy") == "Equivalent",
            namespaces: Labels::new(&webhook["namespaceSelector"]),
            objects: Labels::new(&webhook["objectSelector"]),
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
