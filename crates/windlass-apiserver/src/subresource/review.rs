//! Reviews, which are questions instead of objects: tokens, and the user itself.

use http::StatusCode;
use serde_json::{Value, json};

use crate::{
    call::{Answer, Call},
    meta,
    options::{FieldValidation, WriteKind, WriteOptions},
    status::{ApiError, Result},
    user::User,
    write::{decode::decode_body, managed_fields, preconditions::match_namespace},
};

/// Answers `kubectl auth whoami`.
pub(crate) fn self_subject(call: &Call<'_>) -> Result<Answer> {
    let mut review = decode_body(call, FieldValidation::Warn)?;
    let info = info(call.user);
    // The answer is a new object.
    review["metadata"] = json!({});
    meta::set(&mut review, "creationTimestamp", meta::format_time(call.server.now()));
    review["status"] = json!({"userInfo": info});
    Ok(Answer::Value { code: StatusCode::CREATED, value: review })
}

/// Returns the user of a token.
pub(crate) async fn token(call: &Call<'_>) -> Result<Answer> {
    let options = WriteOptions::parse(&call.query, WriteKind::Create)?;
    let mut review = decode_body(call, options.field_validation)?;
    match_namespace(call, &mut review)?;
    managed_fields::track(call, &options, None, &mut review);
    let spec = &review["spec"];
    let token = spec["token"].as_str().unwrap_or_default().to_owned();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    let asked = spec["audiences"].as_array().filter(|audiences| !audiences.is_empty()).cloned();
    let audiences: Vec<&str> = match &asked {
        Some(audiences) => audiences.iter().filter_map(Value::as_str).collect(),
        None => call.server.authentication.issuers.audiences(),
    };
    let status = match call.server.review_token(&token, &audiences).await {
        Ok((user, meant)) => json!({"authenticated": true, "user": info(&user), "audiences": meant}),
        Err(why) => json!({"user": {}, "error": why}),
    };
    review["status"] = status;
    Ok(Answer::Value { code: StatusCode::CREATED, value: review })
}

/// Returns the attributes of a user.
fn info(user: &User) -> Value {
    let mut info = json!({"username": user.name, "groups": user.groups});
    if !user.uid.is_empty() {
        info["uid"] = user.uid.as_str().into();
    }
    if !user.extra.is_empty() {
        info["extra"] = json!(user.extra);
    }
    info
}
