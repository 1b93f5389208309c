//! The format of inputs: requests, separated by a line that begins with the byte 0x1e. Each has a line
//! `USER METHOD URI`, headers, an empty line and a body.

use std::sync::Arc;

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Uri};
use http_body_util::Full;
use windlass_apiserver::user::User;

/// Maximum number of requests per input.
const REQUESTS: usize = 8;
const SEPARATOR: &[u8] = b"\n\x1e\n";

/// The sender of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum UserKind {
    Administrator,
    /// Authenticated, without any permissions.
    Ordinary,
    Anonymous,
}

/// A request of an input.
pub(super) struct InputRequest {
    pub(super) user: UserKind,
    pub(super) method: Method,
    pub(super) uri: Uri,
    headers: HeaderMap,
    body: Bytes,
}

/// Parses an input; what is not a request is skipped.
pub(super) fn parse(data: &[u8]) -> impl Iterator<Item = InputRequest> {
    split(data).take(REQUESTS).filter_map(parse_one).filter(|request| !request.calls_webhooks())
}

fn split(data: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = Some(data);
    std::iter::from_fn(move || {
        let data = rest?;
        match data.windows(SEPARATOR.len()).position(|window| window == SEPARATOR) {
            Some(at) => {
                rest = Some(&data[at + SEPARATOR.len()..]);
                Some(&data[..at])
            }
            None => rest.take(),
        }
    })
}

fn parse_one(data: &[u8]) -> Option<InputRequest> {
    let mut lines = data.splitn(2, |byte| *byte == b'\n');
    let mut words = crate::text(lines.next()?)?.splitn(3, ' ');
    let user = match words.next()? {
        "u" => UserKind::Ordinary,
        "n" => UserKind::Anonymous,
        _ => UserKind::Administrator,
    };
    let method = Method::from_bytes(words.next()?.as_bytes()).ok()?;
    let uri: Uri = words.next()?.parse().ok()?;
    let mut rest = lines.next().unwrap_or_default();
    let mut headers = HeaderMap::new();
    loop {
        let end = rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len());
        let line = &rest[..end];
        rest = rest.get(end + 1..).unwrap_or_default();
        if line.is_empty() {
            break;
        }
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) =
            (HeaderName::from_bytes(&line[..colon]), HeaderValue::from_bytes(line[colon + 1..].trim_ascii()));
        if let (Ok(name), Ok(value)) = (name, value) {
            headers.append(name, value);
        }
    }
    Some(InputRequest { user, method, uri, headers, body: Bytes::copy_from_slice(rest) })
}

impl InputRequest {
    /// Returns whether the request could make the server connect to an address, which a fuzzer must not do.
    fn calls_webhooks(&self) -> bool {
        let path = self.uri.path();
        let has = |text: &[u8]| self.body.windows(text.len()).any(|window| window.eq_ignore_ascii_case(text));
        let configures = path.contains("webhookconfigurations") || path.contains('%') || has(b"webhook");
        let defines = path.contains("customresourcedefinitions") && has(b"\\");
        self.method != Method::GET && (configures || defines)
    }

    pub(super) fn into_http(self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body));
        *request.method_mut() = self.method;
        *request.uri_mut() = self.uri;
        *request.headers_mut() = self.headers;
        let user = match self.user {
            UserKind::Administrator => User::admin(),
            UserKind::Ordinary => {
                User { name: "ordinary".to_owned(), groups: vec!["system:authenticated".to_owned()], ..User::default() }
            }
            UserKind::Anonymous => return request,
        };
        request.extensions_mut().insert(Arc::new(user));
        request
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_input_is_a_sequence_of_requests() {
        let input = b"a POST /api/v1/pods?x=y\ncontent-type: a/b\nx:y\n\n{}\n\nrest\n\x1e\nnonsense\n\x1e\nu GET /\n\x1e\nn HEAD /api";
        let requests: Vec<_> = parse(input).collect();
        let users: Vec<_> = requests.iter().map(|request| (request.user, request.method.as_str())).collect();
        let expected = [(UserKind::Administrator, "POST"), (UserKind::Ordinary, "GET"), (UserKind::Anonymous, "HEAD")];
        assert_eq!(users, expected);
        assert_eq!((requests[0].uri.query(), &requests[0].body[..]), (Some("x=y"), &b"{}\n\nrest"[..]));
        assert_eq!(requests[0].headers["content-type"], "a/b");
    }

    #[test]
    fn requests_that_configure_webhooks_are_skipped() {
        let path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";
        assert_eq!(parse(format!("a POST {path}\n\n{{}}").as_bytes()).count(), 0);
        assert_eq!(parse(format!("a GET {path}\n\n").as_bytes()).count(), 1);
        let body = r#"{"spec":{"conversion":{"strategy":"Webhook"}}}"#;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(parse(format!("a POST {definitions}\n\n{body}").as_bytes()).count(), 0);
    }
}
