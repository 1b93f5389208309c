//! Version `v1alpha1` of Flunder, with one field for both kinds of references.

use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::v1beta1::{self, ReferenceType};

/// Desired state of a Flunder.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "wardle.example.com", version = "v1alpha1", kind = "Flunder", namespaced)]
#[kube(printcolumn = r#"{"name": "Created At", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[serde(rename_all = "camelCase")]
pub struct FlunderSpec {
    /// Name of another Flunder or Fischer, depending on the reference type.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Kind of the reference. Defaults to Flunder if there is a reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference_type: Option<ReferenceType>,
}

impl From<Flunder> for v1beta1::Flunder {
    fn from(old: Flunder) -> Self {
        let FlunderSpec { reference, reference_type } = old.spec;
        let reference_type = reference_type.or(reference.as_ref().map(|_| ReferenceType::Flunder));
        let (flunder_reference, fischer_reference) = match reference_type {
            Some(ReferenceType::Fischer) => (None, reference),
            _ => (reference, None),
        };
        let spec = v1beta1::FlunderSpec { flunder_reference, fischer_reference, reference_type };
        Self { metadata: old.metadata, spec }
    }
}

impl From<v1beta1::Flunder> for Flunder {
    fn from(new: v1beta1::Flunder) -> Self {
        let v1beta1::FlunderSpec { flunder_reference, fischer_reference, reference_type } = new.spec;
        let reference =
            if reference_type == Some(ReferenceType::Fischer) { fischer_reference } else { flunder_reference };
        Self { metadata: new.metadata, spec: FlunderSpec { reference, reference_type } }
    }
}
