//! Respond: the outcome of a write in the version of the request.

use std::sync::Arc;

use http::StatusCode;
use serde_json::Value;

use super::convert;
use crate::{
    call::{Answer, Call},
    status::Result,
    storage::StoredObject,
};

/// The outcome of a write.
pub(crate) enum Written {
    /// The object that is stored now.
    Stored(Arc<StoredObject>),
    /// The object that would have been stored.
    DryRun(Value),
}

impl Written {
    /// Converts a stored object to the version of the request if that requires a webhook.
    pub(super) async fn into_served_version(self, call: &Call<'_>) -> Result<Self> {
        match self {
            Self::Stored(object) => {
                Ok(Self::Stored(convert::to_served_object(call.server, call.endpoint, object).await?))
            }
            dry_run @ Self::DryRun(_) => Ok(dry_run),
        }
    }

    /// Returns the response to the request.
    pub(crate) fn answer(self, code: StatusCode) -> Answer {
        match self {
            Self::Stored(object) => Answer::Stored { code, object },
            Self::DryRun(value) => Answer::Value { code, value },
        }
    }
}
