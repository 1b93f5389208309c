use expect_test::{Expect, expect};
use proptest::prelude::*;
use serde_json::json;

use super::conversion::core_to_events;
use super::*;
use crate::strategy::Strategy;

fn check(errors: ErrorList, expected: Expect) {
    expected.assert_eq(&errors.iter().map(|error| format!("{error}\n")).collect::<String>());
}

fn new_event() -> Value {
    json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e2", "namespace": "ns"},
        "eventTime": "2026-01-01T00:00:00.000001Z", "reportingController": "example.com/ctl", "reportingInstance": "ctl-0",
        "action": "Sync", "reason": "Synced", "note": "all well", "type": "Normal",
        "regarding": {"kind": "ConfigMap", "namespace": "ns", "name": "c", "apiVersion": "v1"},
        "deprecatedSource": {}, "deprecatedFirstTimestamp": null, "deprecatedLastTimestamp": null,
    })
}

#[test]
fn the_two_forms_are_one_object() {
    let core = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e2", "namespace": "ns"},
        "involvedObject": {"kind": "ConfigMap", "namespace": "ns", "name": "c", "apiVersion": "v1"}, "reason": "Synced",
        "message": "all well", "source": {}, "firstTimestamp": null, "lastTimestamp": null, "type": "Normal",
        "eventTime": "2026-01-01T00:00:00.000001Z", "action": "Sync", "reportingComponent": "example.com/ctl",
        "reportingInstance": "ctl-0",
    });
    assert_eq!(events_to_core(new_event()), core.clone());
    assert_eq!(core_to_events(core), new_event());

    let old = json!({
        "apiVersion": "v1", "kind": "Event", "metadata": {"name": "e1"}, "involvedObject": {"kind": "Pod"},
        "source": {"component": "parity"}, "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": null, "count": 2,
        "eventTime": null, "reportingComponent": "", "reportingInstance": "",
    });
    let new = json!({
        "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "e1"}, "regarding": {"kind": "Pod"},
        "deprecatedSource": {"component": "parity"}, "deprecatedFirstTimestamp": "2026-01-01T00:00:00Z",
        "deprecatedLastTimestamp": null, "deprecatedCount": 2, "eventTime": null,
    });
    assert_eq!(core_to_events(old.clone()), new.clone());
    assert_eq!(events_to_core(new), old);
}

#[test]
fn core_events_must_agree_with_their_namespace() {
    let event = |namespace: &str, involved: &str| {
        json!({
        "apiVersion": "v1", "metadata": {"namespace": namespace}, "involvedObject": {"namespace": involved}})
    };
    check(
        CoreEvent.validate(&event("ns", "elsewhere")),
        expect![[r#"
        involvedObject.namespace: Invalid value: "elsewhere": does not match event.namespace
    "#]],
    );
    check(CoreEvent.validate(&event("default", "")), expect![""]);
    check(
        CoreEvent.validate(&event("ns", "")),
        expect![[r#"
        involvedObject.namespace: Invalid value: "": does not match event.namespace
    "#]],
    );
}

#[test]
fn an_event_with_a_time_needs_a_reporter_and_a_reason() {
    let mut event = json!({"apiVersion": "v1", "metadata": {"namespace": "ns"}, "eventTime": "2026-01-01T00:00:00.000001Z",
        "involvedObject": {"namespace": "ns"}, "reportingComponent": "a", "reportingInstance": "i", "action": "x".repeat(129)});
    event["message"] = json!("m".repeat(1025));
    check(
        CoreEvent.validate(&event),
        expect![[r#"
        action: Invalid value: "": can have at most 128 characters
        reason: Required value
        message: Invalid value: "": can have at most 1024 characters
    "#]],
    );
}

#[test]
fn the_newer_api_is_strict() {
    check(EventsEvent.validate(&new_event()), expect![""]);
    let mut event = new_event();
    for field in ["reportingController", "reportingInstance", "action", "type"] {
        event[field] = json!("");
    }
    check(
        EventsEvent.validate(&event),
        expect![[r#"
        reportingController: Required value
        reportingController: Invalid value: "": name part must be non-empty
        reportingController: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        reportingInstance: Required value
        action: Required value
        type: Invalid value: "": has invalid value: 
    "#]],
    );
    let mut event = new_event();
    event["series"] = json!({"count": 1, "lastObservedTime": null});
    event["deprecatedCount"] = json!(3);
    event["deprecatedSource"] = json!({"host": "h"});
    event["deprecatedFirstTimestamp"] = json!("2026-01-01T00:00:00Z");
    check(
        EventsEvent.validate(&event),
        expect![[r#"
        series.count: Invalid value: "": should be at least 2
        series.lastObservedTime: Required value
        firstTimestamp: Invalid value: "": needs to be unset
        count: Invalid value: "": needs to be unset
        source: Invalid value: "": needs to be unset
    "#]],
    );
}

#[test]
fn the_newer_api_allows_only_series_changes() {
    let mut event = new_event();
    event["series"] = json!({"count": 2, "lastObservedTime": "2026-01-01T00:02:00.000000Z"});
    check(EventsEvent.validate_update(&event, &new_event()), expect![""]);
    event["regarding"]["name"] = json!("d");
    event["note"] = json!("other");
    event["reportingInstance"] = json!("ctl-1");
    check(
        EventsEvent.validate_update(&event, &new_event()),
        expect![[r#"
        involvedObject: Invalid value: {"Kind":"ConfigMap","Namespace":"ns","Name":"d","UID":"","APIVersion":"v1","ResourceVersion":"","FieldPath":""}: field is immutable
        message: Invalid value: "other": field is immutable
        reportingInstance: Invalid value: "ctl-1": field is immutable
    "#]],
    );
}

#[test]
fn rows_are_printed_as_by_kubectl() {
    let now: Timestamp = "2026-01-01T00:01:00Z".parse().expect("the time must parse");
    assert_eq!(
        json!(cells(&new_event(), now)),
        json!(["59s", "Normal", "Synced", "configmap/c", "", "example.com/ctl, ctl-0", "all well", "59s", 1, "e2"])
    );
    let old = json!({"metadata": {"name": "e1"}, "involvedObject": {"kind": "Node"}, "source": {"component": "kubelet"},
        "firstTimestamp": "2026-01-01T00:00:00Z", "lastTimestamp": "2026-01-01T00:00:30Z", "count": 4, "message": " hi\n"});
    assert_eq!(json!(cells(&old, now)), json!(["30s", "", "", "node", "", "kubelet", "hi", "60s", 4, "e1"]));
}

#[test]
fn both_groups_select_by_the_same_values() {
    let core = CoreEvent.selectable_fields(&events_to_core(new_event()));
    let events = EventsEvent.selectable_fields(&new_event());
    let values = |fields: &[(&str, String)]| fields.iter().map(|(_, value)| value.clone()).collect::<Vec<_>>();
    assert_eq!(values(&core)[..10], values(&events));
    assert_eq!(core[10], ("source", "example.com/ctl".to_owned()));
}

proptest! {
    #[test]
    fn conversion_and_back_is_lossless(
        note in "[a-z]{0,3}", count in 0i32..3, series in prop::option::of(0i32..3), controller in "[a-z]{0,2}",
        related in prop::option::of("[a-z]{0,2}"),
    ) {
        let mut event = new_event();
        event["note"] = json!(note);
        event["deprecatedCount"] = json!(count);
        event["reportingController"] = json!(controller);
        if let Some(count) = series {
            event["series"] = json!({"count": count, "lastObservedTime": null});
        }
        if let Some(name) = related {
            event["related"] = json!({"name": name});
        }
        // The conversion drops fields that encoding would omit.
        let event = core_to_events(events_to_core(event));
        prop_assert_eq!(core_to_events(events_to_core(event.clone())), event);
    }
}
