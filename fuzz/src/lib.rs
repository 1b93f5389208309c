//! Fuzz targets: functions that pass arbitrary bytes to a parser and panic if an invariant does not hold.
//!
//! `cargo xtask fuzz` runs them under libFuzzer ([`engine`](../engine)). The tests of this crate replay the seeds in
//! `corpus/<target>`. Inputs with several parts have one part per line.

#![allow(clippy::expect_used, clippy::print_stdout, reason = "a violated invariant is a finding")]

mod apply;
mod bodies;
mod definitions;
mod expressions;
mod patches;
mod protobuf;
mod scalars;
mod selectors;

pub use apply::apply;
pub use bodies::{json, object, yaml};
pub use definitions::{definition, schema};
pub use expressions::{cel, rules};
pub use patches::patch;
pub use protobuf::protobuf;
pub use scalars::{paths, scalars};
pub use selectors::selectors;

/// Runs one input, and panics if it violates an invariant.
pub type Target = fn(&[u8]);

/// All targets by name.
pub const TARGETS: &[(&str, Target)] = &[
    ("apply", apply),
    ("cel", cel),
    ("definition", definition),
    ("json", json),
    ("object", object),
    ("patch", patch),
    ("paths", paths),
    ("protobuf", protobuf),
    ("rules", rules),
    ("scalars", scalars),
    ("schema", schema),
    ("selectors", selectors),
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

/// Returns an input that is text.
fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}
