//! Validating admission: the validating admission plugins, then the validating webhooks.

use serde_json::Value;

use crate::{
    admission::{Attributes, Operation},
    call::Call,
    meta,
    status::Result,
    webhooks::{self, Rounds, Subject},
};

/// Runs validating admission. For a deletion `object` is the object to be deleted.
pub(crate) async fn validate(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<()> {
    for plugin in &call.server.admission {
        let name = meta::text(object, "name");
        plugin.validate(&Attributes::of(call, subject, name, old), object).await?;
    }
    let Some(hooks) = webhooks::hooks_for(call) else { return Ok(()) };
    if subject.operation != Operation::Delete {
        return Box::pin(webhooks::call_validating_webhooks(call, &hooks, subject, object, old)).await;
    }
    // Webhooks see a deletion as an old object without a new one; mutating ones are called too, and may only reject it.
    let mut nothing = Value::Null;
    let mut rounds = Rounds::default();
    Box::pin(webhooks::call_mutating_webhooks(call, &hooks, subject, &mut nothing, old, &mut rounds)).await?;
    Box::pin(webhooks::call_validating_webhooks(call, &hooks, subject, &Value::Null, old)).await
}
