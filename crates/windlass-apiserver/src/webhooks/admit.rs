//! Calls webhooks for a request: the mutating ones one after the other, the validating ones concurrently.

mod annotations;
mod call;
mod conditions;
mod subject;
mod versions;

use std::{collections::HashSet, sync::Arc};

use futures_util::future::join_all;
use serde_json::Value;
use tracing::warn;

use self::{
    annotations::Place,
    call::{Failure, call_and_patch, call_webhook},
    conditions::conditions_hold,
};
pub(crate) use self::{
    conditions::request_resource,
    subject::{Options, Subject, request},
    versions::Versions,
};
use super::{Hooks, configuration::Hook};
use crate::{
    call::Call,
    meta,
    status::{ApiError, Result},
};

/// The state between the two rounds of mutating webhooks.
#[derive(Default)]
pub(crate) struct WebhookRounds {
    /// Whether this is the second round.
    again: bool,
    /// Webhooks that must be called again if the object changes after them.
    asked: HashSet<usize>,
    /// Webhooks that must be called again.
    due: HashSet<usize>,
    /// Whether the object was changed.
    changed: bool,
    /// The object after the first round.
    outcome: Value,
}

impl WebhookRounds {
    fn note_change(&mut self) {
        self.due.extend(self.asked.drain());
    }

    /// Begins the second round; returns `false` if there is no reason for one.
    pub(crate) fn begin_again(&mut self) -> bool {
        self.again = true;
        self.changed
    }
}

/// Returns the webhooks for this request, if there are any.
pub(crate) fn hooks_for(call: &Call<'_>) -> Option<Arc<Hooks>> {
    if call.calls_webhooks { call.server.webhooks.hooks_for(call.endpoint) } else { None }
}

/// Calls the mutating webhooks; the object is null for a deletion.
pub(crate) async fn call_mutating_webhooks(
    call: &Call<'_>,
    hooks: &Hooks,
    subject: &Subject<'_>,
    object: &mut Value,
    old: Option<&Value>,
    rounds: &mut WebhookRounds,
) -> Result<()> {
    if rounds.again && rounds.outcome != *object {
        rounds.note_change();
    }
    let nothing = Value::Null;
    let mut versions = Versions::new(call, object.take(), old.unwrap_or(&nothing));
    for (index, hook) in hooks.mutating().enumerate() {
        let Some(endpoint) = hook.criteria.version_for(call, subject, versions.object(), versions.old())? else {
            continue;
        };
        versions.convert(&endpoint).await?;
        if !conditions_hold(call, hook, subject, &endpoint, &versions).await?
            || rounds.again && !rounds.due.contains(&index)
        {
            continue;
        }
        let place = Place { round: usize::from(rounds.again), index };
        let outcome = call_and_patch(call, hook, subject, &mut versions, place).await;
        annotations::mutated(call, hook, place, matches!(outcome, Ok(true)));
        if matches!(outcome, Ok(true)) {
            rounds.note_change();
            rounds.changed = true;
        }
        if hook.is_reinvoked {
            rounds.asked.insert(index);
        }
        if let Err(failure) = outcome {
            ignore_or_fail(hook, failure)?;
            annotations::failed_open(call, hook, place, "mutation");
        }
    }
    *object = versions.finish().await?;
    rounds.outcome = object.clone();
    Ok(())
}

/// Calls the validating webhooks; the object is null for a deletion.
pub(crate) async fn call_validating_webhooks(
    call: &Call<'_>,
    hooks: &Hooks,
    subject: &Subject<'_>,
    object: &Value,
    old: Option<&Value>,
) -> Result<()> {
    let mut known: Vec<Versions<'_>> = Vec::new();
    let mut asked: Vec<(&Hook, usize)> = Vec::new();
    let nothing = Value::Null;
    let old = old.unwrap_or(&nothing);
    for hook in hooks.validating() {
        let Some(endpoint) = hook.criteria.version_for(call, subject, object, old)? else { continue };
        let position = match known.iter().position(|versions| versions.is_in(&endpoint)) {
            Some(position) => position,
            None => {
                let mut versions = Versions::new(call, object.clone(), old);
                versions.convert(&endpoint).await?;
                known.push(versions);
                known.len() - 1
            }
        };
        if conditions_hold(call, hook, subject, &endpoint, &known[position]).await? {
            asked.push((hook, position));
        }
    }
    let answers =
        join_all(asked.iter().map(|(hook, position)| call_webhook(call, hook, subject, &known[*position], false)));
    let mut result = Ok(());
    for (index, ((hook, _), answer)) in asked.iter().zip(answers.await).enumerate() {
        let outcome = match answer {
            Ok(_) => Ok(()),
            Err(failure) => ignore_or_fail(hook, failure).inspect(|()| {
                annotations::failed_open(call, hook, Place { round: 0, index }, "validating");
            }),
        };
        result = result.and(outcome);
    }
    result
}

/// Turns the failure of a webhook into an error of the request, unless the failure policy is to ignore it.
fn ignore_or_fail(hook: &Hook, failure: Failure) -> Result<()> {
    match failure {
        Failure::Call(why) if hook.ignores_failure => {
            warn!(webhook = hook.name, why, "failed to call a webhook; ignored by its failure policy");
            Ok(())
        }
        Failure::Call(why) => Err(ApiError::internal(format!("failed calling webhook {:?}: {why}", hook.name))),
        Failure::Denied(error) => Err(*error),
    }
}

/// Returns the name of an object: from the path, or from the object.
pub(crate) fn name_of<'a>(call: &Call<'a>, object: &'a Value) -> &'a str {
    if call.target.name.is_empty() { meta::text(object, "name") } else { call.target.name }
}
