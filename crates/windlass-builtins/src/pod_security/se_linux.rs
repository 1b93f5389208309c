//! SELinux: a few types, and neither user nor role.

use std::collections::BTreeSet;

use serde_json::Value;
use windlass_schema::sorting::Gather as _;

use super::{Pod, Violation, list};
use crate::object::text;

fn option<'a>(part: &'a Value, field: &str) -> &'a str {
    text(part, &format!("/securityContext/seLinuxOptions/{field}"))
}

pub(super) fn check(pod: Pod<'_>) -> Option<Violation> {
    let has_wrong_type = |part: &Value| match option(part, "type") {
        "" | "container_t" | "container_init_t" | "container_kvm_t" => false,
        "container_engine_t" => pod.version < 31,
        _ => true,
    };
    let sets = |part: &Value, field: &str| !option(part, field).is_empty();
    let wrong = |part: &Value| has_wrong_type(part) || sets(part, "user") || sets(part, "role");
    let setters = list::setters(wrong(pod.spec), &pod.containers_where(wrong))?;
    let parts = || std::iter::once(pod.spec).chain(pod.containers());
    let types: BTreeSet<&str> = parts().filter(|part| has_wrong_type(part)).map(|part| option(part, "type")).gather();
    let mut details = Vec::new();
    if !types.is_empty() {
        details.push(format!("{} {}", list::plural(types.len(), "type", "types"), list::quoted_set(&types)));
    }
    for field in ["user", "role"] {
        if parts().any(|part| sets(part, field)) {
            details.push(format!("{field} may not be set"));
        }
    }
    let detail = format!("{setters} set forbidden securityContext.seLinuxOptions: {}", details.join("; "));
    Violation::new("seLinuxOptions", detail)
}
