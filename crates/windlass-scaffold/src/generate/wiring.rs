//! The library crate: modules, the operator, controllers and webhooks.

use super::{Files, braced, has_conversion, has_webhook, modules};
use crate::{
    Origin, Project, Resource,
    template::{Values, render},
};

const LIB: &str = include_str!("../../templates/src/lib.rs.tmpl");
const OPERATOR: &str = include_str!("../../templates/src/operator.rs.tmpl");
const MODULES: &str = include_str!("../../templates/src/modules.rs.tmpl");
const CONTROLLER: &str = include_str!("../../templates/src/controller.rs.tmpl");
const WEBHOOK: &str = include_str!("../../templates/src/webhook.rs.tmpl");

pub(super) fn add(project: &Project, values: &Values, files: &mut Files) {
    let chosen = |holds: &dyn Fn(&Resource) -> bool| -> Vec<&str> {
        project.resources.iter().filter(|one| holds(one)).map(|one| one.module.as_str()).collect()
    };
    let lists = [
        ("api", "Resource types, one module per kind.", chosen(&|one| one.origin != Origin::Builtin)),
        ("controller", "Controllers, one module per kind.", chosen(&|one| one.controller)),
        ("webhook", "Admission webhooks, one module per kind.", chosen(&has_webhook)),
    ];
    let mut lib = values.clone();
    for (name, about, list) in lists {
        lib = lib.flag(name, !list.is_empty());
        if !list.is_empty() {
            let values = Values::default().with("about", about).with("modules", modules("pub ", list));
            files.insert(format!("src/{name}.rs"), render(MODULES, &values));
        }
    }
    files.insert("src/lib.rs".to_owned(), render(LIB, &lib));
    files.insert("src/operator.rs".to_owned(), operator(project, values));
}

fn operator(project: &Project, values: &Values) -> String {
    let mut parts = Vec::new();
    let mut imports = Vec::new();
    for resource in &project.resources {
        let Resource { module, kind, .. } = resource;
        if resource.origin == Origin::Own {
            let version = |name: &str| format!(".define::<api::{module}::{name}::{kind}>()");
            parts.extend(resource.versions.iter().map(|one| version(&one.name)));
            imports.push("api");
        }
        if resource.controller {
            parts.push(format!(".controller(controller::{module}::controller())"));
            imports.push("controller");
        }
        if has_webhook(resource) {
            parts.push(format!(".webhook(webhook::{module}::webhook())"));
            imports.push("webhook");
        }
        if has_conversion(resource) {
            parts.push(format!(".conversion(api::{module}::conversion::conversion())"));
        }
    }
    imports.sort_unstable();
    imports.dedup();
    let imports = if imports.is_empty() { String::new() } else { braced(&imports) };
    render(OPERATOR, &values.clone().with("parts", parts.join("\n")).with("imports", imports))
}

pub(super) fn add_resource(resource: &Resource, values: &Values, files: &mut Files) {
    if resource.controller {
        files.insert(format!("src/controller/{}.rs", resource.module), render(CONTROLLER, values));
    }
    if has_webhook(resource) {
        let (about, imports) = match (resource.webhooks.defaulting, resource.webhooks.validating) {
            (true, true) => ("Defaulting and validation", "{Denied, Request, Warnings, Webhook}"),
            (true, false) => ("Defaulting", "{Request, Webhook}"),
            (false, _) => ("Validation", "{Denied, Request, Warnings, Webhook}"),
        };
        let values = values.clone().with("about", about).with("imports", imports);
        files.insert(format!("src/webhook/{}.rs", resource.module), render(WEBHOOK, &values));
    }
}
