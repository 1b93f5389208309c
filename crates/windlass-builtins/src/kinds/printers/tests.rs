use jiff::Timestamp;
use serde_json::{Value, json};

use crate::table;

fn row(group: &str, resource: &str, mut object: Value) -> Value {
    object["metadata"]["name"] = json!("x");
    let now = "2026-01-01T01:00:00Z".parse().expect("the time must parse");
    let printer = crate::kinds::facts(group, resource).printer.expect("the kind must have a printer");
    json!((printer.cells)(&object, now))
}

#[test]
fn every_row_has_a_cell_for_each_column_whatever_the_object() {
    let mut printed = 0;
    for resource in &table().resources {
        let Some(printer) = crate::kinds::facts(&resource.group, &resource.plural).printer else { continue };
        printed += 1;
        for object in [json!({}), json!({"metadata": null, "spec": 3, "status": [], "subsets": "x"}), json!(null)] {
            let cells = (printer.cells)(&object, Timestamp::UNIX_EPOCH).len();
            // kube-apiserver returns one cell too many here.
            let extra = usize::from(&*resource.plural == "ipaddresses");
            assert_eq!(cells, printer.columns.len() + extra, "{}", resource.plural);
        }
    }
    assert!(printed > 40, "{printed}");
}

#[test]
fn workloads_are_printed_as_by_kubectl() {
    let template = json!({"spec": {"containers": [{"name": "a", "image": "i:1"}, {"name": "b", "image": "j"}]}});
    assert_eq!(
        row(
            "batch",
            "jobs",
            json!({
            "spec": {"completions": 3, "selector": {"matchLabels": {"l": "m"}}, "template": template},
            "status": {"succeeded": 1, "startTime": "2026-01-01T00:00:00Z", "completionTime": "2026-01-01T00:05:03Z",
                "conditions": [{"type": "Complete", "status": "True"}]}})
        ),
        json!(["x", "Complete", "1/3", "5m3s", "<unknown>", "a,b", "i:1,j", "l=m"])
    );
    assert_eq!(
        row(
            "batch",
            "jobs",
            json!({"spec": {"parallelism": 2}, "status": {"conditions": [{"type": "Suspended", "status": "True"}]}})
        ),
        json!(["x", "Suspended", "0/1 of 2", "", "<unknown>", "", "", "<none>"])
    );
    assert_eq!(
        row(
            "batch",
            "cronjobs",
            json!({"spec": {"schedule": "* * * * *", "suspend": false, "timeZone": "Etc/UTC"},
            "status": {"active": [{}], "lastScheduleTime": "2026-01-01T00:59:00Z"}})
        ),
        json!(["x", "* * * * *", "Etc/UTC", "False", 1, "60s", "<unknown>", "", "", "<none>"])
    );
    assert_eq!(
        row(
            "apps",
            "statefulsets",
            json!({"spec": {"replicas": 3, "template": template}, "status": {"readyReplicas": 1}})
        ),
        json!(["x", "1/3", "<unknown>", "a,b", "i:1,j"])
    );
    assert_eq!(
        row(
            "apps",
            "controllerrevisions",
            json!({"revision": 4, "metadata": {"ownerReferences": [
            {"apiVersion": "apps/v1", "kind": "StatefulSet", "name": "s", "controller": true}]}})
        ),
        json!(["x", "statefulset.apps/s", 4, "<unknown>"])
    );
    assert_eq!(
        row(
            "policy",
            "poddisruptionbudgets",
            json!({"spec": {"minAvailable": "50%"}, "status": {"disruptionsAllowed": 2}})
        ),
        json!(["x", "50%", "N/A", 2, "<unknown>"])
    );
    assert_eq!(
        row(
            "",
            "resourcequotas",
            json!({"status": {"hard": {"pods": "10", "limits.cpu": "4", "cpu": "2"}, "used": {"pods": "3"}}})
        ),
        json!(["x", "cpu: 0/2, pods: 3/10", "limits.cpu: 0/4", "<unknown>"])
    );
}

#[test]
fn autoscalers_show_their_metrics() {
    let resource = |aim: Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": aim}});
    let spec = json!({"scaleTargetRef": {"kind": "Deployment", "name": "d"}, "maxReplicas": 5, "minReplicas": 1, "metrics": [
        resource(json!({"averageUtilization": 80})),
        {"type": "External", "external": {"target": {"averageValue": "3"}}},
        resource(json!({"averageValue": "1"})),
    ]});
    let status = json!({"currentReplicas": 2, "currentMetrics": [
        {"type": "Resource", "resource": {"name": "cpu", "current": {"averageUtilization": 41}}}]});
    assert_eq!(
        row("autoscaling", "horizontalpodautoscalers", json!({"spec": spec, "status": status})),
        json!(["x", "Deployment/d", "cpu: 41%/80%, <unknown>/3 (avg) + 1 more...", "1", 5, 2, "<unknown>"])
    );
    assert_eq!(
        row("autoscaling", "horizontalpodautoscalers", json!({"spec": {"targetCPUUtilizationPercentage": 60}}))[2],
        "cpu: <unknown>/60%"
    );
}

#[test]
fn network_objects_are_printed_as_by_kubectl() {
    assert_eq!(
        row(
            "",
            "endpoints",
            json!({"subsets": [{"addresses": [{"ip": "10.0.0.1"}, {"ip": "::1"}], "ports": [{"port": 80}, {"port": 81}]}]})
        ),
        json!(["x", "10.0.0.1:80,[::1]:80,10.0.0.1:81 + 1 more...", "<unknown>"])
    );
    assert_eq!(
        row(
            "discovery.k8s.io",
            "endpointslices",
            json!({"addressType": "IPv4", "ports": [{"port": 80}, {"name": "n"}, {}], "endpoints": null})
        ),
        json!(["x", "IPv4", "80,n,*", "<unset>", "<unknown>"])
    );
    assert_eq!(
        row(
            "networking.k8s.io",
            "ingresses",
            json!({"spec": {"ingressClassName": "nginx", "tls": [{}],
            "rules": [{"host": "a"}, {"host": "b"}, {"host": "c"}, {"host": "d"}]},
            "status": {"loadBalancer": {"ingress": [{"ip": "1.1.1.1"}]}}})
        ),
        json!(["x", "nginx", "a,b,c + 1 more...", "1.1.1.1", "80, 443", "<unknown>"])
    );
    assert_eq!(
        row(
            "networking.k8s.io",
            "ipaddresses",
            json!({"spec": {"parentRef": {"resource": "services", "namespace": "n", "name": "s"}}})
        ),
        json!(["x", "services/n/s", "<unknown>"])
    );
}

#[test]
fn storage_and_access_are_printed_as_by_kubectl() {
    assert_eq!(
        row(
            "",
            "persistentvolumeclaims",
            json!({"spec": {"volumeName": "v", "storageClassName": "fast", "volumeMode": "Block"},
            "status": {"phase": "Bound", "accessModes": ["ReadWriteMany", "ReadWriteOnce"], "capacity": {"storage": "5Gi"}}})
        ),
        json!(["x", "Bound", "v", "5Gi", "RWO,RWX", "fast", "<unset>", "<unknown>", "Block"])
    );
    assert_eq!(
        row(
            "storage.k8s.io",
            "storageclasses",
            json!({"provisioner": "p",
            "metadata": {"annotations": {"storageclass.kubernetes.io/is-default-class": "true"}}})
        ),
        json!(["x (default)", "p", "Delete", "Immediate", false, "<unknown>"])
    );
    assert_eq!(
        row(
            "rbac.authorization.k8s.io",
            "rolebindings",
            json!({"roleRef": {"kind": "Role", "name": "r"}, "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "ServiceAccount", "namespace": "n", "name": "s"}, {"kind": "User", "name": "w"}]})
        ),
        json!(["x", "Role/r", "<unknown>", "u, w", "", "n/s"])
    );
    assert_eq!(
        row(
            "certificates.k8s.io",
            "certificatesigningrequests",
            json!({"spec": {"signerName": "s", "username": "u", "expirationSeconds": 3600},
            "status": {"conditions": [{"type": "Approved"}], "certificate": "YQ=="}})
        ),
        json!(["x", "<unknown>", "s", "u", "60m", "Approved,Issued"])
    );
    assert_eq!(
        row(
            "admissionregistration.k8s.io",
            "validatingadmissionpolicybindings",
            json!({"spec": {"policyName": "p", "paramRef": {"name": "q"}}})
        ),
        json!(["x", "p", "*/q", "<unknown>"])
    );
    assert_eq!(
        row(
            "apiregistration.k8s.io",
            "apiservices",
            json!({"spec": {"service": {"namespace": "n", "name": "s"}},
            "status": {"conditions": [{"type": "Available", "status": "False", "reason": "MissingEndpoints"}]}})
        ),
        json!(["x", "n/s", "False (MissingEndpoints)", "<unknown>"])
    );
}
