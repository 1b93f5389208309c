//! The library crate: modules, the operator, controllers and webhooks.

use super::{Files, braced, has_conversion, has_webhook, modules};
use crate::{
    Origin, Project, Resource, names,
    template::{Values, render},
};

const LIB: &str = include_str!("../../templates/src/lib.rs.tmpl");
const OPERATOR: &str = include_str!("../../templates/src/operator.rs.tmpl");
const MODULES: &str = include_str!("../../templates/src/modules.rs.tmpl");
const CONTROLLER: &str = include_str!("../../templates/src/controller.rs.tmpl");
const WEBHOOK: &str = include_str!("../../templates/src/webhook.rs.tmpl");

pub(super) fn add(project: &Project, values: &Values, files: &mut Files) {
    let chosen = |holds: &dyn Fn(&Resource) -> bool| -> Vec<String> {
        project.resources.iter().filter(|one| holds(one)).map(|one| one.module.clone()).collect()
    };
    let controllers = project.resources.iter().flat_map(Resource::controller_modules).collect();
    let lists = [
        ("api", "Resource types, one module per kind.", chosen(&|one| one.origin != Origin::Builtin)),
        ("controller", "Controllers, one module per kind.", controllers),
        ("webhook", "Admission webhooks, one module per kind.", chosen(&has_webhook)),
    ];
    let mut lib = values.clone().flag("extension", project.has_extension());
    for (name, about, list) in lists {
        lib = lib.flag(name, !list.is_empty());
        if !list.is_empty() {
            let modules = modules("pub ", list.iter().map(String::as_str));
            let values = Values::default().with("about", about).with("modules", modules);
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
        for module in resource.controller_modules() {
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
    for name in &resource.controllers {
        // Only one controller writes the status.
        let values = values
            .clone()
            .with("controller", controller_name(resource, name))
            .with("reason", event_reason(name))
            .flag("status", false);
        files.insert(format!("src/controller/{}.rs", resource.controller_module(name)), render(CONTROLLER, &values));
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

fn controller_name(resource: &Resource, name: &str) -> String {
    resource.controller_module(name).replace('_', "-")
}

/// Reason of the events of a further controller, which distinguishes them from those of others.
pub(super) fn event_reason(name: &str) -> String {
    format!("{}Reconciled", names::upper_camel(&name.replace('-', "_")))
}
