//! MutatingWebhookConfigurations and ValidatingWebhookConfigurations: who is asked before a write.

mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::ErrorList;

use self::validation::Rules;
use super::columns_table::{Printer, printer};
use crate::object::{is_set, items, set_default};
use crate::strategy::{Column, Strategy};

/// The strategy of webhook configurations.
#[derive(Debug, Clone, Copy)]
pub struct WebhookConfiguration {
    /// Whether the webhooks may change objects.
    mutating: bool,
}

impl WebhookConfiguration {
    /// Those that may change objects.
    pub const MUTATING: Self = Self { mutating: true };
    /// Those that may only refuse.
    pub const VALIDATING: Self = Self { mutating: false };

    fn printer(self) -> Option<Printer> {
        let plural = if self.mutating { "mutatingwebhookconfigurations" } else { "validatingwebhookconfigurations" };
        printer("admissionregistration.k8s.io", plural)
    }
}

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

    fn has_generation(&self) -> bool {
        true
    }

    fn allows_unconditional_update(&self) -> bool {
        false
    }

    fn columns(&self) -> &'static [Column] {
        self.printer().map(|printer| printer.columns).unwrap_or_default()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        self.printer().map(|printer| (printer.cells)(object, now)).unwrap_or_default()
    }
}

fn list_mut<'a>(value: &'a mut Value, field: &str) -> impl Iterator<Item = &'a mut Value> {
    value.get_mut(field).and_then(Value::as_array_mut).into_iter().flatten()
}

#[cfg(test)]
mod tests;
