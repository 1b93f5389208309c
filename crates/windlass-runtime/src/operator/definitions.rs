//! Definitions of custom resources, put into a cluster.

use kube::{
    Client,
    api::{Patch, PatchParams},
};

use super::OperatorError;
use crate::manifests::OperatorManifests;

/// Applies the definitions that the manifests have: one of each resource, with all versions and how they are converted.
/// What others have added, as the bundle of a conversion webhook, stays.
pub(super) async fn install(client: &Client, manifests: &OperatorManifests) -> Result<(), OperatorError> {
    for definition in manifests.definitions()? {
        let name = definition.name().to_owned();
        let api = definition.api(client.clone());
        let params = PatchParams::apply(&manifests.name).force();
        let applied = api.patch(&name, &params, &Patch::Apply(&definition.object)).await;
        applied.map_err(|source| OperatorError::Install { name: name.clone(), source: Box::new(source) })?;
        tracing::info!(name, "the definition is installed");
    }
    Ok(())
}
