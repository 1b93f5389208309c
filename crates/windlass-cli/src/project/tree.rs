//! The kustomize tree of a project: what is deployed, where, and from which files.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Command, Stdio},
};

use anyhow::Context as _;
use serde_json::Value;
use windlass_scaffold::{
    Change,
    package::{Image, KUSTOMIZATION, Kustomization, set_image, set_namespace},
};

use super::{
    Opened,
    program::{Place, Program},
    read,
};
use crate::{cluster::documents, failure::Advised};

/// Parts of the program in the order in which they are deployed, and the folder of the tree that each is in.
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

/// The tree, with what somebody wants to be different.
pub(crate) struct Tree {
    pub(crate) says: Kustomization,
    /// The root of the tree as it is to be, if that is different.
    pub(crate) change: Option<Change>,
    /// Whether something was said on the command line.
    overridden: bool,
}

impl Tree {
    /// Reads it.
    pub(crate) fn read(opened: &Opened, image: Option<&Image>, namespace: Option<&str>) -> anyhow::Result<Self> {
        let name = &opened.project.project_name;
        let old = read(&opened.root, &BTreeSet::from([KUSTOMIZATION.to_owned()]))?.remove(KUSTOMIZATION);
        let mut says = match &old {
            Some(text) => Kustomization::read(name, text)?,
            None => Kustomization::new(name),
        };
        let mut text = old.clone();
        if let Some(namespace) = namespace {
            namespace.clone_into(&mut says.namespace);
            text = text.and_then(|text| set_namespace(&text, namespace));
        }
        if let Some(image) = image {
            says.image = image.clone();
            text = text.and_then(|text| set_image(name, &text, image));
        }
        let change = (text != old).then(|| Change { path: KUSTOMIZATION.to_owned(), old, new: text, merged: true });
        Ok(Self { says, change, overridden: image.is_some() || namespace.is_some() })
    }

    /// The change of the root of the tree, which has a place for it.
    pub(crate) fn change(&self) -> anyhow::Result<Option<&Change>> {
        match &self.change {
            Some(Change { new: None, .. }) => {
                let message = format!("{KUSTOMIZATION} has no place for the image or the namespace");
                let hint = "give it a line `namespace: NAME`, and `images` with an entry of the operator's name";
                Err(Advised { message, hint: hint.into() }.into())
            }
            change => Ok(change.as_ref()),
        }
    }

    /// Everything that is deployed, in order. What only kustomize can put together, it does.
    pub(crate) fn objects(&self, opened: &Opened, program: &Program) -> anyhow::Result<Vec<Value>> {
        if !self.says.foreign.is_empty() {
            return self.by_kustomize(&opened.root);
        }
        let image = self.says.image.to_string();
        let place = Place { namespace: &self.says.namespace, image: &image };
        let mut objects = Vec::new();
        for (part, folder) in PARTS.iter().filter(|(_, folder)| self.says.has(folder)) {
            let flags = ["--network-policy", "--service-monitor", "--only", part];
            objects.extend(program.manifests(&place, &flags)?);
            if *folder == "rbac" {
                objects.extend(roles(&opened.root)?);
            }
        }
        Ok(objects)
    }

    fn by_kustomize(&self, root: &Path) -> anyhow::Result<Vec<Value>> {
        let foreign = self.says.foreign.join(", ");
        if self.overridden {
            let message = format!("{KUSTOMIZATION} has what only kustomize understands ({foreign})");
            let hint = "write image and namespace into it with `windlass generate --image IMAGE --namespace NAME`";
            return Err(Advised { message, hint: hint.into() }.into());
        }
        let folder = root.join("deploy/default");
        for (program, arguments) in [("kustomize", ["build"]), ("kubectl", ["kustomize"])] {
            let mut command = Command::new(program);
            command.args(arguments).arg(&folder).stdin(Stdio::null()).stderr(Stdio::inherit());
            let Ok(output) = command.output() else { continue };
            if !output.status.success() {
                let message = format!("{program} cannot put {} together", folder.display());
                return Err(Advised { message, hint: "correct what it says above".into() }.into());
            }
            let text = String::from_utf8(output.stdout).context("what kustomize says is not UTF-8")?;
            return documents::read(&text).context("cannot read what kustomize says");
        }
        let message = format!("{KUSTOMIZATION} has what only kustomize understands ({foreign})");
        Err(Advised { message, hint: "install kubectl or kustomize".into() }.into())
    }
}

/// Roles for people.
pub(crate) fn roles(root: &Path) -> anyhow::Result<Vec<Value>> {
    resources(root, "deploy/rbac", &["rbac.yaml"])
}

/// Examples of the resources.
pub(crate) fn samples(root: &Path) -> anyhow::Result<Vec<Value>> {
    resources(root, "deploy/samples", &[])
}

/// The objects of the files that a folder of the tree lists.
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
