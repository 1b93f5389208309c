//! Kustomize overlays: the differences between a variant of the deployment and `deploy/default`.
//!
//! New objects are resources, changed objects are strategic merge patches, and objects that the variant does not have
//! are deleted by a patch each, with a target: kustomize 5.5 (kubectl 1.32) crashes if a patch without a target deletes
//! an object and another patch follows. All of it is computed from two sets of manifests of the operator, so that an
//! overlay is right for any operator.

use serde_json::{Map, Value, json};
use windlass_schema::sorting::Gather as _;

use super::{PackageFile, Variant, header, yaml};

/// Directory of the overlays.
pub(super) const FOLDER: &str = "deploy/overlays/";

/// Files of an overlay.
pub(super) fn files(variant: &Variant<'_>) -> Vec<PackageFile> {
    let Variant { overlay, default, manifests } = variant;
    let same = |one: &Value, other: &Value| identity(one) == identity(other);
    let (mut added, mut patches) = (Vec::new(), Vec::new());
    for object in *manifests {
        match default.iter().find(|other| same(other, object)) {
            None => added.push(object.clone()),
            Some(old) => patches.extend(difference(old, object).map(|patch| with_identity(object, patch))),
        }
    }
    let removed = default.iter().filter(|object| !manifests.iter().any(|other| same(other, object)));
    let mut entries: Vec<Value> = removed.map(deletion).collect();
    if !patches.is_empty() {
        entries.insert(0, json!({ "path": "patches.yaml" }));
    }

    let name = &overlay.name;
    let mut kustomization = format!(
        "{}\n# For changes of your own, write an overlay with this one in its resources.\n\
         apiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\nresources:\n  - ../../default\n",
        header()
    );
    if !added.is_empty() {
        kustomization.push_str("  - resources.yaml\n");
    }
    if !entries.is_empty() {
        kustomization.push_str(&yaml::write(&json!({ "patches": entries })));
    }
    let mut files = vec![PackageFile::generated(format!("{FOLDER}{name}/kustomization.yaml"), kustomization)];
    for (file, objects) in [("resources", added), ("patches", patches)] {
        if !objects.is_empty() {
            let documents: Vec<String> = objects.iter().map(yaml::write).collect();
            let text = format!("{}\n{}", header(), documents.join("---\n"));
            files.push(PackageFile::generated(format!("{FOLDER}{name}/{file}.yaml"), text));
        }
    }
    files
}

/// Type and name of an object.
fn identity(object: &Value) -> [&Value; 4] {
    let metadata = &object["metadata"];
    [&object["apiVersion"], &object["kind"], &metadata["namespace"], &metadata["name"]]
}

/// The entry of a kustomization that deletes an object.
fn deletion(object: &Value) -> Value {
    let patch = with_identity(object, json!({ "$patch": "delete" }));
    let api_version = object["apiVersion"].as_str().unwrap_or_default();
    let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
    let mut target = Map::new();
    if !group.is_empty() {
        target.insert("group".into(), group.into());
    }
    target.extend([("version".to_owned(), version.into()), ("kind".to_owned(), object["kind"].clone())]);
    if let Some(names) = patch["metadata"].as_object() {
        target.extend(names.clone());
    }
    json!({ "target": target, "patch": yaml::write(&patch) })
}

/// A patch with the type and name of the object that it is for.
fn with_identity(object: &Value, patch: Value) -> Value {
    let mut whole = json!({ "apiVersion": object["apiVersion"], "kind": object["kind"], "metadata": {} });
    if let (Some(whole), Value::Object(patch)) = (whole.as_object_mut(), patch) {
        whole.extend(patch);
    }
    let names: Map<String, Value> = ["name", "namespace"]
        .iter()
        .filter_map(|field| Some(((*field).to_owned(), object["metadata"].get(field)?.clone())))
        .gather();
    if let Some(metadata) = whole["metadata"].as_object_mut() {
        metadata.extend(names);
    }
    whole
}

/// A strategic merge patch from one value to another; `None` if they are equal.
///
/// Containers are merged by their names. All other lists that differ are either new or atomic: arguments of a container
/// and rules of a role.
fn difference(old: &Value, new: &Value) -> Option<Value> {
    if old == new {
        return None;
    }
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return Some(new.clone()) };
    let mut patch = Map::new();
    for (field, new) in new {
        let changed = match old.get(field) {
            None => Some(new.clone()),
            Some(old) if field == "containers" => containers(old, new),
            Some(old) => difference(old, new),
        };
        patch.extend(changed.map(|changed| (field.clone(), changed)));
    }
    patch.extend(old.keys().filter(|field| !new.contains_key(*field)).map(|field| (field.clone(), Value::Null)));
    Some(patch.into())
}

fn containers(old: &Value, new: &Value) -> Option<Value> {
    let (old, new) = (old.as_array()?, new.as_array()?);
    let changed = new.iter().filter_map(|container| {
        let Some(before) = old.iter().find(|before| before["name"] == container["name"]) else {
            return Some(container.clone());
        };
        let mut patch = difference(before, container)?;
        patch["name"] = container["name"].clone();
        Some(patch)
    });
    let changed: Vec<Value> = changed.collect();
    (!changed.is_empty()).then(|| changed.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_are_minimal() {
        let old =
            json!({ "a": 1, "b": { "c": [1], "d": 2 }, "containers": [{ "name": "x", "args": ["1"], "image": "i" }] });
        assert_eq!(difference(&old, &old), None);
        let new = json!({ "a": 1, "b": { "c": [2] }, "containers": [{ "name": "x", "args": ["2"], "image": "i" }], "e": [3] });
        let expected =
            json!({ "b": { "c": [2], "d": null }, "containers": [{ "name": "x", "args": ["2"] }], "e": [3] });
        assert_eq!(difference(&old, &new), Some(expected));
    }

    #[test]
    fn patches_name_their_object() {
        let object =
            json!({ "apiVersion": "v1", "kind": "A", "metadata": { "name": "n", "namespace": "s", "labels": {} } });
        let patch = with_identity(&object, json!({ "metadata": { "annotations": { "x": "y" } } }));
        let metadata = json!({ "annotations": { "x": "y" }, "name": "n", "namespace": "s" });
        assert_eq!(patch, json!({ "apiVersion": "v1", "kind": "A", "metadata": metadata }));
    }
}
