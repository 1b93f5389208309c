//! Entity tags of documents that clients keep, and the response for documents that are still current.

use std::fmt::Write as _;

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use ring::digest;

use crate::body::Body;

/// The hash of a document: SHA-512 in upper case, as kube-apiserver writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EntityTag(String);

impl EntityTag {
    /// Returns the tag of a document.
    pub(crate) fn of(document: &[u8]) -> Self {
        let hash = digest::digest(&digest::SHA512, document);
        Self(hash.as_ref().iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02X}");
            text
        }))
    }

    /// The hash.
    pub(crate) fn hash(&self) -> &str {
        &self.0
    }

    /// Returns whether the client has the document already.
    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        let known = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
        let mut known = known.flat_map(|list| list.split(',')).map(str::trim);
        known.any(|tag| {
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            tag == "*" || tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"')) == Some(&self.0)
        })
    }

    /// Adds the tag to a response that depends on the `Accept` header.
    pub(crate) fn add_to(&self, headers: &mut HeaderMap) {
        let tag = HeaderValue::try_from(format!("\"{}\"", self.0)).expect("hexadecimal digits must be a header value");
        headers.insert(header::ETAG, tag);
        headers.append(header::VARY, HeaderValue::from_static("Accept"));
    }

    /// Returns the response to a client that has the document already.
    pub(crate) fn not_modified(&self) -> Response<Body> {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        let headers = response.headers_mut();
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, private"));
        self.add_to(headers);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_client_knows_a_document_by_its_hash() {
        let tag = EntityTag::of(b"abc");
        assert!(tag.hash().starts_with("DDAF35A193617ABACC417349AE204131"), "{}", tag.hash());
        assert_eq!(tag.hash().len(), 128);
        let knows = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, value.parse().unwrap());
            tag.is_known(&headers)
        };
        let hash = tag.hash();
        for value in ["*", &format!("\"{hash}\""), &format!("W/\"{hash}\""), &format!("\"x\", \"{hash}\"")] {
            assert!(knows(value), "{value}");
        }
        for value in [hash, "\"x\"", "\"\"", "", &format!("\"{hash}")] {
            assert!(!knows(value), "{value}");
        }
        assert!(!tag.is_known(&HeaderMap::new()));
    }
}
