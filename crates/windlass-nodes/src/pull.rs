//! Images that cannot be pulled, judging by their names. Pure.

use serde_json::Value;

use crate::containers::items;

/// The reason of containers that wait for such an image.
pub(super) const REASON: &str = "ImagePullBackOff";

/// Words for an image that does not exist.
const MISSING: [&str; 3] = ["non-existent", "nonexistent", "does-not-exist"];

/// Returns whether a pod has a container whose image cannot be pulled.
pub(super) fn fails(pod: &Value) -> bool {
    let lists = ["initContainers", "containers"].into_iter();
    let mut containers = lists.flat_map(|list| items(&pod["spec"], list));
    containers.any(|container| container["image"].as_str().is_some_and(is_missing))
}

/// Returns whether an image has the tag `404`, is called non-existent, or is in a registry under the domain `invalid`,
/// which never exists (RFC 2606), or one with such a name.
fn is_missing(image: &str) -> bool {
    let (registry, name) = image.split_once('/').unwrap_or(("", image));
    let host = registry.split(':').next().unwrap_or(registry);
    let is_invalid = host.ends_with(".invalid") || host == "invalid" || host.starts_with("invalid.");
    let tag = name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag);
    is_invalid || tag == Some("404") || MISSING.iter().any(|word| image.contains(word))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_show_that_an_image_is_missing() {
        for (image, missing) in [
            ("nginx", false),
            ("nginx:1.404", false),
            ("webserver:404", true),
            ("localhost:5000/team/web:404", true),
            ("foo:non-existent", true),
            ("registry.invalid/web", true),
            ("invalid.registry.k8s.io/invalid/alpine:3.1", true),
            ("registry.k8s.io/invalid-user:1", false),
        ] {
            assert_eq!(is_missing(image), missing, "{image}");
        }
    }
}
