//! Tests of a project.

use super::{
    Files, has_conversion, has_webhook, modules,
    rust_fields::{Example, FieldSet},
    wiring::event_reason,
};
use crate::{
    Field, Origin, Project, Resource,
    template::{Values, render},
};

const MAIN: &str = include_str!("../../templates/tests/main.rs.tmpl");
const MANIFESTS: &str = include_str!("../../templates/tests/manifests.rs.tmpl");
const DEPLOYED: &str = include_str!("../../templates/tests/deployed.rs.tmpl");
const KIND: &str = include_str!("../../templates/tests/kind.rs.tmpl");
const CONVERSION: &str = include_str!("../../templates/tests/conversion.rs.tmpl");
const RECONCILED_BY: &str = include_str!("../../templates/tests/reconciled_by.rs.tmpl");
/// Types of Kubernetes that examples may name, with their paths.
const FOREIGN_TYPES: &[(&str, &str)] = &[("Quantity", "api::resource::Quantity"), ("Time", "apis::meta::v1::Time")];

pub(super) fn add(project: &Project, values: &Values, files: &mut Files) {
    let tested = project.resources.iter().filter(|one| is_tested(one)).map(|one| one.module.as_str());
    // The tests also install the CRDs of foreign kinds.
    let defined = project.resources.iter().filter(|one| one.origin != Origin::Builtin);
    let definitions: Vec<String> =
        defined.map(|one| format!(".with_crd::<api::{}::{}>()", one.module, one.type_name())).collect();
    let definitions = match &definitions[..] {
        // Formatted as rustfmt does.
        [one] => one.clone(),
        all => {
            all.iter().map(|one| format!("\n        {one}")).collect::<String>()
                + if all.is_empty() { "" } else { "\n        " }
        }
    };
    let samples: Vec<String> = project
        .resources
        .iter()
        .filter(|one| is_ready_when_deployed(one))
        .map(|one| format!("\"{}\"", super::deploy::sample_path(one, &one.storage_version)))
        .collect();
    let others = [("apiserver", project.has_extension()), ("deployed", !samples.is_empty()), ("manifests", true)];
    let others = others.into_iter().filter_map(|(name, exists)| exists.then_some(name));
    // A test module may have the same name as the crate.
    let crate_name = project.crate_name();
    let is_module = project.resources.iter().any(|one| one.module == crate_name);
    let values = values
        .clone()
        .with("this_crate", if is_module { format!("::{crate_name}") } else { crate_name })
        .with("modules", modules("", tested.chain(others)))
        .with("definitions", definitions);
    if !samples.is_empty() {
        let values = values.clone().with("samples", samples.join(", "));
        files.insert("tests/it/deployed.rs".to_owned(), render(DEPLOYED, &values));
    }
    files.insert("tests/it/main.rs".to_owned(), render(MAIN, &values));
    files.insert("tests/it/manifests.rs".to_owned(), render(MANIFESTS, &values));
}

/// Returns whether the deployed operator makes a sample of the resource ready.
pub(super) fn is_ready_when_deployed(resource: &Resource) -> bool {
    resource.is_defined() && resource.controller
}

/// Returns whether tests are scaffolded: not for imported types or built-in kinds whose objects cannot be created
/// without further input.
fn is_tested(resource: &Resource) -> bool {
    match resource.builtin() {
        _ if resource.origin == Origin::Imported => false,
        Some(builtin) => has_webhook(resource) || (resource.has_controller() && builtin.fixture.is_some()),
        None => true,
    }
}

pub(super) fn add_resource(project: &Project, resource: &Resource, values: &Values, files: &mut Files) {
    if !is_tested(resource) {
        return;
    }
    let storage = resource.version(&resource.storage_version);
    let fields: &[Field] = storage.map(|version| version.fields.as_slice()).unwrap_or_default();
    let builtin = resource.builtin();
    let own = resource.is_defined();
    let creates = builtin.is_none_or(|builtin| builtin.fixture.is_some());
    let at_top = fields.iter().filter(|field| field.parent().is_none());
    let forbidden = at_top.filter_map(|field| field.forbidden().map(|value| (field, value))).next();
    let forbidden = forbidden.filter(|_| builtin.is_none());
    let kind = resource.type_name();
    let spec = FieldSet { prefix: &kind, fields }.example();
    let imports = Imports {
        project,
        resource,
        spec: &spec,
        on_plane: (creates && resource.has_controller()) || builtin.is_none(),
        runs: creates && resource.has_controller(),
        creates_by_api: forbidden.is_some(),
    };
    let api = match resource.namespaced {
        true => "plane.api()".to_owned(),
        false => "Api::all(plane.client())".to_owned(),
    };
    let expect = match resource.namespaced {
        true => format!("plane.expect::<{}>(\"example\")", resource.type_name()),
        false => format!("plane.expect_in(Api::<{}>::all(plane.client()), \"example\")", resource.type_name()),
    };
    let (field, value) = forbidden.map(|(field, value)| (Some(field), value)).unwrap_or_default();
    let ident = field.map(Field::ident).unwrap_or_default();
    let values = values
        .clone()
        .with("imports", imports.lines())
        .with("example", example(resource, &spec))
        .with("api", api)
        .with("expect", expect);
    let values = values
        .clone()
        .with("reconciled_by", if creates { reconciled_by(resource, &values) } else { String::new() })
        .with("forbidden", value)
        .with("forbidden_name", ident.trim_start_matches("r#").to_owned())
        .with("forbidden_field", ident)
        .with("forbidden_json", field.map(|field| field.name.clone()).unwrap_or_default())
        .with("conversions", conversions(resource, &values))
        .flag("readies", own && resource.controller)
        .flag("sees", !own && resource.controller && creates)
        .flag("accepts", builtin.is_none() && !resource.has_controller());
    files.insert(format!("tests/it/{}.rs", resource.module), render(KIND, &values));
}

/// Imports of a test file.
struct Imports<'a> {
    project: &'a Project,
    resource: &'a Resource,
    spec: &'a Example,
    on_plane: bool,
    runs: bool,
    creates_by_api: bool,
}

impl Imports<'_> {
    fn lines(&self) -> String {
        let resource = self.resource;
        let webhooks = resource.webhooks;
        let mut lines = Vec::new();
        let mut ours = Vec::new();
        if resource.origin != Origin::Builtin {
            ours.push(format!("api::{}::{}", resource.module, self.types()));
        }
        if self.runs {
            ours.push("operator::operator".to_owned());
        }
        if has_webhook(resource) {
            let defaulting = webhooks.defaulting.then_some(["MANAGED_BY", "default"]).into_iter().flatten();
            let validating = webhooks.validating.then_some(["MAX_NAME_LENGTH", "validate"]).into_iter().flatten();
            let mut names: Vec<&str> = defaulting.chain(validating).collect();
            names.sort_unstable();
            ours.push(format!("webhook::{}::{}", resource.module, super::braced(&names)));
        }
        let crate_name = self.project.crate_name();
        let ours = match &ours[..] {
            [] => None,
            [one] => Some(format!("use {crate_name}::{one};")),
            all => Some(format!("use {crate_name}::{{\n    {},\n}};", all.join(",\n    "))),
        };
        lines.extend(ours.map(|line| (crate_name.clone(), line)));
        if let Some(builtin) = resource.builtin() {
            let line = format!("use {};", builtin.path());
            lines.push(("k8s_openapi".to_owned(), line));
        }
        for (name, path) in FOREIGN_TYPES {
            if self.spec.types.contains(*name) {
                let line = format!("use k8s_openapi::apimachinery::pkg::{path};");
                lines.push((format!("k8s_openapi::apimachinery::pkg::{path}"), line));
            }
        }
        let api = self.creates_by_api || (self.runs && !resource.namespaced);
        let kube = match (api, self.creates_by_api, webhooks.defaulting) {
            (true, true, true) => Some("use kube::{Api, ResourceExt, api::PostParams};"),
            (true, true, false) => Some("use kube::{Api, api::PostParams};"),
            (true, false, true) => Some("use kube::{Api, ResourceExt};"),
            (true, false, false) => Some("use kube::Api;"),
            (false, _, true) => Some("use kube::ResourceExt;"),
            (false, _, false) => None,
        };
        lines.extend(kube.map(|line| ("kube".to_owned(), line.to_owned())));
        if resource.builtin().is_some_and(|builtin| builtin.fixture.is_some()) {
            lines.push(("windlass_testing".to_owned(), "use windlass_testing::fixtures;".to_owned()));
        }
        lines.sort();
        let mut text = lines.into_iter().map(|(_, line)| line).collect::<Vec<_>>().join("\n");
        if self.on_plane {
            text.push_str("\n\nuse crate::plane;");
        }
        text
    }

    /// Types of the resource that a test uses.
    fn types(&self) -> String {
        let kind = &self.resource.type_name();
        let mut names = vec![kind.clone(), format!("{kind}Spec")];
        let is_foreign = |name: &&String| FOREIGN_TYPES.iter().any(|(foreign, _)| foreign == name);
        names.extend(self.spec.types.iter().filter(|name| !is_foreign(name)).cloned());
        if has_conversion(self.resource) {
            let spokes = self.resource.versions.iter().filter(|one| one.name != self.resource.storage_version);
            names.extend(spokes.map(|version| version.name.clone()));
        }
        // The order of rustfmt: types first, then modules.
        names.sort_by_key(|name| (name.starts_with(|letter: char| letter.is_ascii_lowercase()), name.clone()));
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        super::braced(&names)
    }
}

/// Expression that creates an example object.
fn example(resource: &Resource, spec: &Example) -> String {
    let kind = &resource.type_name();
    if let Some(builtin) = resource.builtin() {
        return match builtin.fixture {
            Some(fixture) => fixture.to_owned(),
            None => format!(
                "let mut object = {kind}::default();\nobject.metadata.name = Some(\"example\".to_owned());\nobject"
            ),
        };
    }
    let lines: String =
        spec.members.iter().flat_map(|member| member.lines()).map(|line| format!("    {line}\n")).collect();
    match lines.is_empty() {
        true => format!("{kind}::new(\"example\", {kind}Spec {{}})"),
        false => format!("let spec = {kind}Spec {{\n{lines}}};\n{kind}::new(\"example\", spec)"),
    }
}

/// Tests of further controllers.
fn reconciled_by(resource: &Resource, values: &Values) -> String {
    let test = |name: &String| {
        let values = values.clone().with("controller_name", name.replace('-', "_")).with("reason", event_reason(name));
        render(RECONCILED_BY, &values)
    };
    resource.controllers.iter().map(test).collect()
}

fn conversions(resource: &Resource, values: &Values) -> String {
    if !has_conversion(resource) {
        return String::new();
    }
    let spokes = resource.versions.iter().filter(|one| one.name != resource.storage_version);
    spokes.map(|spoke| render(CONVERSION, &values.clone().with("spoke", spoke.name.clone()))).collect()
}
