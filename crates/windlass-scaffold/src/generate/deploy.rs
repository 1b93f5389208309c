//! The kustomize tree around the manifests that the operator generates itself.

use super::{Files, has_webhook, rust_fields::FieldSet};
use crate::{
    Origin, Project, Resource,
    template::{Values, render},
};

const PART: &str = include_str!("../../templates/deploy/part.yaml.tmpl");
const DEFAULT: &str = include_str!("../../templates/deploy/default.yaml.tmpl");
const ROLES: &str = include_str!("../../templates/deploy/roles.yaml.tmpl");
const SAMPLE: &str = include_str!("../../templates/deploy/sample.yaml.tmpl");

const SAMPLES: &str = "samples";
const EXTENSION_SAMPLES: &str = "extension/samples";

pub(super) fn add(project: &Project, values: &Values, files: &mut Files) {
    let own: Vec<&Resource> = project.resources.iter().filter(|one| one.is_defined()).collect();
    let custom = project.resources.iter().any(|one| one.origin == Origin::Own);
    let mut part = |folder: &str, about: &'static str, names: &[String]| {
        let resources: Vec<String> = names.iter().map(|name| format!("- {name}")).collect();
        let values = Values::default().with("about", about).with("resources", resources.join("\n"));
        files.insert(format!("deploy/{folder}/kustomization.yaml"), render(PART, &values));
    };
    if custom {
        part("crd", "CustomResourceDefinitions, written by `windlass generate`.", &["crds.yaml".to_owned()]);
    }
    for folder in [SAMPLES, EXTENSION_SAMPLES] {
        let there = own.iter().filter(|one| sample_folder(one) == folder);
        let samples: Vec<String> =
            there.flat_map(|one| one.versions.iter().map(|version| sample_name(one, &version.name))).collect();
        if !samples.is_empty() {
            part(folder, "Sample resources.", &samples);
        }
    }
    part("manager", "The operator and its Services.", &["manager.yaml".to_owned()]);
    part("metrics", "Monitors for the Prometheus Operator.", &["monitor.yaml".to_owned()]);
    part("network-policy", "Network policy of the operator.", &["policy.yaml".to_owned()]);
    let mut roles = vec!["rbac.yaml".to_owned()];
    roles.extend(own.iter().map(|one| format!("{}.yaml", one.module)));
    part("rbac", "Permissions of the operator, and roles for users of its resources.", &roles);
    // Conversion webhooks are configured in the CRDs.
    let configured = project.resources.iter().any(has_webhook);
    if configured {
        part("webhook", "Webhook configurations.", &["webhooks.yaml".to_owned()]);
    }
    let values = values.clone().flag("crds", custom).flag("webhooks", configured);
    files.insert("deploy/default/kustomization.yaml".to_owned(), render(DEFAULT, &values));
}

pub(super) fn add_resource(resource: &Resource, values: &Values, files: &mut Files) {
    if !resource.is_defined() {
        return;
    }
    files.insert(format!("deploy/rbac/{}.yaml", resource.module), render(ROLES, values));
    for version in &resource.versions {
        let fields = FieldSet { prefix: &resource.kind, fields: &version.fields };
        let values = values
            .clone()
            .with("version", version.name.clone())
            .with("sample_name", format!("{}-example", resource.kind.to_ascii_lowercase()))
            .with("fields", fields.yaml());
        files.insert(sample_path(resource, &version.name), render(SAMPLE, &values));
    }
}

pub(super) fn sample_path(resource: &Resource, version: &str) -> String {
    format!("deploy/{}/{}", sample_folder(resource), sample_name(resource, version))
}

/// The operator can run without the API server of the project, so the samples of its kinds are apart.
fn sample_folder(resource: &Resource) -> &'static str {
    match resource.origin {
        Origin::Served => EXTENSION_SAMPLES,
        _ => SAMPLES,
    }
}

fn sample_name(resource: &Resource, version: &str) -> String {
    format!("{}_{version}.yaml", resource.module)
}
