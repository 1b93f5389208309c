//! ControllerRevisions: what a StatefulSet or DaemonSet looked like once.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::columns_table::workloads;
use crate::check;
use crate::object::{copy, integer};
use crate::strategy::{Column, Strategy};

/// The strategy of ControllerRevisions.
#[derive(Debug, Clone, Copy)]
pub struct ControllerRevision;

impl Strategy for ControllerRevision {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = revision(object);
        let detail = match object.get("data") {
            None | Some(Value::Null) => Some("data is mandatory"),
            Some(Value::Object(_)) => None,
            Some(_) => Some("data must be a valid JSON object"),
        };
        errors.extend(detail.map(|detail| FieldError::required(&Path::new("data"), detail)));
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = revision(object);
        errors.extend(check::immutable(&Path::new("data"), &copy(object, "/data"), &copy(old, "/data")));
        errors
    }

    fn columns(&self) -> &'static [Column] {
        workloads::CONTROLLER_REVISION
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        workloads::controller_revision(object, now)
    }
}

fn revision(object: &Value) -> ErrorList {
    check::non_negative(&Path::new("revision"), integer(object, "/revision").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_data_is_there_from_the_start_and_stays() {
        let show = |errors: ErrorList| errors.iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(
            show(ControllerRevision.validate(&json!({"revision": -1}))),
            [
                "revision: Invalid value: -1: must be greater than or equal to 0",
                "data: Required value: data is mandatory"
            ]
        );
        let old = json!({"data": {"spec": {"x": 1}}, "revision": 1});
        assert!(ControllerRevision.validate(&old).is_empty());
        assert_eq!(
            show(ControllerRevision.validate_update(&json!({"data": {"spec": {"x": 2}}, "revision": 2}), &old)),
            ["data: Invalid value: {\"spec\":{\"x\":2}}: field is immutable"]
        );
    }
}
