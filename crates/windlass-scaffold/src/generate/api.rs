//! Types of resources.

use super::{
    Files, has_conversion, modules,
    rust_fields::{self, FieldSet},
};
use crate::{
    Field, FieldType, Origin, Resource, Version, names,
    template::{Values, render},
};

const KIND: &str = include_str!("../../templates/src/kind.rs.tmpl");
const TYPES: &str = include_str!("../../templates/src/types.rs.tmpl");
const CONVERSION: &str = include_str!("../../templates/src/conversion.rs.tmpl");
const BETWEEN: &str = include_str!("../../templates/src/conversion_between.rs.tmpl");
/// Maximum number of fields of the spec, and of the status, that are shown as printer columns.
const MAX_COLUMNS: usize = 3;

/// Returns the path of the types of a version.
pub fn types_path(resource: &Resource, version: &str) -> String {
    format!("src/api/{}/{}.rs", resource.module, names::version_module(version))
}

/// Turns the types of one version into those of another, including the user's edits.
pub fn copy_version(text: &str, kind: &str, from: &str, to: &str) -> String {
    let head = format!("//! {kind} {from}.");
    text.replacen(&head, &format!("//! {kind} {to}."), 1).replacen(
        &format!("version = \"{from}\""),
        &format!("version = \"{to}\""),
        1,
    )
}

pub(super) fn add(resource: &Resource, values: &Values, files: &mut Files) {
    if resource.origin == Origin::Builtin {
        return;
    }
    let names: Vec<String> = resource.versions.iter().map(|version| names::version_module(&version.name)).collect();
    let kind = values.clone().with("modules", modules("pub ", names.iter().map(String::as_str)));
    files.insert(format!("src/api/{}.rs", resource.module), render(KIND, &kind));
    if resource.origin == Origin::Imported {
        // Imported types belong to the user.
        return;
    }
    for version in &resource.versions {
        files.insert(types_path(resource, &version.name), types(resource, version, values));
    }
    if has_conversion(resource) {
        files.insert(format!("src/api/{}/conversion.rs", resource.module), conversion(resource, values));
    }
}

fn types(resource: &Resource, version: &Version, values: &Values) -> String {
    let own = resource.is_defined();
    let kind = resource.type_name();
    let status_type = format!("{kind}Status");
    let spec = FieldSet { prefix: &kind, fields: &version.fields };
    let status = FieldSet { prefix: &status_type, fields: &version.status_fields };
    let all = || version.fields.iter().chain(&version.status_fields);
    let values = values
        .clone()
        .with("version", version.name.clone())
        .with("imports", imports(version, own))
        .with("columns", columns(version, own))
        .with("fields", spec.members())
        .with("status_fields", status.members())
        .with("items", spec.items() + &status.items() + &rust_fields::schemas(all()))
        .flag("renamed", kind != resource.kind)
        .flag("protected", own && is_protected(&resource.group))
        .flag("map", all().any(|field| field.kind.is_map()));
    render(TYPES, &values)
}

/// Returns whether the group is reserved for Kubernetes: CRDs in it need the annotation `api-approved.kubernetes.io`.
fn is_protected(group: &str) -> bool {
    ["k8s.io", "kubernetes.io"]
        .iter()
        .any(|domain| group.strip_suffix(domain).is_some_and(|rest| rest.is_empty() || rest.ends_with('.')))
}

fn imports(version: &Version, own: bool) -> String {
    let all = || version.fields.iter().chain(&version.status_fields);
    let has = |kind: &FieldType| all().any(|field| field.kind.item() == kind);
    let mut lines = Vec::new();
    if has(&FieldType::Quantity) {
        lines.push("use k8s_openapi::apimachinery::pkg::api::resource::Quantity;");
    }
    match (own, has(&FieldType::Time)) {
        (true, true) => lines.push("use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};"),
        (true, false) => lines.push("use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;"),
        (false, true) => lines.push("use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;"),
        (false, false) => {}
    }
    lines.push("use kube::CustomResource;");
    lines.push(match !rust_fields::schemas(all()).is_empty() {
        true => "use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};",
        false => "use schemars::JsonSchema;",
    });
    lines.push("use serde::{Deserialize, Serialize};");
    if own {
        lines.push("use windlass::Conditions;");
    }
    lines.join("\n")
}

/// Columns of `kubectl get`.
fn columns(version: &Version, own: bool) -> String {
    let column = |name: &str, kind: &str, path: &str| {
        format!(r##"printcolumn = r#"{{"name": "{name}", "type": "{kind}", "jsonPath": "{path}"}}"#"##)
    };
    let shown = |part: &'static str, field: &Field| {
        let kind = match field.kind {
            _ if field.parent().is_some() => return None,
            FieldType::String | FieldType::Enum(_) | FieldType::Duration | FieldType::Quantity => "string",
            FieldType::Int32 | FieldType::Int64 => "integer",
            FieldType::Bool => "boolean",
            FieldType::Number => "number",
            FieldType::Time => "date",
            FieldType::Object | FieldType::Map(_) | FieldType::List(_) => return None,
        };
        let name = rust_fields::title(&field.name);
        Some(column(&name, kind, &format!(".{part}.{}", field.name)))
    };
    let mut columns: Vec<String> =
        version.fields.iter().filter_map(|field| shown("spec", field)).take(MAX_COLUMNS).collect();
    columns.extend(version.status_fields.iter().filter_map(|field| shown("status", field)).take(MAX_COLUMNS));
    if own {
        columns.push(column("Ready", "string", ".status.conditions[?(@.type=='Ready')].status"));
    }
    columns.push(column("Age", "date", ".metadata.creationTimestamp"));
    columns.join(",\n")
}

fn conversion(resource: &Resource, values: &Values) -> String {
    let names: Vec<&str> = resource.versions.iter().map(|version| version.name.as_str()).collect();
    let hub = resource.storage_version.as_str();
    let spokes: Vec<&str> = names.iter().copied().filter(|name| *name != hub).collect();
    let between = |from: &str, to: &str| {
        let values = values.clone().with("from", from.to_owned()).with("to", to.to_owned());
        render(BETWEEN, &values)
    };
    let conversions: String = spokes.iter().map(|spoke| between(spoke, hub) + &between(hub, spoke)).collect();
    let spokes: String = spokes.iter().map(|spoke| format!(".spoke::<{spoke}::{}>()", resource.kind)).collect();
    let mut sorted = names.clone();
    sorted.sort_unstable();
    let values =
        values.clone().with("versions", super::braced(&sorted)).with("spokes", spokes).with("conversions", conversions);
    render(CONVERSION, &values)
}
