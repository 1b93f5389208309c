//! Serde code that every crate of a program shares.
//!
//! A crate that is compiled for size, or not optimized, reuses the instances of generic functions that the crates below
//! it have, but not those of its siblings. Deployments contain most of the types of pods, and every operator computes its
//! CRDs, so their code is worth being compiled once, below all operators and control loops.

use k8s_openapi::{
    api::apps::v1::Deployment, apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition,
};
use serde_json::Value;

/// Reads a Deployment from JSON text and writes it again, with the serializers that clients and caches use.
#[doc(hidden)]
pub fn rewrite_deployment(json: &[u8]) -> serde_json::Result<Vec<u8>> {
    serde_json::to_vec(&serde_json::from_slice::<Deployment>(json)?)
}

/// Reads a CRD from a JSON value, as the code that `kube` derives for custom resources does.
#[doc(hidden)]
pub fn read_definition(json: Value) -> serde_json::Result<CustomResourceDefinition> {
    serde_json::from_value(json)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    #[test]
    fn a_deployment_is_read_and_written() {
        let json = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web"}}"#;
        assert_eq!(super::rewrite_deployment(json.as_bytes()).unwrap(), json.as_bytes());
    }

    #[test]
    fn a_definition_is_read() {
        let spec = json!({"group": "acme.com", "names": {"kind": "Web", "plural": "webs"}, "scope": "Cluster", "versions": []});
        let definition = super::read_definition(json!({"metadata": {"name": "webs.acme.com"}, "spec": spec})).unwrap();
        assert_eq!(definition.spec.group, "acme.com");
    }
}
