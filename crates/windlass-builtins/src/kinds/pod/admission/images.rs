//! Pull policies of images, for the plugin that requires them to be pulled always.

use serde_json::Value;
use windlass_schema::field::{ErrorList, FieldError, Path};

use crate::object::{items, list_mut, text};

const CONTAINERS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];
const ALWAYS: &str = "Always";

/// Sets the pull policy of all images to `Always`.
pub fn always_pull(pod: &mut Value) {
    let Some(spec) = pod.get_mut("spec") else { return };
    for kind in CONTAINERS {
        for container in list_mut(spec, kind) {
            container["imagePullPolicy"] = ALWAYS.into();
        }
    }
    for volume in list_mut(spec, "volumes") {
        if let Some(image) = volume.get_mut("image").filter(|image| image.is_object()) {
            image["pullPolicy"] = ALWAYS.into();
        }
    }
}

/// Returns an error for each image with another pull policy.
pub fn other_pull_policies(pod: &Value) -> ErrorList {
    let mut errors = ErrorList::new();
    let mut check = |path: &Path, policy: &str| {
        if policy != ALWAYS {
            errors.push(FieldError::not_supported(path, &policy.into(), &[ALWAYS]));
        }
    };
    let spec = Path::new("spec");
    for kind in CONTAINERS {
        for (index, container) in items(pod, &format!("/spec/{kind}")).iter().enumerate() {
            check(&spec.child(kind).index(index).child("imagePullPolicy"), text(container, "/imagePullPolicy"));
        }
    }
    for (index, volume) in items(pod, "/spec/volumes").iter().enumerate() {
        if volume.get("image").is_some_and(Value::is_object) {
            let path = spec.child("volumes").index(index).child("image").child("pullPolicy");
            check(&path, text(volume, "/image/pullPolicy"));
        }
    }
    errors
}

/// Returns whether a container of the pod has an image that none has in the old one.
pub fn has_new_image(pod: &Value, old: &Value) -> bool {
    let images = |pod| CONTAINERS.map(|kind| items(pod, &format!("/spec/{kind}"))).into_iter().flatten();
    let known: Vec<&str> = images(old).map(|container| text(container, "/image")).collect();
    images(pod).any(|container| !known.contains(&text(container, "/image")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_images_are_pulled_always() {
        let mut pod = json!({"spec": {
            "containers": [{"name": "a", "image": "a:1", "imagePullPolicy": "Never"}],
            "initContainers": [{"name": "b", "image": "b:1"}],
            "volumes": [{"name": "v", "image": {"reference": "c:1", "pullPolicy": "IfNotPresent"}}, {"name": "w"}],
        }});
        let errors: Vec<_> = other_pull_policies(&pod).iter().map(ToString::to_string).collect();
        assert_eq!(
            errors,
            [
                "spec.initContainers[0].imagePullPolicy: Unsupported value: \"\": supported values: \"Always\"",
                "spec.containers[0].imagePullPolicy: Unsupported value: \"Never\": supported values: \"Always\"",
                "spec.volumes[0].image.pullPolicy: Unsupported value: \"IfNotPresent\": supported values: \"Always\"",
            ]
        );
        always_pull(&mut pod);
        assert!(other_pull_policies(&pod).is_empty(), "{pod}");
        assert_eq!(pod["spec"]["volumes"][1], json!({"name": "w"}));
    }

    #[test]
    fn only_images_that_no_container_had_are_new() {
        let pod = |images: &[&str]| {
            let containers: Vec<_> = images.iter().map(|image| json!({"image": image})).collect();
            json!({"spec": {"containers": containers}})
        };
        assert!(!has_new_image(&pod(&["b", "a"]), &pod(&["a", "b"])));
        assert!(has_new_image(&pod(&["a", "c"]), &pod(&["a", "b"])));
    }
}
