//! Capabilities of containers.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{Pod, Violation, list};
use crate::object::items;

/// The capabilities that containers usually have.
const USUAL: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Containers add no capabilities beyond the usual ones.
pub(super) fn baseline(pod: Pod<'_>) -> Option<Violation> {
    let (containers, added) = adding(pod, |capability| USUAL.contains(&capability));
    let violation = || Violation::new("non-default capabilities", must_not_include(&containers, &added));
    if containers.is_empty() { None } else { violation() }
}

/// Containers drop all capabilities, and may add the one to listen on low ports.
pub(super) fn restricted(pod: Pod<'_>) -> Option<Violation> {
    if pod.runs_on_windows() {
        return None;
    }
    let keeping = pod.containers_where(|container| {
        !items(container, "/securityContext/capabilities/drop").iter().any(|capability| capability == "ALL")
    });
    let (containers, added) = adding(pod, |capability| capability == "NET_BIND_SERVICE");
    let mut details = Vec::new();
    if !keeping.is_empty() {
        details.push(format!(r#"{} must set securityContext.capabilities.drop=["ALL"]"#, list::containers(&keeping)));
    }
    if !containers.is_empty() {
        details.push(must_not_include(&containers, &added));
    }
    let violation = || Violation::new("unrestricted capabilities", details.join("; "));
    if details.is_empty() { None } else { violation() }
}

/// Returns the containers that add capabilities which are not allowed, and those capabilities.
fn adding(pod: Pod<'_>, is_allowed: fn(&str) -> bool) -> (Vec<&str>, BTreeSet<&str>) {
    fn wrong(container: &Value, is_allowed: fn(&str) -> bool) -> impl Iterator<Item = &str> {
        let added = items(container, "/securityContext/capabilities/add").iter().filter_map(Value::as_str);
        added.filter(move |capability| !is_allowed(capability))
    }
    let containers = pod.containers_where(|container| wrong(container, is_allowed).next().is_some());
    (containers, pod.containers().flat_map(|container| wrong(container, is_allowed)).gather())
}

fn must_not_include(containers: &[&str], added: &BTreeSet<&str>) -> String {
    let (containers, added) = (list::containers(containers), list::quoted_set(added));
    format!("{containers} must not include {added} in securityContext.capabilities.add")
}
