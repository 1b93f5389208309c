use http::StatusCode;
use proptest::prelude::*;

use super::*;

const ACCEPTED: &str = "only the following media types are accepted: application/json, application/yaml, \
                        application/vnd.kubernetes.protobuf";

const BUILTIN: Offer = Offer { custom: false, tables: true, streams: false };

fn headers(accept: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::ACCEPT, HeaderValue::from_str(accept).expect("the header must be text"));
    headers
}

#[track_caller]
fn gives(header: &str, media: Media, transform: Transform) {
    let found = accept(&headers(header), false, None, BUILTIN).expect("the header must be acceptable");
    assert_eq!((found.media, found.transform), (media, transform), "{header}");
}

#[track_caller]
fn rejects(header: &str, watch: bool, expected: &str) {
    let error = accept(&headers(header), watch, None, BUILTIN).expect_err("the header must be rejected");
    assert_eq!((error.code, error.reason), (StatusCode::NOT_ACCEPTABLE, "NotAcceptable"), "{header}");
    assert_eq!(error.message, expected, "{header}");
}

#[test]
fn without_a_header_the_answer_is_plain_json() {
    let found = accept(&HeaderMap::new(), false, None, BUILTIN).expect("no header is acceptable");
    assert!(found.is_plain_json());
}

#[test]
fn a_header_of_any_length_is_judged_in_linear_time() {
    let header = format!("{}{}", "*/*,".repeat(50_000), "a/b,".repeat(50_000));
    assert_eq!(accept::parse(&header).len(), 64);
    gives(&header, Media::Json, Transform::None);
}

#[test]
fn media_types_are_tried_in_the_order_of_their_quality() {
    gives("*/*", Media::Json, Transform::None);
    gives("application/yaml", Media::Yaml, Transform::None);
    gives("application/vnd.kubernetes.protobuf", Media::Protobuf, Transform::None);
    // Among the accepted encodings, the stored one is preferred.
    gives("application/vnd.kubernetes.protobuf, application/json", Media::Json, Transform::None);
    gives("application/yaml;q=0.5,application/json;q=0.9", Media::Json, Transform::None);
    gives("text/html;q=0.9, */*;q=0.1", Media::Json, Transform::None);
    gives("application/json;charset=utf-8", Media::Json, Transform::None);
    gives("*/*,application/yaml", Media::Yaml, Transform::None);
    gives("application/yaml;q=bad,application/json;q=0.1", Media::Json, Transform::None);
}

#[test]
fn transformations_are_chosen_by_their_parameters() {
    gives("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Media::Json, Transform::Table);
    gives("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Media::Json, Transform::Table);
    gives("application/yaml;as=Table;v=v1;g=meta.k8s.io", Media::Yaml, Transform::Table);
    gives(
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
        Media::Protobuf,
        Transform::PartialObjectMetadata,
    );
    gives(
        "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io,application/json",
        Media::Json,
        Transform::PartialObjectMetadataList,
    );
}

#[test]
fn transformations_that_are_not_served_fall_back_to_the_next_clause() {
    gives("application/json;as=Chart;v=v1;g=meta.k8s.io,application/json", Media::Json, Transform::None);
    gives(
        "application/vnd.kubernetes.protobuf;as=Table;g=meta.k8s.io;v=v1,application/json;as=Table;g=meta.k8s.io;v=v1",
        Media::Json,
        Transform::Table,
    );
    rejects("application/json;as=Chart;v=v1;g=meta.k8s.io", false, ACCEPTED);
    rejects("application/json;as=Table;v=v2;g=meta.k8s.io", false, ACCEPTED);
    rejects("application/json;v=v1", false, ACCEPTED);
    rejects("application/json;stream=tail", false, ACCEPTED);
}

#[test]
fn the_router_rejects_media_types_that_no_route_has() {
    let all = "application/json, application/yaml, application/vnd.kubernetes.protobuf";
    rejects("text/html", false, &format!("406: Not Acceptable\n\nAvailable representations: {all}"));
    let list = accept(&headers("text/html"), false, None, Offer { streams: true, ..BUILTIN });
    let streams = "application/json;stream=watch, application/vnd.kubernetes.protobuf;stream=watch";
    assert_eq!(
        list.expect_err("HTML is not served").message,
        format!("406: Not Acceptable\n\nAvailable representations: {all}, {streams}")
    );
    rejects("application/*", false, &format!("406: Not Acceptable\n\nAvailable representations: {all}"));
    let error = accept(&headers("text/html"), false, None, BUILTIN).expect_err("HTML is not served");
    assert_eq!(error.details.as_deref(), Some(&serde_json::json!({})));
}

#[test]
fn watches_are_served_in_encodings_that_have_streams() {
    let watch = |header: &str| accept(&headers(header), true, None, BUILTIN).map(|found| found.media).ok();
    assert_eq!(watch("application/json;stream=watch"), Some(Media::Json));
    assert_eq!(watch("application/json"), Some(Media::Json));
    assert_eq!(watch("application/vnd.kubernetes.protobuf;stream=watch"), Some(Media::Protobuf));
    rejects(
        "application/yaml",
        true,
        "only the following media types are accepted: application/json;stream=watch, \
         application/vnd.kubernetes.protobuf;stream=watch",
    );
    rejects("application/yaml;stream=watch", true, ACCEPTED);
}

#[test]
fn browsers_and_command_line_tools_get_indented_json() {
    let pretty = |header: &str, agent: &'static str, query: Option<&str>| {
        let mut headers = headers(header);
        headers.insert(header::USER_AGENT, HeaderValue::from_static(agent));
        accept(&headers, false, query, BUILTIN).expect("the header must be acceptable").pretty
    };
    assert!(pretty("application/json;pretty=1", "", None));
    assert!(!pretty("application/json;pretty=true", "", None));
    assert!(pretty("application/json", "", Some("pretty=true")));
    assert!(pretty("application/json", "", Some("watch=0&pretty=1")));
    assert!(!pretty("application/json", "", Some("pretty=yes")));
    assert!(pretty("*/*", "curl/8.0", None));
    assert!(!pretty("*/*", "curl/8.0", Some("pretty=false")));
    assert!(!pretty("application/yaml", "curl/8.0", None));
    assert!(!pretty("*/*", "kubectl/v1.36", None));
}

#[test]
fn errors_come_in_the_encoding_of_the_request_or_in_json() {
    for (header, expected) in [
        ("application/yaml", Media::Yaml),
        ("application/vnd.kubernetes.protobuf", Media::Protobuf),
        ("text/html", Media::Json),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Media::Json),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io,application/yaml", Media::Yaml),
    ] {
        assert_eq!(error_media(&headers(header), None), expected, "{header}");
    }
    assert_eq!(error_media(&HeaderMap::new(), None), Media::Json);
}

#[test]
fn discovery_is_aggregated_on_request() {
    let wanted = |header: &str| wants_aggregated_discovery(&headers(header)).map_err(|error| error.message);
    let aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    assert_eq!(wanted(aggregated), Ok(true));
    assert_eq!(wanted(&format!("application/json,{aggregated}")), Ok(true));
    assert_eq!(wanted("application/json"), Ok(false));
    assert_eq!(wanted("*/*"), Ok(false));
    let unknown = "application/json;g=apidiscovery.k8s.io;v=v9;as=APIGroupDiscoveryList";
    assert_eq!(wanted(unknown), Err(ACCEPTED.to_owned()));
    assert_eq!(wanted(&format!("{unknown},application/json")), Ok(false));
    assert!(wants_aggregated_discovery(&HeaderMap::new()).is_ok_and(|wanted| !wanted));
}

#[test]
fn bodies_are_of_a_known_type() {
    let media = |text: &str| {
        let header = HeaderValue::from_str(text).expect("the header must be text");
        content_type(Some(&header)).map_err(|error| (error.code.as_u16(), error.message))
    };
    for text in
        ["application/json", "application/json; charset=utf-8", "Application/JSON;", "application/json; a=\"b;c\""]
    {
        assert_eq!(media(text), Ok(Media::Json), "{text}");
    }
    assert_eq!(media("application/yaml"), Ok(Media::Yaml));
    assert_eq!(media("application/vnd.kubernetes.protobuf"), Ok(Media::Protobuf));
    assert!(content_type(None).is_ok_and(|media| media == Media::Json));
    let rejected = "the body of the request was in an unknown format - accepted media types include: application/json, \
                   application/yaml, application/vnd.kubernetes.protobuf";
    for text in ["text/plain", "application/xml", "application/json; charset", "application/json;a=1;a=2", "json"] {
        assert_eq!(media(text), Err((415, rejected.to_owned())), "{text}");
    }
}

proptest! {
    #[test]
    fn any_header_is_parsed_without_panic(text in "[ -~]{0,60}", watch in any::<bool>()) {
        if let Ok(value) = HeaderValue::from_str(&text) {
            let mut headers = HeaderMap::new();
            headers.insert(header::ACCEPT, value.clone());
            if let Err(error) = accept(&headers, watch, Some(&text), BUILTIN) {
                prop_assert_eq!(error.code, StatusCode::NOT_ACCEPTABLE);
            }
            if let Err(error) = wants_aggregated_discovery(&headers) {
                prop_assert_eq!(error.code, StatusCode::NOT_ACCEPTABLE);
            }
            if let Err(error) = content_type(Some(&value)) {
                prop_assert_eq!(error.code, StatusCode::UNSUPPORTED_MEDIA_TYPE);
            }
        }
    }
}

#[test]
fn a_resource_without_tables_rejects_only_them() {
    let offer = Offer { tables: false, ..BUILTIN };
    let transform = |header: &str| accept(&headers(header), false, None, offer).map(|found| found.transform);
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io";
    let error = transform(table).expect_err("there is no table");
    assert_eq!((error.code.as_u16(), error.reason), (406, "NotAcceptable"));
    assert_eq!(transform(&format!("{table},application/json")).expect("plain JSON"), Transform::None);
    let metadata = transform("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io");
    assert_eq!(metadata.expect("metadata"), Transform::PartialObjectMetadata);
}
