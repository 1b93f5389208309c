//! Leases.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::object::{integer, is_set, remove, text};
use crate::strategy::{Strategy, WriteContext};
use crate::validate;

/// Strategy of Leases.
#[derive(Debug, Clone, Copy)]
pub struct Lease;

/// Fields of coordinated leader election, a feature gate that is off: they are dropped unless the old object has them.
const COORDINATED: [&str; 2] = ["/spec/strategy", "/spec/preferredHolder"];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for Lease {
    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        for field in COORDINATED {
            remove(object, field);
        }
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, _context: &WriteContext<'_>) {
        for field in COORDINATED {
            if !is_set(old, field) {
                remove(object, field);
            }
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let spec = Path::new("spec");
        let mut errors = ErrorList::new();
        if let Some(seconds) = integer(object, "/spec/leaseDurationSeconds").filter(|seconds| *seconds <= 0) {
            let path = spec.child("leaseDurationSeconds");
            errors.push(FieldError::invalid(&path, &seconds.into(), "must be greater than 0"));
        }
        if let Some(count) = integer(object, "/spec/leaseTransitions").filter(|count| *count < 0) {
            let path = spec.child("leaseTransitions");
            errors.push(FieldError::invalid(&path, &count.into(), "must be greater than or equal to 0"));
        }
        if let Some(strategy) = object.pointer("/spec/strategy").and_then(Value::as_str) {
            validate_strategy(strategy, &spec.child("strategy"), &mut errors);
        }
        if text(object, "/spec/strategy").is_empty() && !text(object, "/spec/preferredHolder").is_empty() {
            let detail = "may only be specified if `strategy` is defined";
            errors.push(FieldError::forbidden(&spec.child("preferredHolder"), detail));
        }
        errors
    }
}

/// Validates a strategy of coordinated leader election: a known one, or one with a domain.
pub(super) fn validate_strategy(strategy: &str, path: &Path, errors: &mut ErrorList) {
    // The doubled name is kube-apiserver's.
    let path = path.child("strategy");
    if strategy.contains('/') {
        errors.extend(validate::qualified_name(&path, strategy));
    } else if strategy != "OldestEmulationVersion" {
        errors.push(FieldError::not_supported(&path, &strategy.into(), &["OldestEmulationVersion"]));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), text(object, "/spec/holderIdentity").into(), age(object, now)]
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Holder",
        "string",
        "holderIdentity contains the identity of the holder of a current lease. If Coordinated Leader Election is used, the holder identity must be equal to the elected LeaseCandidate.metadata.name field.",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn durations_are_positive_and_transitions_not_negative() {
        let errors = Lease.validate(&json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}}));
        let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0"
            ]
        );
        assert!(Lease.validate(&json!({"spec": {"holderIdentity": "", "leaseDurationSeconds": 1}})).is_empty());
    }

    #[test]
    fn fields_of_coordinated_leader_election_are_dropped_unless_the_old_object_has_them() {
        let full = json!({"spec": {"strategy": "OldestEmulationVersion", "preferredHolder": "x"}});
        let mut object = full.clone();
        Lease.prepare_for_update(&mut object, &full, &WriteContext::test());
        assert_eq!(object, full);
        Lease.prepare_for_create(&mut object, &WriteContext::test());
        assert_eq!(object, json!({"spec": {}}));
    }
}
