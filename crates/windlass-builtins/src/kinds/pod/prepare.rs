//! Preparation of pods for validation: drops fields that clients may not set, and sets those of the server.

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use windlass_schema::field::{ErrorList, Path};

use super::validation::annotations::{APP_ARMOR, annotation};
use super::validation::validate_app_armor;
use crate::kinds::pod::resources::qos_class;
use crate::object::{carry_over, integer, items, list_mut, remove, set, text};

/// Prepares a new pod: its phase is Pending, and its QoS class is set.
pub(super) fn create(pod: &mut Value, now: Timestamp) {
    set(pod, "/metadata/generation", 1);
    let class = match text(pod, "/status/qosClass") {
        "" => qos_class(pod).to_owned(),
        class => class.to_owned(),
    };
    set(pod, "/status", json!({"phase": "Pending", "qosClass": class}));
    drop_disabled(pod);
    if !items(pod, "/spec/schedulingGates").is_empty() {
        let message = "Scheduling is blocked due to non-empty scheduling gates";
        update_condition(pod, "PodScheduled", "False", Some(("SchedulingGated", message)), now);
    }
    merge_label_keys(pod);
    take_over_app_armor(pod);
}

/// Prepares an ordinary update, which cannot change the status.
pub(super) fn update(pod: &mut Value, old: &Value) {
    carry_over(pod, old, "/status");
    drop_disabled(pod);
}

/// Prepares an update of the status, which cannot change the spec.
pub(super) fn update_status(pod: &mut Value, old: &Value) {
    carry_over(pod, old, "/spec");
    remove(pod, "/metadata/deletionTimestamp");
    carry_over(pod, old, "/metadata/ownerReferences");
    if text(pod, "/status/qosClass").is_empty() {
        carry_over(pod, old, "/status/qosClass");
    }
    keep_observed_generations(pod, old);
}

/// Prepares an update of the ephemeral containers, which cannot change anything else.
pub(super) fn update_ephemeral_containers(pod: &mut Value, old: &Value) {
    let containers = pod.pointer("/spec/ephemeralContainers").cloned();
    carry_over(pod, old, "/spec");
    carry_over(pod, old, "/status");
    keep_metadata(pod, old);
    match containers {
        Some(containers) => set(pod, "/spec/ephemeralContainers", containers),
        None => {
            remove(pod, "/spec/ephemeralContainers");
        }
    }
    drop_disabled(pod);
    count_change(pod, old);
}

/// Prepares a resize, which can change only resources of the containers and the pod. If containers are added, removed
/// or reordered, the update is left unchanged, for validation to reject.
pub(super) fn update_resources(pod: &mut Value, old: &Value) {
    let kinds = ["containers", "initContainers"];
    let list = |value: &Value, kind: &str| items(value, &format!("/spec/{kind}")).to_vec();
    if kinds.iter().any(|kind| list(pod, kind).len() != list(old, kind).len()) {
        return;
    }
    let resources = pod.pointer("/spec/resources").cloned();
    let new = kinds.map(|kind| resized(list(pod, kind), list(old, kind)));
    carry_over(pod, old, "/spec");
    carry_over(pod, old, "/status");
    keep_metadata(pod, old);
    match resources {
        Some(resources) => set(pod, "/spec/resources", resources),
        None => {
            remove(pod, "/spec/resources");
        }
    }
    for (kind, containers) in kinds.into_iter().zip(new) {
        if !containers.is_empty() {
            set(pod, &format!("/spec/{kind}"), containers);
        }
    }
    drop_disabled(pod);
    count_change(pod, old);
}

/// Increments the generation if the spec has changed, including changes through a subresource.
fn count_change(pod: &mut Value, old: &Value) {
    if pod.get("spec") != old.get("spec") {
        set(pod, "/metadata/generation", integer(old, "/metadata/generation").unwrap_or_default() + 1);
    }
}

fn resized(new: Vec<Value>, old: Vec<Value>) -> Vec<Value> {
    if new.iter().zip(&old).any(|(new, old)| text(new, "/name") != text(old, "/name")) {
        return new;
    }
    let mut merged = old;
    for (merged, new) in merged.iter_mut().zip(&new) {
        carry_over(merged, new, "/resources");
        carry_over(merged, new, "/resizePolicy");
    }
    merged
}

/// Restores metadata that an update of a part of the spec cannot change.
fn keep_metadata(pod: &mut Value, old: &Value) {
    for field in ["deletionTimestamp", "generation", "labels", "annotations", "finalizers", "ownerReferences"] {
        carry_over(pod, old, &format!("/metadata/{field}"));
    }
}

/// Restores observed generations that a client clears, per condition type.
fn keep_observed_generations(pod: &mut Value, old: &Value) {
    if integer(pod, "/status/observedGeneration").unwrap_or_default() == 0 {
        carry_over(pod, old, "/status/observedGeneration");
    }
    let mut before: Vec<_> = items(old, "/status/conditions").iter().collect();
    let Some(status) = pod.get_mut("status") else { return };
    for condition in list_mut(status, "conditions") {
        let same = before.iter().position(|old| text(old, "/type") == text(condition, "/type"));
        let Some(old) = same.map(|index| before.remove(index)) else { continue };
        if integer(condition, "/observedGeneration").unwrap_or_default() == 0 {
            carry_over(condition, old, "/observedGeneration");
        }
    }
}

/// Sets a condition of a pod; the transition time changes only with the status.
pub(super) fn update_condition(
    pod: &mut Value,
    kind: &str,
    status: &str,
    reason: Option<(&str, &str)>,
    now: Timestamp,
) {
    let mut condition = Map::new();
    let second = Timestamp::from_second(now.as_second()).unwrap_or(now);
    condition.insert("type".to_owned(), kind.into());
    condition.insert("status".to_owned(), status.into());
    condition.insert("lastProbeTime".to_owned(), Value::Null);
    condition.insert("lastTransitionTime".to_owned(), second.to_string().into());
    if let Some((reason, message)) = reason {
        condition.insert("reason".to_owned(), reason.into());
        condition.insert("message".to_owned(), message.into());
    }
    let mut conditions = items(pod, "/status/conditions").to_vec();
    match conditions.iter_mut().find(|old| text(old, "/type") == kind) {
        Some(old) => {
            if text(old, "/status") == status {
                condition.insert("lastTransitionTime".to_owned(), old["lastTransitionTime"].clone());
            }
            *old = Value::Object(condition);
        }
        None => conditions.push(Value::Object(condition)),
    }
    set(pod, "/status/conditions", conditions);
}

/// Drops fields of disabled feature gates from a pod or template.
pub(crate) fn drop_disabled(object: &mut Value) {
    let Some(spec) = object.get_mut("spec") else { return };
    remove(spec, "/schedulingGroup");
    for volume in list_mut(spec, "volumes") {
        let Some(projected) = volume.get_mut("projected") else { continue };
        for source in list_mut(projected, "sources") {
            remove(source, "/clusterTrustBundle");
            remove(source, "/podCertificate");
        }
    }
    for kind in ["containers", "initContainers", "ephemeralContainers"] {
        for container in list_mut(spec, kind) {
            if remove(container, "/lifecycle/stopSignal").is_some()
                && container["lifecycle"].as_object().is_some_and(Map::is_empty)
            {
                remove(container, "/lifecycle");
            }
        }
    }
}

/// Adds the pod's own values of `matchLabelKeys` and `mismatchLabelKeys` to the label selectors.
fn merge_label_keys(pod: &mut Value) {
    let labels = pod.pointer("/metadata/labels").cloned().unwrap_or_default();
    let Some(spec) = pod.get_mut("spec") else { return };
    for kind in ["podAffinity", "podAntiAffinity"] {
        let Some(affinity) = spec.pointer_mut(&format!("/affinity/{kind}")) else { continue };
        for term in list_mut(affinity, "preferredDuringSchedulingIgnoredDuringExecution") {
            if let Some(term) = term.get_mut("podAffinityTerm") {
                merge_keys_of(term, &labels);
            }
        }
        for term in list_mut(affinity, "requiredDuringSchedulingIgnoredDuringExecution") {
            merge_keys_of(term, &labels);
        }
    }
    for constraint in list_mut(spec, "topologySpreadConstraints") {
        merge_keys_of(constraint, &labels);
    }
}

fn merge_keys_of(term: &mut Value, labels: &Value) {
    if !term.get("labelSelector").is_some_and(Value::is_object) {
        return;
    }
    let mut expressions = items(term, "/labelSelector/matchExpressions").to_vec();
    let before = expressions.len();
    for (field, operator) in [("/matchLabelKeys", "In"), ("/mismatchLabelKeys", "NotIn")] {
        for key in items(term, field).iter().filter_map(Value::as_str) {
            if let Some(value) = labels.get(key) {
                expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
            }
        }
    }
    if expressions.len() > before {
        set(term, "/labelSelector/matchExpressions", expressions);
    }
}

/// Returns the AppArmor profile of an annotation value.
pub(super) fn app_armor_of(annotation: &str) -> Option<Value> {
    match annotation {
        "unconfined" => Some(json!({"type": "Unconfined"})),
        "runtime/default" => Some(json!({"type": "RuntimeDefault"})),
        _ => {
            let local = annotation.strip_prefix("localhost/").filter(|local| !local.is_empty())?;
            let profile = json!({"type": "Localhost", "localhostProfile": local});
            let mut errors = ErrorList::new();
            validate_app_armor(&json!({"appArmorProfile": profile}), &Path::root(), &mut errors);
            errors.is_empty().then_some(profile)
        }
    }
}

/// Copies AppArmor profiles from annotations to the containers they name.
fn take_over_app_armor(pod: &mut Value) {
    let metadata = pod.get("metadata").cloned().unwrap_or_default();
    if metadata.get("annotations").is_none() {
        return;
    }
    let Some(spec) = pod.get_mut("spec").filter(|spec| text(spec, "/os/name") != "windows") else { return };
    let of_pod = spec.pointer("/securityContext/appArmorProfile").cloned();
    for kind in ["initContainers", "containers", "ephemeralContainers"] {
        for container in list_mut(spec, kind) {
            let key = format!("{APP_ARMOR}{}", text(container, "/name"));
            let own = container.pointer("/securityContext/appArmorProfile").filter(|profile| !profile.is_null());
            let profile = annotation(&metadata, &key).and_then(app_armor_of);
            if let (None, Some(profile)) = (own, profile)
                && of_pod.as_ref() != Some(&profile)
            {
                set(container, "/securityContext/appArmorProfile", profile);
            }
        }
    }
}
