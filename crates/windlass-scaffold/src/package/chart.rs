//! A Helm chart.
//!
//! Workloads and Services are templates with values. CRDs, RBAC rules and webhook configurations come from the
//! operator; the names of the operator, its namespace and its Service are replaced by those of the release. Webhook
//! configurations keep the operator's name: it writes the CA bundle into the configurations of that name.

mod objects;

use serde_json::Value;

use super::{MARK, Package, PackageFile, yaml};
use crate::template::{Values, render};

const CHART: &str = include_str!("../../templates/chart/Chart.yaml.tmpl");
const VALUES: &str = include_str!("../../templates/chart/values.yaml.tmpl");
const SCHEMA: &str = include_str!("../../templates/chart/values.schema.json.tmpl");
const IGNORE: &str = include_str!("../../templates/chart/helmignore");
const NOTES: &str = include_str!("../../templates/chart/NOTES.txt");

/// Templates of every chart.
const ALWAYS: &[(&str, &str)] = &[
    ("_helpers.tpl", include_str!("../../templates/chart/helpers.tpl")),
    ("deployment.yaml", include_str!("../../templates/chart/deployment.yaml")),
    ("disruption-budget.yaml", include_str!("../../templates/chart/disruption-budget.yaml")),
    ("metrics.yaml", include_str!("../../templates/chart/metrics.yaml")),
    ("network-policy.yaml", include_str!("../../templates/chart/network-policy.yaml")),
    ("serviceaccount.yaml", include_str!("../../templates/chart/serviceaccount.yaml")),
];

/// Templates of charts for operators with webhooks.
const WITH_WEBHOOKS: &[(&str, &str)] = &[
    ("certificate.yaml", include_str!("../../templates/chart/certificate.yaml")),
    ("webhook-service.yaml", include_str!("../../templates/chart/webhook-service.yaml")),
];

/// Arguments and environment variables that the templates already contain.
const KNOWN_ARGUMENTS: &[&str] = &[
    "--leader-elect",
    "--shards",
    "--metrics-bind-address",
    "--metrics-secure",
    "--health-probe-bind-address",
    "--webhook-",
];
const KNOWN_VARIABLES: &[&str] = &["POD_NAME", "POD_NAMESPACE"];

pub(super) fn files(package: &Package<'_>) -> Vec<PackageFile> {
    let values = values(package);
    let mut files = vec![
        PackageFile::created_once("dist/chart/.helmignore", IGNORE.to_owned(), &[]),
        PackageFile::created_once("dist/chart/Chart.yaml", render(CHART, &values), &["version:", "appVersion:"]),
        PackageFile::created_once("dist/chart/values.yaml", render(VALUES, &values), &[]),
        PackageFile::created_once("dist/chart/templates/NOTES.txt", render(NOTES, &values), &[]),
        PackageFile::generated("dist/chart/values.schema.json", render(SCHEMA, &values)),
    ];
    let webhooks = if package.has_webhooks() { WITH_WEBHOOKS } else { &[] };
    let templates = ALWAYS.iter().chain(webhooks).map(|(name, text)| ((*name).to_owned(), render(text, &values)));
    let templates = templates.chain(objects::templates(package));
    files.extend(templates.map(|(name, text)| PackageFile::generated(format!("dist/chart/templates/{name}"), text)));
    files
}

/// First line of a template. It trims the whitespace before the text that follows.
fn header() -> String {
    format!("{{{{- /* {MARK}. DO NOT EDIT: customize values.yaml instead. */ -}}}}")
}

fn values(package: &Package<'_>) -> Values {
    let commands: Vec<String> = package
        .of_kind("CustomResourceDefinition")
        .map(|definition| {
            let everywhere = if definition["spec"]["scope"] == "Namespaced" { " --all-namespaces" } else { "" };
            format!("kubectl get {}{everywhere}", definition["metadata"]["name"].as_str().unwrap_or_default())
        })
        .collect();
    let image = package.image;
    let configured = objects::CONFIGURATIONS.iter().any(|kind| package.of_kind(kind).next().is_some());
    Values::default()
        .with("name", package.name().to_owned())
        .with("description", package.project.description.trim_end_matches('.').to_owned())
        .with("version", package.version.to_owned())
        .with("repository", image.repository.clone())
        // A moving tag such as `latest` is not a good default.
        .with("tag", image.tag.clone().filter(|tag| tag != "latest").unwrap_or_default())
        .with("digest", image.digest.clone().unwrap_or_default())
        .with("header", header())
        .with("arguments", further_arguments(package))
        .with("environment", further_variables(package))
        .with("commands", commands.join("\n"))
        .with("secure", serves_secure_metrics(package).to_string())
        .flag("crds", !commands.is_empty())
        .flag("webhooks", package.has_webhooks())
        .flag("configured", configured)
}

fn container<'a>(package: &Package<'a>) -> Option<&'a Value> {
    package.of_kind("Deployment").find_map(|deployment| deployment.pointer("/spec/template/spec/containers/0"))
}

/// Whether the operator's own manifests serve the metrics over HTTPS, which code can switch off.
fn serves_secure_metrics(package: &Package<'_>) -> bool {
    let arguments = container(package).and_then(|container| container["args"].as_array());
    arguments.into_iter().flatten().any(|argument| argument == "--metrics-secure")
}

fn further_arguments(package: &Package<'_>) -> String {
    let all = container(package).and_then(|container| container["args"].as_array()).into_iter().flatten();
    let is_known = |argument: &str| KNOWN_ARGUMENTS.iter().any(|known| argument.starts_with(known));
    let further: Vec<&Value> = all.filter(|argument| !argument.as_str().is_some_and(is_known)).collect();
    literal_list(&further)
}

fn further_variables(package: &Package<'_>) -> String {
    let all = container(package).and_then(|container| container["env"].as_array()).into_iter().flatten();
    let is_known = |variable: &&Value| KNOWN_VARIABLES.iter().any(|known| variable["name"] == **known);
    let further: Vec<&Value> = all.filter(|variable| !is_known(variable)).collect();
    literal_list(&further)
}

fn literal_list(items: &[&Value]) -> String {
    match items.is_empty() {
        true => String::new(),
        false => literal(&yaml::write(&items)),
    }
}

/// Escapes a string so that Helm does not interpret it as a template.
fn literal(text: &str) -> String {
    text.replace("{{", "{{ \"{{\" }}")
}
