//! Paths, queries and headers of requests.

use http::{HeaderMap, HeaderValue, Method, header};
use windlass_apiserver::{Verb, fuzzing};

const MEDIA_TYPES: [&str; 3] = ["application/json", "application/yaml", "application/vnd.kubernetes.protobuf"];

/// Parses a method, a path, a query, and the headers `Accept` and `Content-Type`, one per line. What was parsed is
/// written in the usual form and parsed again, to the same result.
pub fn request_line(data: &[u8]) {
    let [method, path, query, accept, content_type] = super::parts(data);
    let method = Method::from_bytes(method).unwrap_or(Method::GET);
    let query = super::text(query).unwrap_or_default();
    if let Some(path) = super::text(path).and_then(fuzzing::decode_path) {
        check_path(&method, &path, query);
    }
    check_query(query);
    let mut headers = HeaderMap::new();
    for (name, value) in [(header::ACCEPT, accept), (header::CONTENT_TYPE, content_type)] {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.insert(name, value);
        }
    }
    check_headers(&headers, query);
}

fn check_path(method: &Method, path: &str, query: &str) {
    let Some(parsed) = fuzzing::parse_path(method, path, query) else { return };
    let [group, version, namespace, resource, name, subresource, rest] = &parsed.parts;
    for part in &parsed.parts {
        assert!(path.contains(&**part), "{part:?} is not in {path:?}");
    }
    if resource == "namespaces" && !parsed.in_namespace {
        assert_eq!(namespace, name, "a namespace has its own name");
    }
    if name.is_empty() {
        assert!(!matches!(parsed.verb, Verb::Get | Verb::Delete), "{parsed:?} has no name");
    } else {
        assert!(!matches!(parsed.verb, Verb::List | Verb::DeleteCollection), "{parsed:?} has a name");
    }
    // Paths with empty segments have no other form.
    if path.trim_end_matches('/').contains("//") || path.ends_with("//") {
        return;
    }
    let mut usual = if group.is_empty() { format!("/api/{version}") } else { format!("/apis/{group}/{version}") };
    if parsed.old_watch {
        usual.push_str("/watch");
    }
    if parsed.in_namespace {
        usual.push_str(&format!("/namespaces/{namespace}"));
    }
    for part in [resource, name, subresource, rest].into_iter().filter(|part| !part.is_empty()) {
        usual.push_str(&format!("/{part}"));
    }
    assert_eq!(fuzzing::parse_path(method, &usual, query).as_ref(), Some(&parsed), "{path:?} is {usual:?}");
}

fn check_query(query: &str) {
    let pairs = fuzzing::parse_query(query);
    let escape = |text: &str| text.bytes().map(|byte| format!("%{byte:02x}")).collect::<String>();
    let escaped: Vec<String> = pairs.iter().map(|(key, value)| format!("{}={}", escape(key), escape(value))).collect();
    assert_eq!(fuzzing::parse_query(&escaped.join("&")), pairs);
    for status in fuzzing::option_errors(query) {
        assert!(status["code"] == 400 || status["code"] == 422, "{status}");
        super::check_status(&status);
    }
}

fn check_headers(headers: &HeaderMap, query: &str) {
    for (watch, custom) in [(false, false), (true, false), (false, true), (true, true)] {
        match fuzzing::response_type(headers, watch, query, custom) {
            Ok(chosen) => {
                assert!(MEDIA_TYPES.contains(&chosen));
                assert!(!watch || chosen != "application/yaml", "a watch has no form in YAML");
            }
            Err(error) => assert_eq!(error.code, 406, "{error}"),
        }
    }
    let (errors, aggregated) = fuzzing::other_types(headers, query);
    assert!(MEDIA_TYPES.contains(&errors));
    if let Err(error) = aggregated {
        assert_eq!(error.code, 406, "{error}");
    }
    match fuzzing::request_type(headers) {
        Ok(given) => assert!(MEDIA_TYPES.contains(&given)),
        Err(error) => assert_eq!(error.code, 415, "{error}"),
    }
}
