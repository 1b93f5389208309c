//! AppArmor profiles: those of the runtime, or of the node.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::{field::quote, sorting::Gather as _};

use super::{Pod, Violation, list};
use crate::object::{entries, is_set, text};

const ANNOTATION: &str = "container.apparmor.security.beta.kubernetes.io/";
const PROFILE: &str = "/securityContext/appArmorProfile";

pub(super) fn check(pod: Pod<'_>) -> Option<Violation> {
    let wrong = |part: &Value| {
        is_set(part, PROFILE)
            && !matches!(text(part, "/securityContext/appArmorProfile/type"), "RuntimeDefault" | "Localhost")
    };
    let value = |part| text(part, "/securityContext/appArmorProfile/type");
    let pod_sets = wrong(pod.spec);
    let containers = pod.containers_where(wrong);
    let mut values: BTreeSet<&str> = pod.containers().filter(|part| wrong(part)).map(value).gather();
    if pod_sets {
        values.insert(value(pod.spec));
    }
    let annotations: BTreeSet<String> = entries(pod.metadata, "/annotations")
        .filter_map(|(key, value)| Some((key, value.as_str()?)))
        .filter(|(key, value)| {
            let is_allowed = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
            key.starts_with(ANNOTATION) && !is_allowed
        })
        .map(|(key, value)| format!("{key}={}", quote(value)))
        .gather();
    let mut setters: Vec<String> = list::setters(pod_sets, &containers).into_iter().collect();
    if !annotations.is_empty() {
        setters.push(list::plural(annotations.len(), "annotation", "annotations").to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let values: Vec<&str> = values.into_iter().chain(annotations.iter().map(String::as_str)).collect();
    Violation::new(
        list::plural(values.len(), "forbidden AppArmor profile", "forbidden AppArmor profiles"),
        format!("{} must not set AppArmor profile type to {}", setters.join(" and "), list::quoted(values)),
    )
}
