//! The match conditions of webhooks.

use std::sync::Arc;

use windlass_cel::{
    authorizer::{Authorizer, Resource},
    match_conditions::{CONDITIONS_BUDGET, Request},
};

use super::{
    super::configuration::Hook,
    subject::{Subject, request},
    versions::Versions,
};
use crate::{
    authorization::Checks,
    call::Call,
    endpoint::Endpoint,
    status::{ApiError, Result},
};

/// Returns whether all match conditions hold. A condition that does not hold decides, even if others fail.
pub(super) async fn conditions_hold(
    call: &Call<'_>,
    hook: &Hook,
    subject: &Subject<'_>,
    endpoint: &Endpoint,
    versions: &Versions<'_>,
) -> Result<bool> {
    if hook.conditions.is_empty() {
        return Ok(true);
    }
    let request = request(call, subject, endpoint);
    let about = Request { object: versions.object(), old_object: versions.old(), request: &request, authorizer: None };
    let asks = hook.conditions.iter().flatten().any(|condition| condition.uses_authorizer());
    let outcome = match asks {
        false => evaluate(hook, about),
        true => {
            let checks = Checks::new(call.server, call.user);
            let authorizer: Arc<dyn Authorizer> = checks.clone();
            let resource = Resource {
                group: call.endpoint.resource.group.to_string(),
                resource: call.endpoint.resource.plural.to_string(),
                subresource: call.target.subresource.to_owned(),
                namespace: call.target.namespace.to_owned(),
                name: subject.name.to_owned(),
                ..Resource::default()
            };
            loop {
                let outcome = evaluate(hook, Request { authorizer: Some((&authorizer, &resource)), ..about });
                if !checks.resolve().await {
                    break outcome;
                }
            }
        }
    };
    outcome.or_else(|why| match hook.ignores_failure {
        true => Ok(false),
        false => {
            let resource = &*call.endpoint.resource;
            Err(ApiError::forbidden(&resource.plural, &resource.group, subject.name, &why))
        }
    })
}

/// Evaluates the conditions of a webhook.
fn evaluate(hook: &Hook, about: Request<'_>) -> std::result::Result<bool, String> {
    let mut budget = CONDITIONS_BUDGET;
    let mut failures = Vec::new();
    for condition in &hook.conditions {
        let outcome = match condition {
            Ok(condition) => condition.matches(about, &mut budget),
            Err(error) => Err(format!("compilation error: {error}")),
        };
        match outcome {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => failures.push(why),
        }
    }
    match &mut failures[..] {
        [] => Ok(true),
        [one] => Err(std::mem::take(one)),
        many => Err(format!("[{}]", many.join(", "))),
    }
}
