//! CustomResourceDefinitions with limits, an enum, a default, a list with keys, a CEL rule and a status.

use anyhow::bail;
use http::{Method, StatusCode};
use serde_json::{Value, json};

use crate::{
    client::{Body, Client},
    kind::NAMESPACE,
};

/// API group of the widgets; numbered CRDs are in groups below it.
pub(crate) const GROUP: &str = "bench.example.com";
const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Number of numbered CRDs per group, as an operator would have.
const IN_A_GROUP: usize = 10;

/// A CustomResourceDefinition.
#[derive(Debug, Clone)]
pub(crate) struct Definition {
    group: String,
    plural: String,
    kind: String,
    /// A limit in the schema.
    most: usize,
}

impl Definition {
    /// Returns the CRD of the widgets that the load consists of.
    pub(crate) fn widgets() -> Self {
        Self { group: GROUP.to_owned(), plural: "widgets".to_owned(), kind: "Widget".to_owned(), most: 100 }
    }

    /// Returns one of many CRDs. No two have the same schema, so nothing compiled for one can serve another.
    pub(crate) fn numbered(number: usize) -> Self {
        Self {
            group: format!("g{:05}.{GROUP}", number / IN_A_GROUP),
            plural: format!("things{number:05}"),
            kind: format!("Thing{number:05}"),
            most: 100 + number,
        }
    }

    /// Returns the path of the custom resources.
    pub(crate) fn collection(&self) -> String {
        format!("/apis/{}/v1/namespaces/{NAMESPACE}/{}", self.group, self.plural)
    }

    /// Returns a small custom resource.
    pub(crate) fn instance(&self) -> Value {
        json!({"apiVersion": format!("{}/v1", self.group), "kind": self.kind,
            "metadata": {"name": "first", "namespace": NAMESPACE},
            "spec": {"replicas": 3, "blob": "x", "ports": [{"name": "http", "port": 80}]}})
    }

    /// Creates the CRD and returns the size of the response. Fails if it exists.
    pub(crate) async fn create(&self, client: &Client, lane: usize) -> anyhow::Result<u64> {
        client.measure(lane, Method::POST, COLLECTION, Body::json(&self.manifest())).await
    }

    /// Creates the CRD unless it exists, and waits until the server serves it.
    pub(crate) async fn ensure(&self, client: &Client) -> anyhow::Result<()> {
        let (status, answer) = client.ask(Method::POST, COLLECTION, Body::json(&self.manifest())).await?;
        match status {
            StatusCode::NOT_FOUND => {
                bail!("the server has no custom resources (POST {COLLECTION}: 404): use --kind configmap")
            }
            status if status.is_success() || status == StatusCode::CONFLICT => {}
            status => bail!("POST {COLLECTION}: {status}: {answer}"),
        }
        client.until_served(0, &self.collection()).await?;
        Ok(())
    }

    fn manifest(&self) -> Value {
        let (group, plural, kind) = (&self.group, &self.plural, &self.kind);
        json!({"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": {"name": format!("{plural}.{group}")},
            "spec": {"group": group, "scope": "Namespaced",
                "names": {"plural": plural, "singular": kind.to_lowercase(), "kind": kind,
                    "listKind": format!("{kind}List")},
                "versions": [{"name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
                    "schema": {"openAPIV3Schema": self.schema()}}]}})
    }

    fn schema(&self) -> Value {
        json!({"type": "object", "properties": {
            "spec": {"type": "object", "required": ["replicas"], "properties": {
                "replicas": {"type": "integer", "minimum": 0, "maximum": self.most},
                "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
                "blob": {"type": "string"},
                "ports": {"type": "array", "maxItems": 20,
                    "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name", "port"], "properties": {
                        "name": {"type": "string", "maxLength": 63},
                        "port": {"type": "integer", "minimum": 1, "maximum": 65535}}}}},
                "x-kubernetes-validations": [
                    {"rule": "self.replicas <= 50 || self.mode == 'slow'", "message": "too many"}]},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}}}})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_definitions_differ_in_name_and_schema_and_share_groups() {
        let (one, other, far) = (Definition::numbered(3), Definition::numbered(4), Definition::numbered(10));
        assert_ne!(one.manifest()["metadata"]["name"], other.manifest()["metadata"]["name"]);
        assert_ne!(one.schema(), other.schema());
        assert_eq!(one.group, other.group);
        assert_ne!(one.group, far.group);
    }
}
