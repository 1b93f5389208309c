//! CertificateSigningRequests, which change after creation only by approval and issuance.
//!
//! The requester (`spec.username`, `spec.groups`...) is always the user who creates the object.

mod printer;
mod validation;

use serde_json::{Value, json};
use windlass_schema::field::ErrorList;

pub(crate) use self::printer::PRINTER;
use self::validation::Path as UpdatePath;
pub(in crate::kinds) use self::validation::signer_name;
use crate::object::{carry_over, copy, is_set, items, set, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of CertificateSigningRequests.
#[derive(Debug, Clone, Copy)]
pub struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn prepare_for_create(&self, object: &mut Value, context: &WriteContext<'_>) {
        set_requester(object, context);
    }

    fn validate(&self, object: &Value) -> ErrorList {
        validation::request(object, None)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        carry_over(object, old, "/spec");
        carry_over(object, old, "/status");
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::update(object, old, UpdatePath::Main)
    }

    fn prepare_for_subresource_update(
        &self,
        subresource: &str,
        object: &mut Value,
        old: &Value,
        context: &WriteContext<'_>,
    ) {
        carry_over(object, old, "/spec");
        match subresource {
            "status" => {
                // Only an approval may change these conditions, so the old ones are restored.
                for kind in ["Approved", "Denied"] {
                    preserve_conditions(object, old, kind);
                }
                fill_in_times(object, old, &context.time());
            }
            "approval" => {
                fill_in_times(object, old, &context.time());
                let conditions = copy(object, "/status/conditions");
                carry_over(object, old, "/status");
                if conditions.is_array() {
                    set(object, "/status/conditions", conditions);
                } else {
                    crate::object::remove(object, "/status/conditions");
                }
            }
            _ => {}
        }
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, old: &Value) -> ErrorList {
        match subresource {
            "status" => validation::update(object, old, UpdatePath::Status),
            "approval" => validation::update(object, old, UpdatePath::Approval),
            _ => ErrorList::new(),
        }
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", text(object, "/spec/signerName").to_owned())]
    }
}

/// Records the user who requests the certificate.
fn set_requester(object: &mut Value, context: &WriteContext<'_>) {
    set(object, "/spec/username", context.user_name);
    set(object, "/spec/groups", context.groups.to_vec());
    if !context.user_uid.is_empty() {
        set(object, "/spec/uid", context.user_uid);
    }
    if !context.extra.is_empty() {
        set(object, "/spec/extra", json!(context.extra));
    }
}

fn places(object: &Value, kind: &str) -> Vec<usize> {
    let conditions = items(object, "/status/conditions").iter().enumerate();
    conditions.filter(|(_, condition)| text(condition, "/type") == kind).map(|(i, _)| i).collect()
}

fn preserve_conditions(object: &mut Value, old: &Value, kind: &str) {
    let (new_places, old_places) = (places(object, kind), places(old, kind));
    if new_places.len() == old_places.len() {
        for (new, old_place) in new_places.into_iter().zip(old_places) {
            object["status"]["conditions"][new] = items(old, "/status/conditions")[old_place].clone();
        }
    }
}

/// Sets missing times of conditions to `now`; a condition whose status has not changed keeps its transition time.
fn fill_in_times(object: &mut Value, old: &Value, now: &str) {
    for i in 0..items(object, "/status/conditions").len() {
        let condition = &mut object["status"]["conditions"][i];
        if !condition.is_object() {
            continue;
        }
        if !is_set(condition, "/lastUpdateTime") {
            set(condition, "/lastUpdateTime", now);
        }
        if !is_set(condition, "/lastTransitionTime") {
            let same = items(old, "/status/conditions").iter().find(|before| {
                text(before, "/type") == text(condition, "/type")
                    && text(before, "/status") == text(condition, "/status")
                    && is_set(before, "/lastTransitionTime")
            });
            let time = same.map_or_else(|| Value::from(now), |before| copy(before, "/lastTransitionTime"));
            set(condition, "/lastTransitionTime", time);
        }
    }
}

#[cfg(test)]
mod tests;
