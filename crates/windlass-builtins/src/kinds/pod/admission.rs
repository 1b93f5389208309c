//! The built-in admission plugins for pods, as functions of the objects they look up.

mod images;
mod node;
mod node_selector;
mod runtime_class;
mod secrets;
mod tolerations;

use serde_json::{Value, json};

pub use self::images::{always_pull, has_new_image, other_pull_policies};
pub use self::node::{ResizeRejection, check_resize, copy_topology_labels, missing_features, needed_features};
pub use self::node_selector::{NodeSelector, merge_node_selector, parse as parse_node_selector, selects_only};
pub use self::runtime_class::{check_overhead, runtime_class_name, use_runtime_class};
pub use self::secrets::{check_mirror, check_secrets};
pub use self::tolerations::{add_tolerations, tolerate_extended_resources, tolerates_only};
use super::validation::annotations::{MIRROR, annotation};
use crate::object::{boolean, carry_over, integer, is_set, items, list_mut, set, text};

const NOT_READY: &str = "node.kubernetes.io/not-ready";
const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
const LOWER: &str = "PreemptLowerPriority";
const TOKEN_VOLUME: &str = "kube-api-access-";
const TOKEN_PATH: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// Time for which pods stay on failing nodes by default, in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TolerationSeconds {
    /// On nodes that are not ready.
    pub not_ready: i64,
    /// On nodes that cannot be reached.
    pub unreachable: i64,
}

impl Default for TolerationSeconds {
    fn default() -> Self {
        Self { not_ready: 300, unreachable: 300 }
    }
}

/// `DefaultTolerationSeconds`: unless it specifies otherwise, a pod tolerates an unreachable or not-ready node for a
/// while. Runs on create and update.
pub fn default_tolerations(pod: &mut Value, seconds: TolerationSeconds) {
    if !pod.get("spec").is_some_and(Value::is_object) {
        return;
    }
    let mut tolerations = items(pod, "/spec/tolerations").to_vec();
    let before = tolerations.len();
    for (taint, seconds) in [(NOT_READY, seconds.not_ready), (UNREACHABLE, seconds.unreachable)] {
        let is_tolerated = tolerations[..before].iter().any(|toleration| {
            matches!(text(toleration, "/effect"), "" | "NoExecute")
                && (text(toleration, "/key").is_empty() || text(toleration, "/key") == taint)
        });
        if !is_tolerated {
            tolerations
                .push(json!({"key": taint, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": seconds}));
        }
    }
    if tolerations.len() > before {
        set(pod, "/spec/tolerations", tolerations);
    }
}

/// `Priority` on create: sets the priority of a pod from its class. `class` is the PriorityClass that the pod names, or
/// the default class if it names none, or `None`.
///
/// # Errors
/// Returns why the pod is forbidden: its priority or preemption policy differs from that of its class.
pub fn set_priority(pod: &mut Value, class: Option<&Value>) -> Result<(), String> {
    let (name, priority, policy) = match class {
        Some(class) => {
            let policy = class.get("preemptionPolicy").and_then(Value::as_str).unwrap_or(LOWER);
            (text(class, "/metadata/name"), integer(class, "/value").unwrap_or_default(), policy)
        }
        None => ("", 0, LOWER),
    };
    if let Some(stated) = integer(pod, "/spec/priority").filter(|stated| *stated != priority) {
        return Err(format!(
            "the integer value of priority ({stated}) must not be provided in pod spec; priority admission controller \
             computed {priority} from the given PriorityClass name"
        ));
    }
    if let Some(stated) =
        pod.pointer("/spec/preemptionPolicy").and_then(Value::as_str).filter(|stated| *stated != policy)
    {
        return Err(format!(
            "the string value of PreemptionPolicy ({stated}) must not be provided in pod spec; priority admission \
             controller computed {policy} from the given PriorityClass name"
        ));
    }
    if !name.is_empty() {
        set(pod, "/spec/priorityClassName", name);
    }
    set(pod, "/spec/priority", priority);
    set(pod, "/spec/preemptionPolicy", policy);
    Ok(())
}

/// `Priority` on update: keeps the values set on create if the client omits them.
pub fn keep_priority(pod: &mut Value, old: &Value) {
    for field in ["/spec/priority", "/spec/preemptionPolicy"] {
        if !is_set(pod, field) {
            carry_over(pod, old, field);
        }
    }
}

/// Returns whether a pod is a mirror pod, which represents a static pod of a node.
pub fn is_mirror(pod: &Value) -> bool {
    annotation(pod.get("metadata").unwrap_or(&Value::Null), MIRROR).is_some()
}

/// Returns the service account of a pod; `default` if it names none.
pub fn service_account_name(pod: &Value) -> &str {
    match text(pod, "/spec/serviceAccountName") {
        "" => "default",
        name => name,
    }
}

/// `ServiceAccount` on create: sets the service account of a pod, adds its image pull secrets, and mounts its token
/// into every container. `suffix` completes the name of the token volume. Mirror pods are not changed.
pub fn use_service_account(pod: &mut Value, account: &Value, suffix: &str) {
    if is_mirror(pod) {
        return;
    }
    let name = service_account_name(pod).to_owned();
    set(pod, "/spec/serviceAccountName", name.clone());
    set(pod, "/spec/serviceAccount", name);
    let wants_token = boolean(pod, "/spec/automountServiceAccountToken")
        .or_else(|| boolean(account, "/automountServiceAccountToken"))
        .unwrap_or(true);
    if wants_token {
        mount_token(pod, suffix);
    }
    let secrets: Vec<_> =
        items(account, "/imagePullSecrets").iter().map(|secret| json!({"name": text(secret, "/name")})).collect();
    if items(pod, "/spec/imagePullSecrets").is_empty() && !secrets.is_empty() {
        set(pod, "/spec/imagePullSecrets", secrets);
    }
}

fn mount_token(pod: &mut Value, suffix: &str) {
    let mut volumes = items(pod, "/spec/volumes").to_vec();
    let existing = volumes.iter().map(|volume| text(volume, "/name")).find(|name| name.starts_with(TOKEN_VOLUME));
    let (name, is_there) = match existing {
        Some(name) => (name.to_owned(), true),
        None => (format!("{TOKEN_VOLUME}{suffix}"), false),
    };
    let mut is_needed = false;
    let Some(spec) = pod.get_mut("spec") else { return };
    for kind in ["initContainers", "containers"] {
        for container in list_mut(spec, kind) {
            let mut mounts = items(container, "/volumeMounts").to_vec();
            if mounts.iter().any(|mount| text(mount, "/mountPath") == TOKEN_PATH) {
                continue;
            }
            mounts.push(json!({"name": name, "readOnly": true, "mountPath": TOKEN_PATH}));
            set(container, "/volumeMounts", mounts);
            is_needed = true;
        }
    }
    if is_needed && !is_there {
        volumes.push(json!({"name": name, "projected": {
            "sources": [
                {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
                {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
                {"downwardAPI": {"items": [
                    {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}},
                ]}},
            ],
            "defaultMode": 420,
        }}));
        set(spec, "/volumes", volumes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tolerations_are_added_unless_the_pod_has_them() {
        let added = |tolerations: Value| {
            let mut pod = json!({"spec": {"tolerations": tolerations}});
            let before = items(&pod, "/spec/tolerations").len();
            default_tolerations(&mut pod, TolerationSeconds::default());
            let once = pod.clone();
            default_tolerations(&mut pod, TolerationSeconds::default());
            assert_eq!(pod, once, "a second pass adds nothing");
            items(&pod, "/spec/tolerations")[before..].iter().map(|t| text(t, "/key").to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(added(json!([])), [NOT_READY, UNREACHABLE]);
        assert_eq!(added(json!([{"key": NOT_READY, "operator": "Exists"}])), [UNREACHABLE]);
        assert_eq!(added(json!([{"operator": "Exists"}])), [""; 0]);
        assert_eq!(added(json!([{"operator": "Exists", "effect": "NoSchedule"}])), [NOT_READY, UNREACHABLE]);
    }

    #[test]
    fn the_priority_of_a_pod_is_that_of_its_class() {
        let class = json!({"metadata": {"name": "high"}, "value": 1000, "preemptionPolicy": "Never"});
        let mut pod = json!({"spec": {}});
        assert_eq!(set_priority(&mut pod, None), Ok(()));
        assert_eq!(pod, json!({"spec": {"priority": 0, "preemptionPolicy": LOWER}}));
        let mut pod = json!({"spec": {"priorityClassName": "high"}});
        assert_eq!(set_priority(&mut pod, Some(&class)), Ok(()));
        let expected = json!({"priorityClassName": "high", "priority": 1000, "preemptionPolicy": "Never"});
        assert_eq!(pod["spec"], expected);
        let mut update = json!({"spec": {"priorityClassName": "high"}});
        keep_priority(&mut update, &pod);
        assert_eq!(update, pod);
        let error = set_priority(&mut json!({"spec": {"priority": 7}}), Some(&class)).expect_err("it must be rejected");
        assert_eq!(
            error,
            "the integer value of priority (7) must not be provided in pod spec; priority admission controller \
             computed 1000 from the given PriorityClass name"
        );
    }

    #[test]
    fn the_service_account_token_is_mounted_once() {
        let mut pod = json!({"spec": {
            "containers": [{"name": "a"}, {"name": "b", "volumeMounts": [{"name": "own", "mountPath": TOKEN_PATH}]}],
        }});
        let account = json!({"imagePullSecrets": [{"name": "registry"}]});
        use_service_account(&mut pod, &account, "abcde");
        let once = pod.clone();
        use_service_account(&mut pod, &account, "fghij");
        assert_eq!(pod, once, "a second pass changes nothing");
        assert_eq!(text(&pod, "/spec/serviceAccount"), "default");
        assert_eq!(text(&pod, "/spec/imagePullSecrets/0/name"), "registry");
        assert_eq!(
            pod["spec"]["containers"][0]["volumeMounts"],
            json!([{"name": "kube-api-access-abcde", "readOnly": true, "mountPath": TOKEN_PATH}])
        );
        assert_eq!(items(&pod, "/spec/containers/1/volumeMounts").len(), 1);
        assert_eq!(
            integer(&pod, "/spec/volumes/0/projected/sources/0/serviceAccountToken/expirationSeconds"),
            Some(3607)
        );
    }

    #[test]
    fn an_account_or_a_pod_can_disable_the_token_mount() {
        for (pod, account, volumes) in [
            (json!({}), json!({"automountServiceAccountToken": false}), 0),
            (json!({"automountServiceAccountToken": true}), json!({"automountServiceAccountToken": false}), 1),
            (json!({"automountServiceAccountToken": false}), json!({}), 0),
        ] {
            let mut pod = json!({"spec": pod});
            pod["spec"]["containers"] = json!([{"name": "a"}]);
            use_service_account(&mut pod, &account, "x");
            assert_eq!(items(&pod, "/spec/volumes").len(), volumes, "{pod}");
        }
    }
}
