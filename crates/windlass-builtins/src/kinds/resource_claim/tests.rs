use expect_test::expect;
use serde_json::{Value, json};

use super::super::device_class::DeviceClass;
use super::super::resource_claim_template::ResourceClaimTemplate;
use super::*;
use crate::kinds::tests::expectations::{check_create, check_status, check_update};

fn claim(devices: Value) -> Value {
    json!({"metadata": {"name": "c"}, "spec": {"devices": devices}})
}

fn exactly(request: Value) -> Value {
    let mut exactly = json!({"deviceClassName": "class"});
    for (field, value) in request.as_object().expect("an object") {
        exactly[field] = value.clone();
    }
    claim(json!({"requests": [{"name": "r", "exactly": exactly}]}))
}

#[test]
fn a_request_asks_for_one_device_unless_it_says_otherwise() {
    let mut object = claim(json!({"requests": [
        {"name": "a", "exactly": {"deviceClassName": "c", "tolerations": [{"key": "k"}]}},
        {"name": "b", "firstAvailable": [{"name": "s", "deviceClassName": "c", "allocationMode": "All"}]},
    ]}));
    ResourceClaim.default(&mut object);
    let requests = &object["spec"]["devices"]["requests"];
    let expected = json!({"deviceClassName": "c", "allocationMode": "ExactCount", "count": 1,
        "tolerations": [{"key": "k", "operator": "Equal"}]});
    assert_eq!(requests[0]["exactly"], expected);
    assert_eq!(requests[1]["firstAvailable"][0]["count"], Value::Null);
    check_create(&ResourceClaim, object, expect![[""]]);
}

#[test]
fn requests_are_checked() {
    let both = json!({"name": "x", "exactly": {"deviceClassName": "c"}, "firstAvailable": [{"name": "s", "deviceClassName": "c"}]});
    check_create(
        &ResourceClaim,
        claim(json!({"requests": [{"name": "x"}, both]})),
        expect![[r#"
            spec.devices.requests[0]: Required value: exactly one of `exactly` or `firstAvailable` is required
            spec.devices.requests[1]: Invalid value: null: exactly one of `exactly` or `firstAvailable` is required, but multiple fields are set
            spec.devices.requests[1]: Duplicate value: "x"
        "#]],
    );
    check_create(
        &ResourceClaim,
        exactly(json!({"deviceClassName": "", "allocationMode": "All", "count": 2, "selectors": [
            {}, {"cel": {"expression": "device.driver"}},
        ], "tolerations": [
            {"operator": "Exists", "value": "v", "effect": "x"}, {"operator": "Foo"}, {"key": "k"},
        ]})),
        expect![[r#"
            spec.devices.requests[0].exactly.deviceClassName: Required value
            spec.devices.requests[0].exactly.selectors[0].cel: Required value
            spec.devices.requests[0].exactly.selectors[1].cel.expression: Invalid value: "device.driver": must evaluate to bool or the unknown type, not string
            spec.devices.requests[0].exactly.count: Invalid value: 2: must not be specified when allocationMode is 'All'
            spec.devices.requests[0].exactly.tolerations[0].value: Invalid value: "v": must be empty for operator `Exists`
            spec.devices.requests[0].exactly.tolerations[0].effect: Unsupported value: "x": supported values: "NoExecute", "NoSchedule", "None"
            spec.devices.requests[0].exactly.tolerations[1].operator: Unsupported value: "Foo": supported values: "Equal", "Exists"
        "#]],
    );
    check_create(
        &ResourceClaim,
        exactly(json!({"allocationMode": "Some"})),
        expect![[r#"
            spec.devices.requests[0].exactly.allocationMode: Unsupported value: "Some": supported values: "All", "ExactCount"
        "#]],
    );
    check_create(
        &ResourceClaim,
        exactly(json!({"count": -1})),
        expect![[r#"
            spec.devices.requests[0].exactly.count: Invalid value: -1: must be greater than zero
        "#]],
    );
}

#[test]
fn a_claim_has_at_most_32_requests() {
    let requests = |count: usize| {
        let request = |number| json!({"name": format!("r{number}"), "exactly": {"deviceClassName": "c"}});
        claim(json!({"requests": (0..count).map(request).collect::<Vec<_>>()}))
    };
    check_create(&ResourceClaim, requests(32), expect![[""]]);
    check_create(
        &ResourceClaim,
        requests(33),
        expect![[r#"
            spec.devices.requests: Too many: 33: must have at most 32 items
        "#]],
    );
}

#[test]
fn constraints_and_configurations_name_requests() {
    check_create(
        &ResourceClaim,
        claim(json!({
            "requests": [{"name": "r", "firstAvailable": [{"name": "s", "deviceClassName": "c"}]}],
            "constraints": [
                {"requests": ["r/s", "r/x", "z", "a/b/c", "r/s"], "matchAttribute": "a"}, {},
                {"matchAttribute": "/n"}, {"distinctAttribute": "d/"},
            ],
            "config": [
                {"requests": ["q"]}, {"opaque": {"driver": ""}},
                {"opaque": {"driver": "d.e", "parameters": "text"}}, {"opaque": {"driver": "d.e", "parameters": {"a": 1}}},
            ],
        })),
        expect![[r#"
            spec.devices.constraints[0].requests[1]: Invalid value: "r/x": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
            spec.devices.constraints[0].requests[2]: Invalid value: "z": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
            spec.devices.constraints[0].requests[3]: Invalid value: "a/b/c": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
            spec.devices.constraints[0].requests[4]: Duplicate value: "r/s"
            spec.devices.constraints[0].matchAttribute: Invalid value: "a": a fully qualified name must be a domain and a name separated by a slash
            spec.devices.constraints[1]: Required value: exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set
            spec.devices.constraints[2].matchAttribute: Invalid value: "": the domain must not be empty
            spec.devices.constraints[3].distinctAttribute: Invalid value: "": the name must not be empty
            spec.devices.config[0].requests[0]: Invalid value: "q": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
            spec.devices.config[0].opaque: Required value
            spec.devices.config[1].opaque.driver: Required value
            spec.devices.config[1].opaque.parameters: Required value
            spec.devices.config[2].opaque.parameters: Invalid value: "<value omitted>": must be a valid JSON object
        "#]],
    );
}

#[test]
fn the_spec_never_changes() {
    check_update(
        &ResourceClaim,
        exactly(json!({"selectors": [{"cel": {"expression": "true"}}]})),
        exactly(json!({})),
        expect![[r#"
            spec: Invalid value: {"Devices":{"Requests":[{"Name":"r","Exactly":{"DeviceClassName":"class","Selectors":[{"CEL":{"Expression":"true"}}],"AllocationMode":"ExactCount","Count":1,"AdminAccess":null,"Tolerations":null,"Capacity":null},"FirstAvailable":null}],"Constraints":null,"Config":null}}: field is immutable
        "#]],
    );
    let template = |labels: Value| json!({"spec": {"metadata": labels, "spec": {"devices": {}}}});
    check_update(
        &ResourceClaimTemplate,
        template(json!({"labels": {"a": "b"}})),
        template(json!({})),
        expect![[r#"
            spec: Invalid value: {"labels":{"a":"b"},"Spec":{"Devices":{"Requests":null,"Constraints":null,"Config":null}}}: field is immutable
        "#]],
    );
    check_update(&ResourceClaimTemplate, template(json!({})), template(json!({})), expect![[""]]);
}

fn allocated(status: Value) -> Value {
    let mut object = exactly(json!({}));
    object["status"] = status;
    object
}

fn results(result: Value) -> Value {
    let mut complete = json!({"request": "r", "driver": "d", "pool": "p", "device": "x"});
    for (field, value) in result.as_object().expect("an object") {
        complete[field] = value.clone();
    }
    json!({"devices": {"results": [complete]}})
}

#[test]
fn a_claim_is_reserved_after_its_allocation() {
    let users =
        json!([{}, {"resource": "pods", "name": "p", "uid": "u"}, {"resource": "pods", "name": "q", "uid": "u"}]);
    check_status(
        &ResourceClaim,
        allocated(json!({"reservedFor": users})),
        exactly(json!({})),
        expect![[r#"
            status.reservedFor[0].resource: Required value
            status.reservedFor[0].name: Required value
            status.reservedFor[0].uid: Required value
            status.reservedFor[2]: Duplicate value: "u"
            status.reservedFor: Forbidden: may not be specified when `allocated` is not set
        "#]],
    );
    let mut deleted = allocated(json!({"allocation": results(json!({})), "reservedFor": [users[1]]}));
    deleted["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    check_status(
        &ResourceClaim,
        deleted,
        allocated(json!({"allocation": results(json!({}))})),
        expect![[r#"
            status.reservedFor: Forbidden: new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set
        "#]],
    );
}

#[test]
fn an_allocation_is_checked_once_and_never_changes() {
    check_status(
        &ResourceClaim,
        allocated(json!({"allocation": results(json!({
            "request": "zz", "driver": "", "shareID": "X", "bindingConditions": ["a", "a"], "bindingFailureConditions": ["a"],
        }))})),
        exactly(json!({})),
        expect![[r#"
            status.allocation.devices.results[0].request: Invalid value: "zz": must be the name of a request in the claim or the name of a request and a subrequest separated by '/'
            status.allocation.devices.results[0].driver: Required value
            status.allocation.devices.results[0].bindingConditions[1]: Duplicate value: "a"
            status.allocation.devices.results[0].bindingFailureConditions[0]: Invalid value: "a": bindingFailureConditions must not overlap with bindingConditions
            status.allocation.devices.results[0].shareID: Invalid value: "X": error validating uid: invalid UUID length: 1
        "#]],
    );
    check_status(
        &ResourceClaim,
        allocated(json!({"allocation": results(json!({"pool": "p2"}))})),
        allocated(json!({"allocation": results(json!({}))})),
        expect![[r#"
            status.allocation: Invalid value: {"Devices":{"Results":[{"Request":"r","Driver":"d","Pool":"p2","Device":"x","AdminAccess":null,"Tolerations":null,"BindingConditions":null,"BindingFailureConditions":null,"ShareID":null,"ConsumedCapacity":null}],"Config":null},"NodeSelector":null,"AllocationTimestamp":null}: field is immutable
        "#]],
    );
}

#[test]
fn only_allocated_devices_have_a_state() {
    let device = |name: &str| json!({"driver": "d", "pool": "p", "device": name});
    check_status(
        &ResourceClaim,
        allocated(json!({"allocation": results(json!({})), "devices": [device("x"), device("x"), device("y")]})),
        exactly(json!({})),
        expect![[r#"
            status.devices[2]: Invalid value: {"Driver":"d","Pool":"p","Device":"y","ShareID":""}: must be an allocated device in the claim
            status.devices[1]: Duplicate value: {"Driver":"d","Pool":"p","Device":"x","ShareID":""}
        "#]],
    );
    let old = allocated(json!({"allocation": results(json!({})), "devices": [device("x")]}));
    let mut freed = allocated(json!({"devices": [device("x")]}));
    ResourceClaim.prepare_for_subresource_update("status", &mut freed, &old, &WriteContext::test());
    assert_eq!(freed["status"], json!({}), "the state goes with the allocation");
}

#[test]
fn access_for_administrators_is_found() {
    let path = Path::new("spec").child("devices").child("requests");
    let find = |object: &Value| admin_access(object, "/spec/devices/requests", &path).map(|path| path.to_string());
    assert_eq!(find(&exactly(json!({}))), None);
    let found = find(&exactly(json!({"adminAccess": true})));
    assert_eq!(found.as_deref(), Some("spec.devices.requests[0].adminAccess"));
}

#[test]
fn classes_are_checked() {
    check_create(
        &DeviceClass,
        json!({"spec": {"selectors": [{"cel": {"expression": "1"}}], "config": [{}], "extendedResourceName": "cpu"}}),
        expect![[r#"
            spec.selectors[0].cel.expression: Invalid value: "1": must evaluate to bool or the unknown type, not int
            spec.config[0].opaque: Required value
            spec.extendedResourceName: Invalid value: "cpu": must be a valid extended resource name
        "#]],
    );
    check_create(&DeviceClass, json!({"spec": {"extendedResourceName": "example.com/gpu"}}), expect![[""]]);
}
