//! ControllerRevisions: snapshots of the state of StatefulSets and DaemonSets.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::columns::{self, Column, Printer, column};
use crate::object::{boolean, copy, integer, items, text};
use crate::strategy::Strategy;
use crate::validate;

/// Strategy of ControllerRevisions.
#[derive(Debug, Clone, Copy)]
pub struct ControllerRevision;

const COLUMNS: &[Column] = &[
    columns::NAME,
    column("Controller", "string", "Controller of the object"),
    column("Revision", "string", "Revision indicates the revision of the state represented by Data."),
    columns::AGE,
];

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

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
        errors.extend(validate::immutable(&Path::new("data"), &copy(object, "/data"), &copy(old, "/data")));
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(object, "/metadata/ownerReferences");
    let controller = owners.iter().find(|owner| boolean(owner, "/controller") == Some(true));
    let shown = controller.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = match text(owner, "/apiVersion").split_once('/') {
                Some((group, _)) => format!("{}.{group}", text(owner, "/kind")),
                None => text(owner, "/kind").to_owned(),
            };
            format!("{}/{}", kind.to_lowercase(), text(owner, "/name"))
        },
    );
    let revision = integer(object, "/revision").unwrap_or_default();
    vec![columns::name(object), shown.into(), revision.into(), columns::age(object, now)]
}

fn revision(object: &Value) -> ErrorList {
    validate::non_negative(&Path::new("revision"), integer(object, "/revision").unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_data_is_required_and_immutable() {
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
