//! One call of one webhook.

use serde_json::Value;
use windlass_merge::json_patch::{Checks, Patch};

use super::{
    super::{
        client::Limits,
        configuration::Hook,
        review::{self, ReviewVersion, Verdict},
    },
    annotations::{self, Place},
    subject::{Subject, request},
    versions::Versions,
};
use crate::{call::Call, meta, status::ApiError};

/// Reasons why a webhook did not admit a request.
pub(super) enum Failure {
    /// The call failed, or its response is malformed.
    Call(String),
    /// The webhook denied the request, or its patch failed.
    Denied(Box<ApiError>),
}

impl From<ApiError> for Failure {
    fn from(error: ApiError) -> Self {
        Self::Denied(Box::new(error))
    }
}

/// Calls a webhook.
///
/// # Errors
/// Returns an error if the call fails or the webhook denies the request.
pub(super) async fn call_webhook(
    call: &Call<'_>,
    hook: &Hook,
    subject: &Subject<'_>,
    versions: &Versions<'_>,
    mutating: bool,
) -> Result<Verdict, Failure> {
    if subject.is_dry_run() {
        match hook.side_effects.as_deref() {
            Some("None" | "NoneOnDryRun") => {}
            None => return Err(Failure::Call("Webhook SideEffects is nil".to_owned())),
            Some(_) => {
                let message = format!("admission webhook {:?} does not support dry run", hook.name);
                return Err(ApiError::bad_request(message).into());
            }
        }
    }
    let version = ReviewVersion::of(&hook.review_versions).map_err(Failure::Call)?;
    let target = hook.target.as_ref();
    let target = target.map_err(|error| Failure::Call(format!("could not get REST client: {error}")))?;
    let uid = meta::new_uid();
    let request = request(call, subject, versions.endpoint());
    let review = review::review(version, &uid, &request, versions.object(), versions.old());
    let answer = target.post(&review, Limits { timeout: hook.timeout, announced: true }).await;
    let answer = answer.map_err(|error| Failure::Call(format!("failed to call webhook: {error}")))?;
    let verdict = Verdict::decode(version, &uid, mutating, &answer).map_err(Failure::Call)?;
    annotations::own(call, hook, &answer);
    verdict.warnings.iter().for_each(|warning| call.warnings.add(warning.clone()));
    if verdict.allowed { Ok(verdict) } else { Err(verdict.denial(&hook.name).into()) }
}

/// Calls a mutating webhook and applies its patch; returns whether that changed the object.
pub(super) async fn call_and_patch(
    call: &Call<'_>,
    hook: &Hook,
    subject: &Subject<'_>,
    versions: &mut Versions<'_>,
    place: Place,
) -> Result<bool, Failure> {
    let verdict = call_webhook(call, hook, subject, versions, true).await?;
    let Some((patch, patch_type)) = verdict.patch else { return Ok(false) };
    let undecodable = |why: String| Failure::Call(format!("received undecodable patch in webhook response: {why}"));
    let decoded = Patch::decode(&patch, Checks::Lenient).map_err(|error| undecodable(error.to_string()))?;
    if decoded.is_empty() {
        return Ok(false);
    }
    if *versions.object() == Value::Null {
        let name = &hook.name;
        let why = "attempted to modify the object, which is not supported for this operation";
        return Err(ApiError::internal(format!("admission webhook {name:?} {why}")).into());
    }
    if patch_type != "JSONPatch" {
        return Err(Failure::Call(format!("unsupported patch type {patch_type:?}")));
    }
    annotations::patched(call, hook, place, &patch);
    let patched = decoded.apply(versions.object().clone()).map_err(|error| ApiError::internal(error.to_string()))?;
    Ok(versions.replace(patched, false)?)
}
