//! Invariants of responses.

use http::{Method, Uri, header};
use serde_json::Value;
use windlass_builtins::{protobuf, table};
use windlass_schema::yaml;

use super::SECRET;
use crate::world::Answer;

/// The kinds that a user without rights may see: none of them is stored.
const PUBLIC_KINDS: &[&str] = &[
    "APIGroup",
    "APIGroupDiscoveryList",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "SelfSubjectAccessReview",
    "SelfSubjectReview",
    "SelfSubjectRulesReview",
];

/// Checks that a response is what it says: a Status or an object, in the format of its header.
pub(super) fn check(answer: &Answer, method: &Method, uri: &Uri) {
    let Answer { code, headers, body, ended } = answer;
    let shown = || format!("{method} {uri}: {code} {headers:?} {}", String::from_utf8_lossy(body));
    assert!(!contains(body, b"caused apiserver to panic"), "{}", shown());
    assert!(*code < 500 || is_known_failure(answer, method), "{}", shown());
    let media_type = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if headers.contains_key(header::CONTENT_ENCODING) || uri.path().starts_with("/openapi") || !ended {
        return;
    }
    let object = match media_type {
        "application/json" if uri.query().is_some_and(|query| query.contains("watch")) => {
            for line in body.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
                serde_json::from_slice::<Value>(line).unwrap_or_else(|error| panic!("{error}: {}", shown()));
            }
            return;
        }
        "application/json" => serde_json::from_slice(body).map_err(|error| error.to_string()),
        "application/yaml" => yaml::parse(body).map(|document| document.value).map_err(|error| error.to_string()),
        "application/vnd.kubernetes.protobuf" if is_partial(body) => return,
        "application/vnd.kubernetes.protobuf" => {
            protobuf::decode(body, table()).map(|decoded| decoded.value).map_err(|error| error.to_string())
        }
        _ => return,
    };
    let object: Value = object.unwrap_or_else(|error| panic!("{error}: {}", shown()));
    if *code >= 400 {
        crate::check_status(&object);
        assert_eq!(object["code"], *code, "{}", shown());
        assert_eq!(object["status"], "Failure", "{}", shown());
    } else if uri.path().starts_with("/api") && uri.path().len() > 6 {
        let named = |field: &str| object[field].as_str().is_some_and(|text| !text.is_empty());
        assert!(named("kind") && named("apiVersion"), "{}", shown());
    }
}

/// Returns whether a server error is one that Kubernetes also returns.
fn is_known_failure(answer: &Answer, method: &Method) -> bool {
    match answer.code {
        // An invalid directive of a strategic merge patch.
        500 => method == Method::PATCH,
        // A proxy without an endpoint; a request that was given no time.
        503 | 504 => true,
        _ => false,
    }
}

/// Returns whether a message is metadata only, whose kind is not in the table.
fn is_partial(body: &[u8]) -> bool {
    contains(body, b"PartialObjectMetadata")
}

/// Checks that a response has nothing that a user without rights may not see.
pub(super) fn check_no_data(answer: &Answer, uri: &Uri) {
    let Answer { code, body, .. } = answer;
    assert!(!contains(body, SECRET.as_bytes()), "{uri}: {code} {}", String::from_utf8_lossy(body));
    if *code >= 300 || uri.path().contains("openapi") {
        return;
    }
    if let Ok(object) = serde_json::from_slice::<Value>(body) {
        let kind = object["kind"].as_str();
        assert!(kind.is_none_or(|kind| PUBLIC_KINDS.contains(&kind)), "{uri}: {code} {object}");
        assert_eq!(object["metadata"]["uid"], Value::Null, "{uri}: {code} {object}");
    }
}

fn contains(body: &[u8], text: &[u8]) -> bool {
    body.windows(text.len()).any(|window| window == text)
}
