//! The server.

use async_trait::async_trait;
use kube::core::GroupVersionResource;
use serde_json::Value;
use windlass_extension::{Admission, ApiError, Attributes, Conversion, Extension, Kind, Operation, Result};

use crate::api::{
    GROUP,
    fischer::Fischer,
    flunder::{Flunder, FlunderSpec, ReferenceType, v1alpha1},
};

/// Checks that a Flunder has the reference that its type promises, and no other.
fn check(flunder: &Flunder, _: Operation) -> Result<(), String> {
    let FlunderSpec { flunder_reference, fischer_reference, reference_type } = &flunder.spec;
    let is_set = |name: &Option<String>| name.as_ref().is_some_and(|name| !name.is_empty());
    match (is_set(flunder_reference), is_set(fischer_reference), reference_type) {
        (false, false, None) => Ok(()),
        (true, false, Some(ReferenceType::Flunder)) | (false, true, Some(ReferenceType::Fischer)) => Ok(()),
        _ => Err("spec must have a reference of its referenceType, and no other".to_owned()),
    }
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
    let fischer = Kind::of::<Fischer>(GROUP, "v1alpha1", "Fischer", "fischers").cluster_scoped();
    Extension::new("wardle")
        .kind::<Flunder>()
        .kind::<v1alpha1::Flunder>()
        .conversion(Conversion::<Flunder>::new().spoke::<v1alpha1::Flunder>())
        .plain_kind(&fischer.column("Created At", "date", ".metadata.creationTimestamp"))
        .rule(check)
        .admission(BanFlunder)
}
