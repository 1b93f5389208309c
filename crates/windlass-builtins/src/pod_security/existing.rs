//! Pods that violate the new level of their namespace.

use std::collections::BTreeMap;

use serde_json::Value;

use super::{LevelVersion, reasons, violations};
use crate::object::{boolean, items, text};

/// The pods of a namespace whose level changes, grouped by what they violate.
#[derive(Debug)]
pub struct ExistingPods {
    policy: LevelVersion,
    checked: usize,
    /// By reasons: the first name, and the number of pods.
    violating: BTreeMap<String, (String, usize)>,
}

impl ExistingPods {
    /// Returns no pods.
    pub fn new(policy: LevelVersion) -> Self {
        Self { policy, checked: 0, violating: BTreeMap::new() }
    }

    /// Compares a pod with the new level.
    pub fn check(&mut self, pod: &Value) {
        self.checked += 1;
        let found = violations(self.policy, &pod["metadata"], &pod["spec"]);
        if found.is_empty() {
            return;
        }
        let name = text(pod, "/metadata/name");
        let (first, count) = self.violating.entry(reasons(&found)).or_insert_with(|| (name.to_owned(), 0));
        *count += 1;
        if name < first.as_str() {
            *first = name.to_owned();
        }
    }

    /// Returns the warnings for the user who changes the level. The namespace has `total` pods.
    pub fn warnings(&self, namespace: &str, total: usize) -> Vec<String> {
        let Self { policy, checked, violating } = self;
        let mut warnings = Vec::new();
        if *checked < total {
            warnings.push(format!(
                "new PodSecurity enforce level only checked against the first {checked} of {total} existing pods"
            ));
        }
        if !violating.is_empty() {
            warnings.push(format!(
                r#"existing pods in namespace "{namespace}" violate the new PodSecurity enforce level "{policy}""#
            ));
        }
        let mut pods: Vec<String> = violating
            .iter()
            .map(|(reasons, (name, count))| match count {
                1 => format!("{name}: {reasons}"),
                2 => format!("{name} (and 1 other pod): {reasons}"),
                count => format!("{name} (and {} other pods): {reasons}", count - 1),
            })
            .collect();
        pods.sort_unstable();
        warnings.extend(pods);
        warnings
    }
}

/// Returns the UID of the controller in the metadata of a pod; its pods usually violate the same checks.
pub fn controller_uid(metadata: &Value) -> Option<&str> {
    let owners = items(metadata, "/ownerReferences");
    owners.iter().find(|owner| boolean(owner, "/controller") == Some(true)).map(|owner| text(owner, "/uid"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::{Level, PolicyVersion};
    use super::*;

    #[test]
    fn pods_with_the_same_violations_are_one_warning() {
        let policy = LevelVersion { level: Level::Baseline, version: PolicyVersion::Minor(30) };
        let mut pods = ExistingPods::new(policy);
        assert!(pods.warnings("n", 0).is_empty());
        for name in ["d", "b", "c"] {
            pods.check(&json!({"metadata": {"name": name}, "spec": {"hostPID": true}}));
        }
        for name in ["y", "x"] {
            pods.check(&json!({"metadata": {"name": name}, "spec": {"volumes": [{"name": "v", "hostPath": {}}]}}));
        }
        pods.check(&json!({"metadata": {"name": "a"}, "spec": {"hostIPC": true, "volumes": [{"hostPath": {}}]}}));
        pods.check(&json!({"metadata": {"name": "good"}, "spec": {}}));
        let expected = [
            r#"existing pods in namespace "n" violate the new PodSecurity enforce level "baseline:v1.30""#,
            "a: host namespaces, hostPath volumes",
            "b (and 2 other pods): host namespaces",
            "x (and 1 other pod): hostPath volumes",
        ];
        assert_eq!(pods.warnings("n", 7), expected);
        let unfinished = pods.warnings("n", 8);
        let expected = "new PodSecurity enforce level only checked against the first 7 of 8 existing pods";
        assert_eq!(unfinished[0], expected);
        assert_eq!(unfinished.len(), 5);
    }

    #[test]
    fn the_controller_is_one_of_the_owners() {
        let metadata = json!({"ownerReferences": [{"uid": "a"}, {"uid": "b", "controller": true}]});
        assert_eq!(controller_uid(&metadata), Some("b"));
        assert_eq!(controller_uid(&json!({})), None);
    }
}
