//! Entry points of the fuzz targets in `fuzz/`: thin functions around parsers that are private to this crate.
//!
//! Not part of the API: the module is hidden, and may change at any time. It is an ordinary module and not a cargo
//! feature, so that a change to a parser that breaks its target fails every build; a program that does not call these
//! functions does not contain them. The invariants are in the targets.

mod streams;

use http::{HeaderMap, Method};
use serde_json::Value;

pub use self::streams::{Frames, echo_channels, echo_spdy, echo_tunnel, spdy_frames, spdy_header_blocks, spdy_headers};
use crate::{
    continue_token::ContinueToken,
    handle,
    limits::Limits,
    negotiate,
    options::{self, DeleteOptions, ListOptions, WriteKind, WriteOptions},
    query::{Query, unescape_path},
    request_info::RequestInfo,
    status::Result,
    tokens::{Claims, TokenKey},
    verb::Verb,
    webhooks::{
        client,
        conversion::Sent,
        review::{ReviewVersion, Verdict},
    },
};

/// Decodes a continue token: its revision, and the last key of the previous page.
pub fn decode_continue_token(text: &str) -> Result<(i64, String)> {
    ContinueToken::decode(text).map(|token| (token.revision, token.after))
}

/// Encodes a continue token.
pub fn encode_continue_token(revision: i64, after: &str) -> String {
    ContinueToken { revision, after: after.to_owned(), remaining: None }.encode()
}

/// Decodes the percent-encoding of a path.
pub fn decode_path(path: &str) -> Option<String> {
    unescape_path(path).map(|path| path.into_owned())
}

/// The target of a request for a resource.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ResourcePath {
    /// Group, version, namespace, resource, name, subresource and the rest of the path.
    pub parts: [String; 7],
    /// Whether the resource is addressed in a namespace.
    pub in_namespace: bool,
    /// Whether the path has the old `/watch/` form.
    pub old_watch: bool,
    /// The verb of the request.
    pub verb: Verb,
}

/// Parses the path and the query of a request; returns `None` if the path is not a resource's.
pub fn parse_path(method: &Method, path: &str, query: &str) -> Option<ResourcePath> {
    let RequestInfo::Resource(target) = RequestInfo::from_path(path) else { return None };
    let verb = target.verb(method, &Query::parse(Some(query)));
    let parts =
        [target.group, target.version, target.namespace, target.resource, target.name, target.subresource, target.rest];
    let (in_namespace, old_watch) = (target.in_namespace, target.old_watch);
    Some(ResourcePath { parts: parts.map(str::to_owned), in_namespace, old_watch, verb })
}

/// Decodes the parameters of a query.
pub fn parse_query(text: &str) -> Vec<(String, String)> {
    Query::parse(Some(text)).into_pairs().map(|(key, value)| (key.into_owned(), value.into_owned())).collect()
}

/// Parses a query as the options of all verbs, and returns the Status of each failure.
pub fn option_errors(query: &str) -> Vec<Value> {
    let query = Query::parse(Some(query));
    let writes = [WriteKind::Create, WriteKind::Update, WriteKind::Patch, WriteKind::Apply];
    let writes = writes.map(|kind| WriteOptions::parse(&query, kind).err());
    let others = [
        DeleteOptions::from_query(&query).err(),
        ListOptions::parse(&query, false).err(),
        ListOptions::parse(&query, true).err(),
        handle::time_limit::timeout(&query, Limits::default().request_timeout).err(),
    ];
    let _ = options::parse_resource_version(query.text("resourceVersion"));
    writes.into_iter().chain(others).flatten().map(|error| error.to_status()).collect()
}

/// Parses the body of a deletion that was decoded.
pub fn delete_options(body: &Value) -> Result<()> {
    DeleteOptions::from_body(body).map(|_| ())
}

/// Returns the media type of the response to a request for a resource.
pub fn response_type(headers: &HeaderMap, watch: bool, query: &str, custom: bool) -> Result<&'static str> {
    let offer = negotiate::Offer { custom, tables: !custom, streams: false };
    negotiate::accept(headers, watch, Some(query), offer).map(|representation| representation.media.name())
}

/// Returns the media type of an error, and whether the client requests aggregated discovery.
pub fn other_types(headers: &HeaderMap, query: &str) -> (&'static str, Result<bool>) {
    (negotiate::error_media(headers, Some(query)).name(), negotiate::wants_aggregated_discovery(headers))
}

/// Returns the media type of a request's body.
pub fn request_type(headers: &HeaderMap) -> Result<&'static str> {
    negotiate::content_type(headers.get(http::header::CONTENT_TYPE)).map(negotiate::Media::name)
}

/// Returns the claims of a token that the key has signed.
pub fn verify_token(key: &TokenKey, token: &str) -> Option<Value> {
    key.verify::<Claims>(token).and_then(|claims| serde_json::to_value(claims).ok())
}

/// Signs a token with any header and claims.
pub fn sign_token(key: &TokenKey, header: &[u8], claims: &[u8]) -> String {
    key.sign_parts(header, claims)
}

/// The decision of a webhook.
#[derive(Debug, Clone, PartialEq)]
pub struct AdmissionVerdict {
    /// Whether the request is allowed.
    pub allowed: bool,
    /// The patch.
    pub patch: Option<Vec<u8>>,
    /// The warnings for the client.
    pub warnings: Vec<String>,
    /// The Status that the client gets if the request is denied, and its code.
    pub denial: (u16, Value),
}

/// Parses the response of an admission webhook.
pub fn read_admission_response(v1: bool, mutating: bool, uid: &str, body: &[u8]) -> Result<AdmissionVerdict, String> {
    let version = if v1 { ReviewVersion::V1 } else { ReviewVersion::V1Beta1 };
    let answer = client::answer(200, &HeaderMap::new(), body)?;
    let verdict = Verdict::decode(version, uid, mutating, &answer)?;
    let denial = verdict.denial("webhook.example.com");
    let denial = (denial.code.as_u16(), denial.to_status());
    let Verdict { allowed, patch, warnings, .. } = verdict;
    Ok(AdmissionVerdict { allowed, patch: patch.map(|(patch, _)| patch), warnings, denial })
}

/// Parses the response of a conversion webhook.
pub fn read_conversion_response(
    v1: bool,
    uid: &str,
    objects: &[Value],
    to: &str,
    body: &[u8],
) -> Result<Vec<Value>, String> {
    let answer = client::answer(200, &HeaderMap::new(), body)?;
    let sent = Sent { version: if v1 { "v1" } else { "v1beta1" }, uid, objects, to };
    sent.decode(&answer).map_err(|error| error.message)
}
