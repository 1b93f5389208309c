//! HTTP requests of lists and watches.

use std::{fmt::Write, time::Duration};

use http::{Method, header::ACCEPT};
use kube::client::Body;

use super::{Form, WatchOptions, machine};

const LIST_METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";
const WATCH_METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json";

/// Builds a request. `timeout` is the time after which the server should end a watch.
pub(super) fn build(
    options: &WatchOptions,
    request: &machine::Request,
    timeout: Duration,
) -> Result<http::Request<Body>, http::Error> {
    let mut uri = Uri::new(path(options));
    if let Some(labels) = &options.scope.labels {
        uri.parameter("labelSelector", labels);
    }
    if let Some(fields) = &options.scope.fields {
        uri.parameter("fieldSelector", fields);
    }
    let (revision, watches) = match request {
        machine::Request::List { revision, token, limit } => {
            if let Some(limit) = limit {
                uri.parameter("limit", &limit.to_string());
            }
            if let Some(token) = token {
                uri.parameter("continue", token);
            }
            (revision, false)
        }
        machine::Request::StreamedList { revision } => {
            uri.parameter("sendInitialEvents", "true");
            uri.parameter("resourceVersionMatch", "NotOlderThan");
            (revision, true)
        }
        machine::Request::Watch { revision } => (revision, true),
    };
    if watches {
        uri.parameter("watch", "true");
        uri.parameter("allowWatchBookmarks", "true");
        uri.parameter("timeoutSeconds", &timeout.as_secs().to_string());
    }
    if !revision.is_empty() {
        uri.parameter("resourceVersion", revision);
    }
    let accept = match (options.form, watches) {
        (Form::Whole, _) => "application/json",
        (Form::Metadata, false) => LIST_METADATA,
        (Form::Metadata, true) => WATCH_METADATA,
    };
    http::Request::builder().method(Method::GET).uri(uri.text).header(ACCEPT, accept).body(Body::empty())
}

fn path(options: &WatchOptions) -> String {
    let resource = &options.resource;
    let mut path = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    for part in [&*resource.version].into_iter().chain(
        options.scope.namespace.iter().flat_map(|namespace| ["namespaces", namespace]).chain([&*resource.plural]),
    ) {
        path.push('/');
        encode(part, &mut path);
    }
    path
}

struct Uri {
    text: String,
    separator: char,
}

impl Uri {
    fn new(path: String) -> Self {
        Self { text: path, separator: '?' }
    }

    fn parameter(&mut self, name: &str, value: &str) {
        self.text.push(std::mem::replace(&mut self.separator, '&'));
        self.text.push_str(name);
        self.text.push('=');
        encode(value, &mut self.text);
    }
}

fn encode(text: &str, out: &mut String) {
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            write!(out, "%{byte:02X}").expect("writing to a string must succeed");
        }
    }
}
