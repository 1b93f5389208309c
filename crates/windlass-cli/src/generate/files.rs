//! Generated files: the kustomize tree and the packages.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use serde_json::Value;
use windlass_scaffold::{
    Change, Files, Overlay,
    package::{CATALOG, Package, PackageFile, Product, Variant, WATCHED, lost_in_bundle, review, version_path},
};

use super::Part;
use crate::{
    failure::ErrorWithHint,
    project::{self, DeployTarget, KustomizeTree, OpenProject, Program, roles, samples},
};

/// Files of the tree, with their part and the parts of the manifests they contain. The project's own tests compare the
/// same files.
const TREE: &[(Part, &str, &str)] = &[
    (Part::Crds, "deploy/crd/crds.yaml", "crds"),
    (Part::Manager, "deploy/manager/manager.yaml", "namespace,services,deployment"),
    (Part::Manager, "deploy/metrics/monitor.yaml", "monitoring"),
    (Part::Manager, "deploy/network-policy/policy.yaml", "network-policy"),
    (Part::Rbac, "deploy/rbac/rbac.yaml", "rbac"),
    (Part::Webhooks, "deploy/webhook/webhooks.yaml", "webhooks"),
];

/// Changes of the tree. Namespace and image are placeholders that kustomize replaces.
pub(super) fn tree(opened: &OpenProject, program: &Program, parts: &BTreeSet<Part>) -> anyhow::Result<Vec<Change>> {
    let name = &opened.project.project_name;
    let (namespace, image) = (format!("{name}-system"), format!("{name}:latest"));
    let place = DeployTarget { namespace: &namespace, image: &image };
    let mut changes = Vec::new();
    for (_, path, only) in TREE.iter().filter(|(part, ..)| parts.contains(part)) {
        let flags = ["--network-policy", "--service-monitor", "--only", only];
        let text = program.manifests_text(&place, &flags)?;
        let old = project::read(&opened.root, &BTreeSet::from([(*path).to_owned()]))?.remove(*path);
        let new = Some(text).filter(|text| !text.is_empty());
        if old != new {
            changes.push(Change { path: (*path).to_owned(), old, new, merged: false });
        }
    }
    Ok(changes)
}

/// The change of the manifests of the project's API server.
pub(super) fn extension(opened: &OpenProject, tree: &KustomizeTree) -> anyhow::Result<Option<Change>> {
    let path = "deploy/extension/extension.yaml".to_owned();
    let project = &opened.project;
    let server = Program::build_binary(&opened.root, &project.project_name, &project.extension_name())?;
    let image = tree.kustomization.image.to_string();
    let text = server.extension_text(&DeployTarget { namespace: &tree.kustomization.namespace, image: &image })?;
    let old = project::read(&opened.root, &BTreeSet::from([path.clone()]))?.remove(&path);
    Ok((old.as_ref() != Some(&text)).then_some(Change { path, old, new: Some(text), merged: false }))
}

/// Changes of the packages.
pub(super) fn products(
    opened: &OpenProject,
    program: &Program,
    tree: &KustomizeTree,
    parts: &BTreeSet<Part>,
) -> anyhow::Result<Vec<Change>> {
    let products: Vec<Product> = parts.iter().filter_map(|part| part.product()).collect();
    if products.is_empty() {
        return Ok(Vec::new());
    }
    let install = match products.contains(&Product::Installer) {
        true => tree.objects(opened, program, None)?,
        false => Vec::new(),
    };
    let variants = match products.contains(&Product::Overlays) {
        true => variants(opened, program, tree)?,
        false => Vec::new(),
    };
    let variants: Vec<Variant<'_>> =
        variants.iter().map(|(overlay, default, manifests)| Variant { overlay, default, manifests }).collect();
    let image = tree.kustomization.image.to_string();
    let place = DeployTarget { namespace: &tree.kustomization.namespace, image: &image };
    let manifests = |flags: &[&str]| program.manifests(&place, &[&["--network-policy"][..], flags].concat());
    let watched = ["--only", "rbac", "--watch-namespaces", WATCHED];
    let (roles, samples) = (roles(&opened.root)?, samples(&opened.root)?);
    let catalog = yaml_file(&opened.root, CATALOG)?;
    let previous = yaml_file(&opened.root, &version_path(&opened.project))?;
    let now = windlass_clock::now_in_seconds().to_string();
    let package = Package {
        project: &opened.project,
        version: program.version(),
        image: &tree.kustomization.image,
        install: &install,
        manifests: &manifests(&[])?,
        with_cert_manager: &manifests(&["--cert-manager"])?,
        watched: &manifests(&watched)?,
        watched_with_cert_manager: &manifests(&[&watched[..], &["--cert-manager"]].concat())?,
        variants: &variants,
        roles: &roles,
        samples: &samples,
        catalog: catalog.as_ref(),
        previous: previous.as_ref(),
        now: &now,
    };
    let lost = lost_in_bundle(&package);
    let mut made: Vec<PackageFile> = Vec::new();
    let mut there = Files::new();
    for product in products {
        if product == Product::Bundle && !lost.is_empty() {
            leave_out_bundle(&opened.root, &lost, parts.len() == 1)?;
            continue;
        }
        made.extend(product.files(&package));
        for place in product.places() {
            collect(&opened.root, Path::new(place), &mut there)?;
        }
    }
    Ok(review(&made, &there))
}

/// Reports that no bundle is generated. This is an error if the bundle is wanted, or if an earlier one would remain.
fn leave_out_bundle(root: &Path, lost: &[String], is_wanted: bool) -> Result<(), ErrorWithHint> {
    let lost = lost.join(", ");
    let mut message = format!("the bundle is not generated: OLM has no place for {lost}");
    let mut hint = "use an object selector, or decide in the handler, and remove them from the webhook".to_owned();
    let remains = ["bundle", "bundle.Dockerfile"].iter().any(|place| root.join(place).exists());
    if remains {
        message.push_str("; the bundle of an earlier version of the operator is still there");
        hint.push_str("; or delete bundle/ and bundle.Dockerfile if nobody needs the bundle");
    }
    if is_wanted || remains {
        return Err(ErrorWithHint { message, hint: hint.into() });
    }
    eprintln!("{message}\nhint: {hint}");
    Ok(())
}

/// An overlay with the default manifests and its own.
type Manifests<'a> = (&'a Overlay, Vec<Value>, Vec<Value>);

/// Returns the manifests of each overlay.
fn variants<'a>(
    opened: &'a OpenProject,
    program: &Program,
    tree: &KustomizeTree,
) -> anyhow::Result<Vec<Manifests<'a>>> {
    let overlays = &opened.project.overlays;
    if overlays.is_empty() {
        return Ok(Vec::new());
    }
    let default = tree.generated(opened, program, None)?;
    let variant = |overlay| Ok((overlay, default.clone(), tree.generated(opened, program, Some(overlay))?));
    overlays.iter().map(variant).collect()
}

/// Reads a YAML file of the project, if it exists.
fn yaml_file(root: &Path, path: &str) -> anyhow::Result<Option<Value>> {
    let text = project::read(root, &BTreeSet::from([path.to_owned()]))?.remove(path);
    text.map(|text| windlass_schema::yaml::to_json_value(&text).with_context(|| path.to_owned())).transpose()
}

/// Reads a file, or all files in a directory tree. Files that are not text are ignored.
fn collect(root: &Path, place: &Path, files: &mut Files) -> anyhow::Result<()> {
    let whole = root.join(place);
    let failed = || format!("cannot read {}", whole.display());
    if whole.is_dir() {
        let mut entries: Vec<PathBuf> = Vec::new();
        for entry in fs::read_dir(&whole).with_context(failed)? {
            entries.push(place.join(entry.with_context(failed)?.file_name()));
        }
        return entries.iter().try_for_each(|entry| collect(root, entry, files));
    }
    match fs::read_to_string(&whole) {
        Ok(text) => {
            let parts: Vec<_> = place.iter().map(|part| part.to_string_lossy()).collect();
            files.insert(parts.join("/"), text);
        }
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::InvalidData) => {}
        Err(error) => return Err(error).with_context(failed),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_bundle_does_not_remain_unnoticed() {
        let root = tempfile::tempdir().unwrap();
        let lost = ["matchConditions of vpod.example.com".to_owned()];
        leave_out_bundle(root.path(), &lost, false).unwrap();
        let error = leave_out_bundle(root.path(), &lost, true).unwrap_err();
        assert_eq!(
            error.message,
            "the bundle is not generated: OLM has no place for matchConditions of vpod.example.com"
        );
        for place in ["bundle", "bundle.Dockerfile"] {
            fs::create_dir(root.path().join(place)).unwrap();
            let error = leave_out_bundle(root.path(), &lost, false).unwrap_err();
            assert!(error.message.ends_with("is still there") && error.hint.contains("delete bundle/"), "{error}");
            fs::remove_dir(root.path().join(place)).unwrap();
        }
    }
}
