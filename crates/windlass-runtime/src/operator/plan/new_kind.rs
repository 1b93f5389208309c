//! Kinds whose CRD exists only in the plan: none of their objects exist.

use std::convert::Infallible;

use bytes::Bytes;
use futures_util::{
    StreamExt as _,
    stream::{self, BoxStream},
};
use http::{Response, Uri, header};
use http_body::Frame;
use http_body_util::StreamBody;

/// A response that stays open.
pub(super) type NoEvents = StreamBody<BoxStream<'static, Result<Frame<Bytes>, Infallible>>>;

/// A list, older than every planned object.
pub(super) const EMPTY_LIST: &str =
    r#"{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1"},"items":[]}"#;
/// The end of such a list as part of a watch.
const END_OF_LIST: &str = concat!(
    r#"{"type":"BOOKMARK","object":{"kind":"List","apiVersion":"v1","metadata":{"resourceVersion":"1","#,
    r#""annotations":{"k8s.io/initial-events-end":"true"}}}}"#,
    "\n"
);

/// Returns the path of the CRD of a resource.
pub(super) fn definition(plural: &str, group: &str) -> String {
    format!("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/{plural}.{group}")
}

/// Handles a request for a collection if it is a watch: nothing happens.
pub(super) fn watch(uri: &Uri) -> Option<Response<NoEvents>> {
    let has = |parameter: &str| uri.query().unwrap_or_default().split('&').any(|one| one == parameter);
    if !has("watch=true") {
        return None;
    }
    let end = has("sendInitialEvents=true").then(|| Ok(Frame::data(Bytes::from_static(END_OF_LIST.as_bytes()))));
    let mut response = Response::new(StreamBody::new(stream::iter(end).chain(stream::pending()).boxed()));
    response.headers_mut().insert(header::CONTENT_TYPE, header::HeaderValue::from_static("application/json"));
    Some(response)
}
