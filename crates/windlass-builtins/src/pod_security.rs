//! Pod Security Standards: the checks of the levels `baseline` and `restricted`, in the versions that they had in each
//! release of Kubernetes.
//!
//! Each check is a pure function of a pod; [`CHECKS`] lists them in the order of their messages. [`Policy`] is read from
//! the labels of a namespace, [`violations`] compares a pod with a level, and [`ExistingPods`] summarizes the pods of a
//! namespace whose level changes.

mod app_armor;
mod capabilities;
mod configuration;
mod existing;
mod host;
mod list;
mod policy;
mod privilege;
mod proc_mount;
mod se_linux;
mod seccomp;
mod sysctls;
mod update;
mod user;
mod volumes;
mod windows;

use serde_json::Value;

pub use self::configuration::Configuration;
pub use self::existing::{ExistingPods, controller_uid};
pub use self::policy::{Level, LevelVersion, Policy, PolicyVersion};
pub use self::update::is_significant_update;
use crate::object::{boolean, items, text};

/// The newest release in which a check changed. Later versions, and `latest`, are the same.
const NEWEST: u64 = 35;

/// A pod, or the template of a workload.
#[derive(Debug, Clone, Copy)]
struct Pod<'a> {
    metadata: &'a Value,
    spec: &'a Value,
    /// The minor version of the policy.
    version: u64,
}

impl<'a> Pod<'a> {
    /// Returns all containers: init containers first, ephemeral ones last.
    fn containers(self) -> impl Iterator<Item = &'a Value> {
        ["/initContainers", "/containers", "/ephemeralContainers"]
            .into_iter()
            .flat_map(move |kind| items(self.spec, kind))
    }

    /// Returns the names of the containers that a condition holds for.
    fn containers_where(self, condition: impl Fn(&Value) -> bool) -> Vec<&'a str> {
        self.containers().filter(|container| condition(container)).map(|container| text(container, "/name")).collect()
    }

    /// Returns whether the pod states that it runs on Windows, where some fields cannot be set. Versions before 1.25
    /// do not know this.
    fn runs_on_windows(self) -> bool {
        self.version >= 25 && text(self.spec, "/os/name") == "windows"
    }

    /// Returns whether the users of the pod are not those of its node, so that some checks do not matter. Versions
    /// before 1.35 do not know this.
    fn has_own_users(self) -> bool {
        self.version >= 35 && boolean(self.spec, "/hostUsers") == Some(false)
    }
}

/// Something that a level does not allow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Violation {
    reason: &'static str,
    detail: String,
}

impl Violation {
    fn new(reason: &'static str, detail: String) -> Option<Self> {
        Some(Self { reason, detail })
    }
}

/// Returns the reasons of violations, for a message about many pods.
fn reasons(violations: &[Violation]) -> String {
    violations.iter().map(|violation| violation.reason).collect::<Vec<_>>().join(", ")
}

/// Returns the reasons and details of violations, for a message about one pod.
pub fn details(violations: &[Violation]) -> String {
    let all: Vec<_> = violations.iter().map(|Violation { reason, detail }| format!("{reason} ({detail})")).collect();
    all.join(", ")
}

/// A check.
struct Check {
    level: Level,
    /// The first version that has the check.
    since: u64,
    /// The version since which a check of the level `restricted` replaces it at that level.
    replaced: Option<u64>,
    run: fn(Pod<'_>) -> Option<Violation>,
}

const BASELINE: Check = Check { level: Level::Baseline, since: 0, replaced: None, run: |_| None };
const RESTRICTED: Check = Check { level: Level::Restricted, ..BASELINE };

/// The checks, in the order of their messages.
const CHECKS: [Check; 19] = [
    Check { run: app_armor::check, ..BASELINE },
    Check { run: capabilities::baseline, replaced: Some(22), ..BASELINE },
    Check { run: host::namespaces, ..BASELINE },
    Check { run: host::path_volumes, replaced: Some(0), ..BASELINE },
    Check { run: host::ports, ..BASELINE },
    Check { run: host::probes_and_lifecycle, since: 34, ..BASELINE },
    Check { run: privilege::privileged, ..BASELINE },
    Check { run: proc_mount::baseline, replaced: Some(35), ..BASELINE },
    Check { run: se_linux::check, ..BASELINE },
    Check { run: seccomp::baseline, replaced: Some(19), ..BASELINE },
    Check { run: sysctls::check, ..BASELINE },
    Check { run: windows::host_process, ..BASELINE },
    Check { run: privilege::escalation, since: 8, ..RESTRICTED },
    Check { run: capabilities::restricted, since: 22, ..RESTRICTED },
    Check { run: proc_mount::restricted, since: 35, ..RESTRICTED },
    Check { run: volumes::restricted, ..RESTRICTED },
    Check { run: user::run_as_non_root, ..RESTRICTED },
    Check { run: user::run_as_user, since: 23, ..RESTRICTED },
    Check { run: seccomp::restricted, since: 19, ..RESTRICTED },
];

/// Returns everything that a level does not allow, for a pod or the template of a workload.
pub fn violations(policy: LevelVersion, metadata: &Value, spec: &Value) -> Vec<Violation> {
    let version = policy.version.minor().unwrap_or(NEWEST).min(NEWEST);
    let pod = Pod { metadata, spec, version };
    let applies = |check: &&Check| {
        let is_replaced = policy.level == Level::Restricted && check.replaced.is_some_and(|since| version >= since);
        check.level <= policy.level && check.since <= version && !is_replaced
    };
    if policy.level == Level::Privileged {
        return Vec::new();
    }
    CHECKS.iter().filter(applies).filter_map(|check| (check.run)(pod)).collect()
}

/// Returns the place of the pod in a workload, as JSON pointer; `None` if the resource has no pod.
pub fn template_pointer(group: &str, resource: &str) -> Option<&'static str> {
    match (group, resource) {
        ("", "podtemplates") => Some("/template"),
        ("", "replicationcontrollers")
        | ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets")
        | ("batch", "jobs") => Some("/spec/template"),
        ("batch", "cronjobs") => Some("/spec/jobTemplate/spec/template"),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
