//! Validation of a resize, which may change only CPU and memory.

use serde_json::{Map, Value};
use windlass_schema::field::{ErrorList, Path};

use super::annotations;
use crate::diff::same;
use crate::field_errors::FieldErrors;
use crate::kinds::pod::resources::{is_sidecar, qos_class};
use crate::object::{is_set, items, map, remove, set, text};

const KINDS: [&str; 2] = ["containers", "initContainers"];
const ONLY: &str = "only cpu and memory resources are mutable";

/// Validates a resize.
pub(in crate::kinds::pod) fn validate_resize(new: &Value, old: &Value) -> ErrorList {
    let mut errors = super::validate_any(new);
    let rejected = match () {
        () if annotations::is_mirror(old) => "static pods cannot be resized",
        () if text(old, "/spec/os/name") == "windows" => "windows pods cannot be resized",
        () => "",
    };
    if !rejected.is_empty() {
        errors.clear();
        errors.forbidden_at_all(rejected);
        return errors;
    }
    let path = Path::new("spec");
    let before = match text(old, "/status/qosClass") {
        "" => qos_class(old),
        class => class,
    };
    if before != qos_class(new) {
        let detail = "Pod QOS Class may not change as a result of resizing";
        errors.invalid(&path, text(new, "/status/qosClass"), detail);
    }
    let running = items(old, "/status/containerStatuses").iter().find(|status| is_set(status, "/state/running"));
    if running.is_some_and(|status| !is_set(status, "/resources")) {
        errors.forbidden(&path, "Pod running on node without support for resize");
    }
    let mut masked = new.get("spec").cloned().unwrap_or_default();
    let is_asked = |pod: &Value| {
        ["/spec/resources/requests", "/spec/resources/limits"]
            .iter()
            .any(|at| map(pod, at).is_some_and(|m| !m.is_empty()))
    };
    if is_asked(old) || is_asked(new) {
        validate_pod_level(new, old, &mut masked, &path, &mut errors);
    }
    if !items(old, "/status/nodeAllocatableResourceClaimStatuses").is_empty() {
        errors.forbidden(&path, "pods with node allocatable resource claims cannot be resized");
    }
    let count = errors.len();
    validate_order(new, old, &path, &mut errors);
    if errors.len() > count {
        return errors;
    }
    validate_nothing_removed(new, old, &path, &mut errors);
    validate_containers(&mut masked, old, &path, &mut errors);
    if errors.is_empty() && !same(&masked, &old["spec"]) {
        errors.forbidden(&path, ONLY);
    }
    errors
}

fn validate_order(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    for kind in KINDS {
        let pointer = format!("/spec/{kind}");
        let (new, old) = (items(new, &pointer), items(old, &pointer));
        let path = path.child(kind);
        if new.len() != old.len() {
            errors.forbidden(&path, format!("{kind} may not be added or removed on resize"));
            continue;
        }
        for (index, (new, old)) in new.iter().zip(old).enumerate() {
            if text(new, "/name") != text(old, "/name") {
                let detail = format!("{kind} may not be renamed or reordered on resize");
                errors.forbidden(&path.index(index).child("name"), detail);
            }
        }
    }
}

fn validate_nothing_removed(new: &Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    for kind in ["initContainers", "containers"] {
        let pointer = format!("/spec/{kind}");
        for (index, (new, old)) in items(new, &pointer).iter().zip(items(old, &pointer)).enumerate() {
            for list in ["requests", "limits"] {
                if is_removed(new, old, &format!("/resources/{list}")) {
                    let at = path.child(kind).index(index).child("resources").child(list);
                    errors.forbidden(&at, format!("resource {list} cannot be removed"));
                }
            }
        }
    }
}

fn is_removed(new: &Value, old: &Value, pointer: &str) -> bool {
    let empty = Map::new();
    let new = map(new, pointer).unwrap_or(&empty);
    map(old, pointer).unwrap_or(&empty).keys().any(|name| !new.contains_key(name))
}

fn validate_containers(masked: &mut Value, old: &Value, path: &Path, errors: &mut ErrorList) {
    for kind in KINDS {
        let old = items(old, &format!("/spec/{kind}"));
        let containers = masked.get_mut(kind).and_then(Value::as_array_mut);
        for (index, (container, old)) in containers.into_iter().flatten().zip(old).enumerate() {
            let is_changed = !same(container, old);
            put_back(container, old);
            let is_init = kind == "initContainers";
            let at = if is_init { path.child(kind).index(index) } else { path.clone() };
            if !same(container, old) {
                let detail = match is_init {
                    true => "only cpu and memory resources for init or sidecar containers are mutable",
                    false => ONLY,
                };
                errors.forbidden(&at, detail);
            }
            if is_init && is_changed && !is_sidecar(container) {
                let policies = items(container, "/resizePolicy").iter();
                for _ in policies.filter(|policy| text(policy, "/restartPolicy") == "RestartContainer") {
                    let detail =
                        "non-sidecar init containers with a resize policy of RestartContainer cannot be resized";
                    errors.forbidden(&at, detail);
                }
            }
        }
    }
}

fn validate_pod_level(new: &Value, old: &Value, masked: &mut Value, path: &Path, errors: &mut ErrorList) {
    let path_of = path.child("resources");
    if is_set(old, "/spec/resources") {
        if !is_set(new, "/spec/resources") {
            return errors.forbidden(&path_of, "pod-level resources cannot be removed");
        }
        for list in ["requests", "limits"] {
            if is_removed(new, old, &format!("/spec/resources/{list}")) {
                errors.forbidden(&path_of.child(list), format!("pod-level resource {list} cannot be removed"));
            }
        }
    }
    put_back(masked, &old["spec"]);
    let left = masked.get("resources").and_then(Value::as_object);
    if !is_set(old, "/spec/resources") && left.is_some_and(|left| left.values().all(is_empty)) {
        remove(masked, "/resources");
    }
    let resources = |spec: &Value| spec.get("resources").cloned().unwrap_or_default();
    if !same(&resources(masked), &resources(&old["spec"])) {
        errors.forbidden(path, "only cpu and memory resources are mutable at pod-level");
    }
}

fn is_empty(value: &Value) -> bool {
    match value {
        Value::Null => true,
        Value::Object(fields) => fields.is_empty(),
        Value::Array(items) => items.is_empty(),
        _ => false,
    }
}

/// Restores the old CPU and memory.
fn put_back(value: &mut Value, old: &Value) {
    for list in ["/resources/limits", "/resources/requests"] {
        let mut resources = map(value, list).cloned().unwrap_or_default();
        let before = map(old, list);
        for name in ["cpu", "memory"] {
            match before.and_then(|before| before.get(name)) {
                Some(quantity) => {
                    resources.insert(name.to_owned(), quantity.clone());
                }
                None => {
                    resources.remove(name);
                }
            }
        }
        if resources.is_empty() {
            remove(value, list);
        } else {
            set(value, list, resources);
        }
    }
}
