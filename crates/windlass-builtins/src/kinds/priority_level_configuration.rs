//! PriorityLevelConfigurations: limits on the concurrent requests of a priority level.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::columns::{AGE, Column, NAME, Printer, age, column, count, name};
use crate::field_errors::FieldErrors;
use crate::go_type::GoType;
use crate::object::{integer, is_set, items, map, set, set_default, text};
use crate::strategy::{Strategy, WriteContext};

/// Strategy of PriorityLevelConfigurations.
#[derive(Debug, Clone, Copy)]
pub struct PriorityLevelConfiguration;

const MAX_QUEUES: i64 = 10_000_000;
const MAX_HASH_BITS: i64 = 60;
/// kube-apiserver's internal type of the spec.
const SPEC: GoType = GoType::Struct(&[
    ("Type", "type", GoType::STRING),
    (
        "Limited",
        "limited",
        GoType::Pointer(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", GoType::INT),
            ("LimitResponse", "limitResponse", RESPONSE),
            ("LendablePercent", "lendablePercent", GoType::INT_POINTER),
            ("BorrowingLimitPercent", "borrowingLimitPercent", GoType::INT_POINTER),
        ]),
    ),
    (
        "Exempt",
        "exempt",
        GoType::Pointer(&[
            ("NominalConcurrencyShares", "nominalConcurrencyShares", GoType::INT_POINTER),
            ("LendablePercent", "lendablePercent", GoType::INT_POINTER),
        ]),
    ),
]);
const RESPONSE: GoType = GoType::Struct(&[
    ("Type", "type", GoType::STRING),
    (
        "Queuing",
        "queuing",
        GoType::Pointer(&[
            ("Queues", "queues", GoType::INT),
            ("HandSize", "handSize", GoType::INT),
            ("QueueLengthLimit", "queueLengthLimit", GoType::INT),
        ]),
    ),
]);
const PRESERVE_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

pub(crate) const PRINTER: Printer = Printer::new(COLUMNS, cells);

impl Strategy for PriorityLevelConfiguration {
    fn default(&self, object: &mut Value) {
        for (kind, shares) in [("exempt", 0), ("limited", 30)] {
            let at = format!("/spec/{kind}");
            if is_set(object, &at) {
                set_default(object, &format!("{at}/nominalConcurrencyShares"), shares);
                set_default(object, &format!("{at}/lendablePercent"), 0);
            }
        }
        let queuing = "/spec/limited/limitResponse/queuing";
        if is_set(object, queuing) {
            for (field, value) in [("handSize", 8), ("queues", 64), ("queueLengthLimit", 50)] {
                let at = format!("{queuing}/{field}");
                if integer(object, &at).unwrap_or_default() == 0 {
                    set(object, &at, value);
                }
            }
        }
    }

    fn prepare_for_create(&self, object: &mut Value, _context: &WriteContext<'_>) {
        set(object, "/status", json!({}));
    }

    fn validate(&self, object: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if map(object, "/metadata/annotations").is_some_and(|all| all.contains_key(PRESERVE_ZERO)) {
            let detail = format!("annotation '{PRESERVE_ZERO}' is forbidden");
            errors.forbidden(&Path::new("metadata").child("annotations"), detail);
        }
        validate_spec(object, &Path::new("spec"), &mut errors);
        validate_if_mandatory(object, &mut errors);
        validate_conditions(object, &mut errors);
        errors
    }

    fn validate_subresource_update(&self, subresource: &str, object: &Value, _old: &Value) -> ErrorList {
        let mut errors = ErrorList::new();
        if subresource == "status" {
            validate_conditions(object, &mut errors);
        }
        errors
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let limited = |under: &str, field: &str| {
        if is_set(object, under) { count(object, &format!("{under}/{field}")) } else { "<none>".into() }
    };
    let queuing = "/spec/limited/limitResponse/queuing";
    vec![
        name(object),
        text(object, "/spec/type").into(),
        limited("/spec/limited", "nominalConcurrencyShares"),
        limited(queuing, "queues"),
        limited(queuing, "handSize"),
        limited(queuing, "queueLengthLimit"),
        age(object, now),
    ]
}

/// Rejects changes of the levels that every cluster has in the same form. The shares of `exempt` may be changed.
fn validate_if_mandatory(object: &Value, errors: &mut ErrorList) {
    let spec = &object["spec"];
    match text(object, "/metadata/name") {
        "exempt" => {
            let fixed = json!({"type": "Exempt", "exempt": spec["exempt"]});
            if !SPEC.is_equal(&fixed, spec) {
                let detail = "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value";
                errors.push(not_fixed(&SPEC, object, detail));
            }
        }
        "catch-all" => {
            let limited = json!({
                "nominalConcurrencyShares": 5, "lendablePercent": 0, "limitResponse": {"type": "Reject"},
            });
            if !SPEC.is_equal(&json!({"type": "Limited", "limited": limited}), spec) {
                errors.push(not_fixed(&SPEC, object, "spec of 'catch-all' must equal the fixed value"));
            }
        }
        _ => {}
    }
}

/// Returns the error of a spec that may not be changed.
pub(super) fn not_fixed(of: &GoType, object: &Value, detail: &str) -> FieldError {
    let error = FieldError::invalid(&Path::new("spec"), &Value::Null, detail);
    FieldError { value: Some(of.encode(&object["spec"])), ..error }
}

/// Validates the conditions of a status: each type must occur only once.
pub(super) fn validate_conditions(object: &Value, errors: &mut ErrorList) {
    let mut types = BTreeSet::new();
    for (index, condition) in items(object, "/status/conditions").iter().enumerate() {
        let path = Path::new("status").child("conditions").index(index).child("type");
        let kind = text(condition, "/type");
        if !types.insert(kind) {
            errors.duplicate(&path, kind);
        }
        errors.nonempty(&path, kind);
    }
}

fn validate_spec(object: &Value, path: &Path, errors: &mut ErrorList) {
    let kind = text(object, "/spec/type");
    if (text(object, "/metadata/name") == "exempt") != (kind == "Exempt") {
        errors.invalid(&path.child("type"), kind, "must be 'Exempt' if and only if `name` is 'exempt'");
    }
    let (is_limited, is_exempt) = (is_set(object, "/spec/limited"), is_set(object, "/spec/exempt"));
    match kind {
        "Exempt" => {
            if is_limited {
                errors.forbidden(&path.child("limited"), "must be nil if the type is not Limited");
            }
            if is_exempt {
                validate_shares(object, "exempt", &path.child("exempt"), errors);
                validate_lendable(object, "exempt", &path.child("exempt"), errors);
            }
        }
        "Limited" => {
            if is_exempt {
                errors.forbidden(&path.child("exempt"), "must be nil if the type is Limited");
            }
            if is_limited {
                validate_limited(object, &path.child("limited"), errors);
            } else {
                errors.required_because(&path.child("limited"), "must not be empty when type is Limited");
            }
        }
        other => errors.one_of(&path.child("type"), other, &["Exempt", "Limited"]),
    }
}

fn validate_shares(object: &Value, under: &str, path: &Path, errors: &mut ErrorList) {
    let shares = integer(object, &format!("/spec/{under}/nominalConcurrencyShares"));
    if let Some(shares) = shares.filter(|shares| *shares < 0) {
        errors.invalid(&path.child("nominalConcurrencyShares"), shares, "must be a non-negative integer");
    }
}

fn validate_lendable(object: &Value, under: &str, path: &Path, errors: &mut ErrorList) {
    let percent = integer(object, &format!("/spec/{under}/lendablePercent"));
    if let Some(percent) = percent.filter(|percent| !(0..=100).contains(percent)) {
        errors.invalid(&path.child("lendablePercent"), percent, "must be between 0 and 100, inclusive");
    }
}

fn validate_limited(object: &Value, path: &Path, errors: &mut ErrorList) {
    validate_shares(object, "limited", path, errors);
    let response = path.child("limitResponse");
    let queuing = object.pointer("/spec/limited/limitResponse/queuing").filter(|queuing| !queuing.is_null());
    match (text(object, "/spec/limited/limitResponse/type"), queuing) {
        ("Reject", None) => {}
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.forbidden(&response.child("queuing"), detail);
        }
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.required_because(&response.child("queuing"), detail);
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &response.child("queuing"), errors),
        (other, _) => errors.one_of(&response.child("type"), other, &["Queue", "Reject"]),
    }
    validate_lendable(object, "limited", path, errors);
    if let Some(percent) = integer(object, "/spec/limited/borrowingLimitPercent").filter(|percent| *percent < 0) {
        let at = path.child("borrowingLimitPercent");
        errors.invalid(&at, percent, "if specified, must be a non-negative integer");
    }
}

fn validate_queuing(queuing: &Value, path: &Path, errors: &mut ErrorList) {
    let number = |field| integer(queuing, field).unwrap_or_default();
    let (length, queues, hand) = (number("/queueLengthLimit"), number("/queues"), number("/handSize"));
    if length <= 0 {
        errors.invalid(&path.child("queueLengthLimit"), length, "must be positive");
    }
    let at = path.child("queues");
    if queues <= 0 {
        errors.invalid(&at, queues, "must be positive");
    } else if queues > MAX_QUEUES {
        errors.invalid(&at, queues, format!("must not be greater than {MAX_QUEUES}"));
    }
    let at = path.child("handSize");
    if hand <= 0 {
        errors.invalid(&at, hand, "must be positive");
    } else if hand > queues {
        errors.invalid(&at, hand, format!("should not be greater than queues ({queues})"));
    } else if ((queues as f64).log2() * hand as f64).ceil() > MAX_HASH_BITS as f64 {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {MAX_HASH_BITS}"
        );
        errors.invalid(&at, hand, detail);
    }
}

const COLUMNS: &[Column] = &[
    NAME,
    column(
        "Type",
        "string",
        "`type` indicates whether this priority level is subject to limitation on request execution.  A value of `\"Exempt\"` means that requests of this priority level are not subject to a limit (and thus are never queued) and do not detract from the capacity made available to other priority levels.  A value of `\"Limited\"` means that (a) requests of this priority level _are_ subject to limits and (b) some of the server's limited capacity is made available exclusively to this priority level. Required.",
    ),
    column(
        "NominalConcurrencyShares",
        "string",
        "`nominalConcurrencyShares` (NCS) contributes to the computation of the NominalConcurrencyLimit (NominalCL) of this level. This is the number of execution seats available at this priority level. This is used both for requests dispatched from this priority level as well as requests dispatched from other priority levels borrowing seats from this level. The server's concurrency limit (ServerCL) is divided among the Limited priority levels in proportion to their NCS values:\n\nNominalCL(i)  = ceil( ServerCL * NCS(i) / sum_ncs ) sum_ncs = sum[priority level k] NCS(k)\n\nBigger numbers mean a larger nominal concurrency limit, at the expense of every other priority level.\n\nIf not specified, this field defaults to a value of 30.\n\nSetting this field to zero supports the construction of a \"jail\" for this priority level that is used to hold some request(s)",
    ),
    column(
        "Queues",
        "string",
        "`queues` is the number of queues for this priority level. The queues exist independently at each apiserver. The value must be positive.  Setting it to 1 effectively precludes shufflesharding and thus makes the distinguisher method of associated flow schemas irrelevant.  This field has a default value of 64.",
    ),
    column(
        "HandSize",
        "string",
        "`handSize` is a small positive number that configures the shuffle sharding of requests into queues.  When enqueuing a request at this priority level the request's flow identifier (a string pair) is hashed and the hash value is used to shuffle the list of queues and deal a hand of the size specified here.  The request is put into one of the shortest queues in that hand. `handSize` must be no larger than `queues`, and should be significantly smaller (so that a few heavy flows do not saturate most of the queues).  See the user-facing documentation for more extensive guidance on setting this field.  This field has a default value of 8.",
    ),
    column(
        "QueueLengthLimit",
        "string",
        "`queueLengthLimit` is the maximum number of requests allowed to be waiting in a given queue of this priority level at a time; excess requests are rejected.  This value must be positive.  If not specified, it will be defaulted to 50.",
    ),
    AGE,
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::tests::expectations::check_create;
    use expect_test::expect;

    fn level(spec: Value) -> Value {
        json!({"metadata": {"name": "p"}, "spec": spec})
    }

    #[test]
    fn a_priority_level_is_defaulted() {
        let mut object =
            level(json!({"type": "Limited", "limited": {"limitResponse": {"type": "Queue", "queuing": {}}}}));
        PriorityLevelConfiguration.default(&mut object);
        assert_eq!(
            object["spec"]["limited"],
            json!({"nominalConcurrencyShares": 30, "lendablePercent": 0, "limitResponse": {"type": "Queue",
                "queuing": {"handSize": 8, "queues": 64, "queueLengthLimit": 50}}})
        );
        check_create(&PriorityLevelConfiguration, object, expect![[""]]);
    }

    #[test]
    fn the_specs_of_the_mandatory_levels_are_fixed_but_for_the_shares_of_exempt() {
        let named = |name: &str, spec: Value| json!({"metadata": {"name": name}, "spec": spec});
        let exempt = |shares: u32| {
            let exempt = json!({"nominalConcurrencyShares": shares, "lendablePercent": 50});
            named("exempt", json!({"type": "Exempt", "exempt": exempt}))
        };
        check_create(&PriorityLevelConfiguration, exempt(0), expect![[""]]);
        check_create(&PriorityLevelConfiguration, exempt(7), expect![[""]]);
        check_create(&PriorityLevelConfiguration, named("exempt", json!({"type": "Exempt"})), expect![[""]]);
        check_create(
            &PriorityLevelConfiguration,
            named("exempt", json!({"type": "Exempt", "limited": {"nominalConcurrencyShares": 1}})),
            expect![[r#"
                spec.limited: Forbidden: must be nil if the type is not Limited
                spec: Invalid value: {"Type":"Exempt","Limited":{"NominalConcurrencyShares":1,"LimitResponse":{"Type":"","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'exempt' except the 'spec.exempt' field must equal the fixed value
            "#]],
        );
        let all = |shares: u32| {
            let response = json!({"type": "Reject"});
            let limited = json!({"nominalConcurrencyShares": shares, "lendablePercent": 0, "limitResponse": response});
            named("catch-all", json!({"type": "Limited", "limited": limited}))
        };
        check_create(&PriorityLevelConfiguration, all(5), expect![[""]]);
        check_create(
            &PriorityLevelConfiguration,
            all(6),
            expect![[r#"
                spec: Invalid value: {"Type":"Limited","Limited":{"NominalConcurrencyShares":6,"LimitResponse":{"Type":"Reject","Queuing":null},"LendablePercent":0,"BorrowingLimitPercent":null},"Exempt":null}: spec of 'catch-all' must equal the fixed value
            "#]],
        );
    }

    #[test]
    fn every_field_is_checked() {
        check_create(
            &PriorityLevelConfiguration,
            level(json!({})),
            expect![[r#"
            spec.type: Required value
        "#]],
        );
        check_create(
            &PriorityLevelConfiguration,
            level(
                json!({"type": "Exempt", "limited": {}, "exempt": {"nominalConcurrencyShares": -1, "lendablePercent": 101}}),
            ),
            expect![[r#"
                spec.type: Invalid value: "Exempt": must be 'Exempt' if and only if `name` is 'exempt'
                spec.limited: Forbidden: must be nil if the type is not Limited
                spec.exempt.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer
                spec.exempt.lendablePercent: Invalid value: 101: must be between 0 and 100, inclusive
            "#]],
        );
        check_create(
            &PriorityLevelConfiguration,
            level(json!({"type": "Limited", "exempt": {}})),
            expect![[r#"
            spec.exempt: Forbidden: must be nil if the type is Limited
            spec.limited: Required value: must not be empty when type is Limited
        "#]],
        );
        let limited = json!({"nominalConcurrencyShares": -1, "lendablePercent": -1, "borrowingLimitPercent": -1, "limitResponse": {
            "type": "Queue", "queuing": {"queueLengthLimit": -1, "queues": 64, "handSize": 11}}});
        check_create(
            &PriorityLevelConfiguration,
            level(json!({"type": "Limited", "limited": limited})),
            expect![[r#"
            spec.limited.nominalConcurrencyShares: Invalid value: -1: must be a non-negative integer
            spec.limited.limitResponse.queuing.queueLengthLimit: Invalid value: -1: must be positive
            spec.limited.limitResponse.queuing.handSize: Invalid value: 11: required entropy bits of deckSize 64 and handSize 11 should not be greater than 60
            spec.limited.lendablePercent: Invalid value: -1: must be between 0 and 100, inclusive
            spec.limited.borrowingLimitPercent: Invalid value: -1: if specified, must be a non-negative integer
        "#]],
        );
        for response in
            [json!({"type": "Reject", "queuing": {}}), json!({"type": "Queue"}), json!({"type": "X"}), json!({})]
        {
            let mut object = level(json!({"type": "Limited", "limited": {"limitResponse": response}}));
            PriorityLevelConfiguration.default(&mut object);
            assert_eq!(PriorityLevelConfiguration.validate(&object).len(), 1, "{response}");
        }
    }
}
