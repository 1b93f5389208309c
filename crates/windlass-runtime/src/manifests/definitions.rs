//! CRDs: one per resource, with all versions and their conversion.

use std::collections::BTreeMap;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::core::{Version, crd::merge_crds};
use serde_json::json;

use super::{Manifest, ManifestError, OperatorManifests, Part, webhooks};
use crate::webhook::Endpoint;

pub(super) fn manifests(operator: &OperatorManifests) -> Result<Vec<Manifest>, ManifestError> {
    let mut by_name: BTreeMap<&str, Vec<&CustomResourceDefinition>> = BTreeMap::new();
    for definition in &operator.definitions {
        let same = by_name.entry(definition.metadata.name.as_deref().unwrap_or_default()).or_default();
        if !same.contains(&definition) {
            same.push(definition);
        }
    }
    for conversion in operator.webhooks_of(Endpoint::Conversion) {
        let (group, kind) = (&conversion.group, &conversion.kind);
        let defines = |definition: &CustomResourceDefinition| {
            definition.spec.group == *group && definition.spec.names.kind == *kind
        };
        if !operator.definitions.iter().any(defines) {
            return Err(ManifestError::Undefined { group: group.clone(), kind: kind.clone() });
        }
    }
    by_name.into_iter().map(|(name, definitions)| manifest(operator, name, definitions)).collect()
}

fn manifest(
    operator: &OperatorManifests,
    name: &str,
    definitions: Vec<&CustomResourceDefinition>,
) -> Result<Manifest, ManifestError> {
    let first = definitions.first().expect("each name must have a CRD");
    let conversion = operator
        .webhooks_of(Endpoint::Conversion)
        .find(|webhook| webhook.group == first.spec.group && webhook.kind == first.spec.names.kind);
    let hub = conversion.and_then(|conversion| conversion.versions.first()).map(String::as_str);
    let merged = merge(name, definitions, hub)?;

    let metadata = merged.metadata;
    let mut spec = serde_json::to_value(&merged.spec).expect("a CRD can be serialized as JSON");
    if let Some(conversion) = conversion {
        spec["conversion"] = json!({
            "strategy": "Webhook",
            "webhook": {
                "clientConfig": operator.webhook_client(&conversion.path),
                "conversionReviewVersions": ["v1"],
            },
        });
    }
    let resource = ("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions");
    let mut manifest = operator.manifest(Part::Crds, resource, None, name, json!({ "spec": spec }));
    let labels = metadata.labels.into_iter().flatten();
    manifest.object.metadata.labels.get_or_insert_default().extend(labels);
    manifest.object.metadata.annotations = metadata.annotations;
    if conversion.is_some() {
        webhooks::inject_authority(operator, &mut manifest);
    }
    Ok(manifest)
}

/// Merges the CRDs of all versions, the newest first. The storage version is the hub if there is one; otherwise the
/// only version that is marked so, or the newest of those.
fn merge(
    name: &str,
    definitions: Vec<&CustomResourceDefinition>,
    hub: Option<&str>,
) -> Result<CustomResourceDefinition, ManifestError> {
    let failed = |cause: String| ManifestError::Merge { name: name.to_owned(), cause };
    if let [only] = definitions[..] {
        return Ok(only.clone());
    }
    let mut versions: Vec<_> = definitions.iter().flat_map(|definition| &definition.spec.versions).collect();
    versions.sort_by_key(|version| std::cmp::Reverse(Version::parse(&version.name).priority()));
    if let Some(twice) = versions.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(failed(format!("{} is defined twice", twice[0].name)));
    }
    let stored = hub
        .or_else(|| versions.iter().find(|version| version.storage).map(|version| version.name.as_str()))
        .or_else(|| versions.first().map(|version| version.name.as_str()))
        .unwrap_or_default()
        .to_owned();
    let definitions = definitions.into_iter().cloned().collect();
    let mut merged = merge_crds(definitions, &stored).map_err(|error| failed(error.to_string()))?;
    merged.spec.versions.sort_by_key(|version| std::cmp::Reverse(Version::parse(&version.name).priority()));
    Ok(merged)
}
