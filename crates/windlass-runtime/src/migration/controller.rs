//! The controller that migrates stored objects whenever the storage version of a CRD has changed.

use std::{collections::BTreeSet, sync::Arc, time::Duration};

use hashbrown::HashMap;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{Api, ResourceExt as _};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::{
    MigrationOutcome,
    definition::{Identity, Target, is_migrated},
    rewrite_all,
};
use crate::{
    Result,
    context::Context,
    controller::{Action, Controller, Watch},
    manifests::Permission,
    scope::Scope,
};

/// Name of the controller.
const NAME: &str = "storage-migration";

/// Returns a controller that migrates the objects of these CRDs, once they have been unchanged for a while.
pub(crate) fn controller(
    definitions: &[CustomResourceDefinition],
    settle: Duration,
) -> Controller<CustomResourceDefinition> {
    let names: BTreeSet<String> = definitions.iter().map(CustomResourceDefinition::name_any).collect();
    let scopes = names.iter().map(|name| Scope::all().fields(format!("metadata.name={name}"))).collect();
    let settling = Arc::new(Settling { time: settle, since: Mutex::default() });
    let reconcile = move |definition: Arc<CustomResourceDefinition>, ctx: Context| {
        let settling = settling.clone();
        async move { reconcile(&definition, &settling, ctx).await }
    };
    let mut controller = Controller::of(NAME, Watch::new().scopes(scopes), reconcile).without_timeout();
    for definition in definitions {
        let spec = &definition.spec;
        controller = controller.permission(Permission::new(&spec.group, &spec.names.plural, ["get", "list", "update"]));
    }
    controller
}

/// Time for which the CRDs have been unchanged, as far as this process has seen.
struct Settling {
    time: Duration,
    since: Mutex<HashMap<String, (Identity, Instant)>>,
}

impl Settling {
    /// Returns how long a CRD must still be unchanged.
    fn remaining(&self, definition: &CustomResourceDefinition) -> Duration {
        let (name, identity) = (definition.name_any(), Identity::of(definition));
        let mut since = self.since.lock();
        let (known, since) = since.entry(name).or_insert_with(|| (identity.clone(), Instant::now()));
        if *known != identity {
            (*known, *since) = (identity, Instant::now());
        }
        self.time.saturating_sub(since.elapsed())
    }
}

async fn reconcile(definition: &CustomResourceDefinition, settling: &Settling, ctx: Context) -> Result<Action> {
    // A plan would rewrite nothing, and list everything.
    if ctx.is_plan() {
        return Ok(Action::done());
    }
    let remaining = settling.remaining(definition);
    if is_migrated(definition) {
        return Ok(Action::done());
    }
    if !remaining.is_zero() {
        return Ok(Action::requeue_after(remaining));
    }
    let (client, name) = (ctx.client(), definition.name_any());
    let definitions = Api::all(client.clone());
    let target = Target::read(&definitions, &name).await?;
    if *target.identity() != Identity::of(definition) {
        // It has changed again.
        return Ok(Action::requeue_after(settling.time));
    }
    let report = |progress: &super::MigrationProgress| tracing::info!("{progress}");
    if let MigrationOutcome::Migrated { version, removed, progress } =
        rewrite_all(&client, &definitions, target, report).await?
    {
        let note = format!(
            "{} objects are stored as {version}; removed {} from the stored versions",
            progress.rewritten,
            removed.join(", ")
        );
        ctx.event(definition).normal("StorageMigrated", &note);
    }
    Ok(Action::done())
}
