//! PodGroups: pods that are scheduled together.

mod policy;

use jiff::Timestamp;
use serde_json::Value;
use windlass_schema::field::{ErrorList, Path};

pub(super) use self::policy::{drop_disabled, short_name, validate_policy};
use self::policy::{long_name, union};
use super::conditions;
use crate::columns::{AGE, Column, NAME, Printer, age, column, name};
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::object::{copy, is_set, items, remove, set, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of PodGroups.
#[derive(Debug, Clone, Copy)]
pub struct PodGroup;

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PodGroup {
    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(spec);
            // This field belongs to a feature that is off as well, but has a default.
            set(spec, "/disruptionMode", "Pod");
        }
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let spec = Path::new("spec");
        validate_template(object, &spec.child("podGroupTemplateRef"), &mut errors);
        validate_policy(&object["spec"]["schedulingPolicy"], &spec.child("schedulingPolicy"), &mut errors);
        errors
    }

    fn prepare_for_update(&self, object: &mut Value, _old: &Value, _context: &WriteContext<'_>) {
        if let Some(spec) = object.get_mut("spec") {
            drop_disabled(spec);
        }
    }

    fn validate_update(&self, object: &Value, old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        let changes = |field: &str| {
            let pointer = format!("/spec/{field}");
            !same(&copy(object, &pointer), &copy(old, &pointer))
        };
        for field in ["podGroupTemplateRef", "schedulingPolicy"] {
            if changes(field) {
                errors.invalid(&Path::new("spec").child(field), Value::Null, "field is immutable");
            }
        }
        if changes("disruptionMode") && is_set(object, "/spec/disruptionMode") {
            errors.forbidden(&Path::new("spec").child("disruptionMode"), "");
        }
        errors
    }

    fn prepare_for_subresource_update(
        &self,
        _subresource: &str,
        object: &mut Value,
        _old: &Value,
        _context: &WriteContext<'_>,
    ) {
        remove(object, "/status/resourceClaimStatuses");
    }

    fn validate_subresource_update(&self, _subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        conditions::validate(object, "/status/conditions", &Path::new("status").child("conditions"), &mut errors);
        errors
    }
}

/// Requires complete names in a reference to the template, if there is one.
fn validate_template(object: &Value, path: &Path, errors: &mut ErrorList) {
    let Some(template) = object.pointer("/spec/podGroupTemplateRef").filter(|template| !template.is_null()) else {
        return;
    };
    union(template, &["workload"], path, errors);
    if is_set(template, "/workload") {
        let path = path.child("workload");
        long_name(&path.child("workloadName"), text(template, "/workload/workloadName"), errors);
        let name = text(template, "/workload/podGroupTemplateName");
        short_name(&path.child("podGroupTemplateName"), name, errors);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let policy = if is_set(object, "/spec/schedulingPolicy/gang") { "Gang" } else { "Basic" };
    let workload = match is_set(object, "/spec/podGroupTemplateRef") {
        true => text(object, "/spec/podGroupTemplateRef/workload/workloadName"),
        false => "<none>",
    };
    let conditions = items(object, "/status/conditions");
    let find = |kind: &str| conditions.iter().rfind(|condition| text(condition, "/type") == kind);
    let status = match (find("DisruptionTarget"), find("PodGroupScheduled")) {
        (Some(target), _) => text(target, "/reason"),
        (None, Some(scheduled)) if text(scheduled, "/status") == "True" => "Scheduled",
        (None, Some(_)) => "Unschedulable",
        (None, None) => "Pending",
    };
    vec![name(object), policy.into(), workload.into(), status.into(), age(object, now)]
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Policy",
        "string",
        "SchedulingPolicy defines the scheduling policy for this instance of the PodGroup. Controllers are expected to fill this field by copying it from a PodGroupTemplate. This field is immutable.",
    ),
    column("Workload", "string", "Name of the referenced Workload object"),
    column("Status", "string", "Status of the PodGroup"),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::{check_create, check_status, check_update};
    use expect_test::expect;
    use serde_json::json;

    fn group(policy: Value) -> Value {
        json!({"metadata": {"name": "g"}, "spec": {"schedulingPolicy": policy}})
    }

    #[test]
    fn a_group_has_one_policy() {
        check_create(&PodGroup, group(json!({"basic": {}})), expect![[""]]);
        check_create(&PodGroup, group(json!({"gang": {"minCount": 1}})), expect![[""]]);
        check_create(
            &PodGroup,
            group(json!({})),
            expect![[r#"
            spec.schedulingPolicy: Invalid value: "": must specify one of: `basic`, `gang`
        "#]],
        );
        check_create(
            &PodGroup,
            group(json!({"basic": {}, "gang": {"minCount": 0}})),
            expect![[r#"
            spec.schedulingPolicy: Invalid value: "{basic, gang}": must specify exactly one of: `basic`, `gang`
            spec.schedulingPolicy.gang.minCount: Required value
        "#]],
        );
        check_create(
            &PodGroup,
            group(json!({"gang": {"minCount": -1}})),
            expect![[r#"
            spec.schedulingPolicy.gang.minCount: Invalid value: -1: must be greater than or equal to 1
        "#]],
        );
    }

    #[test]
    fn a_reference_to_a_template_is_complete() {
        let with = |template: Value| {
            let mut object = group(json!({"basic": {}}));
            object["spec"]["podGroupTemplateRef"] = template;
            object
        };
        check_create(
            &PodGroup,
            with(json!({})),
            expect![[r#"
            spec.podGroupTemplateRef: Invalid value: "": must specify one of: `workload`
        "#]],
        );
        check_create(
            &PodGroup,
            with(json!({"workload": {"workloadName": "A", "podGroupTemplateName": ""}})),
            expect![[r#"
                spec.podGroupTemplateRef.workload.workloadName: Invalid value: "A": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')
                spec.podGroupTemplateRef.workload.podGroupTemplateName: Required value
            "#]],
        );
        let workload = json!({"workload": {"workloadName": "w", "podGroupTemplateName": "t"}});
        check_create(&PodGroup, with(workload.clone()), expect![[""]]);
        check_update(
            &PodGroup,
            with(workload),
            group(json!({"gang": {"minCount": 2}})),
            expect![[r#"
            spec.podGroupTemplateRef: Invalid value: null: field is immutable
            spec.schedulingPolicy: Invalid value: null: field is immutable
        "#]],
        );
    }

    #[test]
    fn fields_of_disabled_features_are_dropped() {
        let mut object = group(json!({"basic": {}}));
        for (field, value) in [
            ("schedulingConstraints", json!({"topology": [{"key": "rack"}]})),
            ("resourceClaims", json!([{"name": "c"}])),
            ("priorityClassName", json!("high")),
            ("priority", json!(7)),
            ("disruptionMode", json!("PodGroup")),
        ] {
            object["spec"][field] = value;
        }
        PodGroup.prepare_for_create(&mut object, &WriteContext::test());
        assert_eq!(object["spec"], json!({"schedulingPolicy": {"basic": {}}, "disruptionMode": "Pod"}));
        let mut changed = object.clone();
        changed["spec"]["priority"] = json!(7);
        check_update(&PodGroup, changed.clone(), object.clone(), expect![[""]]);
        changed["spec"]["disruptionMode"] = json!("PodGroup");
        check_update(
            &PodGroup,
            changed,
            object,
            expect![[r#"
            spec.disruptionMode: Forbidden
        "#]],
        );
    }

    #[test]
    fn the_status_has_valid_conditions() {
        let mut object = group(json!({"basic": {}}));
        object["status"] = json!({"conditions": [{"type": "PodGroupScheduled", "status": "Yes"}]});
        check_status(
            &PodGroup,
            object,
            group(json!({"basic": {}})),
            expect![[r#"
            status.conditions[0].status: Unsupported value: "Yes": supported values: "False", "True", "Unknown"
            status.conditions[0].lastTransitionTime: Required value
            status.conditions[0].reason: Required value
        "#]],
        );
    }

    #[test]
    fn columns_show_the_policy_and_the_state() {
        let mut object = group(json!({"gang": {"minCount": 2}}));
        let states = |object: &Value| cells(object, Timestamp::UNIX_EPOCH)[1..4].to_vec();
        assert_eq!(states(&object), ["Gang", "<none>", "Pending"]);
        object["status"] = json!({"conditions": [{"type": "PodGroupScheduled", "status": "False"}]});
        object["spec"]["podGroupTemplateRef"] = json!({"workload": {"workloadName": "w"}});
        assert_eq!(states(&object), ["Gang", "w", "Unschedulable"]);
        object["status"]["conditions"][0]["status"] = json!("True");
        assert_eq!(states(&object), ["Gang", "w", "Scheduled"]);
        object["status"]["conditions"][0] = json!({"type": "DisruptionTarget", "reason": "PreemptionByScheduler"});
        assert_eq!(states(&object), ["Gang", "w", "PreemptionByScheduler"]);
    }
}
