//! PriorityClasses.

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, Path};

use crate::columns::{AGE, Column, NAME, Printer, age, column, count, flag, name};
use crate::field_errors::FieldErrors;
use crate::object::{boolean, copy, integer, is_set, set_default, text};
use crate::strategy::Strategy;
use crate::validate;

/// Strategy of PriorityClasses.
#[derive(Debug, Clone, Copy)]
pub struct PriorityClass;

/// Highest priority of user-defined classes.
const HIGHEST: i64 = 1_000_000_000;

/// The names of the classes that every cluster has.
pub const SYSTEM_NAMES: [&str; 2] = ["system-node-critical", "system-cluster-critical"];

/// The classes that every cluster has: their values and descriptions, in the order of their names.
const SYSTEM: [(i64, &str); 2] = [
    (2_000_001_000, "Used for system critical pods that must not be moved from their current node."),
    (
        2_000_000_000,
        "Used for system critical pods that must run in the cluster, but can be moved to another node if necessary.",
    ),
];

/// Returns the classes that every cluster has.
pub fn system_classes() -> impl Iterator<Item = Value> {
    SYSTEM_NAMES.iter().zip(SYSTEM).map(|(name, (value, description))| {
        json!({
            "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass",
            "metadata": {"name": name}, "value": value, "description": description,
        })
    })
}

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PriorityClass {
    fn default(&self, object: &mut Value) {
        set_default(object, "/preemptionPolicy", "PreemptLowerPriority");
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let name = text(object, "/metadata/name");
        if name.starts_with("system-") {
            if let Some(problem) = system_problem(name, object) {
                let detail = format!(
                    "priority class names with 'system-' prefix are reserved for system use only. error: {problem}"
                );
                errors.forbidden(&Path::new("metadata").child("name"), detail);
            }
        } else if integer(object, "/value").unwrap_or_default() > HIGHEST {
            let detail = format!("maximum allowed value of a user defined priority is {HIGHEST}");
            errors.forbidden(&Path::new("value"), detail);
        }
        if is_set(object, "/preemptionPolicy") {
            let policies = ["PreemptLowerPriority", "Never"];
            errors.one_of(&Path::new("preemptionPolicy"), text(object, "/preemptionPolicy"), &policies);
        }
        errors
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if integer(object, "/value").unwrap_or_default() != integer(old, "/value").unwrap_or_default() {
            errors.forbidden(&Path::new("value"), "may not be changed in an update.");
        }
        let policy = "/preemptionPolicy";
        errors.extend(validate::immutable(&Path::new("preemptionPolicy"), &copy(object, policy), &copy(old, policy)));
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        count(object, "/value"),
        flag(object, "/globalDefault"),
        age(object, now),
        text(object, "/preemptionPolicy").into(),
    ]
}

/// Returns why a class with the system prefix is not a system class.
fn system_problem(name: &str, object: &Value) -> Option<String> {
    let system = SYSTEM_NAMES.iter().zip(SYSTEM).find(|(known, _)| **known == name);
    let Some((_, (value, _))) = system else {
        return Some(format!("{name} is not a known system priority class"));
    };
    if integer(object, "/value").unwrap_or_default() != value {
        return Some(format!("value of {name} PriorityClass must be {value}"));
    }
    (boolean(object, "/globalDefault") == Some(true))
        .then(|| format!("globalDefault of {name} PriorityClass must be false"))
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Value",
        "integer",
        "value represents the integer value of this priority class. This is the actual priority that pods receive when they have the name of this class in their pod spec.",
    ),
    column(
        "Global-Default",
        "boolean",
        "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default PriorityClasses will be used as the default priority.",
    ),
    AGE,
    column(
        "PreemptionPolicy",
        "string",
        "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_update};
    use expect_test::expect;

    fn class(name: &str, value: i64) -> Value {
        json!({"metadata": {"name": name}, "value": value})
    }

    #[test]
    fn the_prefix_and_the_highest_values_are_reserved_for_system_classes() {
        check_create(&PriorityClass, class("high", HIGHEST), expect![[""]]);
        check_create(
            &PriorityClass,
            class("high", HIGHEST + 1),
            expect![[r#"
            value: Forbidden: maximum allowed value of a user defined priority is 1000000000
        "#]],
        );
        check_create(
            &PriorityClass,
            class("system-mine", 1),
            expect![[r#"
            metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: system-mine is not a known system priority class
        "#]],
        );
        check_create(
            &PriorityClass,
            class("system-node-critical", 1),
            expect![[r#"
            metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: value of system-node-critical PriorityClass must be 2000001000
        "#]],
        );
        check_create(&PriorityClass, class("system-node-critical", 2_000_001_000), expect![[""]]);
        let mut default = class("system-cluster-critical", 2_000_000_000);
        default["globalDefault"] = json!(true);
        check_create(
            &PriorityClass,
            default,
            expect![[r#"
            metadata.name: Forbidden: priority class names with 'system-' prefix are reserved for system use only. error: globalDefault of system-cluster-critical PriorityClass must be false
        "#]],
        );
    }

    #[test]
    fn preemption_is_enabled_by_default() {
        let mut default = class("a", 1);
        PriorityClass.default(&mut default);
        assert_eq!(default["preemptionPolicy"], "PreemptLowerPriority");
        default["preemptionPolicy"] = json!("Sometimes");
        check_create(
            &PriorityClass,
            default.clone(),
            expect![[r#"
            preemptionPolicy: Unsupported value: "Sometimes": supported values: "PreemptLowerPriority", "Never"
        "#]],
        );
        default["preemptionPolicy"] = json!("");
        check_create(
            &PriorityClass,
            default,
            expect![[r#"
            preemptionPolicy: Required value
        "#]],
        );
    }

    #[test]
    fn value_and_policy_never_change() {
        let mut new = class("a", 2);
        new["preemptionPolicy"] = json!("Never");
        check_update(
            &PriorityClass,
            new,
            class("a", 1),
            expect![[r#"
            value: Forbidden: may not be changed in an update.
            preemptionPolicy: Invalid value: "Never": field is immutable
        "#]],
        );
        let mut new = class("a", 1);
        new["description"] = json!("d");
        check_update(&PriorityClass, new, class("a", 1), expect![[""]]);
    }
}
