//! Responses to requests that policies deny.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{admission, call::Call, status::ApiError, webhooks::Subject};

/// Returns the response to a request that a validating policy denies. It calls the request forbidden regardless of the
/// reason, as in kube-apiserver.
pub(super) fn denied(
    call: &Call<'_>,
    subject: &Subject<'_>,
    object: &Value,
    message: &str,
    reason: &'static str,
) -> ApiError {
    let code = match reason {
        "Forbidden" => StatusCode::FORBIDDEN,
        "RequestEntityTooLarge" => StatusCode::PAYLOAD_TOO_LARGE,
        _ => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let forbidden = admission::forbidden(&call.endpoint.resource, subject.name, object, message);
    with_causes(ApiError { code, reason, ..forbidden }, &[message.to_owned()])
}

/// A mutating policy that could not be applied.
pub(super) struct Failed {
    pub(super) message: String,
    /// `Invalid`, or `Forbidden` if the policy or binding is misconfigured.
    pub(super) reason: &'static str,
}

/// Returns the response to a request to which mutating policies could not be applied.
pub(super) fn failed(call: &Call<'_>, subject: &Subject<'_>, object: &Value, failures: &[Failed]) -> Option<ApiError> {
    let first = failures.first()?;
    let forbidden = admission::forbidden(&call.endpoint.resource, subject.name, object, "");
    let error = ApiError { message: first.message.clone(), reason: first.reason, ..forbidden };
    let causes: Vec<String> = failures.iter().map(|failure| failure.message.clone()).collect();
    Some(with_causes(error, &causes))
}

fn with_causes(mut error: ApiError, messages: &[String]) -> ApiError {
    if let Some(details) = &mut error.details {
        details["causes"] = messages.iter().map(|message| json!({"message": message})).collect();
    }
    error
}
