//! Volume mounts whose `subPathExpr` is not a path within the volume. Pure.

use serde_json::Value;

use crate::{command::expand_required, containers::items};

/// The reason of containers that wait for another path.
pub(super) const REASON: &str = "CreateContainerConfigError";

/// Returns whether a pod has a container with such a mount.
pub(super) fn fails(pod: &Value) -> bool {
    let lists = ["initContainers", "containers"].into_iter();
    let mut containers = lists.flat_map(|list| items(&pod["spec"], list));
    containers.any(|container| {
        let mut expressions = items(container, "volumeMounts").iter().filter_map(|mount| mount["subPathExpr"].as_str());
        expressions.any(|expression| match expand_required(pod, container, expression) {
            Ok(path) => path.is_some_and(|path| leads_outside(&path)),
            Err(()) => true,
        })
    })
}

fn leads_outside(path: &str) -> bool {
    path.starts_with('/') || path.split('/').any(|part| part == "..")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_path_is_known_and_within_the_volume() {
        let field = |path: &str| json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": path}}});
        let value = |value: &str| json!({"name": "A", "value": value});
        let secret = json!({"name": "A", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}});
        for (variable, fails) in [
            (value("logs/web"), false),
            (value("/tmp"), true),
            (value(".."), true),
            (value("a/../b"), true),
            (value("a..b"), false),
            (value(""), true),
            (field("metadata.name"), false),
            (field("metadata.annotations['missing']"), true),
            (secret, false),
        ] {
            let mount = json!({"name": "v", "mountPath": "/data", "subPathExpr": "$(A)"});
            let container = json!({"name": "c", "env": [variable], "volumeMounts": [mount]});
            let pod = json!({"metadata": {"name": "p"}, "spec": {"containers": [container]}});
            assert_eq!(super::fails(&pod), fails, "{variable}");
        }
        let plain = json!({"name": "c", "volumeMounts": [{"name": "v", "mountPath": "/data", "subPath": "a"}]});
        assert!(!super::fails(&json!({"spec": {"containers": [plain]}})));
    }
}
