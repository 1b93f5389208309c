//! Mutate: the mutating admission plugins, then the mutating webhooks, then the checks of the user's permissions.

use serde_json::Value;

use crate::{
    admission::Attributes,
    call::Call,
    meta,
    status::Result,
    webhooks::{self, Rounds, Subject},
};

/// Runs mutating admission, and checks whether the user may write the result. If a webhook changes the object, plugins and webhooks get a second look at it; returns
/// whether that happened.
pub(super) async fn mutate(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<bool> {
    let again = change(call, subject, object, old).await?;
    let name = meta::text(object, "name").to_owned();
    let write = Attributes::of(call, subject, &name, old);
    for plugin in &call.server.admission {
        if let Some(check) = plugin.check_permission(&write, object) {
            check.await?;
        }
    }
    Ok(again)
}

async fn change(call: &Call<'_>, subject: &Subject<'_>, object: &mut Value, old: Option<&Value>) -> Result<bool> {
    run_plugins(call, subject, object, old).await?;
    let Some(hooks) = webhooks::hooks_for(call) else { return Ok(false) };
    let mut rounds = Rounds::default();
    Box::pin(webhooks::call_mutating_webhooks(call, &hooks, subject, object, old, &mut rounds)).await?;
    if !rounds.begin_again() {
        return Ok(false);
    }
    run_plugins(call, subject, object, old).await?;
    Box::pin(webhooks::call_mutating_webhooks(call, &hooks, subject, object, old, &mut rounds)).await?;
    Ok(true)
}

/// Runs the mutating admission plugins.
pub(crate) async fn run_plugins(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<()> {
    for plugin in &call.server.admission {
        let name = meta::text(object, "name").to_owned();
        plugin.mutate(&Attributes::of(call, subject, &name, old), object).await?;
    }
    Ok(())
}
