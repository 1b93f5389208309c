//! A bundle for the Operator Lifecycle Manager.
//!
//! OLM issues webhook certificates and mounts them at a path of its own, and creates service accounts and roles from
//! the ClusterServiceVersion.

use serde_json::{Map, Value, json};

use super::{CATALOG, Package, PackageFile, header, yaml};
use crate::template::{Values, render};

const BASE: &str = include_str!("../../templates/bundle/clusterserviceversion.yaml.tmpl");
const DOCKERFILE: &str = include_str!("../../templates/bundle/Dockerfile.tmpl");
const ANNOTATIONS: &str = include_str!("../../templates/bundle/annotations.yaml.tmpl");

/// Path where OLM mounts certificates.
const CERTIFICATES: &str = "/tmp/k8s-webhook-server/serving-certs";

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
    let manifest = |file: String, object: &Value| {
        PackageFile::generated(format!("bundle/manifests/{file}"), format!("{}\n{}", header(), yaml::write(object)))
    };

    let mut files = vec![
        PackageFile::created_once(CATALOG, base, &[]),
        PackageFile::generated("bundle.Dockerfile", render(DOCKERFILE, &values)),
        PackageFile::generated("bundle/metadata/annotations.yaml", render(ANNOTATIONS, &values)),
        manifest(format!("{name}.clusterserviceversion.yaml"), &version(package, catalog)),
    ];
    for definition in definitions(package) {
        let spec = &definition["spec"];
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        files.push(manifest(format!("{}_{}.yaml", text(&spec["group"]), text(&spec["names"]["plural"])), definition));
    }
    for role in package.roles {
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
    object["metadata"]["name"] = format!("{name}.v{}", package.version).into();
    object["metadata"]["namespace"] = "placeholder".into();
    let annotations = &mut object["metadata"]["annotations"];
    annotations["alm-examples"] = format!("{:#}", Value::from(package.samples.to_vec())).into();
    annotations["containerImage"] = package.image.to_string().into();
    annotations["operators.operatorframework.io/builder"] = concat!("windlass-v", env!("CARGO_PKG_VERSION")).into();

    let mode = |kind: &str| json!({ "type": kind, "supported": kind == "AllNamespaces" });
    let modes = ["OwnNamespace", "SingleNamespace", "MultiNamespace", "AllNamespaces"].map(mode);
    let owned: Vec<Value> = definitions(package).flat_map(owned).collect();
    let webhooks: Vec<Value> = webhooks(package);
    let spec = &mut object["spec"];
    spec["version"] = package.version.into();
    spec["installModes"] = modes.to_vec().into();
    spec["customresourcedefinitions"] = json!({ "owned": owned });
    spec["install"] = json!({ "strategy": "deployment", "spec": strategy(package) });
    if !webhooks.is_empty() {
        spec["webhookdefinitions"] = webhooks.into();
    }
    object
}

fn owned(definition: &Value) -> Vec<Value> {
    let spec = &definition["spec"];
    let kind = spec["names"]["kind"].as_str().unwrap_or_default();
    let versions = spec["versions"].as_array().into_iter().flatten();
    let entry = |version: &Value| {
        let schema = &version["schema"]["openAPIV3Schema"];
        // The description of the CRD is generated by kube-derive; that of the spec describes the kind.
        let said = [&schema["description"], &schema["properties"]["spec"]["description"]];
        let said = said.into_iter().filter_map(Value::as_str).find(|about| !about.starts_with("Auto-generated"));
        let about = said.map_or_else(|| format!("{kind} objects"), str::to_owned);
        let mut entry = json!({
            "name": definition["metadata"]["name"],
            "version": version["name"],
            "kind": kind,
            "displayName": words(kind),
            "description": about,
        });
        for (part, field) in [("spec", "specDescriptors"), ("status", "statusDescriptors")] {
            let properties = schema["properties"][part]["properties"].as_object();
            let descriptors: Vec<Value> = properties.into_iter().flatten().map(descriptor).collect();
            if !descriptors.is_empty() {
                entry[field] = descriptors.into();
            }
        }
        entry
    };
    versions.map(entry).collect()
}

fn descriptor((name, schema): (&String, &Value)) -> Value {
    let mut descriptor = json!({ "path": name, "displayName": words(name) });
    if let Some(about) = schema["description"].as_str() {
        descriptor["description"] = about.into();
    }
    descriptor
}

/// The install strategy: the Deployment and the permissions of its service account.
fn strategy(package: &Package<'_>) -> Value {
    let deployments: Vec<Value> = of_kind(package, "Deployment")
        .map(|deployment| {
            let mut spec = deployment["spec"].clone();
            mount_nothing(&mut spec);
            json!({ "name": deployment["metadata"]["name"], "label": deployment["metadata"]["labels"], "spec": spec })
        })
        .collect();
    let permissions = |kind: &str| -> Vec<Value> {
        of_kind(package, kind)
            .map(|role| json!({ "serviceAccountName": package.name(), "rules": role["rules"] }))
            .collect()
    };
    let mut strategy = Map::new();
    strategy.insert("deployments".to_owned(), deployments.into());
    for (field, kind) in [("clusterPermissions", "ClusterRole"), ("permissions", "Role")] {
        let permissions = permissions(kind);
        if !permissions.is_empty() {
            strategy.insert(field.to_owned(), permissions.into());
        }
    }
    strategy.into()
}

/// Removes certificate mounts: OLM adds its own, and the operator is told their path.
fn mount_nothing(spec: &mut Value) {
    remove(spec, "/template/spec", "volumes");
    remove(spec, "/template/spec/containers/0", "volumeMounts");
    let arguments = spec.pointer_mut("/template/spec/containers/0/args").and_then(Value::as_array_mut);
    for argument in arguments.into_iter().flatten() {
        if argument.as_str().is_some_and(|argument| argument.starts_with("--webhook-cert-dir=")) {
            *argument = format!("--webhook-cert-dir={CERTIFICATES}").into();
        }
    }
}

fn webhooks(package: &Package<'_>) -> Vec<Value> {
    let port = of_kind(package, "Deployment")
        .filter_map(|deployment| deployment.pointer("/spec/template/spec/containers/0/ports")?.as_array())
        .flatten()
        .find(|port| port["name"] == "webhook")
        .map_or(json!(9443), |port| port["containerPort"].clone());
    let mut all = Vec::new();
    let kinds = [
        ("MutatingWebhookConfiguration", "MutatingAdmissionWebhook"),
        ("ValidatingWebhookConfiguration", "ValidatingAdmissionWebhook"),
    ];
    for (kind, of_type) in kinds {
        let entries = of_kind(package, kind).filter_map(|object| object["webhooks"].as_array()).flatten();
        for webhook in entries {
            let mut entry = json!({
                "type": of_type,
                "generateName": webhook["name"],
                "deploymentName": package.name(),
                "containerPort": 443,
                "targetPort": port,
                "webhookPath": webhook.pointer("/clientConfig/service/path"),
            });
            let same = [
                "admissionReviewVersions",
                "failurePolicy",
                "matchConditions",
                "rules",
                "sideEffects",
                "timeoutSeconds",
            ];
            for field in same {
                if let Some(value) = webhook.get(field) {
                    entry[field] = value.clone();
                }
            }
            all.push(entry);
        }
    }
    for definition in definitions(package) {
        let Some(webhook) = definition.pointer("/spec/conversion/webhook") else { continue };
        let kind = definition["spec"]["names"]["singular"].as_str().unwrap_or_default();
        all.push(json!({
            "type": "ConversionWebhook",
            "generateName": format!("c{kind}.{}", definition["spec"]["group"].as_str().unwrap_or_default()),
            "deploymentName": package.name(),
            "containerPort": 443,
            "targetPort": port,
            "admissionReviewVersions": ["v1"],
            "conversionCRDs": [definition["metadata"]["name"]],
            "sideEffects": "None",
            "webhookPath": webhook.pointer("/clientConfig/service/path"),
        }));
    }
    all
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

/// Converts `configMapName` to words.
fn words(name: &str) -> String {
    let mut words = String::new();
    let letters: Vec<char> = name.chars().collect();
    for (index, letter) in letters.iter().enumerate() {
        let follows_lower = index > 0 && letters[index - 1].is_lowercase();
        if letter.is_uppercase() && follows_lower {
            words.push(' ');
        }
        match index {
            0 => words.extend(letter.to_uppercase()),
            _ => words.push(*letter),
        }
    }
    words
}
