//! The objects that the load consists of.

use bytes::Bytes;
use clap::ValueEnum;
use serde_json::{Value, json};

use crate::{
    client::Body,
    definition::{Definition, GROUP},
    figures::Measure,
};

/// The namespace of all objects.
pub(crate) const NAMESPACE: &str = "bench";
/// Objects are spread over so many values of the label `shard`.
pub(crate) const SHARDS: usize = 16;

/// What the objects are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Kind {
    /// ConfigMaps with labels and a text
    Configmap,
    /// A custom resource with a schema, a CEL rule and a status
    Widget,
}

impl Kind {
    /// The name as on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Configmap => "configmap",
            Self::Widget => "widget",
        }
    }

    /// How many bytes of text make an object of 1.8 KB, with what the real server adds.
    pub(crate) fn payload(self) -> usize {
        match self {
            Self::Configmap => 1200,
            Self::Widget => 1000,
        }
    }

    /// What its merge patch measures.
    pub(crate) fn patch_measure(self) -> Measure {
        match self {
            Self::Configmap => Measure::MergePatch,
            Self::Widget => Measure::StatusPatch,
        }
    }

    /// The path of the collection.
    pub(crate) fn collection(self) -> String {
        match self {
            Self::Configmap => format!("/api/v1/namespaces/{NAMESPACE}/configmaps"),
            Self::Widget => format!("/apis/{GROUP}/v1/namespaces/{NAMESPACE}/widgets"),
        }
    }

    /// The path of an object.
    pub(crate) fn path(self, number: usize) -> String {
        format!("{}/{}", self.collection(), name(number))
    }

    /// An object to create, with a text of `payload` bytes.
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

    /// The path and the body of a merge patch that changes the object, each `revision` to something else.
    pub(crate) fn merge_patch(self, number: usize, revision: usize) -> (String, Body) {
        let (path, patch) = match self {
            Self::Configmap => (self.path(number), json!({"data": {"ready": revision.to_string()}})),
            Self::Widget => (format!("{}/status", self.path(number)), json!({"status": {"ready": revision}})),
        };
        (path, Body { content_type: "application/merge-patch+json", bytes: patch.to_string().into() })
    }

    /// The path and the body of a server-side apply, where the kind has that in its load.
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

    /// The definition that the server needs first, where the kind is not built in.
    pub(crate) fn definition(self) -> Option<Definition> {
        (self == Self::Widget).then(Definition::widgets)
    }

    /// The object as the real server answers it: what the floor sends.
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

    /// A list of such objects.
    pub(crate) fn stored_list(self, numbers: impl Iterator<Item = usize>, payload: usize) -> Bytes {
        let item = |number| {
            let mut object = self.stored(number, payload);
            // Items of built-in lists do not say what they are.
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
