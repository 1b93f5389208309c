//! All files of a project.

mod api;
mod deploy;
mod extension;
mod generated_tests;
mod rust_fields;
mod wiring;

use std::collections::BTreeMap;

use crate::{
    GitSource, License, Origin, Project, Resource, Source,
    builtin::Builtin,
    names,
    template::{Values, render},
};

pub use api::{copy_version, types_path};

/// File contents by path, with slashes.
pub type Files = BTreeMap<String, String>;

const ROOT: &[(&str, &str)] = &[
    (".dockerignore", include_str!("../templates/root/dockerignore")),
    (".github/workflows/ci.yml", include_str!("../templates/root/ci.yml.tmpl")),
    (".gitignore", include_str!("../templates/root/gitignore")),
    ("Cargo.toml", include_str!("../templates/root/Cargo.toml.tmpl")),
    ("Dockerfile", include_str!("../templates/root/Dockerfile.tmpl")),
    ("README.md", include_str!("../templates/root/README.md.tmpl")),
    ("rustfmt.toml", include_str!("../templates/root/rustfmt.toml")),
    ("src/main.rs", include_str!("../templates/src/main.rs.tmpl")),
];
const APACHE: &str = include_str!("../templates/root/LICENSE-apache2");
const RELEASE: &str = include_str!("../templates/root/release.yml.tmpl");
const MIT: &str = include_str!("../templates/root/LICENSE-mit.tmpl");

/// Generates all files of a project except PROJECT. The output depends only on the project.
pub fn generate(project: &Project) -> Files {
    let mut files = Files::new();
    let values = of_project(project);
    for (path, template) in ROOT {
        files.insert((*path).to_owned(), render(template, &values));
    }
    match project.license {
        License::Apache2 => files.insert("LICENSE".to_owned(), APACHE.to_owned()),
        License::Mit => files.insert("LICENSE".to_owned(), render(MIT, &values)),
        License::None => None,
    };
    if project.release_workflow {
        files.insert(".github/workflows/release.yml".to_owned(), render(RELEASE, &values));
    }
    wiring::add(project, &values, &mut files);
    deploy::add(project, &values, &mut files);
    generated_tests::add(project, &values, &mut files);
    extension::add(project, &values, &mut files);
    for resource in &project.resources {
        let values = of_resource(project, resource, values.clone());
        api::add(resource, &values, &mut files);
        wiring::add_resource(resource, &values, &mut files);
        deploy::add_resource(resource, &values, &mut files);
        generated_tests::add_resource(project, resource, &values, &mut files);
    }
    files
}

fn of_project(project: &Project) -> Values {
    let license = match project.license {
        License::Apache2 => "Apache-2.0",
        License::Mit => "MIT",
        License::None => "",
    };
    let own: Vec<&Resource> = project.resources.iter().filter(|one| one.is_defined()).collect();
    let kinds: Vec<String> = own
        .iter()
        .map(|one| {
            let versions: Vec<&str> = one.versions.iter().map(|version| version.name.as_str()).collect();
            format!("| {} | {} | {} |", one.kind, one.group, versions.join(", "))
        })
        .collect();
    let sample = own.iter().find(|one| one.origin != Origin::Served);
    let sample = sample.map(|one| deploy::sample_path(one, &one.storage_version)).unwrap_or_default();
    let name = project.project_name.clone();
    Values::default()
        .with("crate_name", project.crate_name())
        .with("description", project.description.trim_end_matches('.').to_owned())
        .with("license", license)
        .with("owner", project.owner.clone().unwrap_or_else(|| format!("The {name} authors")))
        .with("windlass", dependency(&project.windlass, "windlass"))
        .with("windlass_extension", dependency(&project.windlass, "windlass-extension"))
        .with("windlass_testing", dependency(&project.windlass, "windlass-testing"))
        .flag("extension", project.has_extension())
        .flag("deployed", project.resources.iter().any(generated_tests::is_ready_when_deployed))
        .flag("path_dependency", matches!(project.windlass, Source::Path(_)))
        .with("kinds", kinds.join("\n"))
        .with("sample", sample)
        .with("name", name)
}

fn dependency(source: &Source, name: &str) -> String {
    match source {
        Source::Version(version) => format!("\"{version}\""),
        Source::Path(path) => format!("{{ path = \"{}/crates/{name}\" }}", path.trim_end_matches('/')),
        Source::Git(GitSource { url, rev: None }) => format!("{{ git = \"{url}\" }}"),
        Source::Git(GitSource { url, rev: Some(rev) }) => format!("{{ git = \"{url}\", rev = \"{rev}\" }}"),
    }
}

fn of_resource(project: &Project, resource: &Resource, values: Values) -> Values {
    let words = resource.words();
    let article = match words.starts_with(['a', 'e', 'i', 'o', 'u']) {
        true => "an",
        false => "a",
    };
    let own = resource.is_defined();
    let type_path = match resource.builtin() {
        Some(builtin) => builtin.path(),
        None => format!("{}::api::{}::{}", project.crate_name(), resource.module, resource.type_name()),
    };
    values
        .with("kind", resource.kind.clone())
        .with("type", resource.type_name())
        .with("group", resource.group.clone())
        .with("plural", resource.plural.clone())
        .with("module", resource.module.clone())
        .with("controller", resource.module.replace('_', "-"))
        .with("reason", "Reconciled")
        .with("variable", resource.variable())
        .with("a_kind", format!("{article} {}", resource.kind))
        .with("a_name", format!("{article}_{}", words.replace(' ', "_")))
        .with("type_path", type_path)
        .with("storage", names::version_module(&resource.storage_version))
        .flag("namespaced", resource.namespaced)
        .flag("builtin", resource.origin == Origin::Builtin)
        .flag("status", own)
        .flag("is_event", resource.builtin().is_some_and(Builtin::is_event))
        .flag("defaulting", resource.webhooks.defaulting)
        .flag("validating", resource.webhooks.validating)
        .flag("conversion", has_conversion(resource))
}

/// Returns whether the operator converts between versions; a single version needs no conversion.
fn has_conversion(resource: &Resource) -> bool {
    resource.webhooks.conversion && resource.versions.len() > 1
}

fn has_webhook(resource: &Resource) -> bool {
    resource.webhooks.defaulting || resource.webhooks.validating
}

/// Sorted module declarations.
fn modules<'a>(visibility: &str, names: impl IntoIterator<Item = &'a str>) -> String {
    let mut names: Vec<&str> = names.into_iter().collect();
    names.sort_unstable();
    names.iter().map(|name| format!("{visibility}mod {name};")).collect::<Vec<_>>().join("\n")
}

/// Formats imports as `a` or `{a, b}`.
fn braced(names: &[&str]) -> String {
    match names {
        [name] => (*name).to_owned(),
        names => format!("{{{}}}", names.join(", ")),
    }
}

#[cfg(test)]
mod tests;
