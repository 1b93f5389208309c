//! The controller that migrates stored objects whenever the storage version of a CRD has changed.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::ResourceExt as _;

use super::{MigrationOutcome, migrate};
use crate::{
    Result,
    context::Context,
    controller::{Action, Controller},
    manifests::Permission,
};

/// Name of the controller.
const NAME: &str = "storage-migration";

/// Returns a controller that migrates the objects of these CRDs.
pub(crate) fn controller(definitions: &[CustomResourceDefinition]) -> Controller<CustomResourceDefinition> {
    let names: BTreeSet<String> = definitions.iter().map(CustomResourceDefinition::name_any).collect();
    let names = Arc::new(names);
    let reconcile = move |definition: Arc<CustomResourceDefinition>, ctx: Context| {
        let names = names.clone();
        async move {
            if names.contains(&definition.name_any()) { reconcile(definition, ctx).await } else { Ok(Action::done()) }
        }
    };
    let mut controller = Controller::<CustomResourceDefinition>::new(NAME, reconcile).without_timeout();
    for definition in definitions {
        let spec = &definition.spec;
        controller = controller.permission(Permission::new(&spec.group, &spec.names.plural, ["list", "update"]));
    }
    controller
}

async fn reconcile(definition: Arc<CustomResourceDefinition>, ctx: Context) -> Result<Action> {
    // A plan would rewrite nothing, and list everything.
    if ctx.is_plan() {
        return Ok(Action::done());
    }
    let outcome = migrate(&ctx.client(), &definition.name_any(), |progress| tracing::info!("{progress}")).await?;
    if let MigrationOutcome::Migrated { version, removed, progress } = outcome {
        let note = format!(
            "{} objects are stored as {version}; removed {} from the stored versions",
            progress.rewritten,
            removed.join(", ")
        );
        ctx.event(&definition).normal("StorageMigrated", &note);
    }
    Ok(Action::done())
}
