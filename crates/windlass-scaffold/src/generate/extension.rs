//! The API server of a project: its library module, its program, its tests and its part of the manifests.

use super::Files;
use crate::{
    Origin, Project, Resource,
    template::{Values, render},
};

const EXTENSION: &str = include_str!("../../templates/src/extension.rs.tmpl");
const PROGRAM: &str = include_str!("../../templates/src/apiserver.rs.tmpl");
const TESTS: &str = include_str!("../../templates/tests/apiserver.rs.tmpl");
const DEPLOY: &str = include_str!("../../templates/deploy/extension.yaml.tmpl");

pub(super) fn add(project: &Project, values: &Values, files: &mut Files) {
    if !project.has_extension() {
        return;
    }
    let served = || project.resources.iter().filter(|one| one.origin == Origin::Served);
    let path = |one: &Resource| format!("api::{}::{}", one.module, one.type_name());
    let parts: Vec<String> = served().map(|one| format!(".kind::<{}>()", path(one))).collect();
    let checks: Vec<String> = served()
        .map(|one| {
            let list = format!("Api::<{}>::all(client.clone()).list(&ListParams::default())", path(one));
            format!("let listed = {list}.await.unwrap();\nassert!(listed.items.is_empty());")
        })
        .collect();
    let name = project.extension_name();
    let values = values
        .clone()
        .with("extension_name", name.clone())
        .with("parts", parts.join("\n"))
        .with("checks", checks.join("\n"));
    files.insert("src/extension.rs".to_owned(), render(EXTENSION, &values));
    files.insert(format!("src/bin/{name}.rs"), render(PROGRAM, &values));
    files.insert("tests/it/apiserver.rs".to_owned(), render(TESTS, &values));
    files.insert("deploy/extension/kustomization.yaml".to_owned(), render(DEPLOY, &values));
}
