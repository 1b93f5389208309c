//! DeviceTaintRules, which taint the devices that they select.

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use super::conditions;
use super::device_claim::{driver_name, pool_name};
use super::resource_slice::validate_taint;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name, since};
use crate::field_errors::FieldErrors;
use crate::object::{copy, is_set, items, set, set_default, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of DeviceTaintRules.
#[derive(Debug, Clone, Copy)]
pub struct DeviceTaintRule;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

const CONDITIONS: usize = 8;

impl Strategy for DeviceTaintRule {
    fn prepare_for_create(&self, object: &mut Value, context: &WriteContext<'_>) {
        set_default(object, "/spec/taint/timeAdded", context.time());
    }

    fn prepare_for_update(&self, object: &mut Value, old: &Value, context: &WriteContext<'_>) {
        set_default(object, "/spec/taint/timeAdded", context.time());
        let same = |pointer: &str| copy(object, pointer) == copy(old, pointer);
        if !same("/spec/taint/effect") && same("/spec/taint/timeAdded") {
            set(object, "/spec/taint/timeAdded", context.time());
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let selector = Path::new("spec").child("deviceSelector");
        let field = |field: &str| object.pointer(&format!("/spec/deviceSelector/{field}")).and_then(Value::as_str);
        if let Some(driver) = field("driver") {
            driver_name(&selector.child("driver"), driver, &mut errors);
        }
        if let Some(pool) = field("pool") {
            pool_name(&selector.child("pool"), pool, &mut errors);
        }
        if let Some(device) = field("device") {
            errors.dns_label(&selector.child("device"), device);
        }
        validate_taint(&object["spec"]["taint"], &Path::new("spec").child("taint"), &mut errors);
        errors
    }

    fn validate_subresource_update(&self, _subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let path = Path::new("status").child("conditions");
        let mut errors = ErrorList::new();
        conditions::validate(object, "/status/conditions", &path, &mut errors);
        let count = items(object, "/status/conditions").len();
        if count > CONDITIONS {
            errors.push(FieldError::too_many(&path, count, CONDITIONS));
        }
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let taint = |field: &str| Value::from(text(object, &format!("/spec/taint/{field}")));
    let added = match is_set(object, "/spec/taint/timeAdded") {
        true => since(object, "/spec/taint/timeAdded", now),
        false => String::new(),
    };
    vec![name(object), taint("key"), taint("value"), taint("effect"), added.into(), age(object, now)]
}

const COLUMNS: &[Column] = &[
    NAME,
    column("Key", "string", "The taint key to be applied to a device. Must be a label name."),
    column("Value", "string", "The taint value corresponding to the taint key. Must be a label value."),
    column(
        "Effect",
        "string",
        "The effect of the taint on claims that do not tolerate the taint and through such claims on the pods using them.\n\nValid effects are None, NoSchedule and NoExecute. PreferNoSchedule as used for nodes is not valid here. More effects may get added in the future. Consumers must treat unknown effects like None.",
    ),
    column(
        "TimeAdded",
        "string",
        "TimeAdded represents the time at which the taint was added or (only in a DeviceTaintRule) the effect was modified. Added automatically during create or update if not set.\n\nIn addition, in a DeviceTaintRule a value provided during an update gets replaced with the current time if the provided value is the same as the old one and the new effect is different. Changing the key and/or value while keeping the effect unchanged is possible and does not update the time stamp because the eviction which uses it is either already started (NoExecute) or not started yet (NoEffect, NoSchedule).",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn rule(effect: &str) -> Value {
        json!({
            "metadata": {"name": "r"},
            "spec": {"deviceSelector": {"driver": "gpu.example.com"}, "taint": {"key": "a/b", "effect": effect}},
        })
    }

    #[test]
    fn selectors_and_taints_are_validated() {
        check_create(&DeviceTaintRule, rule("NoExecute"), expect![[""]]);
        check_create(
            &DeviceTaintRule,
            json!({"spec": {
                "deviceSelector": {"driver": "", "pool": "/", "device": "A"},
                "taint": {"key": "", "value": "-"},
            }}),
            expect![[r#"
                spec.deviceSelector.driver: Required value
                spec.deviceSelector.pool: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.deviceSelector.pool: Invalid value: "": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.deviceSelector.device: Invalid value: "A": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')
                spec.taint.key: Invalid value: "": name part must be non-empty
                spec.taint.key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
                spec.taint.value: Invalid value: "-": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
                spec.taint.effect: Required value
            "#]],
        );
        check_update(
            &DeviceTaintRule,
            rule("Unheard"),
            rule("None"),
            expect![[r#"
            spec.taint.effect: Unsupported value: "Unheard": supported values: "NoExecute", "NoSchedule", "None"
        "#]],
        );
    }

    #[test]
    fn a_taint_is_dated_when_its_effect_changes() {
        let now = WriteContext::test().time();
        let mut created = rule("None");
        DeviceTaintRule.prepare_for_create(&mut created, &WriteContext::test());
        assert_eq!(created["spec"]["taint"]["timeAdded"], now);

        let at = |effect: &str, time: &str| {
            let mut rule = rule(effect);
            set(&mut rule, "/spec/taint/timeAdded", time);
            rule
        };
        let updated = |mut rule: Value, old: &Value| {
            DeviceTaintRule.prepare_for_update(&mut rule, old, &WriteContext::test());
            rule["spec"]["taint"]["timeAdded"].clone()
        };
        let (before, chosen) = ("2020-01-01T00:00:00Z", "2021-01-01T00:00:00Z");
        let old = at("None", before);
        assert_eq!(updated(at("None", before), &old), before);
        assert_eq!(updated(at("NoExecute", before), &old), now);
        assert_eq!(updated(at("NoExecute", chosen), &old), chosen);
    }

    #[test]
    fn a_status_has_at_most_eight_conditions() {
        let with = |count: usize| {
            let condition = |at: usize| json!({"type": format!("C{at}"), "status": "True", "reason": "R", "lastTransitionTime": "2026-01-01T00:00:00Z"});
            let mut rule = rule("None");
            rule["status"] = json!({"conditions": (0..count).map(condition).collect::<Vec<_>>()});
            rule
        };
        check_status(&DeviceTaintRule, with(8), rule("None"), expect![[""]]);
        check_status(
            &DeviceTaintRule,
            with(9),
            rule("None"),
            expect![[r#"
            status.conditions: Too many: 9: must have at most 8 items
        "#]],
        );
    }
}
