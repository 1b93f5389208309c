use expect_test::{Expect, expect};

use super::*;

fn check(errors: ErrorList, expected: Expect) {
    expected.assert_eq(&errors.iter().map(|error| format!("{error}\n")).collect::<String>());
}

#[test]
fn a_new_node_is_tainted_not_ready_once_and_fully_allocatable() {
    let mut node = json!({
        "spec": {"podCIDR": "10.5.0.0/24", "configSource": {}, "taints": [{"key": "dedicated", "effect": "NoSchedule"}]},
        "status": {"capacity": {"cpu": "4"}},
    });
    Node.default(&mut node);
    Node.prepare_for_create(&mut node, &WriteContext::test());
    add_not_ready_taint(&mut node);
    add_not_ready_taint(&mut node);
    let expected = json!({
        "spec": {
            "podCIDR": "10.5.0.0/24", "podCIDRs": ["10.5.0.0/24"],
            "taints": [
                {"key": "dedicated", "effect": "NoSchedule"},
                {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
            ],
        },
        "status": {"capacity": {"cpu": "4"}, "allocatable": {"cpu": "4"}},
    });
    assert_eq!(node, expected);
    Node.default(&mut node);
    assert_eq!(node, expected, "defaulting must be idempotent");
}

#[test]
fn taints_resources_and_ranges_are_checked() {
    let node = json!({
        "spec": {
            "taints": [{"key": "k", "effect": "Maybe"}, {"key": "k", "effect": "NoExecute"}, {"key": "k", "effect": "NoExecute"},
                {"key": "", "value": "a b", "effect": ""}],
            "podCIDRs": ["10.0.0.1/8", "10.1.0.0/16"],
        },
        "status": {
            "capacity": {"cpu": "-1", "pods": "1500m", "memory": "1500m"},
            "declaredFeatures": ["B", "A/x", "A/x", "low"],
            "nodeInfo": {"swap": {"capacity": 0}},
        },
    });
    check(
        Node.validate(&node),
        expect![[r#"
        metadata.taints[0].effect: Unsupported value: "Maybe": supported values: "NoSchedule", "PreferNoSchedule", "NoExecute"
        metadata.taints[2]: Duplicate value: {"Key":"k","Value":"","Effect":"NoExecute","TimeAdded":null}: taints must be unique by key and effect pair
        metadata.taints[3].key: Invalid value: "": name part must be non-empty
        metadata.taints[3].key: Invalid value: "": name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')
        metadata.taints[3].value: Invalid value: "a b": a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is '(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')
        metadata.taints[3].effect: Required value
        status.capacity.cpu: Invalid value: "-1": must be greater than or equal to 0
        status.capacity.pods: Invalid value: "1500m": must be an integer
        metadata.nodeSwapStatus.capacity: Invalid value: 0: must be greater than 0
        status.declaredFeatures[1]: Invalid value: "A/x": list must be sorted alphabetically
        status.declaredFeatures[2]: Duplicate value: "A/x"
        status.declaredFeatures[3]: Invalid value: "low": invalid feature name "low": must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or MyFeature/mySubFeature), and contain only alphanumeric characters and slashes
        spec.podCIDRs[0]: Invalid value: "10.0.0.1/8": must not have bits set beyond the prefix length
        spec.podCIDRs: Invalid value: ["10.0.0.1/8","10.1.0.0/16"]: may specify no more than one CIDR for each IP family
    "#]],
    );
}

#[test]
fn pod_cidrs_and_provider_id_can_only_be_set_once() {
    let old = json!({"spec": {"podCIDRs": ["10.5.0.0/24"], "providerID": "a"}});
    let node = json!({"spec": {"podCIDRs": ["10.6.0.0/24"], "providerID": "b", "externalID": "x"}, "status": {"addresses": [
        {"type": "InternalIP", "address": "1.2.3.4"}, {"type": "InternalIP", "address": "1.2.3.4"}]}});
    check(
        Node.validate_update(&node, &old),
        expect![[r#"
        status.addresses[1]: Duplicate value: {"Type":"InternalIP","Address":"1.2.3.4"}
        spec.podCIDRs: Forbidden: node updates may not change podCIDR except from "" to valid
        spec.providerID: Forbidden: node updates may not change providerID except from "" to valid
        spec.externalID: Forbidden: may not be updated
    "#]],
    );
    assert_eq!(
        Node.warnings(&node, Some(&old)),
        ["spec.externalID: this field is deprecated, and is unused by Kubernetes"]
    );
}

#[test]
fn rows_are_printed_as_by_kubectl() {
    let node = json!({
        "metadata": {"name": "n", "labels": {"node-role.kubernetes.io/worker": "", "kubernetes.io/role": "edge", "a": "b"}},
        "spec": {"unschedulable": true},
        "status": {
            "conditions": [{"type": "Ready", "status": "False"}], "addresses": [{"type": "InternalIP", "address": "1.2.3.4"}],
            "nodeInfo": {"kubeletVersion": "v1.36.0", "kernelVersion": "6.1", "architecture": "arm64", "osImage": ""},
        },
    });
    assert_eq!(
        json!(cells(&node, Timestamp::UNIX_EPOCH)),
        json!([
            "n",
            "NotReady,SchedulingDisabled",
            "edge,worker",
            "<unknown>",
            "v1.36.0",
            "1.2.3.4",
            "<none>",
            "<unknown>",
            "6.1 (arm64)",
            "<unknown>"
        ])
    );
    assert_eq!(cells(&json!({}), Timestamp::UNIX_EPOCH)[1..3], [json!("Unknown"), json!("<none>")]);
}
