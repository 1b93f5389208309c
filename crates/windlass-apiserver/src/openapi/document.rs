//! Documents in memory. Long ones are compressed, as nearly all clients request them: ten times smaller, and not compressed
//! again for each response.

use std::io::Read as _;

use bytes::Bytes;
use flate2::read::GzDecoder;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header};

use crate::{body::Body, entity_tag::EntityTag, represent};

/// A document with its tag.
#[derive(Clone)]
pub(super) struct Document {
    text: Text,
    pub(super) tag: EntityTag,
}

#[derive(Clone)]
enum Text {
    Plain(Bytes),
    Gzip(Bytes),
}

impl Document {
    pub(super) fn new(text: Vec<u8>) -> Self {
        let tag = EntityTag::of(&text);
        let compressed = (text.len() >= represent::COMPRESS_ABOVE).then(|| represent::gzip(&text)).flatten();
        Self { text: compressed.map_or_else(|| Text::Plain(text.into()), Text::Gzip), tag }
    }

    /// Returns the number of bytes in memory.
    pub(super) fn size(&self) -> usize {
        match &self.text {
            Text::Plain(bytes) | Text::Gzip(bytes) => bytes.len(),
        }
    }

    /// Returns a response with the document and a tag.
    pub(super) fn response(&self, headers: &HeaderMap, media_type: &'static str, tag: &EntityTag) -> Response<Body> {
        let respond = |body| {
            let mut response = represent::bytes(StatusCode::OK, media_type, body);
            tag.add_to(response.headers_mut());
            response
        };
        match &self.text {
            Text::Plain(bytes) => respond(bytes.clone()),
            Text::Gzip(bytes) if represent::accepts_gzip(headers) => {
                let mut response = respond(bytes.clone());
                let headers = response.headers_mut();
                headers.insert(header::CONTENT_ENCODING, HeaderValue::from_static("gzip"));
                headers.append(header::VARY, HeaderValue::from_static("Accept-Encoding"));
                response
            }
            Text::Gzip(bytes) => {
                let mut plain = Vec::new();
                // What was compressed in memory can be read again.
                let _ = GzDecoder::new(&**bytes).read_to_end(&mut plain);
                respond(plain.into())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn body(response: Response<Body>) -> Bytes {
        match response.into_body() {
            Body::Full(bytes) => bytes.unwrap_or_default(),
            _ => panic!("a document is sent at once"),
        }
    }

    #[test]
    fn long_documents_are_kept_compressed_and_sent_to_everybody() {
        let long: Vec<u8> = b"0123456789abcdef".repeat(represent::COMPRESS_ABOVE / 16);
        let gzip = HeaderMap::from_iter([(header::ACCEPT_ENCODING, HeaderValue::from_static("gzip"))]);
        for (text, is_compressed) in [(long.clone(), true), (long[1..].to_vec(), false)] {
            let document = Document::new(text.clone());
            assert_eq!(document.size() < text.len() / 2, is_compressed);
            assert_eq!(document.tag, EntityTag::of(&text));
            let compressed = document.response(&gzip, "application/json", &document.tag);
            assert_eq!(compressed.headers().contains_key(header::CONTENT_ENCODING), is_compressed);
            assert_eq!(body(compressed).len(), document.size());
            let plain = document.response(&HeaderMap::new(), "application/json", &document.tag);
            assert!(!plain.headers().contains_key(header::CONTENT_ENCODING));
            assert_eq!(body(plain), text);
        }
    }
}
