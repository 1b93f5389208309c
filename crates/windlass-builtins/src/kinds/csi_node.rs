//! CSINodes: the CSI drivers that run on a node.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

use super::pod::validation::volumes::validate_driver_name;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::field_errors::FieldErrors;
use crate::object::{copy, integer, items, text};
use crate::strategy::Strategy;
use crate::validate::go_struct;

/// Strategy of CSINodes.
#[derive(Debug, Clone, Copy)]
pub struct CsiNode;

const MAX_NODE_ID: usize = 256;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for CsiNode {
    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let path = Path::new("spec").child("drivers");
        let mut names = BTreeSet::new();
        for (index, driver) in items(object, "/spec/drivers").iter().enumerate() {
            let path = path.index(index);
            let name = text(driver, "/name");
            validate_driver_name(name, &path.child("name"), &mut errors);
            let id = text(driver, "/nodeID");
            errors.nonempty(&path.child("nodeID"), id);
            if id.len() > MAX_NODE_ID {
                errors.invalid(&path.child("nodeID"), id, format!("must be {MAX_NODE_ID} characters or less"));
            }
            let count = integer(driver, "/allocatable/count");
            errors.nonnegative(&path.child("allocatable").child("count"), count);
            if !names.insert(name) {
                errors.duplicate(&path.child("name"), name);
            }
            let mut keys = BTreeSet::new();
            for key in items(driver, "/topologyKeys").iter().map(|key| key.as_str().unwrap_or_default()) {
                errors.nonempty(&path, key);
                if !keys.insert(key) {
                    errors.duplicate(&path, key);
                }
                errors.qualified_name(&path, key);
            }
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = self.validate(object);
        for had in items(old, "/spec/drivers") {
            for new in items(object, "/spec/drivers") {
                let parts = |driver| (copy(driver, "/nodeID"), items(driver, "/topologyKeys").to_vec());
                if text(new, "/name") == text(had, "/name") && parts(new) != parts(had) {
                    // The number of attachable volumes may change.
                    let shown = go_struct(&[
                        ("Name", &copy(new, "/name")),
                        ("NodeID", &copy(new, "/nodeID")),
                        ("TopologyKeys", &copy(new, "/topologyKeys")),
                        ("Allocatable", &Value::Null),
                    ]);
                    errors.invalid_shown(&Path::new("spec").child("drivers"), shown, "field is immutable");
                }
            }
        }
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![name(object), items(object, "/spec/drivers").len().into(), age(object, now)]
}

const COLUMNS: &[Column] =
    &[NAME, column("Drivers", "integer", "Drivers indicates the number of CSI drivers registered on the node"), AGE];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn node(drivers: Value) -> Value {
        json!({"metadata": {"name": "n"}, "spec": {"drivers": drivers}})
    }

    #[test]
    fn drivers_have_unique_names_and_node_ids() {
        check_create(&CsiNode, node(json!([{"name": "a.b", "nodeID": "n", "topologyKeys": ["x/y"]}])), expect![[""]]);
        let bad = json!([{"name": "A_", "allocatable": {"count": -1}, "topologyKeys": ["", "a", "a"]}, {"name": "A_", "nodeID": "n"}]);
        check_create(
            &CsiNode,
            node(bad),
            expect![[r#"
            spec.drivers[0].name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.drivers[0].nodeID: Required value
            spec.drivers[0].allocatable.count: Invalid value: -1: must be greater than or equal to 0
            spec.drivers[0]: Required value
            spec.drivers[0]: Invalid value: "": name part must be non-empty
            spec.drivers[0]: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
            spec.drivers[0]: Duplicate value: "a"
            spec.drivers[1].name: Invalid value: "A_": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
            spec.drivers[1].name: Duplicate value: "A_"
        "#]],
        );
    }

    #[test]
    fn only_the_allocatable_volumes_of_a_driver_may_change() {
        let driver = |id: &str, count: i64| {
            node(json!([{"name": "a", "nodeID": id, "topologyKeys": null, "allocatable": {"count": count}}]))
        };
        check_update(&CsiNode, driver("n", 2), driver("n", 1), expect![[""]]);
        check_update(
            &CsiNode,
            driver("m", 1),
            driver("n", 1),
            expect![[r#"
            spec.drivers: Invalid value: {"Name":"a","NodeID":"m","TopologyKeys":null,"Allocatable":null}: field is immutable
        "#]],
        );
    }
}
