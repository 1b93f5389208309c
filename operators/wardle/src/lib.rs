//! Kubernetes' sample-apiserver: Flunders and Fischers, in an API server of their own.
//!
//! A Flunder refers to another Flunder or to a Fischer. A Fischer lists names that no new Flunder may have.

use async_trait::async_trait;
use kube::{CustomResource, core::GroupVersionResource};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use windlass_extension::{Admission, ApiError, Attributes, Extension, Kind, Operation, Result};

/// The API group.
pub const GROUP: &str = "wardle.example.com";

/// Desired state of a Flunder.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "wardle.example.com",
    version = "v1alpha1",
    kind = "Flunder",
    namespaced,
    printcolumn = r#"{"name": "Created At", "type": "date", "jsonPath": ".metadata.creationTimestamp"}"#
)]
#[serde(rename_all = "camelCase")]
pub struct FlunderSpec {
    /// Name of another Flunder or Fischer, depending on the reference type.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Kind of the reference.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reference_type: Option<ReferenceType>,
}

/// Kind that a Flunder refers to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
pub enum ReferenceType {
    /// Another Flunder.
    Flunder,
    /// A Fischer.
    Fischer,
}

/// Names that no new Flunder may have.
#[derive(Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fischer {
    /// The names.
    #[serde(default)]
    pub disallowed_flunders: Vec<String>,
}

/// Rejects new Flunders whose names a Fischer disallows.
struct BanFlunder;

#[async_trait]
impl Admission for BanFlunder {
    async fn validate(&self, write: &Attributes<'_>, _object: &Value) -> Result<()> {
        if write.operation != Operation::Create || &*write.resource.kind != "Flunder" {
            return Ok(());
        }
        let fischers = GroupVersionResource::gvr(GROUP, "v1alpha1", "fischers");
        let fischers = write.objects.list(&fischers, None).await?;
        let banned = fischers.iter().filter_map(|fischer| fischer["disallowedFlunders"].as_array()).flatten();
        match banned.into_iter().any(|name| name == write.name) {
            true => {
                let why = "this name may not be used, please change the resource name";
                Err(ApiError::forbidden("flunders", GROUP, write.name, why))
            }
            false => Ok(()),
        }
    }
}

/// Returns the server.
pub fn extension() -> Extension {
    Extension::new("wardle")
        .kind::<Flunder>()
        .plain_kind(&Kind::of::<Fischer>(GROUP, "v1alpha1", "Fischer", "fischers").cluster_scoped())
        .rule(|flunder: &Flunder, _| match (&flunder.spec.reference, flunder.spec.reference_type) {
            (None, Some(kind)) => Err(format!("spec.reference must name a {kind:?}")),
            _ => Ok(()),
        })
        .admission(BanFlunder)
}
