//! Version `v1alpha1` of Flunder, with one field for both kinds of references.

use windlass_extension::prelude::*;

use super::v1beta1;

/// Desired state of a Flunder.
#[derive(CustomResource, Clone, Debug, Default, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(group = "wardle.example.com", version = "v1alpha1", kind = "Flunder", namespaced)]
#[kube(printcolumn = r#"{"name": "Created At", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#)]
#[serde(rename_all = "camelCase")]
pub struct FlunderSpec {
    /// Name of another Flunder or Fischer, depending on the reference type.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference: String,
    /// Kind of the reference. Defaults to Flunder if there is a reference.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub reference_type: String,
}

impl From<Flunder> for v1beta1::Flunder {
    fn from(Flunder { metadata, spec }: Flunder) -> Self {
        let (given, reference) = (spec.reference_type, spec.reference);
        let reference_type = if given.is_empty() && !reference.is_empty() { "Flunder".to_owned() } else { given };
        let mut spec = v1beta1::FlunderSpec { reference_type, ..Default::default() };
        let field =
            if spec.reference_type == "Fischer" { &mut spec.fischer_reference } else { &mut spec.flunder_reference };
        *field = reference;
        Self { metadata, spec }
    }
}

impl From<v1beta1::Flunder> for Flunder {
    fn from(v1beta1::Flunder { metadata, spec }: v1beta1::Flunder) -> Self {
        let is_fischer = spec.reference_type == "Fischer";
        let reference = if is_fischer { spec.fischer_reference } else { spec.flunder_reference };
        Self { metadata, spec: FlunderSpec { reference, reference_type: spec.reference_type } }
    }
}
