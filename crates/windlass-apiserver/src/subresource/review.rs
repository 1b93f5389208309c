//! Questions instead of objects: who am I, may I.

use http::StatusCode;
use serde_json::json;

use crate::{
    call::{Answer, Call},
    meta,
    options::FieldValidation,
    status::{ApiError, Result},
};

/// `kubectl auth whoami`.
pub(crate) fn self_subject(call: &Call<'_>) -> Result<Answer> {
    let mut review = call.decode_body(FieldValidation::Warn)?;
    let user = call.user;
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    meta::set(&mut review, "creationTimestamp", meta::format_time(call.server.now()));
    review["status"] = json!({"userInfo": info});
    Ok(Answer::Value { code: StatusCode::CREATED, value: review })
}

/// Reviews of tokens and of access: there is neither yet.
pub(crate) fn unserved(_call: &Call<'_>) -> Result<Answer> {
    Err(ApiError::method_not_allowed())
}

/// Tokens for service accounts: there are none yet.
pub(crate) async fn token(call: &Call<'_>) -> Result<Answer> {
    call.current().await?.ok_or_else(|| call.not_found())?;
    Err(ApiError::method_not_allowed())
}
