//! The kustomize tree of a project: deployed parts, namespace and image.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use serde_json::Value;
use windlass_scaffold::{
    Change, Overlay,
    package::{Image, KUSTOMIZATION, Kustomization, set_image, set_namespace},
};

use super::{
    OpenProject,
    program::{DeployTarget, Program},
    read,
};
use crate::{cluster::documents, failure::ErrorWithHint};

/// Parts of the manifests in the order of deployment, with their directory in the tree.
const PARTS: &[(&str, &str)] = &[
    ("namespace", "manager"),
    ("crds", "crd"),
    ("rbac", "rbac"),
    ("services", "manager"),
    ("deployment", "manager"),
    ("network-policy", "network-policy"),
    ("webhooks", "webhook"),
    ("monitoring", "metrics"),
];

/// The tree, with overrides from the command line.
pub(crate) struct KustomizeTree {
    pub(crate) kustomization: Kustomization,
    /// Change of the tree's root, if it has to change.
    pub(crate) change: Option<Change>,
    /// Whether there are overrides.
    overridden: bool,
}

impl KustomizeTree {
    /// Reads the tree.
    pub(crate) fn read(opened: &OpenProject, image: Option<&Image>, namespace: Option<&str>) -> anyhow::Result<Self> {
        let name = &opened.project.project_name;
        let old = read(&opened.root, &BTreeSet::from([KUSTOMIZATION.to_owned()]))?.remove(KUSTOMIZATION);
        let mut kustomization = match &old {
            Some(text) => Kustomization::read(name, text)?,
            None => Kustomization::new(name),
        };
        let mut text = old.clone();
        if let Some(namespace) = namespace {
            namespace.clone_into(&mut kustomization.namespace);
            text = text.and_then(|text| set_namespace(&text, namespace));
        }
        if let Some(image) = image {
            kustomization.image = image.clone();
            text = text.and_then(|text| set_image(name, &text, image));
        }
        let change = (text != old).then(|| Change { path: KUSTOMIZATION.to_owned(), old, new: text, merged: true });
        Ok(Self { kustomization, change, overridden: image.is_some() || namespace.is_some() })
    }

    /// Returns the change of the tree's root; fails if the file has no place for it.
    pub(crate) fn change(&self) -> anyhow::Result<Option<&Change>> {
        match &self.change {
            Some(Change { new: None, .. }) => {
                let message = format!("{KUSTOMIZATION} has no place for the image or the namespace");
                let hint = "add a line `namespace: NAME`, and an entry with the operator's name to `images`";
                Err(ErrorWithHint { message, hint: hint.into() }.into())
            }
            change => Ok(change.as_ref()),
        }
    }

    /// Returns all deployed objects in order, those of an overlay if there is one. Trees with kustomize features are
    /// rendered by kustomize.
    pub(crate) fn objects(
        &self,
        opened: &OpenProject,
        program: &Program,
        overlay: Option<&Overlay>,
    ) -> anyhow::Result<Vec<Value>> {
        if !self.kustomization.foreign.is_empty() {
            let folder =
                overlay.map_or("deploy/default".to_owned(), |overlay| format!("deploy/overlays/{}", overlay.name));
            return self.by_kustomize(&opened.root.join(folder));
        }
        self.generated(opened, program, overlay)
    }

    /// Returns the deployed objects that come from the operator, with the roles for users.
    pub(crate) fn generated(
        &self,
        opened: &OpenProject,
        program: &Program,
        overlay: Option<&Overlay>,
    ) -> anyhow::Result<Vec<Value>> {
        let image = self.kustomization.image.to_string();
        let place = DeployTarget { namespace: &self.kustomization.namespace, image: &image };
        let of_overlay = overlay.map(Overlay::flags).unwrap_or_default();
        let mut objects = Vec::new();
        for (part, folder) in PARTS.iter().filter(|(_, folder)| self.kustomization.has(folder)) {
            let mut flags = vec!["--network-policy", "--service-monitor", "--only", part];
            flags.extend(of_overlay.iter().map(String::as_str));
            objects.extend(program.manifests(&place, &flags)?);
            if *folder == "rbac" {
                objects.extend(roles(&opened.root)?);
            }
        }
        Ok(objects)
    }

    fn by_kustomize(&self, folder: &Path) -> anyhow::Result<Vec<Value>> {
        let foreign = self.kustomization.foreign.join(", ");
        if self.overridden {
            let message = format!("{KUSTOMIZATION} uses kustomize features ({foreign})");
            let hint = "set image and namespace in it with `windlass generate --image IMAGE --namespace NAME`";
            return Err(ErrorWithHint { message, hint: hint.into() }.into());
        }
        for (program, arguments) in [("kustomize", ["build"]), ("kubectl", ["kustomize"])] {
            let mut command = Command::new(program);
            command.args(arguments).arg(folder).stdin(Stdio::null()).stderr(Stdio::inherit());
            let Ok(output) = command.output() else { continue };
            if !output.status.success() {
                let message = format!("{program} failed to render {}", folder.display());
                return Err(ErrorWithHint { message, hint: "fix the errors above".into() }.into());
            }
            let text = String::from_utf8(output.stdout).context("the output of kustomize is not UTF-8")?;
            return documents::read(&text).context("failed to read the output of kustomize");
        }
        let message = format!("{KUSTOMIZATION} uses kustomize features ({foreign})");
        Err(ErrorWithHint { message, hint: "install kubectl or kustomize".into() }.into())
    }
}

/// Roles for users.
pub(crate) fn roles(root: &Path) -> anyhow::Result<Vec<Value>> {
    resources(root, "deploy/rbac", &["rbac.yaml"])
}

/// Sample resources.
pub(crate) fn samples(root: &Path) -> anyhow::Result<Vec<Value>> {
    resources(root, "deploy/samples", &[])
}

/// Objects of the files listed in a directory's kustomization.
fn resources(root: &Path, folder: &str, without: &[&str]) -> anyhow::Result<Vec<Value>> {
    let list = format!("{folder}/kustomization.yaml");
    let Some(text) = read(root, &BTreeSet::from([list.clone()]))?.remove(&list) else { return Ok(Vec::new()) };
    let kustomization = windlass_schema::yaml::to_json_value(&text).with_context(|| list.clone())?;
    let mut objects = Vec::new();
    let files = kustomization["resources"].as_array().into_iter().flatten().filter_map(Value::as_str);
    for file in files.filter(|file| !without.contains(file)) {
        let path = format!("{folder}/{file}");
        let text = fs::read_to_string(root.join(&path)).with_context(|| format!("{list}: cannot read {path}"))?;
        objects.extend(documents::read(&text).with_context(|| path)?);
    }
    Ok(objects)
}
