//! The objects of responses, as audit events have them: in the form that the client accepts, always as JSON.

use bytes::Bytes;
use futures_util::{FutureExt as _, StreamExt as _};
use serde_json::Value;
use windlass_schema::json;

use super::{list, old_form, transformed};
use crate::{
    audit::RequestAudit,
    blocking,
    body::Body,
    call::{Answer, Call},
};

/// Records the object of an answer, if its level demands that. The status of a deletion is recorded at any level.
pub(super) fn record(call: &Call<'_>, audit: &RequestAudit, answer: &Answer) {
    match answer {
        Answer::Value { value, .. } if value["kind"] == "Status" => audit.response_object(value),
        _ if audit.wants_response() => {
            let record = || object(call, answer).into_iter().for_each(|object| audit.response_object(&object));
            match answer {
                Answer::List(_) | Answer::KnownList { .. } => blocking::run(record),
                _ => record(),
            }
        }
        _ => {}
    }
}

/// Returns the object of an answer; `None` if it has none, or cannot be represented.
fn object(call: &Call<'_>, answer: &Answer) -> Option<Value> {
    match answer {
        Answer::Stored { object, .. } => transformed(call, call.endpoint.to_served_value(object)).ok(),
        Answer::Value { value, .. } => transformed(call, value.clone()).ok(),
        Answer::List(list) => {
            let value = list::transformed(call, list).ok()?;
            Some(if call.accept.old_form { old_form(value) } else { value })
        }
        Answer::KnownList { body, revision } => {
            let Body::Stream(chunks) = list::known(call.endpoint, body.clone(), *revision).into_body() else {
                return None;
            };
            // The list is in memory, so nothing waits.
            let chunks: Vec<Bytes> = chunks.collect().now_or_never()?;
            Some(json::parse(&chunks.concat()).ok()?.value)
        }
        Answer::Text { .. } | Answer::Watch { .. } | Answer::Response(_) => None,
    }
}
