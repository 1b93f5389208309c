//! `/flagz` and `/statusz`: the flags of the program and the state of its process, for debugging.

use std::{collections::BTreeMap, fmt::Write as _};

use http::{HeaderMap, HeaderValue, Response, StatusCode, header};
use jiff::{Timestamp, tz::TimeZone};
use serde_json::{Value, json};
use windlass_schema::{json as go_json, yaml};

use crate::{
    body::Body,
    health, meta,
    negotiate::{self, Page},
    represent,
    server::Inner,
    status::Result,
};

pub(crate) const FLAGS_PATH: &str = "/flagz";
pub(crate) const STATUS_PATH: &str = "/statusz";

/// The paths that `/statusz` lists.
const PATHS: [&str; 7] = [FLAGS_PATH, "/healthz", "/livez", "/metrics", "/readyz", STATUS_PATH, "/version"];
const HINT: &str = "Warning: This endpoint is not meant to be machine parseable, has no formatting compatibility guarantees \
                    and is for debugging purposes only.";

/// Facts about the process that the pages show.
#[derive(Debug)]
pub(crate) struct Process {
    /// Time at which the server was started.
    pub(crate) started: Timestamp,
    /// The flags of the program.
    pub(crate) flags: BTreeMap<String, String>,
}

/// Answers `/flagz`.
pub(crate) fn flags(server: &Inner, headers: &HeaderMap) -> Result<Response<Body>> {
    let flags = &server.process.flags;
    answer(
        headers,
        "flagz",
        "Flagz",
        || lines(flags),
        || match flags.is_empty() {
            true => json!({}),
            false => json!({"flags": flags}),
        },
    )
}

/// Answers `/statusz`.
pub(crate) fn status(server: &Inner, headers: &HeaderMap) -> Result<Response<Body>> {
    let (started, now) = (server.process.started, server.now());
    let seconds = now.duration_since(started).as_secs().max(0);
    let version = health::version();
    let text = |field: &str| version[field].as_str().unwrap_or_default();
    let binary = text("gitVersion").trim_start_matches('v').split('+').next().unwrap_or_default();
    let emulated = format!("{}.{}", text("emulationMajor"), text("emulationMinor"));
    let plain = || {
        let begin = started.to_zoned(TimeZone::UTC).strftime("%a %b %e %H:%M:%S UTC %Y");
        let (hours, minutes, rest) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        format!(
            "\nStarted: {begin}\nUp: {hours} hr {minutes:02} min {rest:02} sec\nGo version: \nBinary version: {binary}\n\
             Emulation version: {emulated}\nPaths: {}\n",
            PATHS.join(" ")
        )
    };
    answer(headers, "statusz", "Statusz", plain, || {
        json!({
            "startTime": meta::format_time(started), "uptimeSeconds": seconds, "goVersion": "", "binaryVersion": binary,
            "emulationVersion": emulated, "paths": PATHS,
        })
    })
}

fn lines(flags: &BTreeMap<String, String>) -> String {
    flags.iter().fold(String::new(), |mut text, (name, value)| {
        let _ = writeln!(text, "{name}={value}");
        text
    })
}

/// Responds in the form that the client accepts: as text, or as an object of the kind.
fn answer(
    headers: &HeaderMap,
    page: &str,
    kind: &'static str,
    text: impl FnOnce() -> String,
    fields: impl FnOnce() -> Value,
) -> Result<Response<Body>> {
    let (version, is_yaml) = match negotiate::page(headers, kind)? {
        Page::Text => {
            let body = format!("\napiserver {page}\n{HINT}\n{}", text());
            return Ok(represent::bytes(StatusCode::OK, "text/plain; charset=utf-8", body.into()));
        }
        Page::Object { version, is_yaml } => (version, is_yaml),
    };
    let mut object =
        json!({"kind": kind, "apiVersion": format!("config.k8s.io/{version}"), "metadata": {"name": "apiserver"}});
    if let (Some(object), Value::Object(fields)) = (object.as_object_mut(), fields()) {
        object.extend(fields);
    }
    let (media, body) = match is_yaml {
        true => ("application/yaml", yaml::to_yaml(&object).into()),
        false => ("application/json", go_json::encode(&object).into()),
    };
    let mut response = represent::bytes(StatusCode::OK, media, body);
    if let Ok(content_type) = HeaderValue::try_from(format!("{media};g=config.k8s.io;v={version};as={kind}")) {
        response.headers_mut().insert(header::CONTENT_TYPE, content_type);
    }
    if version == "v1alpha1" {
        let warning = format!("This version of the {page} endpoint is deprecated. Please use a newer version.");
        represent::add_warnings(response.headers_mut(), &[warning]);
    }
    Ok(response)
}
