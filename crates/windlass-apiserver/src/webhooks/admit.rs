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

pub(crate) use self::subject::{Options, Subject};
use self::{
    annotations::Place,
    call::{Failure, call_and_patch, call_webhook},
    conditions::conditions_hold,
    versions::Versions,
};
use super::{
    Hooks,
    configuration::Hook,
    matching::{Labels, RequestAttributes},
};
use crate::{
    admission::Operation,
    call::Call,
    endpoint::Endpoint,
    meta,
    status::{ApiError, Result},
};

/// The state between the two rounds of mutating webhooks.
#[derive(Default)]
pub(crate) struct Rounds {
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

impl Rounds {
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
    rounds: &mut Rounds,
) -> Result<()> {
    if rounds.again && rounds.outcome != *object {
        rounds.note_change();
    }
    let mut versions = Versions::new(call, object.take(), old.cloned().unwrap_or_default());
    for (index, hook) in hooks.mutating().enumerate() {
        let Some(endpoint) = version_for(call, hook, subject, versions.object(), versions.old())? else { continue };
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
        let Some(endpoint) = version_for(call, hook, subject, object, old)? else { continue };
        let position = match known.iter().position(|versions| versions.is_in(&endpoint)) {
            Some(position) => position,
            None => {
                let mut versions = Versions::new(call, object.clone(), old.clone());
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

/// Returns the version of the resource in which a webhook has to be called; `None` if it does not apply.
fn version_for(
    call: &Call<'_>,
    hook: &Hook,
    subject: &Subject<'_>,
    object: &Value,
    old: &Value,
) -> Result<Option<Arc<Endpoint>>> {
    let Some(endpoint) = endpoint_for(call, hook, subject) else { return Ok(None) };
    if !in_namespaces(call, &hook.namespaces, subject, object)? {
        return Ok(None);
    }
    let selected = |object: &Value| match object {
        Value::Null => Ok(hook.objects.is_empty()),
        object => hook.objects.selects(object).map_err(ApiError::internal),
    };
    Ok((selected(object)? || selected(old)?).then_some(endpoint))
}

/// Returns the endpoint that a rule matches: the requested version, or an equivalent one.
fn endpoint_for(call: &Call<'_>, hook: &Hook, subject: &Subject<'_>) -> Option<Arc<Endpoint>> {
    let asked = |endpoint: &Endpoint| {
        let resource = endpoint.resource.clone();
        hook.rules.iter().position(|rule| {
            rule.matches(RequestAttributes {
                operation: subject.operation.name(),
                group: &resource.group,
                version: &resource.version,
                resource: &resource.plural,
                subresource: call.target.subresource,
                namespace: call.target.namespace,
            })
        })
    };
    if asked(call.endpoint).is_some() {
        return Some(call.endpoint.clone());
    }
    if !hook.equivalent {
        return None;
    }
    let registry = call.server.registry.load();
    let subresource = call.target.subresource;
    let others = registry.equivalents(call.endpoint).filter(|other| {
        !Arc::ptr_eq(other, call.endpoint)
            && (subresource.is_empty() || other.resource.subresource(subresource).is_some())
    });
    // The first matching rule decides.
    let matching = others.filter_map(|other| Some((asked(other)?, other)));
    matching.min_by_key(|(rule, _)| *rule).map(|(_, other)| other.clone())
}

/// Returns whether the namespace of a request is selected; cluster-scoped requests always are.
fn in_namespaces(call: &Call<'_>, namespaces: &Labels, subject: &Subject<'_>, object: &Value) -> Result<bool> {
    let is_namespace = &*call.endpoint.resource.plural == "namespaces";
    let namespace = call.target.namespace;
    if namespaces.is_empty() || namespace.is_empty() && !is_namespace {
        return Ok(true);
    }
    let written = matches!(subject.operation, Operation::Create | Operation::Update);
    if is_namespace && call.target.subresource.is_empty() && written {
        return namespaces.selects(object).map_err(ApiError::internal);
    }
    let found = call.server.storage.cache("/core/namespaces/").get(namespace);
    let found = found.ok_or_else(|| ApiError::not_found("namespaces", "", namespace))?;
    namespaces.selects(&found.to_value()).map_err(ApiError::internal)
}

/// Calls the mutating webhooks for a request that is not stored as it is sent: an eviction, a token, a connection.
pub(crate) async fn mutate_request(call: &Call<'_>, subject: &Subject<'_>, object: &mut Value) -> Result<()> {
    let Some(hooks) = hooks_for(call) else { return Ok(()) };
    let mut rounds = Rounds::default();
    Box::pin(call_mutating_webhooks(call, &hooks, subject, object, None, &mut rounds)).await?;
    if rounds.begin_again() {
        Box::pin(call_mutating_webhooks(call, &hooks, subject, object, None, &mut rounds)).await?;
    }
    Ok(())
}

/// Calls the validating webhooks for such a request.
pub(crate) async fn validate_request(call: &Call<'_>, subject: &Subject<'_>, object: &Value) -> Result<()> {
    let Some(hooks) = hooks_for(call) else { return Ok(()) };
    Box::pin(call_validating_webhooks(call, &hooks, subject, object, None)).await
}

/// Calls all webhooks for such a request.
pub(crate) async fn call_webhooks(call: &Call<'_>, subject: &Subject<'_>, object: &mut Value) -> Result<()> {
    mutate_request(call, subject, object).await?;
    validate_request(call, subject, object).await
}

/// Returns the name of an object: from the path, or from the object.
pub(crate) fn name_of<'a>(call: &Call<'a>, object: &'a Value) -> &'a str {
    if call.target.name.is_empty() { meta::text(object, "name") } else { call.target.name }
}
