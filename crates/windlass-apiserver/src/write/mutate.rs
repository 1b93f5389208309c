//! Mutate: the mutating admission plugins, policies and webhooks, then the checks of the user's permissions.

use serde_json::Value;

use crate::{
    admission::Attributes,
    call::Call,
    dynamic_admission::{self, Rounds},
    meta,
    status::Result,
    webhooks::Subject,
};

/// Runs mutating admission, and checks whether the user may write the result. If a policy or webhook changes the
/// object, plugins, policies and webhooks may run a second time; returns whether that happened.
pub(crate) async fn mutate(
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
    let Some(dynamic) = dynamic_admission::for_call(call) else { return Ok(false) };
    let mut rounds = Rounds::default();
    dynamic.mutate(call, subject, object, old, &mut rounds).await?;
    if !rounds.begin_again() {
        return Ok(false);
    }
    run_plugins(call, subject, object, old).await?;
    dynamic.mutate(call, subject, object, old, &mut rounds).await?;
    Ok(true)
}

/// Runs the mutating admission plugins.
pub(crate) async fn run_plugins(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &mut Value,
    old: Option<&Value>,
) -> Result<()> {
    let name = meta::text(object, "name").to_owned();
    for plugin in &call.server.admission {
        plugin.mutate(&Attributes::of(call, subject, &name, old), object).await?;
    }
    Ok(())
}
