//! The garbage collector against a server.

mod custom_resources;
mod dependents;
mod many_dependents;

use k8s_openapi::{
    api::core::v1::ConfigMap,
    apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference},
};
use kube::{
    Api,
    api::{ApiResource, DeleteParams, DynamicObject, Patch, PatchParams, PostParams, PropagationPolicy},
};
use serde_json::json;
use windlass_testing::{TestPlane, eventually};

/// A plane that runs only the garbage collector.
pub(crate) async fn plane() -> TestPlane {
    TestPlane::builder().controllers("garbage-collector-controller".parse().unwrap()).await
}

/// An owner reference to an object.
pub(crate) fn reference(kind: (&str, &str), meta: &ObjectMeta) -> OwnerReference {
    OwnerReference {
        api_version: kind.0.into(),
        kind: kind.1.into(),
        name: meta.name.clone().unwrap(),
        uid: meta.uid.clone().unwrap(),
        ..OwnerReference::default()
    }
}

pub(crate) fn of_map(owner: &ConfigMap) -> OwnerReference {
    reference(("v1", "ConfigMap"), &owner.metadata)
}

pub(crate) fn blocking(mut reference: OwnerReference) -> OwnerReference {
    reference.block_owner_deletion = Some(true);
    reference
}

pub(crate) async fn map(maps: &Api<ConfigMap>, name: &str, owners: Vec<OwnerReference>) -> ConfigMap {
    let metadata = ObjectMeta { name: Some(name.into()), owner_references: Some(owners), ..ObjectMeta::default() };
    maps.create(&PostParams::default(), &ConfigMap { metadata, ..ConfigMap::default() }).await.unwrap()
}

pub(crate) async fn held_map(maps: &Api<ConfigMap>, name: &str, owners: Vec<OwnerReference>) -> ConfigMap {
    map(maps, name, owners).await;
    set_finalizers(maps, name, &["example.com/hold"]).await
}

pub(crate) async fn set_finalizers(maps: &Api<ConfigMap>, name: &str, finalizers: &[&str]) -> ConfigMap {
    let patch = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    maps.patch(name, &PatchParams::default(), &patch).await.unwrap()
}

pub(crate) fn foreground() -> DeleteParams {
    DeleteParams::foreground()
}

pub(crate) fn orphan() -> DeleteParams {
    DeleteParams { propagation_policy: Some(PropagationPolicy::Orphan), ..DeleteParams::default() }
}

pub(crate) async fn gone(maps: &Api<ConfigMap>, name: &str) {
    eventually(&format!("{name} is deleted"), async || maps.get_opt(name).await.unwrap().is_none().then_some(())).await;
}

/// The names of an object's owners.
pub(crate) async fn owners(maps: &Api<ConfigMap>, name: &str) -> Vec<String> {
    let references = maps.get(name).await.unwrap().metadata.owner_references.unwrap_or_default();
    references.into_iter().map(|reference| reference.name).collect()
}

/// Waits until the collector has handled everything so far: an object with a missing owner is deleted after all that
/// came before.
pub(crate) async fn settled(maps: &Api<ConfigMap>) {
    for round in 0..3 {
        let name = format!("settled-{round}");
        let never = OwnerReference {
            api_version: "v1".into(),
            kind: "ConfigMap".into(),
            name: "never".into(),
            uid: format!("never-{round}"),
            ..OwnerReference::default()
        };
        map(maps, &name, vec![never]).await;
        gone(maps, &name).await;
    }
}

pub(crate) fn definition(plural: &str, kind: &str, scope: &str) -> CustomResourceDefinition {
    serde_json::from_value(json!({
        "metadata": {"name": format!("{plural}.example.com")},
        "spec": {
            "group": "example.com", "scope": scope,
            "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind, "listKind": format!("{kind}List")},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true}}}],
        },
    }))
    .unwrap()
}

pub(crate) fn custom(plane: &TestPlane, plural: &str, kind: &str) -> Api<DynamicObject> {
    Api::namespaced_with(plane.client(), plane.namespace(), &resource(plural, kind))
}

pub(crate) fn resource(plural: &str, kind: &str) -> ApiResource {
    ApiResource {
        group: "example.com".into(),
        version: "v1".into(),
        api_version: "example.com/v1".into(),
        kind: kind.into(),
        plural: plural.into(),
    }
}

pub(crate) async fn custom_object(
    api: &Api<DynamicObject>,
    kind: &str,
    name: &str,
    owners: Vec<OwnerReference>,
) -> DynamicObject {
    let mut object: DynamicObject =
        serde_json::from_value(json!({"apiVersion": "example.com/v1", "kind": kind, "metadata": {"name": name}}))
            .unwrap();
    object.metadata.owner_references = Some(owners);
    api.create(&PostParams::default(), &object).await.unwrap()
}
