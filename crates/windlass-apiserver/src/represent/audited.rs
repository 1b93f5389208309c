//! The objects of responses, as audit events have them: in the form that the client accepts, always as JSON.

use serde_json::Value;
use windlass_schema::json;

use super::{list, transformed};
use crate::{
    audit::RequestAudit,
    blocking,
    call::{Answer, Call},
};

/// Records the object of a response, if its level demands that. The status of a deletion is recorded at any level.
pub(super) fn record(call: &Call<'_>, audit: &RequestAudit, answer: &Answer) {
    match answer {
        Answer::Value { value, .. } if value["kind"] == "Status" => audit.response_object(value),
        _ if audit.wants_response() => {
            let record = || object(call, answer).into_iter().for_each(|object| audit.response_object(&object));
            match answer {
                Answer::List(_) | Answer::WholeList { .. } => blocking::run(record),
                _ => record(),
            }
        }
        _ => {}
    }
}

/// Returns the object of a response; `None` if it has none, or cannot be represented.
fn object(call: &Call<'_>, answer: &Answer) -> Option<Value> {
    match answer {
        Answer::Stored { object, .. } => transformed(call, call.endpoint.to_served_value(object)).ok(),
        Answer::Value { value, .. } => transformed(call, value.clone()).ok(),
        Answer::List(list) => list::transformed(call, list).ok(),
        Answer::WholeList { items, revision } => {
            let text = list::whole_text(call.endpoint, items.clone(), *revision);
            Some(json::parse(&text).ok()?.value)
        }
        Answer::Text { .. } | Answer::Watch { .. } | Answer::Response(_) => None,
    }
}
