//! A bundle for the Operator Lifecycle Manager.
//!
//! OLM issues webhook certificates and mounts them at a path of its own, and creates service accounts and roles from
//! the ClusterServiceVersion.

mod owned;
mod scope;
mod webhooks;

use semver::Version;
use serde_json::{Value, json};

use self::scope::Scope;
use super::{CATALOG, Package, PackageFile, header, version_path, yaml};
use crate::template::{Values, render};

const BASE: &str = include_str!("../../templates/bundle/clusterserviceversion.yaml.tmpl");
const DOCKERFILE: &str = include_str!("../../templates/bundle/Dockerfile.tmpl");
const ANNOTATIONS: &str = include_str!("../../templates/bundle/annotations.yaml.tmpl");

pub(super) fn files(package: &Package<'_>) -> Vec<PackageFile> {
    let name = package.name();
    let project = package.project;
    let values = Values::default()
        .with("name", name.to_owned())
        .with("domain", project.domain.clone())
        .with("description", project.description.trim_end_matches('.').to_owned())
        .with("display_name", display_name(name))
        .with("owner", project.owner.clone().unwrap_or_else(|| format!("The {name} authors")))
        .with("header", header());
    let base = render(BASE, &values);
    let initial: Value;
    let catalog = match package.catalog {
        Some(catalog) => catalog,
        None => {
            initial = serde_saphyr::from_str(&base).expect("the template must be YAML");
            &initial
        }
    };
    let channel = catalog.pointer("/spec/maturity").and_then(Value::as_str).unwrap_or("alpha");
    let values = values.with("channel", channel.to_owned());
    let at =
        |path: String, object: &Value| PackageFile::generated(path, format!("{}\n{}", header(), yaml::write(object)));
    let manifest = |file: String, object: &Value| at(format!("bundle/manifests/{file}"), object);

    let mut files = vec![
        PackageFile::created_once(CATALOG, base, &[]),
        PackageFile::generated("bundle.Dockerfile", render(DOCKERFILE, &values)),
        PackageFile::generated("bundle/metadata/annotations.yaml", render(ANNOTATIONS, &values)),
        at(version_path(project), &version(package, catalog)),
    ];
    for definition in definitions(package) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        files.push(manifest(format!("{}_{}.yaml", text(&spec["group"]), text(&spec["names"]["plural"])), definition));
    }
    for role in package.roles.iter().chain(package.metrics_reader()) {
        let role_name = role["metadata"]["name"].as_str().unwrap_or_default();
        files.push(manifest(format!("{role_name}_rbac.authorization.k8s.io_v1_clusterrole.yaml"), role));
    }
    let component = "/metadata/labels/app.kubernetes.io~1component";
    let metrics = package
        .of_kind("Service")
        .find(|service| service.pointer(component).is_some_and(|component| component == "metrics"));
    if let Some(service) = metrics {
        let mut service = service.clone();
        remove(&mut service, "/metadata", "namespace");
        files.push(manifest(format!("{name}-metrics_v1_service.yaml"), &service));
    }
    files
}

fn definitions<'a>(package: &Package<'a>) -> impl Iterator<Item = &'a Value> {
    package.of_kind("CustomResourceDefinition")
}

/// Objects of a kind, for certificates that are issued by others.
fn of_kind<'a>(package: &Package<'a>, kind: &str) -> impl Iterator<Item = &'a Value> {
    package.with_cert_manager.iter().filter(move |object| object["kind"] == *kind)
}

/// The ClusterServiceVersion.
fn version(package: &Package<'_>, catalog: &Value) -> Value {
    let name = package.name();
    let mut object = catalog.clone();
    if !object["metadata"].is_object() {
        object["metadata"] = json!({});
    }
    let history = History::new(package);
    object["metadata"]["name"] = version_name(package).into();
    object["metadata"]["namespace"] = "placeholder".into();
    let annotations = &mut object["metadata"]["annotations"];
    annotations["alm-examples"] = format!("{:#}", Value::from(package.samples.to_vec())).into();
    annotations["containerImage"] = package.image.to_string().into();
    annotations["createdAt"] = history.created_at.into();
    annotations["operators.operatorframework.io/builder"] = concat!("windlass-v", env!("CARGO_PKG_VERSION")).into();

    let scope = Scope::new(package);
    let resources = owned::resources(&scope.rules());
    let owned: Vec<Value> =
        definitions(package).flat_map(|definition| owned::entries(definition, &resources)).collect();
    let webhooks: Vec<Value> = webhooks::entries(package);
    let images = related_images(package);
    let spec = &mut object["spec"];
    spec["version"] = package.version.into();
    if let Some(replaces) = history.replaces.filter(|_| spec.get("replaces").is_none()) {
        spec["replaces"] = replaces.into();
    }
    spec["installModes"] = scope.install_modes();
    spec["customresourcedefinitions"] = json!({ "owned": owned });
    spec["install"] = json!({ "strategy": "deployment", "spec": scope.strategy(name) });
    if !webhooks.is_empty() {
        spec["webhookdefinitions"] = webhooks.into();
    }
    if !images.is_empty() {
        spec["relatedImages"] = images.into();
    }
    object
}

fn version_name(package: &Package<'_>) -> String {
    format!("{}.v{}", package.name(), package.version)
}

/// History of this version in the existing bundle.
struct History {
    created_at: String,
    replaces: Option<String>,
}

impl History {
    /// A version that exists keeps its time and its predecessor. A new one replaces the version that exists, if that is
    /// older.
    fn new(package: &Package<'_>) -> Self {
        let text = |place: &str| package.previous?.pointer(place)?.as_str().map(str::to_owned);
        let now = package.now.to_owned();
        let previous = text("/spec/version");
        if previous.as_deref() == Some(package.version) {
            let created_at = text("/metadata/annotations/createdAt").unwrap_or(now);
            return Self { created_at, replaces: text("/spec/replaces") };
        }
        let parsed = |version: &str| Version::parse(version).ok();
        let is_older = previous.as_deref().and_then(parsed) < parsed(package.version);
        Self { created_at: now, replaces: text("/metadata/name").filter(|_| previous.is_some() && is_older) }
    }
}

/// Images with digests that a mirror has to contain: the operator's, and those in the variables `RELATED_IMAGE_NAME` of
/// its environment.
fn related_images(package: &Package<'_>) -> Vec<Value> {
    let mut images = Vec::new();
    if package.image.digest.is_some() {
        images.push(json!({ "name": package.name(), "image": package.image.to_string() }));
    }
    let variables = of_kind(package, "Deployment")
        .filter_map(|deployment| deployment.pointer("/spec/template/spec/containers/0/env")?.as_array())
        .flatten();
    for variable in variables {
        let name = variable["name"].as_str().and_then(|name| name.strip_prefix("RELATED_IMAGE_"));
        if let (Some(name), Some(image)) = (name, variable["value"].as_str()) {
            images.push(json!({ "name": name.to_ascii_lowercase().replace('_', "-"), "image": image }));
        }
    }
    images
}

/// Properties of webhooks that a bundle cannot express, so that OLM would drop them. Without them, a webhook is called
/// for more requests than it handles.
pub fn lost_in_bundle(package: &Package<'_>) -> Vec<String> {
    webhooks::configured(package)
        .flat_map(|(_, webhook)| {
            let name = webhook["name"].as_str().unwrap_or_default();
            let lost =
                ["matchConditions", "namespaceSelector"].into_iter().filter(|field| webhook.get(field).is_some());
            lost.map(move |field| format!("{field} of {name}"))
        })
        .collect()
}

fn remove(value: &mut Value, place: &str, field: &str) {
    if let Some(object) = value.pointer_mut(place).and_then(Value::as_object_mut) {
        object.remove(field);
    }
}

/// Converts `book-shop` to a title.
fn display_name(name: &str) -> String {
    let words = name.split('-').map(|word| {
        let mut letters = word.chars();
        letters.next().map(|first| first.to_uppercase().chain(letters).collect::<String>()).unwrap_or_default()
    });
    words.collect::<Vec<_>>().join(" ")
}
