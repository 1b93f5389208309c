use expect_test::expect;
use serde_json::{Value, json};

use super::*;
use crate::kinds::tests::expectations::{check_create, check_update};

fn slice(spec: Value) -> Value {
    let mut complete =
        json!({"driver": "d.e", "pool": {"name": "p", "resourceSliceCount": 1, "generation": 1}, "nodeName": "n"});
    for (field, value) in spec.as_object().expect("an object") {
        complete[field] = value.clone();
    }
    json!({"spec": complete})
}

#[test]
fn a_slice_states_driver_pool_and_nodes() {
    check_create(&ResourceSlice, slice(json!({})), expect![[""]]);
    check_create(
        &ResourceSlice,
        json!({"spec": {"pool": {"generation": -1}}}),
        expect![[r#"
            spec.driver: Required value
            spec.pool.name: Required value
            spec.pool.resourceSliceCount: Invalid value: 0: must be greater than zero
            spec.pool.generation: Invalid value: -1: must be greater than or equal to zero
            spec: Required value: exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required
        "#]],
    );
    check_create(
        &ResourceSlice,
        slice(json!({"allNodes": true, "perDeviceNodeSelection": false, "devices": [], "sharedCounters": [
            {"name": "", "counters": {}},
        ]})),
        expect![[r#"
            spec.perDeviceNodeSelection: Invalid value: false: must be either unset or set to true
            spec: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required, but multiple fields are set
            spec: Invalid value: "": only one of `sharedCounters` or `devices` is allowed
            spec.sharedCounters[0].name: Required value
            spec.sharedCounters[0].counters: Required value
        "#]],
    );
}

#[test]
fn driver_pool_and_node_never_change() {
    let other = json!({"driver": "f", "pool": {"name": "q", "resourceSliceCount": 2}, "nodeName": "m"});
    check_update(
        &ResourceSlice,
        slice(other),
        slice(json!({})),
        expect![[r#"
            spec.pool.name: Invalid value: "q": field is immutable
            spec.driver: Invalid value: "f": field is immutable
            spec.nodeName: Invalid value: "m": field is immutable
        "#]],
    );
}

#[test]
fn devices_are_checked() {
    check_create(
        &ResourceSlice,
        slice(json!({"devices": [
            {"name": "a", "nodeName": "n", "attributes": {
                "a": {}, "b": {"int": 1, "bool": true}, "c": {"version": "1.2"}, "d.e/s": {"string": "s".repeat(65)},
            }, "capacity": {"c": {"value": "1", "requestPolicy": {}}}},
            {"name": "d"},
            {"name": "d", "taints": [{"key": "k", "value": "v"}, {"key": "k", "effect": "x"}],
                "consumesCounters": [{}], "bindingConditions": ["a"]},
        ]})),
        expect![[r#"
            spec.devices[0].attributes[a]: Invalid value: "": exactly one value must be specified
            spec.devices[0].attributes[b]: Invalid value: {"IntValue":1,"BoolValue":true,"StringValue":null,"VersionValue":null,"IntValues":null,"BoolValues":null,"StringValues":null,"VersionValues":null}: exactly one value must be specified
            spec.devices[0].attributes[c].version: Invalid value: "1.2": must be a string compatible with semver.org spec 2.0.0
            spec.devices[0].attributes[d.e/s].string: Too long: may not be more than 64 bytes
            spec.devices[0].capacity[c].requestPolicy: Forbidden: allowMultipleAllocations must be true
            spec.devices[0]: Invalid value: null: `nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec
            spec.devices[2].taints[0].effect: Required value
            spec.devices[2].taints[1].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"
            spec.devices[2].consumesCounters[0].counterSet: Required value
            spec.devices[2].consumesCounters[0].counters: Required value
            spec.devices[2].bindingFailureConditions: Invalid value: null: bindingFailureConditions are required to use bindingConditions
            spec.devices[2]: Duplicate value: "d"
        "#]],
    );
}

#[test]
fn devices_select_nodes_if_the_slice_says_so() {
    let mut object = slice(json!({"perDeviceNodeSelection": true, "devices": [
        {"name": "a"}, {"name": "b", "nodeName": ""}, {"name": "c", "nodeName": "n", "allNodes": true},
        {"name": "e", "allNodes": true},
    ]}));
    object["spec"].as_object_mut().expect("an object").remove("nodeName");
    check_create(
        &ResourceSlice,
        object,
        expect![[r#"
            spec.devices[0]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
            spec.devices[1].nodeName: Invalid value: "": must not be empty
            spec.devices[1]: Required value: exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
            spec.devices[2]: Invalid value: "{`nodeName`, `allNodes`}": exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec
        "#]],
    );
}

#[test]
fn the_values_of_requests_are_consistent() {
    let policy = |policy: Value| {
        slice(json!({"devices": [{"name": "d", "allowMultipleAllocations": true, "capacity": {
            "c": {"value": "10", "requestPolicy": policy},
        }}]}))
    };
    check_create(&ResourceSlice, policy(json!({"default": "2", "validValues": ["1", "2"]})), expect![[""]]);
    check_create(
        &ResourceSlice,
        policy(json!({"validValues": ["1"], "validRange": {"min": "1"}})),
        expect![[r#"
            spec.devices[0].capacity[c].requestPolicy: Forbidden: exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time
        "#]],
    );
    check_create(
        &ResourceSlice,
        policy(json!({"default": "3", "validValues": ["2", "1", "11", "2"]})),
        expect![[r#"
            spec.devices[0].capacity[c].requestPolicy.validValues[1]: Invalid value: "1": values must be sorted in ascending order
            spec.devices[0].capacity[c].requestPolicy.validValues[3]: Invalid value: "2": values must be sorted in ascending order
            spec.devices[0].capacity[c].requestPolicy.validValues[2]: Invalid value: "11": option is larger than capacity value: 10
            spec.devices[0].capacity[c].requestPolicy.validValues[3]: Duplicate value: "2"
            spec.devices[0].capacity[c].requestPolicy.validValues: Invalid value: "3": default value is not valid according to the requestPolicy
        "#]],
    );
    check_create(
        &ResourceSlice,
        policy(json!({"default": "20", "validRange": {"min": "11", "max": "10"}})),
        expect![[r#"
            spec.devices[0].capacity[c].requestPolicy.validRange.min: Invalid value: "11": min is larger than capacity value: 10
            spec.devices[0].capacity[c].requestPolicy.validRange.max: Invalid value: "11": min is larger than max: 10
            spec.devices[0].capacity[c].requestPolicy.validRange.max: Invalid value: "20": default is more than max: 10
        "#]],
    );
    check_create(
        &ResourceSlice,
        policy(json!({"default": "4", "validRange": {"min": "1", "max": "11", "step": "2"}})),
        expect![[r#"
            spec.devices[0].capacity[c].requestPolicy.validRange.max: Invalid value: "11": max is larger than capacity value: 10
            spec.devices[0].capacity[c].requestPolicy.validRange.step: Invalid value: "4": value is not a multiple of a given step (2) from (1)
        "#]],
    );
}

#[test]
fn versions_are_those_of_semver() {
    for (version, valid) in [
        ("1.2.3", true),
        ("1.2.3-a.1+b", true),
        ("1.2.3-0a", true),
        ("0.0.0", true),
        ("1.2.3-a-b+c-d.e", true),
        ("01.2.3", false),
        ("1.2.3-01", false),
        ("1.2.3+", false),
        ("1.2.3-", false),
        ("1.2", false),
        ("", false),
    ] {
        let object = slice(json!({"devices": [{"name": "d", "attributes": {"a": {"version": version}}}]}));
        assert_eq!(ResourceSlice.validate(&object).is_empty(), valid, "{version}");
    }
}

#[test]
fn taints_are_dated_and_disabled_fields_removed() {
    let mut object = slice(json!({"devices": [{"name": "d", "taints": [{"key": "k", "effect": "None"}],
        "nodeAllocatableResourceMappings": {"cpu": {}}, "attributes": {"a": {"ints": [1], "int": 1}}}]}));
    ResourceSlice.prepare_for_create(&mut object, &WriteContext::test());
    let expected = json!({"name": "d", "taints": [{"key": "k", "effect": "None", "timeAdded": "2026-01-01T00:00:00Z"}],
        "attributes": {"a": {"int": 1}}});
    assert_eq!(object["spec"]["devices"][0], expected);
}
