//! The user that containers run as.

use serde_json::Value;

use super::{Pod, Violation, list};
use crate::object::{boolean, integer, is_set};

const NON_ROOT: &str = "/securityContext/runAsNonRoot";

/// Containers do not run as root.
pub(super) fn run_as_non_root(pod: Pod<'_>) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if pod.has_own_users() {
        return None;
    }
    let denies = |part: &Value| boolean(part, NON_ROOT) == Some(false);
    if let Some(setters) = list::setters(denies(pod.spec), &pod.containers_where(denies)) {
        return Violation::new(REASON, format!("{setters} must not set securityContext.runAsNonRoot=false"));
    }
    if boolean(pod.spec, NON_ROOT) == Some(true) {
        return None;
    }
    let containers = pod.containers_where(|container| !is_set(container, NON_ROOT));
    if containers.is_empty() {
        return None;
    }
    let names = list::containers(&containers);
    Violation::new(REASON, format!("pod or {names} must set securityContext.runAsNonRoot=true"))
}

/// The user is not root.
pub(super) fn run_as_user(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() {
        return None;
    }
    let is_root = |part: &Value| integer(part, "/securityContext/runAsUser") == Some(0);
    let setters = list::setters(is_root(pod.spec), &pod.containers_where(is_root))?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}
