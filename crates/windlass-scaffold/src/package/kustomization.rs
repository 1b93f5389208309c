//! `deploy/default/kustomization.yaml`: the namespace, the image and the deployed parts.

use serde_json::Value;

use super::Image;
use crate::ScaffoldError;

/// Root of the kustomize tree.
pub const KUSTOMIZATION: &str = "deploy/default/kustomization.yaml";

/// Supported fields.
const KNOWN: &[&str] = &["apiVersion", "kind", "metadata", "namespace", "resources", "images"];

/// Parts of the tree that the operator generates.
const PARTS: &[&str] = &["../crd", "../manager", "../metrics", "../network-policy", "../rbac", "../webhook"];

/// The parts to deploy, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kustomization {
    /// Namespace of the operator.
    pub namespace: String,
    /// Image of the operator.
    pub image: Image,
    /// Deployed parts, for example `../crd`.
    pub parts: Vec<String>,
    /// Entries that only kustomize can process: patches and foreign resources.
    pub foreign: Vec<String>,
}

impl Kustomization {
    /// The kustomization of a new project.
    pub fn new(project: &str) -> Self {
        Self {
            namespace: format!("{project}-system"),
            image: Image { repository: project.to_owned(), tag: Some("latest".to_owned()), digest: None },
            parts: PARTS.iter().filter(|part| **part != "../metrics").map(|part| (*part).to_owned()).collect(),
            foreign: Vec::new(),
        }
    }

    /// Reads the file of a project.
    pub fn read(project: &str, text: &str) -> Result<Self, ScaffoldError> {
        let broken = |why: String| ScaffoldError::Contradiction {
            why: format!("{KUSTOMIZATION}: {why}"),
            hint: "fix the file by hand, or restore it from version control".to_owned(),
        };
        let value: Value = serde_saphyr::from_str(text).map_err(|error| {
            broken(error.without_snippet().to_string().lines().next().unwrap_or_default().to_owned())
        })?;
        let Some(fields) = value.as_object() else { return Err(broken("it is not a mapping".to_owned())) };
        let mut read = Self { parts: Vec::new(), ..Self::new(project) };
        read.foreign.extend(fields.keys().filter(|name| !KNOWN.contains(&name.as_str())).cloned());
        if let Some(namespace) = value["namespace"].as_str() {
            namespace.clone_into(&mut read.namespace);
        }
        for resource in value["resources"].as_array().into_iter().flatten().filter_map(Value::as_str) {
            match PARTS.contains(&resource.trim_end_matches('/')) {
                true => read.parts.push(resource.trim_end_matches('/').to_owned()),
                false => read.foreign.push(format!("resource {resource}")),
            }
        }
        for image in value["images"].as_array().into_iter().flatten() {
            if image["name"] != *project {
                read.foreign.push(format!("image {}", image["name"]));
                continue;
            }
            let text = |field: &str| match &image[field] {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            };
            let repository = text("newName").unwrap_or_else(|| project.to_owned());
            let tag = text("newTag").map(|tag| format!(":{tag}")).unwrap_or_default();
            let digest = text("digest").map(|digest| format!("@{digest}")).unwrap_or_default();
            read.image = format!("{repository}{tag}{digest}").parse()?;
        }
        Ok(read)
    }

    /// Returns whether a part is deployed.
    pub fn has(&self, part: &str) -> bool {
        self.parts.iter().any(|known| known.strip_prefix("../") == Some(part))
    }
}

/// Returns the file with another image, or `None` if it has no place for it.
pub fn set_image(project: &str, text: &str, image: &Image) -> Option<String> {
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let images = lines.iter().position(|line| line.trim_end() == "images:")?;
    let named = |line: &str| line.trim().strip_prefix("- name:").is_some_and(|name| name.trim() == project);
    let entry = images + 1 + lines[images + 1..].iter().position(|line| named(line))?;
    let indent = lines[entry].len() - lines[entry].trim_start().len() + 2;
    let is_field = |line: &str| line.len() - line.trim_start().len() == indent && !line.trim().is_empty();
    let end = entry + 1 + lines[entry + 1..].iter().take_while(|line| is_field(line)).count();
    let mut new = lines[..=entry].concat();
    if !new.ends_with('\n') {
        new.push('\n');
    }
    let ours = ["newName:", "newTag:", "digest:"];
    let fields = [
        Some(("newName", image.repository.clone())),
        // A tag of digits would be parsed as a number.
        image.tag.as_ref().map(|tag| ("newTag", format!("{tag:?}"))),
        image.digest.as_ref().map(|digest| ("digest", digest.clone())),
    ];
    for (name, value) in fields.into_iter().flatten() {
        let plain = value.trim_matches('"');
        let value = if plain.starts_with(|letter: char| letter.is_ascii_alphabetic()) { plain } else { &value };
        new.push_str(&format!("{:indent$}{name}: {value}\n", ""));
    }
    let kept = lines[entry + 1..end].iter().filter(|line| !ours.iter().any(|ours| line.trim().starts_with(ours)));
    new.extend(kept.copied());
    new.push_str(&lines[end..].concat());
    Some(new)
}

/// Returns the file with another namespace, or `None` if it has no place for it.
pub fn set_namespace(text: &str, namespace: &str) -> Option<String> {
    let has = text.lines().any(|line| line.starts_with("namespace:"));
    let line = |line: &str| match line.starts_with("namespace:") {
        true => format!("namespace: {namespace}\n"),
        false => line.to_owned(),
    };
    has.then(|| text.split_inclusive('\n').map(line).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# Mine.\nnamespace: shop-system\nresources:\n  - ../crd\n  - ../rbac\nimages:\n  \
                        - name: shop\n    newName: shop\n    newTag: latest\n";

    #[test]
    fn image_namespace_and_parts_are_read() {
        let read = Kustomization::read("shop", TEXT).unwrap();
        assert_eq!((read.namespace.as_str(), read.image.to_string().as_str()), ("shop-system", "shop:latest"));
        assert!(read.has("crd") && !read.has("metrics") && read.foreign.is_empty());
        let more = format!("{TEXT}  - name: other\n    newTag: 1\npatches:\n  - path: x.yaml\n");
        assert_eq!(Kustomization::read("shop", &more).unwrap().foreign, ["patches", "image \"other\""]);
        let error = Kustomization::read("shop", "a: [").unwrap_err();
        assert!(error.to_string().starts_with("deploy/default/kustomization.yaml: "), "{error}");
        assert!(Kustomization::read("shop", "- a\n").is_err());
    }

    #[test]
    fn setting_image_and_namespace_changes_only_their_lines() {
        let image = "example.com/a/shop:1.0".parse().unwrap();
        let text = format!("{TEXT}  - name: other\n    newTag: x\n");
        let new = set_image("shop", &set_namespace(&text, "mine").unwrap(), &image).unwrap();
        let expected = text
            .replace("namespace: shop-system", "namespace: mine")
            .replace("newName: shop\n    newTag: latest", "newName: example.com/a/shop\n    newTag: \"1.0\"");
        assert_eq!(new, expected);
        let read = Kustomization::read("shop", &new).unwrap();
        assert_eq!((read.namespace.as_str(), &read.image), ("mine", &image));
        assert_eq!(set_image("shop", "resources: []\n", &image), None);
        assert_eq!(set_namespace("resources: []\n", "mine"), None);
    }
}
