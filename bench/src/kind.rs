//! The objects of the load.

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{
    client::Body,
    definition::{Definition, GROUP},
    figures::Measure,
};

/// Namespace of all objects.
pub(crate) const NAMESPACE: &str = "bench";
/// Number of values of the label `shard` that the objects are spread over.
pub(crate) const SHARDS: usize = 16;

/// Kind of the objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// ConfigMaps with labels and a string
    Configmap,
    /// A custom resource with a schema, a CEL rule and a status
    Widget,
}

impl Kind {
    /// Returns the name used on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Configmap => "configmap",
            Self::Widget => "widget",
        }
    }

    /// Returns the text size that makes an object 1.8 KB, including the fields kube-apiserver adds.
    pub(crate) fn payload(self) -> usize {
        match self {
            Self::Configmap => 1200,
            Self::Widget => 1000,
        }
    }

    /// Returns the measure of its merge patch.
    pub(crate) fn patch_measure(self) -> Measure {
        match self {
            Self::Configmap => Measure::MergePatch,
            Self::Widget => Measure::StatusPatch,
        }
    }

    /// Returns the path of the collection.
    pub(crate) fn collection(self) -> String {
        match self {
            Self::Configmap => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            Self::Widget => format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"),
        }
    }

    /// Returns the path of an object.
    pub(crate) fn path(self, number: usize) -> String {
        format!("{}/{}", self.collection(), name(number))
    }

    /// Returns an object to create, with a string of `payload` bytes.
    pub(crate) fn object(self, number: usize, payload: usize) -> Value {
        let text = "x".repeat(payload);
        let metadata = json!({"name": name(number), "namespace": NAMESPACE,
            "labels": {"app": "bench", "shard": (number % SHARDS).to_string()}});
        match self {
            Self::Configmap => json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
                "data": {"replicas": (number % 50).to_string(), "mode": "fast", "blob": text,
                    "ports": "http: 80\nadmin: 8080\n"}}),
            Self::Widget => json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Widget", "metadata": metadata,
                "spec": {"replicas": number % 50, "blob": text,
                    "ports": [{"name": "http", "port": 80}, {"name": "admin", "port": 8080}]}}),
        }
    }

    /// Returns path and body of a merge patch that changes the object; every `revision` is a different change.
    pub(crate) fn merge_patch(self, number: usize, revision: usize) -> (String, Body) {
        let (path, patch) = match self {
            Self::Configmap => (self.path(number), json!({"data": {"ready": revision.to_string()}})),
            Self::Widget => (format!("{}/status", self.path(number)), json!({"status": {"ready": revision}})),
        };
        (path, Body { content_type: "application/merge-patch+json", bytes: patch.to_string().into() })
    }

    /// Returns path and body of a server-side apply, if the kind has one in its load.
    pub(crate) fn apply(self, number: usize) -> Option<(String, Body)> {
        if self != Self::Widget {
            return None;
        }
        let mut object = self.object(number, 0);
        object["spec"]["replicas"] = json!(42);
        object["spec"].as_object_mut()?.remove("blob");
        let body = Body { content_type: "application/apply-patch+yaml", bytes: object.to_string().into() };
        Some((format!("{}?fieldManager=bench&force=true", self.path(number)), body))
    }

    /// Returns the CRD that must exist first, if the kind is not built in.
    pub(crate) fn definition(self) -> Option<Definition> {
        (self == Self::Widget).then(Definition::widgets)
    }

    /// Returns the object as kube-apiserver returns it, for the floor.
    pub(crate) fn stored(self, number: usize, payload: usize) -> Value {
        let mut object = self.object(number, payload);
        let metadata = &mut object["metadata"];
        metadata["uid"] = json!("2f9c1a52-6d0e-4b7f-9a55-0c1f0c2b7d11");
        metadata["resourceVersion"] = json!("123456");
        metadata["creationTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut owned = json!({"f:metadata": {"f:labels": {".": {}, "f:app": {}, "f:shard": {}}}});
        match self {
            Self::Configmap => {
                owned["f:data"] = json!({".": {}, "f:blob": {}, "f:mode": {}, "f:ports": {}, "f:replicas": {}});
            }
            Self::Widget => {
                metadata["generation"] = json!(1);
                object["spec"]["mode"] = json!("fast");
                let port = json!({".": {}, "f:name": {}, "f:port": {}});
                owned["f:spec"] = json!({".": {}, "f:blob": {}, "f:mode": {}, "f:replicas": {},
                    "f:ports": {".": {}, r#"k:{"name":"admin"}"#: port, r#"k:{"name":"http"}"#: port}});
            }
        }
        let version = object["apiVersion"].clone();
        object["metadata"]["managedFields"] = json!([{"manager": "unknown", "operation": "Update",
            "apiVersion": version, "time": "2026-01-01T00:00:00Z", "fieldsType": "FieldsV1", "fieldsV1": owned}]);
        object
    }

    /// Returns a list of such objects.
    pub(crate) fn stored_list(self, numbers: impl Iterator<Item = usize>, payload: usize) -> Bytes {
        let item = |number| {
            let mut object = self.stored(number, payload);
            // Items of built-in lists have no apiVersion and kind.
            if let (Self::Configmap, Some(fields)) = (self, object.as_object_mut()) {
                fields.retain(|name, _| name != "kind" && name != "apiVersion");
            }
            object
        };
        let items: Vec<Value> = numbers.map(item).collect();
        let kind = if self == Self::Configmap { "ConfigMapList" } else { "WidgetList" };
        json!({"kind": kind, "apiVersion": "v1", "metadata": {"resourceVersion": "123456"}, "items": items})
            .to_string()
            .into()
    }
}

fn name(number: usize) -> String {
    format!("w-{number:07}")
}
