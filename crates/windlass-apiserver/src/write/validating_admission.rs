//! Validating admission: the validating admission plugins, then the validating policies and webhooks.

use serde_json::Value;

use crate::{
    admission::{Attributes, Operation},
    call::Call,
    dynamic_admission::{self, Rounds},
    meta,
    status::Result,
    webhooks::Subject,
};

/// Runs validating admission. For a deletion `object` is the object to be deleted.
pub(crate) async fn validate(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<()> {
    let name = meta::text(object, "name");
    for plugin in &call.server.admission {
        plugin.validate(&Attributes::of(call, subject, name, old), object).await?;
    }
    let Some(dynamic) = dynamic_admission::for_call(call) else { return Ok(()) };
    if subject.operation != Operation::Delete {
        return dynamic.validate(call, subject, object, old).await;
    }
    // A deletion is an old object without a new one; mutating webhooks are called too, and may only reject it.
    dynamic.mutate(call, subject, &mut Value::Null, old, &mut Rounds::default()).await?;
    dynamic.validate(call, subject, &Value::Null, old).await
}
