//! The ID of a request, which is in its audit events and its response.

use http::{HeaderMap, HeaderName, HeaderValue};
use uuid::{Uuid, fmt::Hyphenated};

/// The header of a client's own audit ID, and of the ID in the response.
pub(crate) const ID: HeaderName = HeaderName::from_static("audit-id");

/// Returns the ID that the client has sent, or a new one.
pub(crate) fn id(headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(ID).filter(|id| !id.is_empty() && id.to_str().is_ok());
    let mut id = given.cloned().unwrap_or_else(|| {
        let mut text = [0; Hyphenated::LENGTH];
        let text = Uuid::new_v4().hyphenated().encode_lower(&mut text);
        HeaderValue::from_str(text).expect("a UUID must be a header value")
    });
    // It occurs only once, so HTTP/2 must not keep it in the table of a connection.
    id.set_sensitive(true);
    id
}
