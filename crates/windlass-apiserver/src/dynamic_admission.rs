//! Dynamic admission: the policies and webhooks that objects of the cluster configure.
//!
//! Mutating policies run after the mutating plugins and before the mutating webhooks, validating policies before the
//! validating webhooks. If a policy or webhook changes the object, mutating policies and webhooks may run a second
//! time.

use std::sync::Arc;

use futures_util::FutureExt as _;
use serde_json::Value;

use crate::{
    admission::Operation,
    call::Call,
    policies::{self, ActivePolicies},
    status::Result,
    webhooks::{self, Hooks, Subject},
};

/// The policies and webhooks for a request.
pub(crate) struct DynamicAdmission {
    policies: Option<Arc<ActivePolicies>>,
    hooks: Option<Arc<Hooks>>,
}

/// The state between the two rounds of mutating policies and webhooks.
#[derive(Default)]
pub(crate) struct Rounds {
    policies: policies::PolicyRounds,
    hooks: webhooks::WebhookRounds,
}

impl Rounds {
    /// Begins the second round; returns `false` if there is no reason for one.
    pub(crate) fn begin_again(&mut self) -> bool {
        let (policies, hooks) = (self.policies.begin_again(), self.hooks.begin_again());
        policies || hooks
    }
}

/// Returns the policies and webhooks for a request, if there are any.
pub(crate) fn for_call(call: &Call<'_>) -> Option<DynamicAdmission> {
    if !call.calls_webhooks {
        return None;
    }
    let (policies, hooks) = (call.server.policies.for_endpoint(call.endpoint), webhooks::hooks_for(call));
    (policies.is_some() || hooks.is_some()).then_some(DynamicAdmission { policies, hooks })
}

/// Runs the mutating policies and webhooks for a request that is not stored as it is sent: an eviction, a token, a
/// connection.
pub(crate) async fn mutate(call: &Call<'_>, subject: &Subject<'_>, object: &mut Value) -> Result<()> {
    let Some(dynamic) = for_call(call) else { return Ok(()) };
    let mut rounds = Rounds::default();
    dynamic.mutate(call, subject, object, None, &mut rounds).await?;
    if rounds.begin_again() {
        dynamic.mutate(call, subject, object, None, &mut rounds).await?;
    }
    Ok(())
}

/// Runs the validating policies and webhooks for such a request.
pub(crate) async fn validate(call: &Call<'_>, subject: &Subject<'_>, object: &Value) -> Result<()> {
    let Some(dynamic) = for_call(call) else { return Ok(()) };
    dynamic.validate(call, subject, object, None).await
}

/// Runs all policies and webhooks for such a request.
pub(crate) async fn admit(call: &Call<'_>, subject: &Subject<'_>, object: &mut Value) -> Result<()> {
    mutate(call, subject, object).await?;
    validate(call, subject, object).await
}

impl DynamicAdmission {
    /// Runs a round of the mutating policies and webhooks; the object is null for a deletion.
    pub(crate) async fn mutate(
        &self,
        call: &Call<'_>,
        subject: &Subject<'_>,
        object: &mut Value,
        old: Option<&Value>,
        rounds: &mut Rounds,
    ) -> Result<()> {
        if let Some(policies) = self.policies.as_deref().filter(|_| subject.operation != Operation::Delete) {
            policies.mutate(call, subject, object, old, &mut rounds.policies).boxed().await?;
        }
        if let Some(hooks) = &self.hooks {
            webhooks::call_mutating_webhooks(call, hooks, subject, object, old, &mut rounds.hooks).boxed().await?;
        }
        Ok(())
    }

    /// Runs the validating policies and webhooks; the object is null for a deletion.
    pub(crate) async fn validate(
        &self,
        call: &Call<'_>,
        subject: &Subject<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<()> {
        if let Some(policies) = &self.policies {
            policies.validate(call, subject, object, old).boxed().await?;
        }
        if let Some(hooks) = &self.hooks {
            webhooks::call_validating_webhooks(call, hooks, subject, object, old).boxed().await?;
        }
        Ok(())
    }
}
