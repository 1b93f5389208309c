//! Checks of the book: pages, links, code and manifests.

#![allow(clippy::unwrap_used, reason = "a test may fail")]

mod code;
mod examples;
mod links;
mod manifests;
