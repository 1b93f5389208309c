//! Installation of CustomResourceDefinitions.

use kube::{
    Client,
    api::{Patch, PatchParams},
};

use super::OperatorError;
use crate::manifests::OperatorManifests;

/// Applies the CRDs of the manifests: one per resource, with all versions and their conversion. Fields that others have
/// set, such as the `caBundle` of a conversion webhook, are kept.
pub(super) async fn install(client: &Client, manifests: &OperatorManifests) -> Result<(), OperatorError> {
    for definition in manifests.definitions()? {
        let name = definition.name().to_owned();
        let api = definition.api(client.clone());
        let params = PatchParams::apply(&manifests.name).force();
        let applied = api.patch(&name, &params, &Patch::Apply(&definition.object)).await;
        applied.map_err(|source| OperatorError::Install { name: name.clone(), source: Box::new(source) })?;
        tracing::info!(name, "installed CustomResourceDefinition");
    }
    Ok(())
}
