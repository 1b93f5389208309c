use serde_json::json;

use super::*;

const NOW: Timestamp = Timestamp::UNIX_EPOCH;

fn shown(usage: &Usage) -> String {
    usage.iter().map(|(name, quantity)| format!("{name}={quantity}")).collect::<Vec<_>>().join(" ")
}

fn quota(spec: Value, hard: Value, used: Value) -> Value {
    let mut quota = json!({"metadata": {"name": "q"}, "spec": spec, "status": {"hard": hard, "used": used}});
    quota["spec"]["hard"] = quota["status"]["hard"].clone();
    quota
}

fn pod(resources: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "resources": resources}]}})
}

fn create(object: &Value) -> Write<'_> {
    Write { subresource: "", object, old: None }
}

#[test]
fn pods_use_the_requests_and_limits_of_their_containers() {
    let resources = json!({"requests": {"cpu": "500m", "example.com/gpu": "2", "hugepages-2Mi": "4Mi"},
        "limits": {"cpu": "1", "memory": "1Gi", "example.com/gpu": "2"}});
    let one = pod(resources);
    assert_eq!(
        shown(&Evaluator::Pods.usage(&one, NOW)),
        "count/pods=1 cpu=500m hugepages-2Mi=4Mi limits.cpu=1 limits.memory=1Gi pods=1 requests.cpu=500m \
         requests.example.com/gpu=2 requests.hugepages-2Mi=4Mi"
    );
    let mut ended = one.clone();
    ended["status"] = json!({"phase": "Succeeded"});
    assert_eq!(shown(&Evaluator::Pods.usage(&ended, NOW)), "count/pods=1");
    let mut whole = one;
    whole["spec"]["resources"] = json!({"requests": {"cpu": "3"}});
    whole["spec"]["overhead"] = json!({"cpu": "250m", "memory": "1Mi"});
    let usage = Evaluator::Pods.usage(&whole, NOW);
    let picked = |name: &str| usage.get(name).map(ToString::to_string).unwrap_or_default();
    assert_eq!([picked("requests.cpu"), picked("limits.cpu"), picked("requests.memory")], ["3250m", "1250m", "1Mi"]);
}

#[test]
fn a_pod_that_is_being_resized_uses_the_maximum_of_spec_and_status() {
    let mut pod = pod(json!({"requests": {"cpu": "1"}}));
    pod["status"] = json!({"containerStatuses": [{"name": "c", "allocatedResources": {"cpu": "2"},
        "resources": {"requests": {"cpu": "1500m"}}}]});
    assert_eq!(Evaluator::Pods.usage(&pod, NOW)["requests.cpu"].to_string(), "2");
}

#[test]
fn a_pod_whose_deletion_is_overdue_uses_nothing() {
    let mut pod = pod(json!({}));
    pod["metadata"]["deletionTimestamp"] = "1970-01-01T00:01:00Z".into();
    pod["metadata"]["deletionGracePeriodSeconds"] = 30.into();
    let at = |second| shown(&Evaluator::Pods.usage(&pod, Timestamp::from_second(second).unwrap()));
    assert_eq!(at(90), "count/pods=1 pods=1");
    assert_eq!(at(91), "count/pods=1");
}

#[test]
fn services_use_ports_and_balancers_by_their_type() {
    let used = |spec: Value| shown(&Evaluator::Services.usage(&json!({"spec": spec}), NOW));
    let ports = json!([{"port": 1}, {"port": 2, "nodePort": 30000}]);
    let rest = "count/services=1 services=1";
    assert_eq!(
        used(json!({"type": "ClusterIP", "ports": ports})),
        format!("{rest} services.loadbalancers=0 services.nodeports=0")
    );
    assert_eq!(
        used(json!({"type": "NodePort", "ports": ports})),
        format!("{rest} services.loadbalancers=0 services.nodeports=2")
    );
    assert_eq!(
        used(json!({"type": "LoadBalancer", "ports": ports, "allocateLoadBalancerNodePorts": false})),
        format!("{rest} services.loadbalancers=1 services.nodeports=1")
    );
}

#[test]
fn claims_use_storage_of_their_class() {
    let claim = json!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}},
        "status": {"allocatedResources": {"storage": "2Gi"}}});
    assert_eq!(
        shown(&Evaluator::Claims.usage(&claim, NOW)),
        "count/persistentvolumeclaims=1 fast.storageclass.storage.k8s.io/persistentvolumeclaims=1 \
         fast.storageclass.storage.k8s.io/requests.storage=2Gi persistentvolumeclaims=1 requests.storage=2Gi"
    );
    assert!(Evaluator::Claims.knows("slow.storageclass.storage.k8s.io/requests.storage"));
    assert!(!Evaluator::Claims.knows("slow.storageclass.storage.k8s.io/other"));
}

#[test]
fn other_objects_are_counted() {
    assert_eq!(Evaluator::of("", "secrets"), Some(Evaluator::Count(vec!["count/secrets".into(), "secrets".into()])));
    assert_eq!(Evaluator::of("example.com", "foos"), Some(Evaluator::Count(vec!["count/foos.example.com".into()])));
    assert_eq!(Evaluator::of("", "events"), None);
}

#[test]
fn only_writes_that_can_change_the_usage_are_charged() {
    let (plain, mut ending) = (pod(json!({})), pod(json!({})));
    ending["spec"]["activeDeadlineSeconds"] = 5.into();
    let update = |subresource, object, old| Write { subresource, object, old: Some(old) };
    let count = Evaluator::Count(vec!["count/x".into()]);
    for (evaluator, write, expected) in [
        (&Evaluator::Pods, create(&plain), true),
        (&Evaluator::Pods, update("", &plain, &plain), false),
        (&Evaluator::Pods, update("", &ending, &plain), true),
        (&Evaluator::Pods, update("resize", &plain, &plain), true),
        (&Evaluator::Pods, update("status", &plain, &plain), false),
        (&Evaluator::Services, update("", &plain, &plain), true),
        (&Evaluator::Services, update("status", &plain, &plain), false),
        (&Evaluator::Claims, update("status", &plain, &plain), true),
        (&count, create(&plain), true),
        (&count, update("", &plain, &plain), false),
    ] {
        assert_eq!(evaluator.handles(&write), expected, "{evaluator:?} {write:?}");
    }
}

#[test]
fn a_quota_reports_why_it_forbids_a_write() {
    let quota =
        quota(json!({}), json!({"pods": "1", "requests.cpu": "1"}), json!({"pods": "0", "requests.cpu": "600m"}));
    let (silent, big) = (pod(json!({})), pod(json!({"requests": {"cpu": "1500m"}})));
    assert_eq!(
        applies_to(&quota, &Evaluator::Pods, &create(&silent)),
        Err("failed quota: q: must specify requests.cpu for: c".to_owned())
    );
    assert_eq!(applies_to(&quota, &Evaluator::Pods, &create(&big)), Ok(true));
    assert_eq!(applies_to(&quota, &Evaluator::Services, &create(&big)), Ok(false));
    let price = cost(&quota, &Evaluator::Pods, &create(&big), NOW).unwrap();
    assert_eq!(
        charged(&quota, &price, &create(&big)),
        Err("exceeded quota: q, requested: requests.cpu=1500m, used: requests.cpu=600m, limited: requests.cpu=1"
            .to_owned())
    );
    let mut unknown = quota;
    unknown["status"]["used"] = json!({"pods": "0"});
    assert_eq!(
        applies_to(&unknown, &Evaluator::Pods, &create(&big)),
        Err("status unknown for quota: q, resources: pods,requests.cpu".to_owned())
    );
}

#[test]
fn a_quota_is_charged_and_the_charge_can_be_reverted() {
    let before = quota(json!({}), json!({"pods": "2", "requests.cpu": "1"}), json!({"pods": "0", "requests.cpu": "0"}));
    let one = pod(json!({"requests": {"cpu": "400m"}}));
    let price = cost(&before, &Evaluator::Pods, &create(&one), NOW).unwrap();
    let after = charged(&before, &price, &create(&one)).unwrap().unwrap();
    assert_eq!(after["status"]["used"], json!({"pods": "1", "requests.cpu": "400m"}));
    assert_eq!(reverted(&after, &price), before);
    let larger = pod(json!({"requests": {"cpu": "1"}}));
    let resize = Write { subresource: "resize", object: &larger, old: Some(&one) };
    let price = cost(&after, &Evaluator::Pods, &resize, NOW).unwrap();
    let resized = charged(&after, &price, &resize).unwrap().unwrap();
    assert_eq!(resized["status"]["used"], json!({"pods": "1", "requests.cpu": "1"}));
}

#[test]
fn scopes_select_objects() {
    let mut important = pod(json!({"requests": {"cpu": "1"}}));
    important["spec"]["priorityClassName"] = "high".into();
    let mut ending = pod(json!({}));
    ending["spec"]["activeDeadlineSeconds"] = 5.into();
    let mut nosy = pod(json!({}));
    nosy["spec"]["affinity"]["podAffinity"]["preferredDuringSchedulingIgnoredDuringExecution"] =
        json!([{"weight": 1, "podAffinityTerm": {"namespaces": ["other"]}}]);
    let selector = |name: &str, operator: &str, values: Value| json!({"scopeSelector": {"matchExpressions": [{"scopeName": name, "operator": operator, "values": values}]}});
    for (spec, expected) in [
        (json!({}), [true, true, true]),
        (json!({"scopes": ["BestEffort"]}), [false, true, true]),
        (json!({"scopes": ["NotBestEffort"]}), [true, false, false]),
        (json!({"scopes": ["BestEffort", "Terminating"]}), [false, true, false]),
        (json!({"scopes": ["NotTerminating"]}), [true, false, true]),
        (json!({"scopes": ["CrossNamespacePodAffinity"]}), [false, false, true]),
        (json!({"scopes": ["PriorityClass"]}), [true, false, false]),
        (selector("PriorityClass", "In", json!(["low", "high"])), [true, false, false]),
        (selector("PriorityClass", "NotIn", json!(["high"])), [false, true, true]),
        (selector("PriorityClass", "DoesNotExist", json!([])), [false, true, true]),
    ] {
        let quota = json!({"spec": spec});
        let selected = [&important, &ending, &nosy].map(|pod| Evaluator::Pods.is_in_scope(&quota, pod));
        assert_eq!(selected, expected, "{quota}");
    }
    let claim = json!({"spec": {"volumeAttributesClassName": "gold"}});
    let gold = json!({"spec": selector("VolumeAttributesClass", "In", json!(["gold"]))});
    assert!(Evaluator::Claims.is_in_scope(&gold, &claim));
    assert!(!Evaluator::Claims.is_in_scope(&gold, &json!({})));
}

#[test]
fn the_total_usage_includes_unused_resources() {
    let quota = quota(json!({}), json!({"pods": "5", "requests.memory": "1Gi", "secrets": "1"}), json!({}));
    let nothing = Evaluator::Pods.total(&quota, [].into_iter(), NOW);
    assert_eq!(shown(&nothing), "pods=0 requests.memory=0");
    let pods = [pod(json!({"requests": {"memory": "64Mi"}})), pod(json!({"requests": {"memory": "64Mi"}}))];
    let some = Evaluator::Pods.total(&quota, pods.iter(), NOW);
    assert_eq!(shown(&some), "pods=2 requests.memory=128Mi");
}

#[test]
fn claims_use_the_devices_of_their_classes() {
    let claim = json!({"metadata": {"name": "c"}, "spec": {"devices": {"requests": [
        {"name": "a", "exactly": {"deviceClassName": "gold", "allocationMode": "ExactCount", "count": 2}},
        {"name": "b", "exactly": {"deviceClassName": "gold", "allocationMode": "All"}},
        {"name": "c", "firstAvailable": [
            {"name": "x", "deviceClassName": "gold", "allocationMode": "ExactCount", "count": 1},
            {"name": "y", "deviceClassName": "gold", "allocationMode": "ExactCount", "count": 3},
            {"name": "z", "deviceClassName": "silver", "allocationMode": "ExactCount", "count": 4}]},
    ]}}});
    let classes = [
        json!({"metadata": {"name": "gold"}, "spec": {"extendedResourceName": "example.com/gold"}}),
        json!({"metadata": {"name": "silver"}}),
    ];
    let evaluator = Evaluator::ResourceClaims(Devices::of_classes(classes.iter()));
    assert_eq!(
        shown(&evaluator.usage(&claim, NOW)),
        "count/resourceclaims.resource.k8s.io=1 gold.deviceclass.resource.k8s.io/devices=37 \
         requests.deviceclass.resource.kubernetes.io/gold=37 requests.deviceclass.resource.kubernetes.io/silver=4 \
         requests.example.com/gold=37 silver.deviceclass.resource.k8s.io/devices=4"
    );
    for (name, expected) in [
        ("count/resourceclaims.resource.k8s.io", true),
        ("unknown.deviceclass.resource.k8s.io/devices", true),
        ("requests.deviceclass.resource.kubernetes.io/silver", true),
        ("requests.deviceclass.resource.kubernetes.io/unknown", false),
        ("requests.example.com/gold", true),
        ("requests.example.com/silver", false),
        ("requests.cpu", false),
    ] {
        assert_eq!(evaluator.knows(name), expected, "{name}");
    }
    let update = Write { subresource: "", object: &claim, old: Some(&claim) };
    assert!(evaluator.handles(&update));
    assert!(!evaluator.handles(&Write { subresource: "status", ..update }));
}

#[test]
fn devices_that_a_pod_is_charged_for_are_not_charged_again() {
    let claim = |name: &str, created: &str| {
        json!({"metadata": {"name": name, "creationTimestamp": created,
            "annotations": {"resource.kubernetes.io/extended-resource-claim": "true"},
            "ownerReferences": [{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "1", "controller": true}]},
            "spec": {"devices": {"requests": [{"name": "a",
                "exactly": {"deviceClassName": "gold", "allocationMode": "ExactCount", "count": 3}}]}}})
    };
    let class = json!({"metadata": {"name": "gold"}, "spec": {"extendedResourceName": "example.com/gold"}});
    let mut pod = pod(json!({"requests": {"example.com/gold": "2"}, "limits": {"example.com/gold": "2"}}));
    pod["metadata"]["uid"] = "1".into();
    let (first, second) = (claim("a", "2026-01-01T00:00:00Z"), claim("b", "2026-01-01T00:00:01Z"));
    let charged = |claim: &Value, pod: &Value| {
        let mut devices = Devices::of_classes([&class].into_iter());
        devices.charge(claim, pod, [&first, &second].into_iter(), NOW);
        let usage = Evaluator::ResourceClaims(devices).usage(claim, NOW);
        usage["requests.example.com/gold"].to_string()
    };
    assert_eq!([charged(&first, &pod), charged(&second, &pod)], ["1", "3"]);
    pod["status"]["extendedResourceClaimStatus"]["resourceClaimName"] = "b".into();
    assert_eq!([charged(&first, &pod), charged(&second, &pod)], ["3", "1"]);
    pod["metadata"]["uid"] = "2".into();
    assert_eq!([charged(&first, &pod), charged(&second, &pod)], ["3", "3"]);
}
