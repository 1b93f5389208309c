//! Workloads, their quotas and budgets, and what schedules them.

mod autoscaler;

use jiff::Timestamp;
use serde_json::Value;

use super::{Entry, count, flag};
use crate::columns::{AGE, NAME, age, column, containers, human_duration, labels, name, selector, since, wide};
use crate::object::{boolean, entries, integer, is_set, items, text};
use crate::strategy::Column;

pub(super) fn core(resource: &str) -> Option<Entry> {
    Some(match resource {
        "podtemplates" => (POD_TEMPLATE, pod_template),
        "replicationcontrollers" => (REPLICATION_CONTROLLER, replication_controller),
        "resourcequotas" => (RESOURCE_QUOTA, resource_quota),
        "componentstatuses" => (COMPONENT_STATUS, component_status),
        _ => return None,
    })
}

pub(super) fn apps(resource: &str) -> Option<Entry> {
    Some(match resource {
        "statefulsets" => (STATEFUL_SET, stateful_set),
        "daemonsets" => (DAEMON_SET, daemon_set),
        _ => return None,
    })
}

pub(super) fn batch(resource: &str) -> Option<Entry> {
    Some(match resource {
        "jobs" => (JOB, job),
        "cronjobs" => (CRON_JOB, cron_job),
        _ => return None,
    })
}

pub(super) fn autoscaling(resource: &str) -> Option<Entry> {
    (resource == "horizontalpodautoscalers")
        .then_some((AUTOSCALER, autoscaler::cells as fn(&Value, Timestamp) -> Vec<Value>))
}

pub(super) fn policy(resource: &str) -> Option<Entry> {
    (resource == "poddisruptionbudgets")
        .then_some((DISRUPTION_BUDGET, disruption_budget as fn(&Value, Timestamp) -> Vec<Value>))
}

pub(super) fn scheduling(resource: &str) -> Option<Entry> {
    Some(match resource {
        "priorityclasses" => (PRIORITY_CLASS, priority_class),
        "runtimeclasses" => {
            (RUNTIME_CLASS, |object, now| vec![name(object), text(object, "/handler").into(), age(object, now)])
        }
        "deviceclasses" => (DEVICE_CLASS, |object, now| vec![name(object), age(object, now)]),
        "resourceclaims" => (RESOURCE_CLAIM, resource_claim),
        "resourceclaimtemplates" => (RESOURCE_CLAIM_TEMPLATE, |object, now| vec![name(object), age(object, now)]),
        "resourceslices" => (RESOURCE_SLICE, resource_slice),
        _ => return None,
    })
}

/// The names and the images of a template's containers.
fn template_cells(object: &Value, pointer: &str) -> [Value; 2] {
    let (names, images) = containers(object, &format!("{pointer}/spec/containers"));
    [names.into(), images.into()]
}

fn pod_template(object: &Value, _now: Timestamp) -> Vec<Value> {
    let [names, images] = template_cells(object, "/template");
    vec![name(object), names, images, labels(object, "/template/metadata/labels").into()]
}

fn replication_controller(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = template_cells(object, "/spec/template");
    vec![
        name(object),
        count(object, "/spec/replicas"),
        count(object, "/status/replicas"),
        count(object, "/status/readyReplicas"),
        age(object, now),
        names,
        images,
        labels(object, "/spec/selector").into(),
    ]
}

fn stateful_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = template_cells(object, "/spec/template");
    let ready = format!("{}/{}", count(object, "/status/readyReplicas"), count(object, "/spec/replicas"));
    vec![name(object), ready.into(), age(object, now), names, images]
}

fn daemon_set(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = template_cells(object, "/spec/template");
    let status = |field: &str| count(object, &format!("/status/{field}"));
    vec![
        name(object),
        status("desiredNumberScheduled"),
        status("currentNumberScheduled"),
        status("numberReady"),
        status("updatedNumberScheduled"),
        status("numberAvailable"),
        labels(object, "/spec/template/spec/nodeSelector").into(),
        age(object, now),
        names,
        images,
        selector(object, "/spec/selector").into(),
    ]
}

fn job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = template_cells(object, "/spec/template");
    let succeeded = count(object, "/status/succeeded");
    let completions = match (integer(object, "/spec/completions"), integer(object, "/spec/parallelism")) {
        (Some(wanted), _) => format!("{succeeded}/{wanted}"),
        (None, Some(parallel)) if parallel > 1 => format!("{succeeded}/1 of {parallel}"),
        _ => format!("{succeeded}/1"),
    };
    let time = |field: &str| text(object, &format!("/status/{field}")).parse::<Timestamp>().ok();
    let duration = match (time("startTime"), time("completionTime")) {
        (None, _) => String::new(),
        (Some(start), end) => human_duration(end.unwrap_or(now).duration_since(start)),
    };
    vec![
        name(object),
        job_status(object).into(),
        completions.into(),
        duration.into(),
        age(object, now),
        names,
        images,
        selector(object, "/spec/selector").into(),
    ]
}

fn job_status(object: &Value) -> &'static str {
    let is_true = |kind: &str| {
        let found = items(object, "/status/conditions").iter().find(|condition| text(condition, "/type") == kind);
        found.is_some_and(|condition| text(condition, "/status") == "True")
    };
    match () {
        () if is_true("Complete") => "Complete",
        () if is_true("Failed") => "Failed",
        () if is_set(object, "/metadata/deletionTimestamp") => "Terminating",
        () if is_true("Suspended") => "Suspended",
        () if is_true("FailureTarget") => "FailureTarget",
        () if is_true("SuccessCriteriaMet") => "SuccessCriteriaMet",
        () => "Running",
    }
}

fn cron_job(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = template_cells(object, "/spec/jobTemplate/spec/template");
    let last = match is_set(object, "/status/lastScheduleTime") {
        true => since(object, "/status/lastScheduleTime", now),
        false => "<none>".to_owned(),
    };
    let zone = object.pointer("/spec/timeZone").and_then(Value::as_str).unwrap_or("<none>");
    let suspended = match boolean(object, "/spec/suspend") {
        Some(true) => "True",
        Some(false) => "False",
        None => "<unset>",
    };
    vec![
        name(object),
        text(object, "/spec/schedule").into(),
        zone.into(),
        suspended.into(),
        items(object, "/status/active").len().into(),
        last.into(),
        age(object, now),
        names,
        images,
        selector(object, "/spec/jobTemplate/spec/selector").into(),
    ]
}

/// The cells of ControllerRevisions.
pub(crate) fn controller_revision(object: &Value, now: Timestamp) -> Vec<Value> {
    let owners = items(object, "/metadata/ownerReferences");
    let controller = owners.iter().find(|owner| boolean(owner, "/controller") == Some(true));
    let shown = controller.map_or_else(
        || "<none>".to_owned(),
        |owner| {
            let kind = match text(owner, "/apiVersion").split_once('/') {
                Some((group, _)) => format!("{}.{group}", text(owner, "/kind")),
                None => text(owner, "/kind").to_owned(),
            };
            format!("{}/{}", kind.to_lowercase(), text(owner, "/name"))
        },
    );
    vec![name(object), shown.into(), count(object, "/revision"), age(object, now)]
}

fn disruption_budget(object: &Value, now: Timestamp) -> Vec<Value> {
    let bound = |pointer| match object.pointer(pointer) {
        Some(Value::String(text)) => text.clone(),
        Some(Value::Number(number)) => number.to_string(),
        _ => "N/A".to_owned(),
    };
    vec![
        name(object),
        bound("/spec/minAvailable").into(),
        bound("/spec/maxUnavailable").into(),
        count(object, "/status/disruptionsAllowed"),
        age(object, now),
    ]
}

fn resource_quota(object: &Value, now: Timestamp) -> Vec<Value> {
    let (mut requests, mut limits) = (Vec::new(), Vec::new());
    for (resource, hard) in entries(object, "/status/hard") {
        let used = object.pointer("/status/used").and_then(|used| used.get(resource)).and_then(Value::as_str);
        let shown = format!("{resource}: {}/{}", used.unwrap_or("0"), hard.as_str().unwrap_or_default());
        if resource.starts_with("limits.") { &mut limits } else { &mut requests }.push(shown);
    }
    vec![name(object), requests.join(", ").into(), limits.join(", ").into(), age(object, now)]
}

fn component_status(object: &Value, _now: Timestamp) -> Vec<Value> {
    let healthy = items(object, "/conditions").iter().find(|condition| text(condition, "/type") == "Healthy");
    let (status, message, error) = match healthy {
        None => ("Unknown", "", ""),
        Some(condition) => {
            let status = if text(condition, "/status") == "True" { "Healthy" } else { "Unhealthy" };
            (status, text(condition, "/message"), text(condition, "/error"))
        }
    };
    vec![name(object), status.into(), message.into(), error.into()]
}

fn priority_class(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        count(object, "/value"),
        flag(object, "/globalDefault"),
        age(object, now),
        text(object, "/preemptionPolicy").into(),
    ]
}

fn resource_claim(object: &Value, now: Timestamp) -> Vec<Value> {
    let deleted = is_set(object, "/metadata/deletionTimestamp");
    let mut states = if deleted { vec!["deleted"] } else { Vec::new() };
    if is_set(object, "/status/allocation") {
        states.push("allocated");
        if !items(object, "/status/reservedFor").is_empty() {
            states.push("reserved");
        }
    } else if !deleted {
        states.push("pending");
    }
    vec![name(object), states.join(",").into(), age(object, now)]
}

fn resource_slice(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![
        name(object),
        text(object, "/spec/nodeName").into(),
        text(object, "/spec/driver").into(),
        text(object, "/spec/pool/name").into(),
        age(object, now),
    ]
}

const POD_TEMPLATE: &[Column] = &[
    NAME,
    column("Containers", "string", "Names of each container in the template."),
    column("Images", "string", "Images referenced by each container in the template."),
    column("Pod Labels", "string", "The labels for the pod template."),
];

const REPLICATION_CONTROLLER: &[Column] = &[
    NAME,
    column(
        "Desired",
        "integer",
        "Replicas is the number of desired replicas. This is a pointer to distinguish between explicit zero and unspecified. Defaults to 1. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    column(
        "Current",
        "integer",
        "Replicas is the most recently observed number of replicas. More info: https://kubernetes.io/docs/concepts/workloads/controllers/replicationcontroller#what-is-a-replicationcontroller",
    ),
    column("Ready", "integer", "The number of ready replicas for this replication controller."),
    AGE,
    wide("Containers", "string", "Names of each container in the template."),
    wide("Images", "string", "Images referenced by each container in the template."),
    wide(
        "Selector",
        "string",
        "Selector is a label query over pods that should match the Replicas count. If Selector is empty, it is defaulted to the labels present on the Pod template. Label keys and values that must match in order to be controlled by this replication controller, if empty defaulted to labels on Pod template. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const RESOURCE_QUOTA: &[Column] = &[
    NAME,
    column("Request", "string", "Request represents a minimum amount of cpu/memory that a container may consume."),
    column(
        "Limit",
        "string",
        "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
    ),
    AGE,
];

const COMPONENT_STATUS: &[Column] = &[
    NAME,
    column("Status", "string", "Status of the component conditions"),
    column("Message", "string", "Message of the component conditions"),
    column("Error", "string", "Error of the component conditions"),
];

const STATEFUL_SET: &[Column] = &[
    NAME,
    column("Ready", "string", "Number of the pod with ready state"),
    AGE,
    wide("Containers", "string", "Names of each container in the template."),
    wide("Images", "string", "Images referenced by each container in the template."),
];

const DAEMON_SET: &[Column] = &[
    NAME,
    column(
        "Desired",
        "integer",
        "The total number of nodes that should be running the daemon pod (including nodes correctly running the daemon pod). More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    column(
        "Current",
        "integer",
        "The number of nodes that are running at least 1 daemon pod and are supposed to run the daemon pod. More info: https://kubernetes.io/docs/concepts/workloads/controllers/daemonset/",
    ),
    column(
        "Ready",
        "integer",
        "numberReady is the number of nodes that should be running the daemon pod and have one or more of the daemon pod running with a Ready Condition.",
    ),
    column("Up-to-date", "integer", "The total number of nodes that are running updated daemon pod"),
    column(
        "Available",
        "integer",
        "The number of nodes that should be running the daemon pod and have one or more of the daemon pod running and available (ready for at least spec.minReadySeconds)",
    ),
    column(
        "Node Selector",
        "string",
        "NodeSelector is a selector which must be true for the pod to fit on a node. Selector which must match a node's labels for the pod to be scheduled on that node. More info: https://kubernetes.io/docs/concepts/configuration/assign-pod-node/",
    ),
    AGE,
    wide("Containers", "string", "Names of each container in the template."),
    wide("Images", "string", "Images referenced by each container in the template."),
    wide(
        "Selector",
        "string",
        "A label query over pods that are managed by the daemon set. Must match in order to be controlled. It must match the pod template's labels. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

/// The columns of ControllerRevisions.
pub(crate) const CONTROLLER_REVISION: &[Column] = &[
    NAME,
    column("Controller", "string", "Controller of the object"),
    column("Revision", "string", "Revision indicates the revision of the state represented by Data."),
    AGE,
];

const JOB: &[Column] = &[
    NAME,
    column("Status", "string", "Status of the job."),
    column(
        "Completions",
        "string",
        "The number of pods which reached phase Succeeded. The value increases monotonically for a given spec. However, it may decrease in reaction to scale down of elastic indexed jobs.",
    ),
    column("Duration", "string", "Time required to complete the job."),
    AGE,
    wide("Containers", "string", "Names of each container in the template."),
    wide("Images", "string", "Images referenced by each container in the template."),
    wide(
        "Selector",
        "string",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const CRON_JOB: &[Column] = &[
    NAME,
    column("Schedule", "string", "The schedule in Cron format, see https://en.wikipedia.org/wiki/Cron."),
    column(
        "Timezone",
        "string",
        "The time zone name for the given schedule, see https://en.wikipedia.org/wiki/List_of_tz_database_time_zones. If not specified, this will default to the time zone of the kube-controller-manager process. The set of valid time zone names and the time zone offset is loaded from the system-wide time zone database by the API server during CronJob validation and the controller manager during execution. If no system-wide time zone database can be found a bundled version of the database is used instead. If the time zone name becomes invalid during the lifetime of a CronJob or due to a change in host configuration, the controller will stop creating new new Jobs and will create a system event with the reason UnknownTimeZone. More information can be found in https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/#time-zones",
    ),
    column(
        "Suspend",
        "boolean",
        "This flag tells the controller to suspend subsequent executions, it does not apply to already started executions.  Defaults to false.",
    ),
    column("Active", "integer", "A list of pointers to currently running jobs."),
    column("Last Schedule", "string", "Information when was the last time the job was successfully scheduled."),
    AGE,
    wide("Containers", "string", "Names of each container in the template."),
    wide("Images", "string", "Images referenced by each container in the template."),
    wide(
        "Selector",
        "string",
        "A label query over pods that should match the pod count. Normally, the system sets this field for you. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors",
    ),
];

const AUTOSCALER: &[Column] = &[
    NAME,
    column(
        "Reference",
        "string",
        "scaleTargetRef points to the target resource to scale, and is used to the pods for which metrics should be collected, as well as to actually change the replica count.",
    ),
    column(
        "Targets",
        "string",
        "metrics contains the specifications for which to use to calculate the desired replica count (the maximum replica count across all metrics will be used).  The desired replica count is calculated multiplying the ratio between the target value and the current value by the current number of pods.  Ergo, metrics used must decrease as the pod count is increased, and vice-versa.  See the individual metric source types for more information about how each type of metric must respond. If not set, the default metric will be set to 80% average CPU utilization.",
    ),
    column(
        "MinPods",
        "string",
        "minReplicas is the lower limit for the number of replicas to which the autoscaler can scale down.  It defaults to 1 pod.  minReplicas is allowed to be 0 if the alpha feature gate HPAScaleToZero is enabled and at least one Object or External metric is configured.  Scaling is active as long as at least one metric value is available.",
    ),
    column(
        "MaxPods",
        "string",
        "maxReplicas is the upper limit for the number of replicas to which the autoscaler can scale up. It cannot be less that minReplicas.",
    ),
    column(
        "Replicas",
        "string",
        "currentReplicas is current number of replicas of pods managed by this autoscaler, as last seen by the autoscaler.",
    ),
    AGE,
];

const DISRUPTION_BUDGET: &[Column] = &[
    NAME,
    column("Min Available", "string", "The minimum number of pods that must be available."),
    column("Max Unavailable", "string", "The maximum number of pods that may be unavailable."),
    column("Allowed Disruptions", "integer", "Calculated number of pods that may be disrupted at this time."),
    AGE,
];

const PRIORITY_CLASS: &[Column] = &[
    NAME,
    column(
        "Value",
        "integer",
        "value represents the integer value of this priority class. This is the actual priority that pods receive when they have the name of this class in their pod spec.",
    ),
    column(
        "Global-Default",
        "boolean",
        "globalDefault specifies whether this PriorityClass should be considered as the default priority for pods that do not have any priority class. Only one PriorityClass can be marked as `globalDefault`. However, if more than one PriorityClasses exists with their `globalDefault` field set to true, the smallest value of such global default PriorityClasses will be used as the default priority.",
    ),
    AGE,
    column(
        "PreemptionPolicy",
        "string",
        "preemptionPolicy is the Policy for preempting pods with lower priority. One of Never, PreemptLowerPriority. Defaults to PreemptLowerPriority if unset.",
    ),
];

const RUNTIME_CLASS: &[Column] = &[NAME, column("Handler", "string", ""), AGE];

const DEVICE_CLASS: &[Column] = &[NAME, AGE];

const RESOURCE_CLAIM: &[Column] =
    &[NAME, column("State", "string", "A summary of the current state (allocated, pending, reserved, etc.)."), AGE];

const RESOURCE_CLAIM_TEMPLATE: &[Column] = &[NAME, AGE];

const RESOURCE_SLICE: &[Column] = &[
    NAME,
    column(
        "Node",
        "string",
        "NodeName identifies the node which provides the resources in this pool. A field selector can be used to list only ResourceSlice objects belonging to a certain node.\n\nThis field can be used to limit access from nodes to ResourceSlices with the same node name. It also indicates to autoscalers that adding new nodes of the same type as some old node might also make new resources available.\n\nExactly one of NodeName, NodeSelector, AllNodes, and PerDeviceNodeSelection must be set. This field is immutable.",
    ),
    column(
        "Driver",
        "string",
        "Driver identifies the DRA driver providing the capacity information. A field selector can be used to list only ResourceSlice objects with a certain driver name.\n\nMust be a DNS subdomain and should end with a DNS domain owned by the vendor of the driver. It should use only lower case characters. This field is immutable.",
    ),
    column(
        "Pool",
        "string",
        "Name is used to identify the pool. For node-local devices, this is often the node name, but this is not required.\n\nIt must not be longer than 253 characters and must consist of one or more DNS sub-domains separated by slashes. This field is immutable.",
    ),
    AGE,
];
