//! MutatingWebhookConfigurations and ValidatingWebhookConfigurations.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::ErrorList;

use self::validation::Rules;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{is_set, items, list_mut, set_default};
use crate::strategy::Strategy;

/// Strategy of webhook configurations.
#[derive(Debug, Clone, Copy)]
pub struct WebhookConfiguration {
    /// Whether the webhooks may change objects.
    mutating: bool,
}

impl WebhookConfiguration {
    /// MutatingWebhookConfigurations.
    pub const MUTATING: Self = Self { mutating: true };
    /// ValidatingWebhookConfigurations.
    pub const VALIDATING: Self = Self { mutating: false };
}

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

const COLUMNS: &[Column] = &[
    NAME,
    column("Webhooks", "integer", "Webhooks indicates the number of webhooks registered in this configuration"),
    AGE,
];

impl Strategy for WebhookConfiguration {
    fn default(&self, object: &mut Value) {
        for webhook in list_mut(object, "webhooks") {
            set_default(webhook, "/failurePolicy", "Fail");
            set_default(webhook, "/matchPolicy", "Equivalent");
            set_default(webhook, "/namespaceSelector", json!({}));
            set_default(webhook, "/objectSelector", json!({}));
            set_default(webhook, "/timeoutSeconds", 10);
            if self.mutating {
                set_default(webhook, "/reinvocationPolicy", "Never");
            }
            if is_set(webhook, "/clientConfig/service") {
                set_default(webhook, "/clientConfig/service/port", 443);
            }
            for rule in list_mut(webhook, "rules") {
                set_default(rule, "/scope", "*");
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::validate(items(object, "/webhooks"), self.mutating, &Rules::default())
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let webhooks = items(object, "/webhooks");
        validation::validate(webhooks, self.mutating, &Rules::of_update(webhooks, items(old, "/webhooks")))
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "/webhooks").len().into(), age(object, now)]
}

#[cfg(test)]
mod tests;
