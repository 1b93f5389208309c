//! Reviews, which are queries rather than objects: tokens, and the user itself.

use http::StatusCode;
use serde_json::{Value, json};

use super::submission::Submission;
use crate::{
    authentication::Notices,
    call::{Answer, Call},
    meta,
    status::{ApiError, Result},
    user::User,
};

/// Handles `kubectl auth whoami`.
pub(crate) async fn self_subject(call: &Call<'_>) -> Result<Answer> {
    let submission = Submission::receive(call).await?;
    submission.admit(call).await?;
    let mut review = submission.review;
    // The question is not repeated.
    review["metadata"] = json!({"creationTimestamp": meta::format_time(call.server.now())});
    review["status"] = json!({"userInfo": info(call.user)});
    Ok(Answer::Value { code: StatusCode::CREATED, value: review })
}

/// Returns the user of a token.
pub(crate) async fn token(call: &Call<'_>) -> Result<Answer> {
    let submission = Submission::receive(call).await?;
    let spec = &submission.review["spec"];
    let token = spec["token"].as_str().unwrap_or_default().to_owned();
    if token.is_empty() {
        return Err(ApiError::bad_request("token is required for TokenReview in authentication"));
    }
    submission.admit(call).await?;
    let asked = spec["audiences"].as_array().filter(|audiences| !audiences.is_empty()).cloned();
    let audiences: Vec<&str> = match &asked {
        Some(audiences) => audiences.iter().filter_map(Value::as_str).collect(),
        None => call.server.authentication.issuers.audiences(),
    };
    let mut notices = Notices::new(call.audit);
    let reviewed = call.server.review_token(&token, &audiences, &mut notices).await;
    notices.warnings.into_iter().for_each(|warning| call.warnings.add(warning));
    let status = match reviewed {
        Ok((user, meant)) => json!({"authenticated": true, "user": info(&user), "audiences": meant}),
        Err(why) => json!({"user": {}, "error": why}),
    };
    let mut review = submission.review;
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
