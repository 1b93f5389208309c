//! Invariants of responses.

use http::{Method, Uri, header};
use serde_json::Value;
use windlass_builtins::{protobuf, table};
use windlass_schema::yaml;

use super::SECRET;
use crate::shared_server::Answer;

/// The kinds that a user without permissions may see: none of them is stored.
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
        // As in Kubernetes, discovery of the core group has no version.
        assert!(named("kind") && (named("apiVersion") || object["kind"] == "APIResourceList"), "{}", shown());
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

/// Checks that a response has nothing that a user without permissions may not see.
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

#[cfg(test)]
mod tests {
    use std::panic::catch_unwind;

    use http::{HeaderMap, HeaderValue};

    use super::*;

    fn answer(code: u16, media_type: &'static str, body: &str) -> Answer {
        let headers = HeaderMap::from_iter([(header::CONTENT_TYPE, HeaderValue::from_static(media_type))]);
        Answer { code, headers, body: body.as_bytes().to_vec(), ended: true }
    }

    #[test]
    fn a_response_that_is_not_what_it_says_is_found() {
        let json = "application/json";
        let status = |code: u16| {
            format!(r#"{{"kind":"Status","apiVersion":"v1","metadata":{{}},"status":"Failure","code":{code}}}"#)
        };
        let uri = Uri::from_static("/api/v1/configmaps");
        let is_found = |answer: Answer| catch_unwind(|| check(&answer, &Method::GET, &uri)).is_err();
        assert!(!is_found(answer(404, json, &status(404))));
        assert!(!is_found(answer(200, json, r#"{"kind":"ConfigMapList","apiVersion":"v1"}"#)));
        assert!(!is_found(answer(404, "text/plain", "404 page not found\n")));
        for bad in [
            answer(404, json, &status(400)),
            answer(500, json, &status(500)),
            answer(200, json, "{"),
            answer(200, json, "{}"),
            answer(200, "application/yaml", "a: ["),
            answer(200, "application/vnd.kubernetes.protobuf", "k8s"),
            answer(400, json, r#"{"kind":"Status","apiVersion":"v1","metadata":[],"code":400}"#),
            answer(200, "text/plain", "This request caused apiserver to panic. Look in the logs for details."),
        ] {
            let shown = format!("{} {}", bad.code, String::from_utf8_lossy(&bad.body));
            assert!(is_found(bad), "{shown}");
        }
    }

    #[test]
    fn an_object_returned_to_a_user_without_permission_is_found() {
        let uri = Uri::from_static("/api/v1/secrets");
        let json = "application/json";
        let is_found = |answer: Answer| catch_unwind(|| check_no_data(&answer, &uri)).is_err();
        assert!(!is_found(answer(200, json, r#"{"kind":"APIResourceList","apiVersion":"v1"}"#)));
        assert!(is_found(answer(200, json, r#"{"kind":"SecretList","apiVersion":"v1","items":[]}"#)));
        assert!(is_found(answer(403, json, &format!("{{\"message\":\"{SECRET}\"}}"))));
    }
}
