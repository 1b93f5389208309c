//! The server.

use windlass_extension::prelude::*;

use crate::api::{
    GROUP,
    fischer::Fischer,
    flunder::{Flunder, v1alpha1},
};

/// Checks that a new Flunder has the reference that its type promises, and no other.
fn check(flunder: &Flunder, old: Option<&Flunder>) -> ErrorList {
    let spec = &flunder.spec;
    let (flunder, fischer, kind) = (&*spec.flunder_reference, &*spec.fischer_reference, &*spec.reference_type);
    let problems = [
        ("fischerReference", fischer, "cannot be set with flunderReference at the same time", !flunder.is_empty()),
        ("flunderReference", flunder, "cannot be set if referenceType is not Flunder", kind != "Flunder"),
        ("fischerReference", fischer, "cannot be set if referenceType is not Fischer", kind != "Fischer"),
        ("fischerReference", fischer, "cannot be empty if referenceType is Fischer", kind == "Fischer"),
        ("flunderReference", flunder, "cannot be empty if referenceType is Flunder", kind == "Flunder"),
    ];
    let applies = |(_, value, why, if_so): &(_, &str, &str, bool)| *if_so && value.is_empty() == why.contains("empty");
    let is_unknown = !matches!(kind, "" | "Flunder" | "Fischer");
    let unknown = is_unknown.then_some(("referenceType", kind, "must be Flunder or Fischer", true));
    let found = problems.into_iter().find(applies).into_iter().chain(unknown).filter(|_| old.is_none());
    found.map(|(name, value, why, _)| FieldError::invalid(&Path::new("spec").child(name), &json!(value), why)).collect()
}

/// Rejects new Flunders whose names a Fischer disallows.
struct BanFlunder;

#[async_trait]
impl Admission for BanFlunder {
    async fn validate(&self, write: &Attributes<'_>, _object: &Value) -> Result<()> {
        if write.operation != Operation::Create || &*write.resource.kind != "Flunder" {
            return Ok(());
        }
        let fischers = write.objects.list(&GroupVersionResource::gvr(GROUP, "v1alpha1", "fischers"), None).await?;
        let banned = fischers.iter().filter_map(|fischer| fischer["disallowedFlunders"].as_array()).flatten();
        let why = "this name may not be used, please change the resource name";
        let is_banned = banned.into_iter().any(|name| name == write.name);
        if is_banned { Err(ApiError::forbidden("flunders", GROUP, write.name, why)) } else { Ok(()) }
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
        .admission(BanFlunder)
        .rule(check)
}
