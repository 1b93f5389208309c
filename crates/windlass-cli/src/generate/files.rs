//! Generated files: the kustomize tree and the packages.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use anyhow::Context as _;
use windlass_scaffold::{
    Change, Files,
    package::{CATALOG, Package, PackageFile, Product, review},
};

use super::Part;
use crate::project::{self, DeployTarget, KustomizeTree, OpenProject, Program, roles, samples};

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
        true => tree.objects(opened, program)?,
        false => Vec::new(),
    };
    let image = tree.kustomization.image.to_string();
    let place = DeployTarget { namespace: &tree.kustomization.namespace, image: &image };
    let manifests = program.manifests(&place, &["--network-policy"])?;
    let with_cert_manager = program.manifests(&place, &["--network-policy", "--cert-manager"])?;
    let (roles, samples) = (roles(&opened.root)?, samples(&opened.root)?);
    let catalog = catalog(&opened.root)?;
    let package = Package {
        project: &opened.project,
        version: program.version(),
        image: &tree.kustomization.image,
        install: &install,
        manifests: &manifests,
        with_cert_manager: &with_cert_manager,
        roles: &roles,
        samples: &samples,
        catalog: catalog.as_ref(),
    };
    let made: Vec<PackageFile> = products.iter().flat_map(|product| product.files(&package)).collect();
    let mut there = Files::new();
    for place in products.iter().flat_map(|product| product.places()) {
        collect(&opened.root, Path::new(place), &mut there)?;
    }
    Ok(review(&made, &there))
}

fn catalog(root: &Path) -> anyhow::Result<Option<serde_json::Value>> {
    let text = project::read(root, &BTreeSet::from([CATALOG.to_owned()]))?.remove(CATALOG);
    text.map(|text| windlass_schema::yaml::to_json_value(&text).context(CATALOG)).transpose()
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
