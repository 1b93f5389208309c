//! CustomResourceDefinitions: defaults, validation, status, and the typed view that the server uses.
//!
//! [`Definition`] is the typed view. [`accept_names`], [`establish`], [`check_structural`] and [`api_approval`] are the
//! decisions of kube-apiserver's controllers; each accepts a CRD and returns its new status, or `None` if nothing
//! changes.

mod approval;
pub mod conditions;
pub(crate) mod conversion;
mod defaults;
mod definition;
mod formats;
mod internal_version;
mod naming;
mod normalize;
mod open_api;
mod options;
mod render;
mod schema;
mod selectable_fields;
mod structural;
mod validate_schema;
mod validation;
mod validation_rules;

use std::collections::BTreeSet;

use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, quote};
use windlass_schema::{sorting::Gather as _, structural::MAX_DEPTH};

use crate::object::{carry_over, is_set, items, remove, set, set_default, set_default_text, text};
use crate::strategy::{Strategy, WriteContext};

pub use approval::{api_approval, is_protected_group};
pub use definition::{Conversion, ConversionWebhook, Definition, Names, PrinterColumn, Scale, Version, WebhookService};
pub use naming::{GroupNames, accept_names, accept_names_in, establish};
pub use structural::check_structural;

/// Strategy of CustomResourceDefinitions.
#[derive(Debug, Clone, Copy)]
pub struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn default(&self, object: &mut Value) {
        let kind = text(object, "/spec/names/kind").to_owned();
        if !kind.is_empty() {
            set_default_text(object, "/spec/names/singular", &kind.to_lowercase());
            set_default_text(object, "/spec/names/listKind", &format!("{kind}List"));
        }
        set_default(object, "/spec/conversion", json!({"strategy": "None"}));
        if object.pointer("/spec/conversion/webhook/clientConfig/service").is_some_and(Value::is_object) {
            set_default(object, "/spec/conversion/webhook/clientConfig/service/port", 443);
        }
        // An empty webhook counts as none.
        if object.pointer("/spec/conversion/webhook").is_some_and(says_nothing) {
            remove(object, "/spec/conversion/webhook");
        }
        normalize::normalize(object);
        if items(object, "/status/storedVersions").is_empty()
            && let Some(version) = storage_version(object)
        {
            set(object, "/status/storedVersions", json!([version]));
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        let stored = storage_version(object).map(|version| json!([version]));
        let names = json!({"plural": "", "kind": ""});
        set(object, "/status", json!({"conditions": null, "acceptedNames": names, "storedVersions": stored}));
        set(object, "/metadata/generation", 1);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(object)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/status");
        let Some(version) = storage_version(object) else { return };
        let mut stored = items(object, "/status/storedVersions").to_vec();
        if !stored.contains(&version) {
            stored.push(version);
            set(object, "/status/storedVersions", stored);
        }
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
        if subresource == "status" {
            carry_over(object, old, "/spec");
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        if subresource == "status" { validation::validate_status(object) } else { ErrorList::new() }
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let before = old.map(|old| formats::unrecognized(&internal_version::Spec::new(old))).unwrap_or_default();
        let known_before: BTreeSet<_> = before.into_iter().gather();
        let formats = formats::unrecognized(&internal_version::Spec::new(object));
        let new = formats.into_iter().filter(|format| !known_before.contains(format));
        new.map(|format| format!("unrecognized format {}", quote(format))).collect()
    }
}

fn says_nothing(webhook: &Value) -> bool {
    !is_set(webhook, "/clientConfig") && !is_set(webhook, "/conversionReviewVersions")
}

/// Returns the name of the first version with `storage: true`.
fn storage_version(object: &Value) -> Option<Value> {
    let storage = items(object, "/spec/versions").iter().find(|version| version["storage"] == true)?;
    Some(text(storage, "/name").into())
}

/// Returns the message for schemas that are nested too deeply. In kube-apiserver, only its JSON parser limits the
/// depth.
fn too_deep() -> String {
    format!("schemas must not be nested more than {MAX_DEPTH} levels deep")
}

/// Returns whether schemas are nested more deeply than the compiled form supports.
fn is_too_deep(schema: schema::Props<'_>) -> bool {
    schema.is_deeper_than(MAX_DEPTH - 1)
}

#[cfg(test)]
mod tests;
