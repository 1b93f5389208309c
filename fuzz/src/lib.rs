//! Fuzz targets: functions that pass arbitrary bytes to a parser and panic if an invariant does not hold.
//!
//! `cargo xtask fuzz` runs them under libFuzzer ([`engine`](../engine)). The tests of this crate replay the seeds in
//! `corpus/<target>`. Inputs with several parts have one part per line.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a violated invariant is a finding")]

mod apply;
mod bodies;
mod continue_tokens;
mod definitions;
mod expressions;
mod patches;
mod pods;
mod protobuf;
mod request_lines;
mod requests;
mod reviews;
mod runtime;
mod scalars;
mod selectors;
mod shared_server;
mod streams;
mod tokens;
mod upgrades;

pub use apply::apply;
pub use bodies::{json, object, yaml};
pub use continue_tokens::continue_token;
pub use definitions::{definition, schema};
pub use expressions::{cel, rules};
pub use patches::patch;
pub use protobuf::protobuf;
pub use request_lines::request_line;
pub use requests::requests;
pub use reviews::reviews;
pub use scalars::{paths, scalars};
pub use selectors::selectors;
pub use streams::{spdy, websocket};
pub use tokens::tokens;
pub use upgrades::upgrades;

/// Runs one input, and panics if it violates an invariant.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("apply", apply),
    ("cel", cel),
    ("continue_token", continue_token),
    ("definition", definition),
    ("json", json),
    ("object", object),
    ("patch", patch),
    ("paths", paths),
    ("protobuf", protobuf),
    ("request_line", request_line),
    ("requests", requests),
    ("reviews", reviews),
    ("rules", rules),
    ("scalars", scalars),
    ("schema", schema),
    ("selectors", selectors),
    ("spdy", spdy),
    ("tokens", tokens),
    ("upgrades", upgrades),
    ("websocket", websocket),
    ("yaml", yaml),
];

/// Splits an input into its lines. The last part has the rest.
fn parts<const N: usize>(data: &[u8]) -> [&[u8]; N] {
    let mut lines = data.splitn(N, |byte| *byte == b'\n');
    std::array::from_fn(|_| lines.next().unwrap_or_default())
}

/// Parses a part of an input, as deep as a request may be.
fn parse(bytes: &[u8]) -> Option<serde_json::Value> {
    windlass_schema::json::parse(bytes).ok().map(|document| document.value)
}

/// Checks that a value is a Status with the types that clients expect.
fn check_status(status: &serde_json::Value) {
    assert_eq!((&status["kind"], &status["apiVersion"]), (&"Status".into(), &"v1".into()), "{status}");
    let has = |field: &str, is: fn(&serde_json::Value) -> bool| status.get(field).is_none_or(is);
    assert!(status["metadata"].is_object() && status["code"].as_u64().is_some(), "{status}");
    for field in ["message", "reason", "status"] {
        assert!(has(field, serde_json::Value::is_string), "{status}");
    }
    assert!(has("details", serde_json::Value::is_object), "{status}");
}

/// Returns an input that is text.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}
