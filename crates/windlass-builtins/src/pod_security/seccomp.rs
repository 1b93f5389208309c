//! Seccomp profiles: those of the runtime, or of the node.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::{field::quote, sorting::Gather as _};

use super::{Pod, Violation, list};
use crate::object::{is_set, map, text};

const REASON: &str = "seccompProfile";
const PROFILE: &str = "/securityContext/seccompProfile";

/// Profiles are not disabled.
pub(super) fn baseline(pod: Pod<'_>) -> Option<Violation> {
    if pod.version < 19 { annotations(pod) } else { wrong_types(pod) }
}

/// Every container has a profile.
pub(super) fn restricted(pod: Pod<'_>) -> Option<Violation> {
    if pod.runs_on_windows() {
        return None;
    }
    if let Some(violation) = wrong_types(pod) {
        return Some(violation);
    }
    if is_set(pod.spec, PROFILE) {
        return None;
    }
    let containers = pod.containers_where(|container| !is_set(container, PROFILE));
    if containers.is_empty() {
        return None;
    }
    let names = list::containers(&containers);
    let rule = r#"must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost""#;
    Violation::new(REASON, format!("pod or {names} {rule}"))
}

/// Profiles are of an allowed type.
fn wrong_types(pod: Pod<'_>) -> Option<Violation> {
    fn profile(part: &Value) -> &str {
        text(part, "/securityContext/seccompProfile/type")
    }
    let wrong = |part: &Value| is_set(part, PROFILE) && !matches!(profile(part), "RuntimeDefault" | "Localhost");
    let setters = list::setters(wrong(pod.spec), &pod.containers_where(wrong))?;
    let parts = std::iter::once(pod.spec).chain(pod.containers());
    let types: BTreeSet<&str> = parts.filter(|part| wrong(part)).map(profile).gather();
    let types = list::quoted_set(&types);
    Violation::new(REASON, format!("{setters} must not set securityContext.seccompProfile.type to {types}"))
}

/// Annotations, which profiles had before Kubernetes 1.19, name an allowed profile.
fn annotations(pod: Pod<'_>) -> Option<Violation> {
    const POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
    let annotations = map(pod.metadata, "/annotations")?;
    let containers = pod.containers().map(|container| text(container, "/name"));
    let keys = containers.map(|name| format!("container.seccomp.security.alpha.kubernetes.io/{name}"));
    let wrong: BTreeSet<String> = std::iter::once(POD.to_owned())
        .chain(keys)
        .filter_map(|key| {
            let value = annotations.get(&key)?.as_str()?;
            let is_allowed = matches!(value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (!is_allowed).then(|| format!("{key}={}", quote(value)))
        })
        .gather();
    if wrong.is_empty() {
        return None;
    }
    let what = list::plural(wrong.len(), "annotation", "annotations");
    let wrong: Vec<_> = wrong.into_iter().collect();
    Violation::new(REASON, format!("forbidden {what} {}", wrong.join(", ")))
}
