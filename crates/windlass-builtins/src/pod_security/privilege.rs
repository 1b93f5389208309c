//! Privileged containers, and processes that gain privileges.

use super::{Pod, Violation, list};
use crate::object::boolean;

/// Containers are not privileged.
pub(super) fn privileged(pod: Pod<'_>) -> Option<Violation> {
    let containers = pod.containers_where(|container| boolean(container, "/securityContext/privileged") == Some(true));
    let names = list::containers(&containers);
    let violation = || Violation::new("privileged", format!("{names} must not set securityContext.privileged=true"));
    if containers.is_empty() { None } else { violation() }
}

/// Processes of containers cannot gain privileges.
pub(super) fn escalation(pod: Pod<'_>) -> Option<Violation> {
    if pod.runs_on_windows() {
        return None;
    }
    let containers = pod
        .containers_where(|container| boolean(container, "/securityContext/allowPrivilegeEscalation") != Some(false));
    if containers.is_empty() {
        return None;
    }
    let names = list::containers(&containers);
    let detail = format!("{names} must set securityContext.allowPrivilegeEscalation=false");
    Violation::new("allowPrivilegeEscalation != false", detail)
}
