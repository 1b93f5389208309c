//! Updates of pods that are compared with the policy again.

use serde_json::Value;

use crate::object::{items, text};

/// Returns whether an update changes what a policy decides about: the number of containers, their images, or ephemeral
/// containers. All else that the policy looks at is immutable.
pub fn is_significant_update(pod: &Value, old: &Value) -> bool {
    let changes_image = |new: &Value, old: &Value| text(new, "/image") != text(old, "/image");
    for kind in ["/spec/containers", "/spec/initContainers"] {
        let (new, old) = (items(pod, kind), items(old, kind));
        if new.len() != old.len() || new.iter().zip(old).any(|(new, old)| changes_image(new, old)) {
            return true;
        }
    }
    let olds = items(old, "/spec/ephemeralContainers");
    items(pod, "/spec/ephemeralContainers").iter().any(|new| {
        let old = olds.iter().find(|old| text(old, "/name") == text(new, "/name"));
        old.is_none_or(|old| changes_image(new, old))
    })
}
