//! Annotations of audit events about webhooks.

use serde_json::Value;
use windlass_schema::{field::quote, json};

use super::super::configuration::Hook;
use crate::call::Call;

/// The place of a webhook among all that may be called for a request.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place {
    /// 0, or 1 if mutating webhooks are called again.
    pub(super) round: usize,
    pub(super) index: usize,
}

impl Place {
    fn key(self, prefix: &str) -> String {
        format!("{prefix}.webhook.admission.k8s.io/round_{}_index_{}", self.round, self.index)
    }
}

/// Records whether a mutating webhook changed the object.
pub(super) fn mutated(call: &Call<'_>, hook: &Hook, place: Place, mutated: bool) {
    let Some(audit) = call.audit else { return };
    let (configuration, name) = (quote(&hook.configuration), quote(&hook.name));
    let value = format!(r#"{{"configuration":{configuration},"webhook":{name},"mutated":{mutated}}}"#);
    audit.annotate(&place.key("mutation"), &value);
}

/// Records the patch of a mutating webhook.
pub(super) fn patched(call: &Call<'_>, hook: &Hook, place: Place, patch: &[u8]) {
    let Some(audit) = call.audit.filter(|audit| audit.wants_request()) else { return };
    let Ok(patch) = json::parse(patch) else { return };
    let patch = json::encode(&patch.value);
    let (configuration, name, patch) = (quote(&hook.configuration), quote(&hook.name), String::from_utf8_lossy(&patch));
    let value =
        format!(r#"{{"configuration":{configuration},"webhook":{name},"patch":{patch},"patchType":"JSONPatch"}}"#);
    audit.annotate(&place.key("patch"), &value);
}

/// Records that the failure of a webhook was ignored. `kind` is `mutation` or `validating`.
pub(super) fn failed_open(call: &Call<'_>, hook: &Hook, place: Place, kind: &str) {
    if let Some(audit) = call.audit {
        audit.annotate(&place.key(&format!("failed-open.{kind}")), &hook.name);
    }
}

/// Records the annotations in the response of a webhook, under its name.
pub(super) fn own(call: &Call<'_>, hook: &Hook, answer: &Value) {
    let Some(audit) = call.audit else { return };
    for (key, value) in answer["response"]["auditAnnotations"].as_object().into_iter().flatten() {
        audit.annotate(&format!("{}/{key}", hook.name), value.as_str().unwrap_or_default());
    }
}
