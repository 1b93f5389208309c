//! A kind in two versions, and kube-apiserver's requests about it.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

#[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[kube(group = "webhook.windlass.example", version = "v1", kind = "Foo", namespaced, status = "FooStatus")]
#[serde(rename_all = "camelCase")]
pub(crate) struct FooSpec {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) replicas: Option<i32>,
    #[serde(default)]
    pub(crate) image: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct FooStatus {
    #[serde(default)]
    pub(crate) ready: bool,
}

pub(crate) mod old {
    use super::*;

    #[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "webhook.windlass.example", version = "v1alpha1", kind = "Foo", namespaced)]
    pub(crate) struct FooSpec {
        /// `image*replicas`
        pub(crate) text: String,
    }
}

pub(crate) mod older {
    use super::*;

    #[derive(CustomResource, Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
    #[kube(group = "webhook.windlass.example", version = "v1alpha0", kind = "Foo", namespaced)]
    pub(crate) struct FooSpec {
        pub(crate) img: String,
    }
}

impl TryFrom<old::Foo> for Foo {
    type Error = anyhow::Error;

    fn try_from(foo: old::Foo) -> anyhow::Result<Self> {
        let Some((image, replicas)) = foo.spec.text.split_once('*') else { anyhow::bail!("no star in the text") };
        assert!(replicas != "panic", "asked to panic");
        let spec = FooSpec { image: image.to_owned(), replicas: Some(replicas.parse()?) };
        let mut metadata = foo.metadata;
        metadata.annotations.get_or_insert_default().insert("converted".to_owned(), "yes".to_owned());
        // Kubernetes does not allow these to change.
        metadata.uid = None;
        metadata.managed_fields = None;
        Ok(Self { metadata, spec, status: None })
    }
}

impl From<Foo> for old::Foo {
    fn from(foo: Foo) -> Self {
        let text = format!("{}*{}", foo.spec.image, foo.spec.replicas.unwrap_or_default());
        Self { metadata: foo.metadata, spec: old::FooSpec { text } }
    }
}

/// Drops the metadata.
impl From<older::Foo> for Foo {
    fn from(foo: older::Foo) -> Self {
        Self::new("", FooSpec { image: foo.spec.img, replicas: None })
    }
}

impl From<Foo> for older::Foo {
    fn from(foo: Foo) -> Self {
        Self { metadata: foo.metadata, spec: older::FooSpec { img: foo.spec.image } }
    }
}

/// Returns a Foo as kube-apiserver v1.36 sends it, with fields that the type does not know.
pub(crate) fn foo(spec: Value) -> Value {
    json!({
        "apiVersion": "webhook.windlass.example/v1",
        "kind": "Foo",
        "metadata": {
            "creationTimestamp": "2026-11-15T12:00:00Z",
            "generation": 1,
            "managedFields": [{
                "apiVersion": "webhook.windlass.example/v1",
                "fieldsType": "FieldsV1",
                "fieldsV1": {"f:spec": {".": {}, "f:image": {}}},
                "manager": "kubectl-create",
                "operation": "Update",
                "time": "2026-11-15T12:00:00Z"
            }],
            "name": "web",
            "namespace": "default",
            "uid": "0d6ad4d6-4e3e-4a5a-9f5e-5a5f7c2c1d11"
        },
        "spec": spec
    })
}

/// Returns an admission review of kube-apiserver v1.36.
pub(crate) fn admission(operation: &str, object: Value, old_object: Value) -> Value {
    let options = match operation {
        "CREATE" => json!({
            "kind": "CreateOptions",
            "apiVersion": "meta.k8s.io/v1",
            "fieldManager": "kubectl-create",
            "fieldValidation": "Strict"
        }),
        "UPDATE" => json!({"kind": "UpdateOptions", "apiVersion": "meta.k8s.io/v1", "fieldManager": "kubectl-edit"}),
        _ => json!({"kind": "DeleteOptions", "apiVersion": "meta.k8s.io/v1", "propagationPolicy": "Background"}),
    };
    json!({
        "kind": "AdmissionReview",
        "apiVersion": "admission.k8s.io/v1",
        "request": {
            "uid": "705ab4f5-6393-11e8-b7cc-42010a800002",
            "kind": {"group": "webhook.windlass.example", "version": "v1", "kind": "Foo"},
            "resource": {"group": "webhook.windlass.example", "version": "v1", "resource": "foos"},
            "requestKind": {"group": "webhook.windlass.example", "version": "v1", "kind": "Foo"},
            "requestResource": {"group": "webhook.windlass.example", "version": "v1", "resource": "foos"},
            "name": "web",
            "namespace": "default",
            "operation": operation,
            "userInfo": {
                "username": "kubernetes-admin",
                "groups": ["system:masters", "system:authenticated"],
                "extra": {"authentication.kubernetes.io/credential-id": ["X509SHA256=00"]}
            },
            "object": object,
            "oldObject": old_object,
            "dryRun": false,
            "options": options
        }
    })
}

/// Returns a conversion review of kube-apiserver v1.36.
pub(crate) fn conversion(to: &str, objects: Vec<Value>) -> Value {
    json!({
        "kind": "ConversionReview",
        "apiVersion": "apiextensions.k8s.io/v1",
        "request": {
            "uid": "d3a1c1d2-2e59-4b61-9c4d-2d5c2f0a7e11",
            "desiredAPIVersion": format!("webhook.windlass.example/{to}"),
            "objects": objects
        }
    })
}
