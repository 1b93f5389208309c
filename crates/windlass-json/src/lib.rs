//! JSON of Kubernetes objects.
//!
//! Requests spend much of their time here. Most crates are compiled for size, and generic code, such as that of
//! `serde_json`, is compiled with the level of the crate that calls it. So the functions of this crate, which is compiled
//! for speed, are not generic.

mod depth;
mod encode;
mod identity;
mod parser;

use serde_json::Value;

pub use self::{
    depth::{MAX_DEPTH, nests_too_deep},
    encode::{encode, encode_object, encode_pretty, format_float},
    identity::Identity,
    parser::{Build, parse_as},
};

/// Parses JSON; returns its value, and whether any object had duplicate keys.
///
/// # Errors
/// Returns an error if the text is not exactly one JSON value, with the message of Go's decoder.
pub fn parse(text: &str) -> Result<(Value, bool), String> {
    parse_as(text)
}

/// Parses JSON that was encoded by this crate. Up to 128 levels, this is faster than [`parse`].
///
/// # Errors
/// Returns an error if the bytes are not exactly one JSON value, or nest deeper.
pub fn parse_encoded(json: &[u8]) -> serde_json::Result<Value> {
    serde_json::from_slice(json)
}
