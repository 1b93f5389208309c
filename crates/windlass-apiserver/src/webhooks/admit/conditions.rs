//! The match conditions of webhooks.

use std::sync::Arc;

use serde_json::Value;
use windlass_cel::{
    authorizer::{Authorizer, Resource},
    policy::{Activation, CONDITIONS_BUDGET, Inputs},
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
    let inputs = Inputs {
        object: versions.object(),
        old_object: versions.old(),
        request: &request,
        namespace: &Value::Null,
        params: &Value::Null,
        authorizer: None,
    };
    let evaluate = |inputs| Activation::new(inputs, &[]).all_hold(&hook.conditions, &mut CONDITIONS_BUDGET.clone());
    let outcome = match hook.conditions.iter().flatten().any(|condition| condition.uses("authorizer")) {
        false => evaluate(inputs),
        true => {
            let checks = Checks::new(call.server, call.user);
            let authorizer: Arc<dyn Authorizer> = checks.clone();
            let resource = request_resource(call, subject);
            loop {
                let outcome = evaluate(Inputs { authorizer: Some((&authorizer, &resource)), ..inputs });
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

/// Returns the resource of a request, for expressions that ask whether the user may do something else with it.
pub(crate) fn request_resource(call: &Call<'_>, subject: &Subject<'_>) -> Resource {
    Resource {
        group: call.endpoint.resource.group.to_string(),
        resource: call.endpoint.resource.plural.to_string(),
        subresource: call.target.subresource.to_owned(),
        namespace: call.target.namespace.to_owned(),
        name: subject.name.to_owned(),
        ..Resource::default()
    }
}
