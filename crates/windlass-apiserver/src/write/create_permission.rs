//! Permission for a PUT or an apply that creates its object.

use crate::{
    authorization::{self, Action, Attributes},
    call::Call,
    status::{ApiError, Result},
    verb::Verb,
};

/// Checks that the user may create the object, which the permission to update or to patch it does not include. A POST
/// has been authorized as a create already.
pub(super) async fn check(call: &Call<'_>) -> Result<()> {
    let is_post = call.target.name.is_empty();
    if is_post {
        return Ok(());
    }
    let request = Attributes { user: call.user, action: Action::of(Verb::Create, &call.target, &call.query) };
    let decision = call.server.authorizer.authorize(&request).decide().await;
    match (decision.is_allowed(), decision.error) {
        (true, _) => Ok(()),
        (false, Some(error)) => Err(ApiError::internal(error)),
        (false, None) => Err(authorization::forbidden(&request, &decision.reason)),
    }
}
