//! ServiceAccounts.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns::{AGE, NAME, Printer, age, name};
use crate::object::{map, text};
use crate::strategy::{Strategy, WriteContext};

const ENFORCE_MOUNTABLE_SECRETS: &str = "kubernetes.io/enforce-mountable-secrets";

/// Strategy of ServiceAccounts.
#[derive(Debug, Clone, Copy)]
pub struct ServiceAccount;

pub(crate) const PRINTER: Printer = Printer::new(const { &[NAME, AGE] }, cells);

impl Strategy for ServiceAccount {
    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        keep_only_names_of_secrets(object);
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        keep_only_names_of_secrets(object);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = |object| {
            map(object, "/metadata/annotations").is_some_and(|all| all.contains_key(ENFORCE_MOUNTABLE_SECRETS))
        };
        if !annotated(object) || old.is_some_and(annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE_SECRETS}]: deprecated in v1.32+; prefer separate namespaces to \
             isolate access to mounted secrets"
        )]
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), age(object, now)]
}

fn keep_only_names_of_secrets(object: &mut Value) {
    let Some(secrets) = object.get_mut("secrets").and_then(Value::as_array_mut) else { return };
    for secret in secrets {
        *secret = match text(secret, "/name") {
            "" => json!({}),
            name => json!({"name": name}),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_secrets_are_kept() {
        let mut object = json!({"secrets": [{"name": "a", "namespace": "x", "kind": "Secret"}, {"uid": "u"}]});
        ServiceAccount.prepare_for_update(&mut object, &json!({}), &WriteContext::test());
        assert_eq!(object, json!({"secrets": [{"name": "a"}, {}]}));
    }

    #[test]
    fn the_mountable_secrets_annotation_warns_when_it_is_new() {
        let with = json!({"metadata": {"annotations": {ENFORCE_MOUNTABLE_SECRETS: "true"}}});
        assert_eq!(
            ServiceAccount.warnings(&with, None),
            [
                "metadata.annotations[kubernetes.io/enforce-mountable-secrets]: deprecated in v1.32+; prefer separate namespaces to isolate access to mounted secrets"
            ]
        );
        assert!(ServiceAccount.warnings(&with, Some(&with)).is_empty());
        assert!(ServiceAccount.warnings(&json!({}), None).is_empty());
    }
}
