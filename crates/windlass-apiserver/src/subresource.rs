//! Subresources and resources that are not plain views of stored objects.
//!
//! `status`, `finalize` and the like are views of the object and are handled by the ordinary verbs. The subresources
//! here have handlers of their own.

mod access_review;
mod binding;
pub(crate) mod connect;
mod eviction;
mod review;
mod scale;
mod submission;
mod token;

use self::access_review::Review;
use crate::{
    call::{Answer, Call},
    status::{ApiError, Result},
    verb::Verb,
};

/// Handles special subresources; returns `None` for subresources that the ordinary verbs handle.
pub(crate) async fn dispatch(call: &Call<'_>, verb: Verb) -> Option<Result<Answer>> {
    let resource = &*call.endpoint.resource;
    let answer = match (&*resource.group, &*resource.plural, call.target.subresource) {
        (_, _, "scale") => scale::dispatch(call, verb).await,
        ("", "pods", "binding") | ("", "bindings", "") => binding::create(call).await,
        ("", "pods", "eviction") => eviction::create(call).await,
        ("", "pods", "log") => connect::log(call).await,
        ("", "pods" | "services" | "nodes", "exec" | "attach" | "portforward" | "proxy") => {
            connect::connect(call, verb).await
        }
        ("", "componentstatuses", "") if verb == Verb::Get => {
            Err(ApiError::not_found("componentstatus", "", call.target.name))
        }
        ("", "serviceaccounts", "token") => token::create(call).await,
        ("authentication.k8s.io", "selfsubjectreviews", "") => review::self_subject(call).await,
        ("authentication.k8s.io", "tokenreviews", "") => review::token(call).await,
        (access_review::GROUP, "subjectaccessreviews", "") => access_review::access(call, Review::Subject).await,
        (access_review::GROUP, "localsubjectaccessreviews", "") => access_review::access(call, Review::Local).await,
        (access_review::GROUP, "selfsubjectaccessreviews", "") => access_review::access(call, Review::Own).await,
        (access_review::GROUP, "selfsubjectrulesreviews", "") => access_review::rules(call).await,
        _ => return None,
    };
    Some(answer)
}
