//! The masks of `/proc`.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{Pod, Violation, list};
use crate::object::{is_set, text};

const FIELD: &str = "/securityContext/procMount";

/// The masks are not removed, unless the pod has its own users.
pub(super) fn baseline(pod: Pod<'_>) -> Option<Violation> {
    if pod.has_own_users() { None } else { restricted(pod) }
}

/// The masks are not removed.
pub(super) fn restricted(pod: Pod<'_>) -> Option<Violation> {
    let wrong = |container: &Value| is_set(container, FIELD) && text(container, FIELD) != "Default";
    let containers = pod.containers_where(wrong);
    if containers.is_empty() {
        return None;
    }
    let types: BTreeSet<&str> = pod.containers().filter(|one| wrong(one)).map(|one| text(one, FIELD)).gather();
    let (names, types) = (list::containers(&containers), list::quoted_set(&types));
    Violation::new("procMount", format!("{names} must not set securityContext.procMount to {types}"))
}
