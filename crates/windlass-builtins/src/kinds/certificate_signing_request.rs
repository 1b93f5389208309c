//! CertificateSigningRequests, which never change after creation except by approval and issuance.
//!
//! Who asks (`spec.username`, `spec.groups`...) is for the server to fill in from the request's user.

mod validation;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::ErrorList;

use self::validation::Path as UpdatePath;
use super::columns_table::access;
use crate::object::{carry_over, copy, is_set, items, set, text};
use crate::strategy::{Column, NameRule, Strategy};

/// The strategy of CertificateSigningRequests.
#[derive(Debug, Clone, Copy)]
pub struct CertificateSigningRequest;

impl Strategy for CertificateSigningRequest {
    fn validate(&self, object: &Value) -> ErrorList {
        validation::request(object, None)
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value) {
        carry_over(object, old, "/spec");
        carry_over(object, old, "/status");
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        validation::update(object, old, UpdatePath::Main)
    }

    fn prepare_for_subresource_update(&self, subresource: &str, object: &mut Value, old: &Value) {
        carry_over(object, old, "/spec");
        match subresource {
            "status" => {
                // Only an approval may touch these, so what is there stays as it is.
                for kind in ["Approved", "Denied"] {
                    preserve_conditions(object, old, kind);
                }
                fill_in_times(object, old);
            }
            "approval" => {
                fill_in_times(object, old);
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

    fn name_rule(&self) -> NameRule {
        NameRule::PathSegment
    }

    fn selectable_fields(&self, object: &Value) -> Vec<(&'static str, String)> {
        vec![("spec.signerName", text(object, "/spec/signerName").to_owned())]
    }

    fn columns(&self) -> &'static [Column] {
        access::CERTIFICATE_SIGNING_REQUEST
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        access::certificate_signing_request(object, now)
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

/// Conditions that came without times get the present one; a condition that was there keeps its transition.
fn fill_in_times(object: &mut Value, old: &Value) {
    let now = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    for i in 0..items(object, "/status/conditions").len() {
        let condition = &mut object["status"]["conditions"][i];
        if !condition.is_object() {
            continue;
        }
        if !is_set(condition, "/lastUpdateTime") {
            set(condition, "/lastUpdateTime", now.clone());
        }
        if !is_set(condition, "/lastTransitionTime") {
            let same = items(old, "/status/conditions").iter().find(|before| {
                text(before, "/type") == text(condition, "/type")
                    && text(before, "/status") == text(condition, "/status")
                    && is_set(before, "/lastTransitionTime")
            });
            let time = same.map_or_else(|| Value::from(now.clone()), |before| copy(before, "/lastTransitionTime"));
            set(condition, "/lastTransitionTime", time);
        }
    }
}

#[cfg(test)]
mod tests;
