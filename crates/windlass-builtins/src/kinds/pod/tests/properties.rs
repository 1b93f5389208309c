//! No body makes a strategy panic, and defaulting is idempotent.

use jiff::Timestamp;
use proptest::prelude::*;
use serde_json::{Value, json};

use crate::kinds::cron_job::CronJob;
use crate::kinds::daemon_set::DaemonSet;
use crate::kinds::deployment::Deployment;
use crate::kinds::horizontal_pod_autoscaler::HorizontalPodAutoscaler;
use crate::kinds::job::Job;
use crate::kinds::pod::Pod;
use crate::kinds::pod_disruption_budget::PodDisruptionBudget;
use crate::kinds::pod_template::PodTemplate;
use crate::kinds::replica_set::ReplicaSet;
use crate::kinds::replication_controller::ReplicationController;
use crate::kinds::stateful_set::StatefulSet;
use crate::strategy::{Strategy as KindStrategy, WriteContext};

/// Field names that lead arbitrary bodies into the rules.
const NAMES: &[&str] = &[
    "metadata",
    "name",
    "labels",
    "annotations",
    "spec",
    "status",
    "containers",
    "initContainers",
    "ephemeralContainers",
    "image",
    "ports",
    "containerPort",
    "hostPort",
    "env",
    "value",
    "valueFrom",
    "fieldRef",
    "fieldPath",
    "resources",
    "limits",
    "requests",
    "cpu",
    "memory",
    "hugepages-2Mi",
    "volumes",
    "volumeMounts",
    "mountPath",
    "secret",
    "configMap",
    "items",
    "projected",
    "sources",
    "ephemeral",
    "volumeClaimTemplate",
    "emptyDir",
    "securityContext",
    "livenessProbe",
    "httpGet",
    "port",
    "affinity",
    "nodeAffinity",
    "requiredDuringSchedulingIgnoredDuringExecution",
    "nodeSelectorTerms",
    "matchExpressions",
    "tolerations",
    "topologySpreadConstraints",
    "labelSelector",
    "matchLabelKeys",
    "restartPolicy",
    "conditions",
    "type",
    "containerStatuses",
    "initContainerStatuses",
    "state",
    "terminated",
    "exitCode",
    "podIPs",
    "ip",
    "selector",
    "template",
    "strategy",
    "rollingUpdate",
    "maxSurge",
    "maxUnavailable",
    "replicas",
    "schedulingGates",
    "nodeSelector",
    "overhead",
    "dnsConfig",
    "nameservers",
    "iscsi",
    "iqn",
    "os",
    "lifecycle",
    "preStop",
    "resizePolicy",
    "volumeClaimTemplates",
    "updateStrategy",
    "partition",
    "jobTemplate",
    "schedule",
    "timeZone",
    "completionMode",
    "completions",
    "parallelism",
    "completedIndexes",
    "failedIndexes",
    "podFailurePolicy",
    "successPolicy",
    "rules",
    "onExitCodes",
    "values",
    "minAvailable",
    "metrics",
    "object",
    "target",
    "behavior",
    "scaleUp",
    "policies",
    "scaleTargetRef",
];

fn arbitrary() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        proptest::sample::select(
            &[
                "",
                "a",
                "1",
                "-1",
                "1Gi",
                "25%",
                "RollingUpdate",
                "Always",
                "In",
                "é/..",
                "iqn",
                "eui",
                "2026-01-01T00:00:00Z",
                "a['",
                "Indexed",
                "TZ=",
                "0-2,1",
                "Resource"
            ][..]
        )
        .prop_map(Value::from),
        "\\PC{0,6}".prop_map(Value::from),
    ];
    leaf.prop_recursive(8, 64, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::vec((proptest::sample::select(NAMES), inner), 0..6)
                .prop_map(|fields| fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()),
        ]
    })
}

proptest! {
    #[test]
    fn no_body_makes_a_strategy_panic(new in arbitrary(), old in arbitrary()) {
        let kinds: [&dyn KindStrategy; 11] = [
            &Pod,
            &Deployment,
            &ReplicaSet,
            &StatefulSet,
            &DaemonSet,
            &Job,
            &CronJob,
            &ReplicationController,
            &PodTemplate,
            &PodDisruptionBudget,
            &HorizontalPodAutoscaler,
        ];
        let metadata = json!({"name": "x", "annotations": new["annotations"]});
        let new = json!({"metadata": metadata, "spec": new, "status": new, "template": new["template"]});
        let old = json!({"metadata": {"name": "x", "labels": old["labels"]}, "spec": old, "status": old});
        let resources = [
            ("", "pods"),
            ("", "podtemplates"),
            ("", "replicationcontrollers"),
            ("apps", "daemonsets"),
            ("apps", "deployments"),
            ("apps", "replicasets"),
            ("apps", "statefulsets"),
            ("autoscaling", "horizontalpodautoscalers"),
            ("batch", "cronjobs"),
            ("batch", "jobs"),
            ("policy", "poddisruptionbudgets"),
        ];
        for (group, resource) in resources {
            let printer = crate::kinds::facts(group, resource).printer.expect("the kind must have a printer");
            (printer.cells)(&new, Timestamp::UNIX_EPOCH);
        }
        for kind in kinds {
            let mut object = new.clone();
            kind.default(&mut object);
            let once = object.clone();
            kind.default(&mut object);
            prop_assert_eq!(&object, &once, "defaulting must be idempotent");
            kind.validate(&object);
            kind.warnings(&object, None);
            kind.selectable_fields(&object);
            kind.grace(&object, None);
            let mut created = object.clone();
            kind.prepare_for_create(&mut created, &WriteContext::test());
            kind.prepare_for_update(&mut object, &old, &WriteContext::test());
            kind.validate_update(&object, &old);
            for subresource in ["status", "ephemeralcontainers", "resize"] {
                let mut object = once.clone();
                kind.prepare_for_subresource_update(subresource, &mut object, &old, &WriteContext::test());
                kind.validate_subresource_update(subresource, &object, &old);
            }
        }
    }
}
