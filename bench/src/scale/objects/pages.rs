//! Lists in pages, as kubectl reads them.

use std::time::{Duration, Instant};

use http::Method;
use http_body_util::BodyExt as _;

use crate::{
    client::{Body, Client, rejection},
    kind::Kind,
};

/// The number of objects in a page of kubectl.
pub(super) const PAGE: usize = 500;
/// The representation that kubectl requests.
pub(super) const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
pub(super) const JSON: &str = "application/json";
/// The bytes at the beginning of a page that have the token of the next one.
const HEAD: usize = 2_048;

/// Reads a page, the first one without a token, and returns the token of the next page.
pub(super) async fn page(client: &Client, accept: &'static str, token: &str) -> anyhow::Result<Option<String>> {
    let path = format!("{}?limit={PAGE}&continue={token}", Kind::Widget.collection());
    let response = client.send_accepting(accept, 0, Method::GET, &path, Body::default()).await?;
    if !response.status().is_success() {
        return Err(rejection(response).await);
    }
    let (mut body, mut head) = (response.into_body(), Vec::new());
    while let Some(frame) = body.frame().await {
        if let (Some(data), true) = (frame?.data_ref(), head.len() < HEAD) {
            head.extend_from_slice(&data[..data.len().min(HEAD)]);
        }
    }
    Ok(next_token(&String::from_utf8_lossy(&head)))
}

/// Reads all pages; returns how long it takes, and the tokens.
pub(super) async fn walk(client: &Client, accept: &'static str) -> anyhow::Result<(Duration, Vec<String>)> {
    let (begin, mut tokens) = (Instant::now(), Vec::new());
    let mut token = String::new();
    while let Some(next) = page(client, accept, &token).await? {
        tokens.push(next.clone());
        token = next;
    }
    Ok((begin.elapsed(), tokens))
}

/// Returns the token in the metadata of a list, which precede its items.
fn next_token(head: &str) -> Option<String> {
    let token = head.split_once(r#""continue":""#)?.1.split_once('"')?.0;
    (!token.is_empty()).then(|| token.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_token_is_read_from_the_beginning() {
        let head = |token: &str| format!(r#"{{"kind":"List","metadata":{{"continue":"{token}"}},"items":["#);
        assert_eq!(next_token(&head("abc")).as_deref(), Some("abc"));
        assert_eq!((next_token(&head("")), next_token(r#"{"metadata":{},"items":["#)), (None, None));
    }
}
