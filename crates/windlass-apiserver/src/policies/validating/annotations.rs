//! Annotations of audit events with the findings of validating policies.

use std::collections::BTreeMap;

use windlass_schema::go_format;

use super::{Binding, evaluate::Decision};
use crate::call::Call;

const FAILURE: &str = "validation.policy.admission.k8s.io/validation_failure";
/// The maximum length of a value.
const MAX_VALUE: usize = 10 * 1024;

/// Records a failed validation.
pub(super) fn record_failure(call: &Call<'_>, binding: &Binding, decision: &Decision) {
    let Some(audit) = call.audit else { return };
    let text = |text: &str| go_format::marshal(&text.into());
    let actions: Vec<String> = binding.actions.iter().map(|action| text(action.name())).collect();
    let value = format!(
        r#"[{{"message":{},"policy":{},"binding":{},"expressionIndex":{},"validationActions":[{}]}}]"#,
        text(&decision.message),
        text(&binding.policy),
        text(&binding.name),
        decision.index,
        actions.join(",")
    );
    audit.annotate(FAILURE, &value);
}

/// The annotations of a policy, with the values that its bindings and parameters lead to.
#[derive(Default)]
pub(super) struct Collector(BTreeMap<String, Vec<String>>);

impl Collector {
    /// Adds a value, truncated if it is too long.
    pub(super) fn add(&mut self, key: String, mut value: String) {
        value.truncate(value.floor_char_boundary(MAX_VALUE));
        let values = self.0.entry(key).or_default();
        if !values.contains(&value) {
            values.push(value);
        }
    }

    /// Records the annotations.
    pub(super) fn publish(self, call: &Call<'_>, policy: &str) {
        let Some(audit) = call.audit else { return };
        for (key, values) in self.0 {
            audit.annotate(&format!("{policy}/{key}"), &values.join(", "));
        }
    }
}
